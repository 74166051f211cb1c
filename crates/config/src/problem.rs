//! Problems of settings, reported so that they can be fixed quickly.
//!
//! A [`Problem`] has a stable code, a message, the locations it refers to, and advice on what to write instead.
//! [`Problems`] collects all of them and formats them as text or as JSON. **What it does not do.** It never shows a
//! possible secret: such locations are redacted in every line.

use crate::redact::sanitized;
use crate::render;
use crate::source::{SettingOrigin, SettingSources};
use serde_json::{Value, json};
use std::fmt;

/// Defines an enum whose variants have names.
macro_rules! names {
    (
        $(#[$about:meta])*
        pub enum $type:ident { $( $(#[$doc:meta])* $variant:ident = $name:literal, )+ }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type { $( $(#[$doc])* $variant, )+ }

        impl $type {
            /// Every variant, in order.
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
    /// The severity of a problem.
    pub enum Severity {
        /// The settings are rejected.
        Error = "error",
        /// The settings are used, but should be reviewed.
        Warning = "warning",
    }
}

names! {
    /// The kind of a problem. Names are stable, so that scripts can match them.
    pub enum ProblemCode {
        /// The text is not valid TOML.
        Syntax = "syntax",
        /// The profile does not exist.
        UnknownProfile = "unknown-profile",
        /// The key does not exist.
        UnknownKey = "unknown-key",
        /// Prices come from a catalogue that is too old.
        StaleCatalogue = "stale-catalogue",
        /// The tier does not exist.
        UnknownTier = "unknown-tier",
        /// The switch does not exist.
        UnknownSwitch = "unknown-switch",
        /// The protection does not exist.
        UnknownProtection = "unknown-protection",
        /// A required key is missing.
        MissingKey = "missing-key",
        /// The value has the wrong type: a number instead of a text, a table instead of a number, and so on.
        WrongType = "wrong-type",
        /// A number lacks its unit.
        MissingUnit = "missing-unit",
        /// The unit is of another kind.
        WrongUnit = "wrong-unit",
        /// The value is not one of those allowed.
        UnknownValue = "unknown-value",
        /// The value cannot be parsed.
        ParseError = "parse-error",
        /// The value is not valid here.
        InvalidValue = "invalid-value",
        /// A secret was written instead of a reference to it.
        LiteralSecret = "literal-secret",
        /// The period of a rate differs from the one of its key.
        WrongPeriod = "wrong-period",
        /// A timeout is not shorter than the one that encloses it.
        TimeoutOrder = "timeout-order",
        /// The parts exceed the whole.
        SumExceedsTotal = "sum-exceeds-total",
        /// The target does not exist.
        UnknownTarget = "unknown-target",
        /// An entry is repeated.
        Duplicate = "duplicate",
        /// The route has no targets.
        NoTargets = "no-targets",
        /// No route uses the target.
        UnusedTarget = "unused-target",
        /// The model is on no price list.
        UnknownModel = "unknown-model",
        /// The model has no price.
        UnpricedModel = "unpriced-model",
        /// The price of a model is not valid.
        InvalidPrice = "invalid-price",
        /// The vendor no longer serves the model.
        RetiredModel = "retired-model",
        /// The vendor will soon stop serving the model.
        RetiringModel = "retiring-model",
        /// The breaker does not exist.
        UnknownBreaker = "unknown-breaker",
        /// The route does not exist.
        UnknownRoute = "unknown-route",
        /// The target lacks a key that its provider requires.
        IncompleteTarget = "incomplete-target",
        /// The provider does not use the key.
        UnusedKey = "unused-key",
        /// The address is a cloud metadata service, which hands out a machine's credentials.
        MetadataAddress = "metadata-address",
        /// The URL contains a user name, a password or a query.
        CredentialInUrl = "credential-in-url",
        /// A credential would be sent unencrypted to another machine.
        UnencryptedUrl = "unencrypted-url",
        /// Two API keys are identical.
        DuplicateApiKey = "duplicate-api-key",
        /// No caller could authenticate.
        NoCallers = "no-callers",
        /// A JWT issuer without an audience would accept tokens meant for others.
        NoAudience = "no-audience",
        /// A JWT issuer has no keys to verify its tokens with.
        NoIssuerKeys = "no-issuer-keys",
        /// The algorithms need different kinds of keys.
        MixedAlgorithms = "mixed-algorithms",
        /// The admin listener is reachable by others and has no credential.
        UnprotectedAdmin = "unprotected-admin",
        /// Two listeners have the same address.
        AddressConflict = "address-conflict",
        /// Each node of a fleet would spend the whole daily budget, and the settings do not accept that.
        BudgetPerNode = "budget-per-node",
        /// The store lacks a required key.
        IncompleteStore = "incomplete-store",
        /// The hours begin and end at the same time.
        EmptyHours = "empty-hours",
        /// The hours overlap.
        OverlappingHours = "overlapping-hours",
        /// Two events have budgets for the same day.
        OverlappingEvents = "overlapping-events",
        /// The pattern would match everything.
        EmptyPattern = "empty-pattern",
        /// Anybody who can reach the listener is served without a credential.
        OpenGuests = "open-guests",
        /// Nothing limits what models may cost.
        NoBudget = "no-budget",
        /// A breaker would open because of a model's usual time.
        SlowBreaker = "slow-breaker",
        /// This version does not act on the key.
        NotImplemented = "not-implemented",
        /// A protection is configured, but switched off.
        SwitchedOff = "switched-off",
        /// The text is longer than settings may be.
        TooLarge = "too-large",
        /// The file cannot be read.
        UnreadableFile = "unreadable-file",
    }
}

/// A location that a problem refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProblemLocation {
    /// The position in the source.
    pub origin: SettingOrigin,
    /// A short label for the location; may be empty.
    pub label: String,
}

/// One problem of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The severity.
    pub severity: Severity,
    /// The kind of problem.
    pub code: ProblemCode,
    /// The message.
    pub message: String,
    /// The locations; the first is the primary one.
    pub locations: Vec<ProblemLocation>,
    /// Advice on how to fix it.
    pub help: Option<String>,
}

impl Problem {
    pub(crate) fn error(code: ProblemCode, message: impl Into<String>, origin: SettingOrigin) -> Self {
        let locations = vec![ProblemLocation { origin, label: String::new() }];
        Self { severity: Severity::Error, code, message: message.into(), locations, help: None }
    }

    pub(crate) fn warning(code: ProblemCode, message: impl Into<String>, origin: SettingOrigin) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message, origin) }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn also_at(mut self, origin: SettingOrigin, label: impl Into<String>) -> Self {
        self.locations.push(ProblemLocation { origin, label: label.into() });
        self
    }
}

/// All problems of some settings, in the order of the sources.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    pub(crate) sources: SettingSources,
    pub(crate) list: Vec<Problem>,
    /// Redacted locations.
    pub(crate) redacted: Vec<SettingOrigin>,
    /// The number of problems beyond the maximum.
    pub(crate) omitted: usize,
}

/// Maximum number of problems that are stored; of the rest only the number is reported.
const MAX_PROBLEMS: usize = 200;

impl Problems {
    /// All problems.
    #[must_use]
    pub fn list(&self) -> &[Problem] {
        &self.list
    }

    /// The problems of all other kinds.
    #[must_use]
    pub fn without(&self, code: ProblemCode) -> Self {
        let mut others = self.clone();
        others.list.retain(|problem| problem.code != code);
        others
    }

    /// Whether there are no problems.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether settings with these problems must be rejected.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.omitted > 0 || self.list.iter().any(|problem| problem.severity == Severity::Error)
    }

    pub(crate) fn add(&mut self, mut problem: Problem) {
        problem.message = sanitized(problem.message);
        problem.help = problem.help.map(sanitized);
        // The same problem found in two ways is reported once.
        if self.list.contains(&problem) {
            return;
        }
        if self.list.len() < MAX_PROBLEMS {
            self.list.push(problem);
        } else if problem.severity == Severity::Error {
            self.omitted += 1;
        }
    }

    /// Redacts what was written here.
    pub(crate) fn redact(&mut self, origin: SettingOrigin) {
        self.redacted.push(origin);
    }

    /// Sorts by source, then by position.
    pub(crate) fn sort(&mut self) {
        self.list.sort_by_key(|problem| {
            let first =
                problem.locations.first().map(|location| (location.origin.source, location.origin.start));
            (first, problem.code)
        });
    }

    /// Formats the problems for people, with or without colours.
    #[must_use]
    pub fn render(&self, colours: bool) -> String {
        render::render_all(self, colours)
    }

    /// Formats the problems as JSON: a list of objects with `severity`, `code`, `message`, `locations` and `help`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.list.iter().map(|problem| self.one_as_json(problem)).collect()
    }

    fn one_as_json(&self, problem: &Problem) -> Value {
        let location = |location: &ProblemLocation| {
            let source = self.sources.of(location.origin);
            let position = source.map(|source| source.position(location.origin.start));
            json!({
                "source": source.map(|source| sanitized(source.name.clone())),
                "line": position.map(|position| position.line),
                "column": position.map(|position| position.column),
                "label": location.label,
            })
        };
        json!({
            "severity": problem.severity.name(),
            "code": problem.code.name(),
            "message": problem.message,
            "locations": problem.locations.iter().map(location).collect::<Vec<_>>(),
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
