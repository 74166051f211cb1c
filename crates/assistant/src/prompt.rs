//! Builds a model request from a chat message.

use seawall_core::history::{HistoryDecision, HistoryInput, HistoryTurn, Role, TokenLimits, trim};
use seawall_core::setting::SettingError;
use seawall_core::tokens::{Calibration, OverheadOptions, RequestCounts, estimate};
use seawall_wire::chat::{ChatRequest, RequestPart, Turn};
use seawall_wire::chat_face::{ChatError, ChatFaceRequest, ChatTurn, locale};
use sha2::{Digest as _, Sha256};

/// The highest temperature that any dialect allows.
const MAX_TEMPERATURE: f64 = 2.0;

/// Unvalidated settings; [`ChatPromptOptions::check`] validates them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatPromptOptions {
    /// System prompts by locale. The first one applies to all other locales.
    pub system: Vec<(String, String)>,
    /// Sampling temperature; `None` uses the model's default.
    pub temperature: Option<f64>,
    /// Maximum output tokens of an answer.
    pub max_output: u32,
    /// Maximum number of history turns sent to the model.
    pub history_turns: usize,
}

impl ChatPromptOptions {
    /// Validates the settings. Rejects invalid or duplicate locales, a temperature that no model accepts, a zero output
    /// limit, and a history of one turn, which would be an answer without its question.
    pub fn check(self) -> Result<ChatPrompt, SettingError> {
        let mut system: Vec<(String, String)> = Vec::with_capacity(self.system.len());
        for (name, text) in self.system {
            let Some(canonical) = locale::canonical(&name) else {
                return Err(SettingError::new(
                    "system",
                    format!("{name:?} is not a locale; use a form such as ja-JP or en"),
                ));
            };
            if system.iter().any(|(known, _)| *known == canonical) {
                return Err(SettingError::new("system", format!("duplicate locale {canonical}")));
            }
            system.push((canonical, text));
        }
        if let Some(temperature) = self.temperature
            && !(0.0..=MAX_TEMPERATURE).contains(&temperature)
        {
            return Err(SettingError::new(
                "temperature",
                format!("must be between 0 and 2, not {temperature}"),
            ));
        }
        if self.max_output == 0 {
            return Err(SettingError::new("max_output", "must be at least 1"));
        }
        if self.history_turns == 1 {
            return Err(SettingError::new(
                "history_turns",
                "must not be 1: the only turn would be an answer without its question",
            ));
        }
        let Self { temperature, max_output, history_turns, .. } = self;
        Ok(ChatPrompt { system, temperature, max_output, history_turns })
    }
}

/// The validated prompt settings that apply to every message.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatPrompt {
    system: Vec<(String, String)>,
    temperature: Option<f64>,
    max_output: u32,
    history_turns: usize,
}

/// Properties of the model that a request is built for.
#[derive(Clone, Copy, Debug)]
pub struct PromptModel<'a> {
    /// The model's name, used in the request and for token estimates.
    pub model: &'a str,
    /// Token limits.
    pub limits: &'a TokenLimits,
    /// Tokens that the vendor counts on top of the text.
    pub overhead: OverheadOptions,
    /// Corrections to the token estimate, learned from reported usage.
    pub calibration: &'a Calibration,
}

/// A request that fits the model's limits.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedChat {
    /// The model request.
    pub request: ChatRequest,
    /// A digest of the history that is sent to the model; empty if none is.
    pub history: String,
    /// Number of history turns sent to the model.
    pub kept_turns: usize,
    /// The p95 of the estimated input tokens.
    pub input: u64,
}

impl ChatPrompt {
    /// The system prompt of a locale: an exact match, else one of the same language, else the first.
    #[must_use]
    pub fn system(&self, locale: &str) -> Option<&str> {
        let is_same = |known: &&(String, String)| known.0 == locale;
        let is_same_language =
            |known: &&(String, String)| locale::language(&known.0) == locale::language(locale);
        let found = self.system.iter().find(is_same).or_else(|| self.system.iter().find(is_same_language));
        found.or_else(|| self.system.first()).map(|(_, text)| text.as_str())
    }

    /// Builds a request from a message. The oldest turns are dropped, questions together with their answers, until the
    /// rest fits. The error means that the message alone does not fit.
    pub fn prepare(
        &self,
        request: &ChatFaceRequest,
        model: &PromptModel<'_>,
    ) -> Result<PreparedChat, ChatError> {
        let tokens = |text: &str| {
            let overhead = OverheadOptions { request: 0, reserve: 0, ..model.overhead };
            estimate(model.model, &RequestCounts::of_message(text), overhead, model.calibration).p95
        };
        let requested = request.max_output.map_or(self.max_output, |limit| limit.min(self.max_output));
        let output = model.limits.output(Some(requested.into()));
        let newest = request.history.len().saturating_sub(self.history_turns);
        let recent = request.history.get(newest..).unwrap_or_default();
        let counted: Vec<HistoryTurn> =
            recent.iter().map(|turn| HistoryTurn { role: turn.role, tokens: tokens(&turn.text) }).collect();
        let system = self.system(&request.locale).filter(|text| !text.trim().is_empty());
        let conversation = HistoryInput {
            system: system.map_or(0, tokens),
            overhead: model.overhead.request,
            turns: &counted,
            chunks: &[],
            message: tokens(&request.message),
        };
        let kept = match trim(&conversation, model.limits.input(output)) {
            HistoryDecision::Send(kept) => kept,
            HistoryDecision::InputTooLarge { needed, limit } => {
                return Err(ChatError::InputTooLarge { needed, limit });
            }
        };
        let to_part = |turn: &ChatTurn| RequestPart::Text(turn.text.clone());
        let mut turns: Vec<Turn> = kept
            .groups(&counted)
            .map(|group| {
                let parts = recent.get(group.turns).unwrap_or_default().iter().map(to_part).collect();
                Turn { role: group.role, parts }
            })
            .collect();
        let message = RequestPart::Text(request.message.clone());
        match turns.last_mut() {
            Some(turn) if turn.role == Role::User => turn.parts.push(message),
            _ => turns.push(Turn { role: Role::User, parts: vec![message] }),
        }
        let sent = recent.get(kept.turns).unwrap_or_default();
        Ok(PreparedChat {
            request: ChatRequest {
                model: model.model.to_owned(),
                system: system.map(str::to_owned).into_iter().collect(),
                turns,
                max_output: Some(u32::try_from(output).unwrap_or(u32::MAX)),
                temperature: self.temperature,
                stream: request.stream,
                stream_usage: request.stream,
                ..ChatRequest::default()
            },
            history: digest(sent),
            kept_turns: sent.len(),
            input: kept.tokens,
        })
    }
}

/// A digest of exactly these turns: the role and length of each turn are hashed before its text, so no two histories
/// collide.
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
    hex::encode(hash.finalize())
}
