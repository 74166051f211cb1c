//! Kinds with a fixed list of values.

use super::{ValueError, ValueFormat, ValueKind, expect_text, quoted};
use crate::preset::{PRESETS, ProviderPreset, find_preset};
use crate::problem::{ProblemCode, names};
use crate::suggest;
use crate::tree::TomlValue;
use seawall_core::balance::{BalanceScope, BalanceStrategy};
use seawall_core::retry::Jitter;
use seawall_core::setting::Factor;
use seawall_core::untracked::UntrackedRule;
use seawall_core::vocabulary::{Grade, Mode, OpenAiApi, OutputLimitField, Priority, Tier};

/// The error for a value that is not allowed, with the nearest one that is.
fn unknown_value(text: &str, name: &str, choices: &[&'static str]) -> ValueError {
    let message = format!("{} is not {name}", quoted(text));
    let help = match suggest::nearest(text, choices.iter().copied()) {
        Some(near) => format!("did you mean {}? Allowed values: {}", quoted(near), choices.join(", ")),
        None => format!("write one of {}", choices.join(", ")),
    };
    ValueError::new(ProblemCode::UnknownValue, message, help)
}

/// Implements parsing for types with a fixed list of names.
macro_rules! choices {
    ($($type:ty as $name:literal),+ $(,)?) => {$(
        impl ValueKind for $type {
            type Value = Self;

            fn format() -> ValueFormat {
                let choices: Vec<&'static str> = Self::ALL.iter().map(|choice| choice.name()).collect();
                let examples = choices.iter().map(|choice| quoted(choice)).collect();
                ValueFormat { choices, examples, ..ValueFormat::text($name, &[]) }
            }

            fn parse(value: &TomlValue) -> Result<Self, ValueError> {
                let format = Self::format();
                let text = expect_text(value, Self::format)?;
                let found = Self::ALL.into_iter().find(|choice| choice.name() == text);
                found.ok_or_else(|| unknown_value(text, format.name, &format.choices))
            }

            fn to_toml(value: &Self) -> String {
                quoted(value.name())
            }
        }
    )+};
}

names! {
    /// The arrangement of runtimes and threads.
    pub enum RuntimeLayout {
        /// One runtime per core, with nothing shared between them.
        PerCore = "per-core",
        /// One runtime for all cores.
        Shared = "shared",
    }
}

names! {
    /// The API of a provider.
    pub enum Provider {
        /// Anthropic's own API.
        Anthropic = "anthropic",
        /// OpenAI's API, and servers compatible with it.
        OpenAi = "openai",
        /// Amazon Bedrock.
        Bedrock = "bedrock",
        /// Google's Gemini API, and Gemini on Vertex AI.
        Gemini = "gemini",
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
        /// The Gemini API.
        Gemini = "gemini",
        /// Our own chat protocol.
        Chat = "chat",
    }
}

names! {
    /// The signature algorithm of a JWT.
    pub enum JwtAlgorithm {
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
        /// A data directory beside the program, which survives a crash.
        Embedded = "embedded",
        /// Memory, which does not survive one.
        Memory = "memory",
        /// Redis, for a fleet.
        Redis = "redis",
    }
}

names! {
    /// The format of diagnostics.
    pub enum DiagnosticFormat {
        /// One line for people.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

names! {
    /// The least important diagnostics that are written.
    pub enum DiagnosticLevel {
        /// Something does not work, and an operator must act.
        Error = "error",
        /// Something works less well than it should.
        Warn = "warn",
        /// A change that is worth knowing.
        Info = "info",
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

choices! {
    RuntimeLayout as "a runtime layout",
    FaceName as "a face",
    JwtAlgorithm as "an algorithm",
    StoreKind as "a store kind",
    DiagnosticFormat as "a format",
    DiagnosticLevel as "a level",
    RetryCosts as "a cost table",
    Tier as "a tier",
    Grade as "a grade",
    OutputLimitField as "a request field",
    OpenAiApi as "an API",
    Mode as "a mode",
    Priority as "a priority",
    BalanceStrategy as "a balancing strategy",
    BalanceScope as "a scope of balancing",
}

/// A provider by the name of its preset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProviderKind;

impl ValueKind for ProviderKind {
    type Value = &'static ProviderPreset;

    fn format() -> ValueFormat {
        let choices: Vec<&'static str> = PRESETS.iter().map(|preset| preset.name).collect();
        let examples = choices.iter().map(|choice| quoted(choice)).collect();
        ValueFormat { choices, examples, ..ValueFormat::text("a provider", &[]) }
    }

    fn parse(value: &TomlValue) -> Result<Self::Value, ValueError> {
        let text = expect_text(value, Self::format)?;
        let format = Self::format();
        find_preset(text).ok_or_else(|| unknown_value(text, format.name, &format.choices))
    }

    fn to_toml(value: &Self::Value) -> String {
        quoted(value.name)
    }
}

/// Backoff jitter: a word, or two factors such as `0.5x to 1.5x`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JitterKind;

const JITTERS: [(&str, Jitter); 4] = [
    ("decorrelated", Jitter::Decorrelated),
    ("full", Jitter::Full),
    ("equal", Jitter::Equal),
    ("none", Jitter::None),
];

impl ValueKind for JitterKind {
    type Value = Jitter;

    fn format() -> ValueFormat {
        let examples = ["decorrelated", "full", "equal", "none", "0.5x to 1.5x"];
        ValueFormat::text("a jitter", &examples)
            .pattern("^(decorrelated|full|equal|none|[0-9.]+x to [0-9.]+x)$")
    }

    fn parse(value: &TomlValue) -> Result<Jitter, ValueError> {
        let text = expect_text(value, Self::format)?;
        if let Some((_, jitter)) = JITTERS.iter().find(|(name, _)| *name == text) {
            return Ok(*jitter);
        }
        let factor = |text: &str| Factor::new("jitter", text.strip_suffix('x')?.parse().ok()?).ok();
        let factors = text.split_once(" to ").and_then(|(low, high)| Some((factor(low)?, factor(high)?)));
        match factors {
            Some((low, high)) => Ok(Jitter::Multiplicative { low, high }),
            None => Err(ValueError::new(
                ProblemCode::UnknownValue,
                format!("{} is not {}", quoted(text), Self::format().name),
                "write one of decorrelated, full, equal, none, or two factors such as \"0.5x to 1.5x\"",
            )),
        }
    }

    fn to_toml(value: &Jitter) -> String {
        if let Jitter::Multiplicative { low, high } = value {
            return quoted(&format!("{low}x to {high}x"));
        }
        quoted(JITTERS.iter().find(|(_, jitter)| jitter == value).map_or("none", |(name, _)| name))
    }
}

/// The reservation for input by reference: `refuse`, `reserve`, `reserve 50000 tokens` or `allow`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UntrackedRuleKind;

impl ValueKind for UntrackedRuleKind {
    type Value = UntrackedRule;

    fn format() -> ValueFormat {
        ValueFormat::text("a reservation rule", &["reserve", "refuse", "allow", "reserve 50000 tokens"])
            .pattern("^(reserve|refuse|allow|reserve [0-9]+ tokens)$")
    }

    fn parse(value: &TomlValue) -> Result<UntrackedRule, ValueError> {
        let text = expect_text(value, Self::format)?;
        let tokens = || text.strip_prefix("reserve ")?.strip_suffix(" tokens")?.parse().ok();
        match text {
            "refuse" => Ok(UntrackedRule::Refuse),
            "reserve" => Ok(UntrackedRule::Reserve),
            "allow" => Ok(UntrackedRule::Allow),
            _ => tokens().map(UntrackedRule::ReserveTokens).ok_or_else(|| {
                let help =
                    "write one of refuse, reserve, allow, or a number such as \"reserve 50000 tokens\"";
                ValueError::new(
                    ProblemCode::UnknownValue,
                    format!("{} is not {}", quoted(text), Self::format().name),
                    help,
                )
            }),
        }
    }

    fn to_toml(value: &UntrackedRule) -> String {
        match value {
            UntrackedRule::Refuse => quoted("refuse"),
            UntrackedRule::Reserve => quoted("reserve"),
            UntrackedRule::ReserveTokens(tokens) => quoted(&format!("reserve {tokens} tokens")),
            UntrackedRule::Allow => quoted("allow"),
        }
    }
}
