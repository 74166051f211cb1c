//! Model families that share a tokenizer, and their weights.

use super::counts::{CharacterClass, TextCounts, TextUnit};
use super::weights;

/// Models with the same tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TokenizerFamily {
    /// Anthropic's. The weights are those of the one published tokenizer; newer models use more tokens, which
    /// [`Calibration`](super::Calibration) learns from billed usage.
    Claude,
    /// OpenAI's from GPT-4o on (`o200k_base`).
    OpenAi,
    /// OpenAI's before that (`cl100k_base`).
    OlderOpenAi,
    /// Unknown: the largest weight of all families, per unit.
    Generic,
}

impl TokenizerFamily {
    /// Every family.
    pub const ALL: [Self; 4] = [Self::Claude, Self::OpenAi, Self::OlderOpenAi, Self::Generic];

    /// The family of a model, by its name. A vendor or region prefix is ignored.
    ///
    /// ```
    /// use seawall_core::tokens::TokenizerFamily;
    ///
    /// assert_eq!(TokenizerFamily::of_model("us.anthropic.claude-sonnet-4-5-v1:0"), TokenizerFamily::Claude);
    /// assert_eq!(TokenizerFamily::of_model("openai/gpt-4.1-mini"), TokenizerFamily::OpenAi);
    /// assert_eq!(TokenizerFamily::of_model("gpt-4-turbo"), TokenizerFamily::OlderOpenAi);
    /// assert_eq!(TokenizerFamily::of_model("llama-4"), TokenizerFamily::Generic);
    /// ```
    #[must_use]
    pub fn of_model(name: &str) -> Self {
        let name = name.rsplit('/').next().unwrap_or(name);
        let has = |word: &str| {
            name.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
        };
        let begins =
            |word: &str| name.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        if ["claude", "sonnet", "haiku", "opus"].into_iter().any(has) {
            return Self::Claude;
        }
        if ["gpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "gpt-oss"].into_iter().any(has)
            || ["o1", "o3", "o4"].into_iter().any(begins)
        {
            return Self::OpenAi;
        }
        if ["gpt-4", "gpt-3.5", "gpt-35", "text-embedding-"].into_iter().any(has) {
            return Self::OlderOpenAi;
        }
        Self::Generic
    }

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::OpenAi => "openai",
            Self::OlderOpenAi => "openai-older",
            Self::Generic => "generic",
        }
    }

    /// The weight of one unit, in thousandths of a token.
    #[must_use]
    pub fn weight(self, unit: TextUnit) -> u32 {
        let at = unit.index();
        match self {
            Self::Claude => weights::CLAUDE[at],
            Self::OpenAi => weights::OPENAI[at],
            Self::OlderOpenAi => weights::OLDER_OPENAI[at],
            Self::Generic => weights::CLAUDE[at].max(weights::OPENAI[at]).max(weights::OLDER_OPENAI[at]),
        }
    }

    /// The weight of a text per class, in thousandths of a token.
    #[must_use]
    pub(super) fn thousandths(self, counts: &TextCounts) -> [u64; CharacterClass::COUNT] {
        let mut by_class = [0_u64; CharacterClass::COUNT];
        for unit in TextUnit::all() {
            let weight = counts.units(unit).saturating_mul(self.weight(unit).into());
            let class = &mut by_class[unit.class() as usize];
            *class = class.saturating_add(weight);
        }
        by_class
    }

    /// Tokens of a text, rounded up.
    #[must_use]
    pub fn tokens(self, counts: &TextCounts) -> u64 {
        self.thousandths(counts).into_iter().fold(0, u64::saturating_add).div_ceil(1_000)
    }
}
