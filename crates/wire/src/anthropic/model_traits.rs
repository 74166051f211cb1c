//! What models of this dialect accept, by the version in their names.
//!
//! Newer models reject fields that older ones require, so a request that is translated is written for the model that is
//! called. A name without a version counts as the newest that still accepts everything.

/// What a model accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModelTraits {
    pub(crate) thinking: ThinkingForm,
    /// Whether temperature, top_p and top_k may differ from their defaults.
    pub(crate) takes_sampling: bool,
    /// Whether a tool call can be required.
    pub(crate) takes_forced_tools: bool,
}

/// How thinking is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingForm {
    /// The model does not think.
    Never,
    /// `thinking.budget_tokens`.
    Budget,
    /// `thinking.type: adaptive` and `output_config.effort`.
    Effort,
}

impl ModelTraits {
    /// The traits of a model, by its name at Anthropic or at Bedrock.
    pub(crate) fn of(model: &str) -> Self {
        let Some(version) = version_of(model) else {
            return Self { thinking: ThinkingForm::Effort, takes_sampling: true, takes_forced_tools: true };
        };
        let thinking = match version {
            version if version < (3, 7) => ThinkingForm::Never,
            version if version < (4, 6) => ThinkingForm::Budget,
            _ => ThinkingForm::Effort,
        };
        let is_newest = version >= (5, 5) && !model.contains("haiku") || model.contains("fable");
        Self { thinking, takes_sampling: version < (4, 7), takes_forced_tools: !is_newest }
    }
}

/// The version in the name of a model: `claude-3-5-haiku-20241022` is 3.5, `claude-opus-4-20250514` is 4.0.
fn version_of(model: &str) -> Option<(u32, u32)> {
    let (_, name) = model.split_once("claude-")?;
    let number = |part: &str| part.parse::<u32>().ok().filter(|number| *number < 100);
    let mut parts = name.split(['-', '.', ':', '@']).skip_while(|part| number(part).is_none());
    let major = number(parts.next()?)?;
    Some((major, parts.next().and_then(number).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::{ModelTraits, ThinkingForm, version_of};

    #[test]
    fn the_version_of_a_model_decides_what_it_accepts() {
        for (model, version, thinking, sampling, forced) in [
            ("claude-3-haiku-20240307", (3, 0), ThinkingForm::Never, true, true),
            ("anthropic.claude-3-haiku-20240307-v1:0", (3, 0), ThinkingForm::Never, true, true),
            ("claude-3-7-sonnet-latest", (3, 7), ThinkingForm::Budget, true, true),
            ("claude-opus-4-20250514", (4, 0), ThinkingForm::Budget, true, true),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", (4, 5), ThinkingForm::Budget, true, true),
            ("claude-sonnet-4-6", (4, 6), ThinkingForm::Effort, true, true),
            ("claude-opus-4-7", (4, 7), ThinkingForm::Effort, false, true),
            ("claude-haiku-5-5", (5, 5), ThinkingForm::Effort, false, true),
            ("claude-sonnet-5-5", (5, 5), ThinkingForm::Effort, false, false),
            ("claude-fable-5-1", (5, 1), ThinkingForm::Effort, false, false),
        ] {
            assert_eq!(version_of(model), Some(version), "{model}");
            let expected = ModelTraits { thinking, takes_sampling: sampling, takes_forced_tools: forced };
            assert_eq!(ModelTraits::of(model), expected, "{model}");
        }
        assert_eq!((version_of("haiku"), version_of("claude-next")), (None, None));
    }
}
