//! The dialect-neutral settings of a request: everything beyond its conversation, tools and limits.
//!
//! A setting that is not used has its default, which every dialect expresses by leaving the field out. Whether a dialect
//! can express a setting that is used is in the [feature table](super::ChatFeature).

use super::{CachePoints, JsonText};

/// The settings of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatSettings {
    /// The format that the answer must have.
    pub output_format: OutputFormat,
    /// How much the model thinks before it answers.
    pub reasoning: ReasoningSettings,
    /// Whether the model may make only one tool call per turn.
    pub single_tool_call: bool,
    /// The names of the tools that the model may call; empty if it may call all of them.
    pub allowed_tools: Vec<String>,
    /// The names of the tools whose input is free text. They are offered as functions with one text, see
    /// [`custom_tool`](super::custom_tool).
    pub custom_tools: Vec<String>,
    /// The number of most likely tokens from which each token is chosen.
    pub top_k: Option<u32>,
    /// The number of answers, if it is not 1.
    pub choices: Option<u32>,
    /// The number of alternatives for which log probabilities are requested, in addition to those of the chosen tokens.
    pub log_probabilities: Option<u32>,
    /// The seed of the sampling.
    pub seed: Option<i64>,
    /// The penalty for tokens that have occurred, if it is not 0.
    pub presence_penalty: Option<f64>,
    /// The penalty for each occurrence of a token, if it is not 0.
    pub frequency_penalty: Option<f64>,
    /// Likelihoods of single tokens: an object in OpenAI's form.
    pub logit_bias: Option<JsonText>,
    /// How long the answer should be, if it is not the default.
    pub verbosity: Option<Verbosity>,
    /// Marks up to which the vendor caches the prompt.
    pub cache_points: CachePoints,
}

/// The format that an answer must have.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum OutputFormat {
    /// Any text.
    #[default]
    Text,
    /// Any JSON.
    Json,
    /// JSON that satisfies a schema.
    Schema(OutputSchema),
}

/// The schema of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputSchema {
    /// The name of the schema; not every dialect has one.
    pub name: Option<String>,
    /// What the answer is for, as shown to the model.
    pub description: Option<String>,
    /// The JSON Schema.
    pub schema: JsonText,
    /// Whether the vendor must enforce the schema rather than only show it to the model.
    pub is_enforced: bool,
}

/// The name of a schema without one, in dialects that require a name.
pub(crate) const DEFAULT_SCHEMA_NAME: &str = "response";

/// How much a model thinks before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReasoningSettings {
    /// Whether the model thinks; `None` leaves it to the vendor.
    pub thinking: Option<Thinking>,
    /// How much effort the model makes.
    pub effort: Option<Effort>,
    /// Whether the caller wants to see a summary of the thoughts.
    pub shows_summary: bool,
}

/// Whether a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// It does not.
    Off,
    /// It decides by itself, guided by the effort.
    Adaptive,
    /// It does, with at most this many tokens.
    Budget(u32),
}

/// How much effort a model makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// As little as possible.
    Minimal,
    /// Little.
    Low,
    /// OpenAI's default.
    Medium,
    /// Anthropic's default.
    High,
    /// More than high.
    ExtraHigh,
    /// As much as possible.
    Max,
}

impl Effort {
    /// Every effort, from the least to the most.
    pub const ALL: [Self; 6] =
        [Self::Minimal, Self::Low, Self::Medium, Self::High, Self::ExtraHigh, Self::Max];

    /// The name that OpenAI and Anthropic use; Anthropic has no `minimal`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::ExtraHigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// The effort of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effort| effort.name().eq_ignore_ascii_case(name))
    }

    /// The thinking tokens of this effort, for models that take a number. Google's own translation uses the same ones.
    pub(crate) const fn budget(self) -> u32 {
        match self {
            Self::Minimal | Self::Low => 1_024,
            Self::Medium => 8_192,
            Self::High => 24_576,
            Self::ExtraHigh | Self::Max => 32_768,
        }
    }

    /// The effort whose budget is nearest from above to this number of thinking tokens.
    pub(crate) fn of_budget(tokens: u32) -> Self {
        let is_enough = |effort: &Self| tokens <= effort.budget();
        [Self::Low, Self::Medium].into_iter().find(is_enough).unwrap_or(Self::High)
    }
}

impl ReasoningSettings {
    /// Settings that only name an effort, as OpenAI's dialects have them; `none` turns thinking off.
    pub(crate) fn of_effort_name(name: &str) -> Option<Self> {
        if name == "none" {
            return Some(Self { thinking: Some(Thinking::Off), ..Self::default() });
        }
        let effort = Effort::named(name)?;
        Some(Self { thinking: Some(Thinking::Adaptive), effort: Some(effort), shows_summary: false })
    }

    /// The effort in OpenAI's dialects; `None` if the request leaves it to the vendor. A budget becomes the nearest
    /// effort. A model that decides by itself makes OpenAI's default effort.
    pub(crate) fn effort_name(&self) -> Option<&'static str> {
        match (self.thinking, self.effort) {
            (Some(Thinking::Off), _) => Some("none"),
            (_, Some(effort)) => Some(effort.name()),
            (Some(Thinking::Budget(tokens)), None) => Some(Effort::of_budget(tokens).name()),
            (Some(Thinking::Adaptive), None) => Some(Effort::Medium.name()),
            (None, None) => None,
        }
    }

    /// Whether the request says how much the model should think.
    pub(crate) const fn is_set(&self) -> bool {
        self.thinking.is_some() || self.effort.is_some()
    }
}

/// How long an answer should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    /// Shorter than by default.
    Low,
    /// Longer than by default.
    High,
}

impl Verbosity {
    /// OpenAI's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::High => "high",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Effort, ReasoningSettings, Thinking};

    #[test]
    fn an_effort_is_named_alike_in_both_directions_and_a_budget_gets_the_nearest_one() {
        for effort in Effort::ALL {
            let settings = ReasoningSettings::of_effort_name(effort.name()).unwrap();
            assert_eq!((settings.effort, settings.effort_name()), (Some(effort), Some(effort.name())));
        }
        let off = ReasoningSettings::of_effort_name("none").unwrap();
        assert_eq!((off.thinking, off.effort_name()), (Some(Thinking::Off), Some("none")));
        assert_eq!(ReasoningSettings::of_effort_name("enormous"), None);
        let budgets = [(1, "low"), (1_024, "low"), (1_025, "medium"), (8_192, "medium"), (32_000, "high")];
        for (tokens, name) in budgets {
            let thinking = Some(Thinking::Budget(tokens));
            assert_eq!(ReasoningSettings { thinking, ..off }.effort_name(), Some(name), "{tokens}");
        }
        let adaptive =
            ReasoningSettings { thinking: Some(Thinking::Adaptive), ..ReasoningSettings::default() };
        assert_eq!(
            (adaptive.effort_name(), ReasoningSettings::default().effort_name()),
            (Some("medium"), None)
        );
    }
}
