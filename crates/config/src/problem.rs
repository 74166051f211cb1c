//! What is wrong with settings, said so that a tired person can mend it.
//!
//! A [`Problem`] has a code that never changes, a sentence, the places it is about, and what to write instead.
//! [`Problems`] holds all of them at once and can be shown as text or as JSON. **What it will not do.** It never shows
//! what may be a secret: such places are covered in every line that is shown.

use crate::cover::presentable;
use crate::render;
use crate::source::{Origin, Sources};
use serde_json::{Value, json};
use std::fmt;

/// Writes an enum whose values have names.
macro_rules! names {
    (
        $(#[$about:meta])*
        pub enum $type:ident { $( $(#[$doc:meta])* $variant:ident = $name:literal, )+ }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type { $( $(#[$doc])* $variant, )+ }

        impl $type {
            /// Every value, in order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in settings and reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )+ }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.name())
            }
        }
    };
}
pub(crate) use names;

names! {
    /// How bad a problem is.
    pub enum Severity {
        /// Settings with it are not used.
        Error = "error",
        /// Settings with it are used, and somebody should look.
        Warning = "warning",
    }
}

names! {
    /// What kind of mistake a problem is. The names are stable: scripts may look for them.
    pub enum Code {
        /// The text is not TOML.
        Syntax = "syntax",
        /// A profile of this name does not exist.
        UnknownProfile = "unknown-profile",
        /// A key that does not exist.
        UnknownKey = "unknown-key",
        /// A tier that does not exist.
        UnknownTier = "unknown-tier",
        /// A switch that does not exist.
        UnknownSwitch = "unknown-switch",
        /// A protection that does not exist.
        UnknownProtection = "unknown-protection",
        /// A key that must be written and is not.
        MissingKey = "missing-key",
        /// A number where a text belongs, a table where a number belongs, and so on.
        WrongType = "wrong-type",
        /// A number without the unit it needs.
        MissingUnit = "missing-unit",
        /// A unit of another kind.
        WrongUnit = "wrong-unit",
        /// A word that is not on the list.
        UnknownWord = "unknown-word",
        /// A value that cannot be read.
        Unreadable = "unreadable",
        /// A value that makes no sense here.
        Impossible = "impossible",
        /// A secret that was written down instead of where to find it.
        LiteralSecret = "literal-secret",
        /// A rate over another period than its key says.
        WrongPeriod = "wrong-period",
        /// A time limit that is not shorter than the one around it.
        TimeOrder = "time-order",
        /// Parts that come to more than the whole.
        PartsExceedWhole = "parts-exceed-whole",
        /// A target that does not exist.
        UnknownTarget = "unknown-target",
        /// The same thing named twice.
        NamedTwice = "named-twice",
        /// A route without a target.
        NoTargets = "no-targets",
        /// A target that no route uses.
        UnusedTarget = "unused-target",
        /// A model that is on no list of prices.
        UnknownModel = "unknown-model",
        /// A model without a price.
        UnpricedModel = "unpriced-model",
        /// A price of a model that makes no sense.
        WrongPrice = "wrong-price",
        /// A model that its vendor no longer serves.
        RetiredModel = "retired-model",
        /// A model that its vendor will soon no longer serve.
        RetiringModel = "retiring-model",
        /// A breaker that does not exist.
        UnknownBreaker = "unknown-breaker",
        /// A route that does not exist.
        UnknownRoute = "unknown-route",
        /// A target that lacks what its provider needs.
        IncompleteTarget = "incomplete-target",
        /// Something that its provider has no use for.
        UselessKey = "useless-key",
        /// An address that hands out the credentials of a machine.
        MetadataAddress = "metadata-address",
        /// A user name, a password or a query inside an address.
        CredentialInUrl = "credential-in-url",
        /// A credential that would be sent unencrypted to another machine.
        UnencryptedUrl = "unencrypted-url",
        /// Two API keys that are the same.
        SameKeyTwice = "same-key-twice",
        /// Nobody could ask.
        NobodyMayAsk = "nobody-may-ask",
        /// A JWT issuer that would accept what was meant for others.
        NoAudience = "no-audience",
        /// A JWT issuer whose tokens nobody could check.
        NoIssuerKeys = "no-issuer-keys",
        /// Algorithms that need different sorts of keys.
        MixedAlgorithms = "mixed-algorithms",
        /// An admin address that others can reach, without a credential.
        OpenAdmin = "open-admin",
        /// Two listeners on one address.
        SameAddress = "same-address",
        /// A fleet whose nodes would each spend the whole daily budget, which nobody has accepted.
        BudgetPerNode = "budget-per-node",
        /// A store without what it needs.
        IncompleteStore = "incomplete-store",
        /// Hours that begin when they end.
        EmptyHours = "empty-hours",
        /// Hours that overlap.
        OverlappingHours = "overlapping-hours",
        /// Days with two budgets.
        OverlappingEvents = "overlapping-events",
        /// A pattern that would match everything.
        EmptyPattern = "empty-pattern",
        /// A protection that is switched off and also told how to act.
        SwitchedOff = "switched-off",
        /// More text than settings may have.
        TooLarge = "too-large",
        /// A file that cannot be read.
        UnreadableFile = "unreadable-file",
    }
}

/// A place that a problem is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where.
    pub origin: Origin,
    /// What is there, in a few words; may be empty.
    pub label: String,
}

/// Something wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// What kind of mistake it is.
    pub code: Code,
    /// What is wrong.
    pub message: String,
    /// Where; the first is where to look first.
    pub places: Vec<Place>,
    /// What to do about it.
    pub help: Option<String>,
}

impl Problem {
    pub(crate) fn error(code: Code, message: impl Into<String>, origin: Origin) -> Self {
        let places = vec![Place { origin, label: String::new() }];
        Self { severity: Severity::Error, code, message: message.into(), places, help: None }
    }

    pub(crate) fn warning(code: Code, message: impl Into<String>, origin: Origin) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message, origin) }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn also(mut self, origin: Origin, label: impl Into<String>) -> Self {
        self.places.push(Place { origin, label: label.into() });
        self
    }
}

/// Everything wrong with some settings, in the order of the sources.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    pub(crate) sources: Sources,
    pub(crate) list: Vec<Problem>,
    /// What must not be shown.
    pub(crate) covered: Vec<Origin>,
    /// How many more there are than anybody reads.
    pub(crate) left_off: usize,
}

/// So many problems are kept; of the rest it is only said how many there are.
const MOST_PROBLEMS: usize = 200;

impl Problems {
    /// All of them.
    #[must_use]
    pub fn list(&self) -> &[Problem] {
        &self.list
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether settings with these problems must not be used.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.left_off > 0 || self.list.iter().any(|problem| problem.severity == Severity::Error)
    }

    pub(crate) fn add(&mut self, mut problem: Problem) {
        problem.message = presentable(problem.message);
        problem.help = problem.help.map(presentable);
        // Two ways to the same mistake say it once.
        if self.list.contains(&problem) {
            return;
        }
        if self.list.len() < MOST_PROBLEMS {
            self.list.push(problem);
        } else if problem.severity == Severity::Error {
            self.left_off += 1;
        }
    }

    /// Takes care that what was written here is never shown.
    pub(crate) fn cover(&mut self, origin: Origin) {
        self.covered.push(origin);
    }

    /// In the order in which a person reads: by source, then by place.
    pub(crate) fn sort(&mut self) {
        self.list.sort_by_key(|problem| {
            let first = problem.places.first().map(|place| (place.origin.source, place.origin.start));
            (first, problem.code)
        });
    }

    /// As text for people, with or without colours.
    #[must_use]
    pub fn render(&self, colours: bool) -> String {
        render::all(self, colours)
    }

    /// As JSON for programs: a list of objects with `severity`, `code`, `message`, `places` and `help`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.list.iter().map(|problem| self.one_as_json(problem)).collect()
    }

    fn one_as_json(&self, problem: &Problem) -> Value {
        let place = |place: &Place| {
            let source = self.sources.of(place.origin);
            let position = source.map(|source| source.position(place.origin.start));
            json!({
                "source": source.map(|source| presentable(source.name.clone())),
                "line": position.map(|position| position.line),
                "column": position.map(|position| position.column),
                "label": place.label,
            })
        };
        json!({
            "severity": problem.severity.name(),
            "code": problem.code.name(),
            "message": problem.message,
            "places": problem.places.iter().map(place).collect::<Vec<_>>(),
            "help": problem.help,
        })
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.render(false))
    }
}

impl std::error::Error for Problems {}
