//! Several choices and log probabilities, which only OpenAI chat completions are simulated with.
//!
//! The dialect's writer writes one choice without probabilities, because no translation has more. The chunks and answers
//! that it writes are completed here.

use super::tokens::tokens;
use bytes::{Bytes, BytesMut};
use seawall_wire::chat::ChatSettings;
use serde_json::{Value, json};

/// The most likely alternatives that a request can ask for.
const MAX_ALTERNATIVES: u32 = 20;

/// What a request asks for in addition to one plain choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChoiceOptions {
    choices: u32,
    log_probabilities: Option<u32>,
}

impl ChoiceOptions {
    /// `None` if the request asks for one plain choice.
    pub(super) const fn of(settings: &ChatSettings) -> Option<Self> {
        match (settings.choices, settings.log_probabilities) {
            (None, None) => None,
            (Some(choices), log_probabilities) => Some(Self { choices, log_probabilities }),
            (None, log_probabilities) => Some(Self { choices: 1, log_probabilities }),
        }
    }

    /// Completes a whole answer.
    pub(super) fn complete(self, body: &[u8]) -> Bytes {
        match serde_json::from_slice(body) {
            Ok(answer) => self.with_choices(answer, "message").to_string().into(),
            Err(_) => Bytes::copy_from_slice(body),
        }
    }

    /// Completes the chunks of one event of a stream.
    pub(super) fn complete_chunks(self, chunks: &[u8], out: &mut BytesMut) {
        for line in String::from_utf8_lossy(chunks).split_inclusive("\n\n") {
            let chunk =
                line.trim_end().strip_prefix("data: ").and_then(|json| serde_json::from_str(json).ok());
            match chunk {
                Some(chunk @ Value::Object(_)) => {
                    let chunk = self.with_choices(chunk, "delta");
                    out.extend_from_slice(format!("data: {chunk}\n\n").as_bytes());
                }
                _ => out.extend_from_slice(line.as_bytes()),
            }
        }
    }

    fn with_choices(self, mut answer: Value, content: &str) -> Value {
        let Some(choice) = answer["choices"].get(0).cloned() else { return answer };
        let choices = (0..self.choices).map(|index| {
            let mut choice = choice.clone();
            choice["index"] = json!(index);
            if let (Some(alternatives), Some(text)) =
                (self.log_probabilities, choice[content]["content"].as_str())
            {
                let content: Vec<_> = tokens(text).map(|token| probability(token, alternatives)).collect();
                choice["logprobs"] = json!({"content": content, "refusal": null});
            }
            choice
        });
        answer["choices"] = choices.collect();
        answer
    }
}

/// The log probability of a token, and of its alternatives: each is half as likely as the one before.
fn probability(token: &str, alternatives: u32) -> Value {
    let entry = |token: &str, rank: u32| json!({"token": token, "logprob": -0.5 - 0.5 * f64::from(rank), "bytes": token.as_bytes()});
    let others = (1..alternatives.min(MAX_ALTERNATIVES)).map(|rank| entry(&format!("{token}{rank}"), rank));
    let all: Vec<_> = (alternatives > 0).then(|| entry(token, 0)).into_iter().chain(others).collect();
    let mut chosen = entry(token, 0);
    chosen["top_logprobs"] = Value::Array(all);
    chosen
}
