//! Enumerated words.

use super::{Form, Kind, Misread, expect_text, quoted};
use crate::problem::{Code, names};
use crate::suggest;
use crate::tree::Value;
use seawall_core::retry::Jitter;
use seawall_core::setting::Factor;
use seawall_core::untracked::UntrackedRule;
use seawall_core::vocabulary::{Grade, Mode, OutputLimitField, Priority, Tier};

/// The error for a word that is not on the list, with the nearest one that is.
fn unknown_word(text: &str, name: &str, words: &[&'static str]) -> Misread {
    let message = format!("{} is not {name}", quoted(text));
    let help = match suggest::nearest(text, words.iter().copied()) {
        Some(near) => format!("did you mean {}? The list is {}", quoted(near), words.join(", ")),
        None => format!("write one of {}", words.join(", ")),
    };
    Misread::new(Code::UnknownWord, message, help)
}

/// Implements parsing for types with a fixed list of names.
macro_rules! words {
    ($($type:ty as $name:literal),+ $(,)?) => {$(
        impl Kind for $type {
            type Value = Self;

            fn form() -> Form {
                let words: Vec<&'static str> = Self::ALL.iter().map(|word| word.name()).collect();
                let examples = words.iter().map(|word| quoted(word)).collect();
                Form { words, examples, ..Form::text($name, &[]) }
            }

            fn read(value: &Value) -> Result<Self, Misread> {
                let form = Self::form();
                let text = expect_text(value, Self::form)?;
                let found = Self::ALL.into_iter().find(|word| word.name() == text);
                found.ok_or_else(|| unknown_word(text, form.name, &form.words))
            }

            fn show(value: &Self) -> String {
                quoted(value.name())
            }
        }
    )+};
}

names! {
    /// The arrangement of runtimes and threads.
    pub enum Runtime {
        /// One runtime per core, with nothing shared between them.
        PerCore = "per-core",
        /// One runtime for all cores.
        Shared = "shared",
    }
}

names! {
    /// The provider of a model.
    pub enum Provider {
        /// Anthropic's own API.
        Anthropic = "anthropic",
        /// OpenAI's API, and servers compatible with it.
        OpenAi = "openai",
        /// Amazon Bedrock.
        Bedrock = "bedrock",
        /// The simulated model that comes with Seawall.
        Simulated = "simulated",
    }
}

names! {
    /// A face that may serve a route.
    pub enum FaceName {
        /// The Anthropic Messages API.
        Anthropic = "anthropic",
        /// The OpenAI API.
        OpenAi = "openai",
        /// The Amazon Bedrock runtime API.
        Bedrock = "bedrock",
        /// Our own chat protocol.
        Chat = "chat",
    }
}

names! {
    /// The signature algorithm of a JWT.
    pub enum Algorithm {
        /// RSA with SHA-256.
        Rs256 = "RS256",
        /// ECDSA on P-256 with SHA-256.
        Es256 = "ES256",
        /// Ed25519.
        EdDsa = "EdDSA",
        /// HMAC with SHA-256, under a shared secret.
        Hs256 = "HS256",
    }
}

names! {
    /// The store of state.
    pub enum StoreKind {
        /// A state directory beside the program, which survives a crash.
        Embedded = "embedded",
        /// Memory, which does not survive one.
        Memory = "memory",
        /// Redis, for a fleet.
        Redis = "redis",
    }
}

names! {
    /// The credits that a retry costs.
    pub enum RetryCosts {
        /// Five, or ten after a timeout.
        Classic = "classic",
        /// Fourteen, or five after a throttle.
        Current = "current",
    }
}

words! {
    Runtime as "a runtime",
    Provider as "a provider",
    FaceName as "a face",
    Algorithm as "an algorithm",
    StoreKind as "a kind of store",
    RetryCosts as "a table of costs",
    Tier as "a tier",
    Grade as "a grade",
    OutputLimitField as "a field",
    Mode as "a mode",
    Priority as "a priority",
}

/// Backoff jitter: a word, or two factors such as `0.5x to 1.5x`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JitterText;

const JITTERS: [(&str, Jitter); 4] = [
    ("decorrelated", Jitter::Decorrelated),
    ("full", Jitter::Full),
    ("equal", Jitter::Equal),
    ("none", Jitter::None),
];

impl Kind for JitterText {
    type Value = Jitter;

    fn form() -> Form {
        let examples = ["decorrelated", "full", "equal", "none", "0.5x to 1.5x"];
        Form::text("a way to spread waits", &examples)
            .pattern("^(decorrelated|full|equal|none|[0-9.]+x to [0-9.]+x)$")
    }

    fn read(value: &Value) -> Result<Jitter, Misread> {
        let text = expect_text(value, Self::form)?;
        if let Some((_, jitter)) = JITTERS.iter().find(|(name, _)| *name == text) {
            return Ok(*jitter);
        }
        let factor = |text: &str| Factor::new("jitter", text.strip_suffix('x')?.parse().ok()?).ok();
        let factors = text.split_once(" to ").and_then(|(low, high)| Some((factor(low)?, factor(high)?)));
        match factors {
            Some((low, high)) => Ok(Jitter::Multiplicative { low, high }),
            None => Err(Misread::new(
                Code::UnknownWord,
                format!("{} is not {}", quoted(text), Self::form().name),
                "write one of decorrelated, full, equal, none, or two factors such as \"0.5x to 1.5x\"",
            )),
        }
    }

    fn show(value: &Jitter) -> String {
        if let Jitter::Multiplicative { low, high } = value {
            return quoted(&format!("{low}x to {high}x"));
        }
        quoted(JITTERS.iter().find(|(_, jitter)| jitter == value).map_or("none", |(name, _)| name))
    }
}

/// The reservation for input by reference: `refuse`, `reserve`, `reserve 50000 tokens` or `allow`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UntrackedText;

impl Kind for UntrackedText {
    type Value = UntrackedRule;

    fn form() -> Form {
        Form::text("a rule", &["reserve", "refuse", "allow", "reserve 50000 tokens"])
            .pattern("^(reserve|refuse|allow|reserve [0-9]+ tokens)$")
    }

    fn read(value: &Value) -> Result<UntrackedRule, Misread> {
        let text = expect_text(value, Self::form)?;
        let tokens = || text.strip_prefix("reserve ")?.strip_suffix(" tokens")?.parse().ok();
        match text {
            "refuse" => Ok(UntrackedRule::Refuse),
            "reserve" => Ok(UntrackedRule::Reserve),
            "allow" => Ok(UntrackedRule::Allow),
            _ => tokens().map(UntrackedRule::ReserveTokens).ok_or_else(|| {
                let help =
                    "write one of refuse, reserve, allow, or a number such as \"reserve 50000 tokens\"";
                Misread::new(
                    Code::UnknownWord,
                    format!("{} is not {}", quoted(text), Self::form().name),
                    help,
                )
            }),
        }
    }

    fn show(value: &UntrackedRule) -> String {
        match value {
            UntrackedRule::Refuse => quoted("refuse"),
            UntrackedRule::Reserve => quoted("reserve"),
            UntrackedRule::ReserveTokens(tokens) => quoted(&format!("reserve {tokens} tokens")),
            UntrackedRule::Allow => quoted("allow"),
        }
    }
}
