//! From a question to a model's request.

use super::{ChatAsk, ChatError, ChatTurn, locale};
use seawall_core::history::{Conversation, HistoryDecision, Role, TokenLimits, Turn as Counted, trim};
use seawall_core::setting::SettingError;
use seawall_core::tokens::{Calibration, OverheadOptions, RequestCounts, estimate};
use seawall_wire::chat::{ChatRequest, Part, Turn};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// The freest that any dialect lets an answer be.
const HIGHEST_TEMPERATURE: f64 = 2.0;

/// Settings as somebody wrote them; [`ChatPromptOptions::check`] makes them usable.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatPromptOptions {
    /// What a model is told before the conversation, each with its locale. The first is for all other locales.
    pub system: Vec<(String, String)>,
    /// How free the answer is; nothing leaves it to the model.
    pub temperature: Option<f64>,
    /// The most tokens that an answer may have.
    pub max_output: u32,
    /// The most turns of what was said before that go along.
    pub history_turns: usize,
}

impl ChatPromptOptions {
    /// Refuses locales that are none or come twice, a temperature that no model takes, no output, and one turn: it would be
    /// an answer without its question.
    pub fn check(self) -> Result<ChatPrompt, SettingError> {
        let mut system: Vec<(String, String)> = Vec::with_capacity(self.system.len());
        for (name, text) in self.system {
            let Some(spelled) = locale::canonical(&name) else {
                return Err(SettingError::new(
                    "system",
                    format!("{name:?} is no locale such as ja-JP or en"),
                ));
            };
            if system.iter().any(|(known, _)| *known == spelled) {
                return Err(SettingError::new("system", format!("{spelled} is given twice")));
            }
            system.push((spelled, text));
        }
        if let Some(temperature) = self.temperature
            && !(0.0..=HIGHEST_TEMPERATURE).contains(&temperature)
        {
            return Err(SettingError::new("temperature", format!("{temperature} is not between 0 and 2")));
        }
        if self.max_output == 0 {
            return Err(SettingError::new("max_output", "must be at least 1"));
        }
        if self.history_turns == 1 {
            return Err(SettingError::new("history_turns", "1 is an answer without its question"));
        }
        let Self { temperature, max_output, history_turns, .. } = self;
        Ok(ChatPrompt { system, temperature, max_output, history_turns })
    }
}

/// What goes with every question to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatPrompt {
    system: Vec<(String, String)>,
    temperature: Option<f64>,
    max_output: u32,
    history_turns: usize,
}

/// What is known of the model that a request is made for.
#[derive(Clone, Copy, Debug)]
pub struct PromptOccasion<'a> {
    /// The model, by the name that the request gets and estimates go by.
    pub model: &'a str,
    /// How many tokens there may be.
    pub limits: &'a TokenLimits,
    /// What is spent on top of the text.
    pub overhead: OverheadOptions,
    /// What bills have taught.
    pub calibration: &'a Calibration,
}

/// A request that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedChat {
    /// What the model is asked.
    pub request: ChatRequest,
    /// A digest of what was said before, as far as the model is told; empty where that is nothing.
    pub history: String,
    /// How many of the turns the model is told.
    pub kept_turns: usize,
    /// A number of tokens that the input stays below in 95 of 100 cases.
    pub input: u64,
}

impl ChatPrompt {
    /// The instructions for a locale: its own, or its language's, or the first.
    #[must_use]
    pub fn system(&self, locale: &str) -> Option<&str> {
        let same = |known: &&(String, String)| known.0 == locale;
        let alike = |known: &&(String, String)| locale::language(&known.0) == locale::language(locale);
        let found = self.system.iter().find(same).or_else(|| self.system.iter().find(alike));
        found.or_else(|| self.system.first()).map(|(_, text)| text.as_str())
    }

    /// Makes a request of a question. Of what was said before, the oldest questions are left out with their answers until
    /// the rest fits; refused where the message alone does not.
    pub fn prepare(&self, ask: &ChatAsk, occasion: &PromptOccasion<'_>) -> Result<PreparedChat, ChatError> {
        let tokens = |text: &str| {
            let around = OverheadOptions { request: 0, reserve: 0, ..occasion.overhead };
            estimate(occasion.model, &RequestCounts::of_message(text), around, occasion.calibration).careful
        };
        let asked = ask.max_output.map_or(self.max_output, |asked| asked.min(self.max_output));
        let output = occasion.limits.output(Some(asked.into()));
        let newest = ask.history.len().saturating_sub(self.history_turns);
        let said = ask.history.get(newest..).unwrap_or_default();
        let counted: Vec<Counted> =
            said.iter().map(|turn| Counted { role: turn.role, tokens: tokens(&turn.text) }).collect();
        let system = self.system(&ask.locale).filter(|text| !text.trim().is_empty());
        let conversation = Conversation {
            system: system.map_or(0, tokens),
            overhead: occasion.overhead.request,
            turns: &counted,
            chunks: &[],
            message: tokens(&ask.message),
        };
        let kept = match trim(&conversation, occasion.limits.input(output)) {
            HistoryDecision::Send(kept) => kept,
            HistoryDecision::InputTooLarge { needed, limit } => {
                return Err(ChatError::InputTooLarge { needed, limit });
            }
        };
        let words = |turn: &ChatTurn| Part::Text(turn.text.clone());
        let mut turns: Vec<Turn> = kept
            .groups(&counted)
            .map(|group| {
                let parts = said.get(group.turns).unwrap_or_default().iter().map(words).collect();
                Turn { role: group.role, parts }
            })
            .collect();
        let message = Part::Text(ask.message.clone());
        match turns.last_mut() {
            Some(turn) if turn.role == Role::User => turn.parts.push(message),
            _ => turns.push(Turn { role: Role::User, parts: vec![message] }),
        }
        let told = said.get(kept.turns).unwrap_or_default();
        Ok(PreparedChat {
            request: ChatRequest {
                model: occasion.model.to_owned(),
                system: system.map(str::to_owned).into_iter().collect(),
                turns,
                max_output: Some(u32::try_from(output).unwrap_or(u32::MAX)),
                temperature: self.temperature,
                stream: ask.stream,
                stream_usage: ask.stream,
                ..ChatRequest::default()
            },
            history: digest(told),
            kept_turns: told.len(),
            input: kept.tokens,
        })
    }
}

/// Stands for these turns and no others: who said each and how long it is goes in before its words.
fn digest(turns: &[ChatTurn]) -> String {
    if turns.is_empty() {
        return String::new();
    }
    let mut hash = Sha256::new();
    for turn in turns {
        hash.update([match turn.role {
            Role::User => b'u',
            Role::Assistant => b'a',
        }]);
        hash.update((turn.text.len() as u64).to_be_bytes());
        hash.update(turn.text.as_bytes());
    }
    hash.finalize().iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Text takes whatever is written to it.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
