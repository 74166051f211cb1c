//! The simulated model: what it answers, with what timing, and how it fails.
//!
//! [`Engine::script`] is a pure function of the seed, the request, its number and the time since the model started. It
//! performs no I/O and keeps no state.

mod answer_writer;
mod call;
mod catalogue;
mod chance;
mod choices;
mod compose;
mod duration_text;
mod fault;
mod operation;
mod profile;
mod reference;
mod schedule;
mod schema_value;
mod script;
mod text;
mod tokens;
mod tool;
mod vendor_format;

#[cfg(test)]
mod tests;

pub use call::ModelCall;
pub use fault::{Fault, FaultRule, Frequency, read_faults};
pub use profile::Profile;
pub use script::{Script, ScriptAction, ScriptEnding, ScriptHead, ScriptStep};
pub use tokens::count_tokens;

use crate::prompt_cache::{PromptBlocks, prompt_blocks};
use chance::Dice;
use compose::ComposedContent;
use operation::OperationFormat;
use reference::ReferencedInput;
use schedule::FaultSchedule;
use seawall_core::setting::SettingError;
use seawall_wire::chat::ChatRequest;
use seawall_wire::dialect::DialectId;
use seawall_wire::{ApiErrorKind, RequestError};
use std::str::FromStr;
use std::time::Duration;

/// The behaviour of a simulated model; validated by [`Engine::new`].
#[derive(Clone, Debug, Default)]
pub struct ModelOptions {
    /// The seed of all random draws.
    pub seed: u64,
    /// The fault schedule. The first rule that applies to a request is used.
    pub faults: Vec<FaultRule>,
    /// Whether answers have realistic timing.
    pub pace: Pace,
}

/// The timing of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// The latency and speed of the model's profile.
    #[default]
    Real,
    /// Everything at once, without a single timer; for benchmarks of what is in front of the model.
    Instant,
}

impl FromStr for Pace {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        match text {
            "real" => Ok(Self::Real),
            "instant" => Ok(Self::Instant),
            _ => Err(SettingError::new("pace", format!("{text:?} is neither real nor instant"))),
        }
    }
}

/// One request to a simulated model.
#[derive(Clone, Copy, Debug)]
pub struct ModelRequest<'a> {
    /// The sequence number since the model started, from 0.
    pub number: u64,
    /// The sequence number since the fault schedule took effect, from 0.
    pub schedule_number: u64,
    /// The arrival time, measured from the same moment.
    pub at: Duration,
    /// The number of requests in flight, including this one.
    pub in_flight: u64,
    /// The number of requests in this minute of the model's time, including this one.
    pub requests_this_minute: u64,
    /// The dialect and operation.
    pub call: &'a ModelCall,
    /// The request body.
    pub body: &'a [u8],
}

impl<'a> ModelRequest<'a> {
    /// A first request, which arrives at time 0.
    #[must_use]
    pub const fn first(call: &'a ModelCall, body: &'a [u8]) -> Self {
        Self {
            number: 0,
            schedule_number: 0,
            at: Duration::ZERO,
            in_flight: 1,
            requests_this_minute: 1,
            call,
            body,
        }
    }
}

/// A simulated model.
#[derive(Clone, Debug)]
pub struct Engine {
    seed: u64,
    pace: Pace,
    schedule: FaultSchedule,
}

impl Engine {
    /// Creates a model. Returns an error for the first invalid setting.
    pub fn new(options: ModelOptions) -> Result<Self, SettingError> {
        let schedule = FaultSchedule::new(options.seed, options.faults)?;
        Ok(Self { seed: options.seed, pace: options.pace, schedule })
    }

    /// The seed of all random draws.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether answers have realistic timing.
    #[must_use]
    pub const fn pace(&self) -> Pace {
        self.pace
    }

    /// Computes everything that happens to a request.
    #[must_use]
    pub fn script(&self, incoming: &ModelRequest<'_>) -> Script {
        self.script_with_cache(incoming, 0)
    }

    /// The blocks of the prompt of a request that asks for an answer, for the prompt cache.
    pub(crate) fn prompt_blocks(incoming: &ModelRequest<'_>, block_chars: usize) -> PromptBlocks {
        match parse(incoming) {
            Ok((_, request, _)) => prompt_blocks(compose::texts(&request), block_chars),
            Err(_) => PromptBlocks::new(),
        }
    }

    /// The same, where this many tokens at the start of the prompt are cached.
    pub(crate) fn script_with_cache(&self, incoming: &ModelRequest<'_>, cached: u64) -> Script {
        // The text depends on the content of the request alone, so that a retry or another dialect gets the same text.
        // The id also depends on the number, so that no two answers share one.
        let names = Dice::new(self.seed).with_bytes(incoming.body).with_number(incoming.number);
        let request_id = format!("req_{:016x}", names.bits());
        let (profile, request, referenced) = match parse(incoming) {
            Ok(parts) => parts,
            Err((error_kind, message)) => {
                return compose::error_of_kind(incoming.call, error_kind, &message, &request_id);
            }
        };
        let parsed = compose::ParsedRequest {
            profile,
            call: incoming.call,
            request: &request,
            body: incoming.body,
            request_id: &request_id,
            referenced,
            cached,
        };
        if is_token_count(incoming.call) {
            return compose::count(&parsed);
        }
        let rule = self.schedule.rule_for(incoming, profile, &request);
        let content = rule.and_then(|rule| ComposedContent::scripted(&rule.fault)).unwrap_or_else(|| {
            let dice = compose::texts(&request).fold(Dice::new(self.seed), Dice::with_text);
            ComposedContent::generated(&request, dice)
        });
        let answer = compose::answer(&parsed, content);
        let mut script = match rule {
            Some(rule) => {
                let mut script = rule.fault.apply(&parsed, answer, rule.dice_for(incoming), incoming.at);
                script.fault = Some(rule.name.clone());
                script
            }
            None => fault::without_fault(&parsed, &answer),
        };
        // A fault does not change the service options: the request is billed as it asked to be served.
        script.steps.iter_mut().for_each(|step| step.charge.extras.service = referenced.service);
        if self.pace == Pace::Instant {
            script.steps.iter_mut().for_each(|step| step.at = Duration::ZERO);
        }
        script
    }
}

fn is_token_count(call: &ModelCall) -> bool {
    call.counts_tokens
}

type RequestParts = (&'static Profile, ChatRequest, ReferencedInput);

fn parse(incoming: &ModelRequest<'_>) -> Result<RequestParts, (ApiErrorKind, String)> {
    let refused = |error: RequestError| (error.api_error_kind(), error.to_string());
    let (body, referenced) = reference::strip_references(incoming.body);
    let request = incoming.call.read(&body).map_err(refused)?;
    let profile = Profile::named(&request.model).ok_or_else(|| {
        (ApiErrorKind::NotFound, format!("unknown model: {} is not simulated", request.model))
    })?;
    if choices::ChoiceOptions::of(&request.settings).is_some()
        && incoming.call.dialect != DialectId::OPENAI_CHAT
    {
        let problem = "several answers and log probabilities are only simulated in chat completions";
        return Err((ApiErrorKind::Malformed, problem.to_owned()));
    }
    let embeds = OperationFormat::of_call(incoming.call).is_some_and(OperationFormat::embeds);
    if embeds != profile.embeds() {
        let problem = if embeds { "is not an embedding model" } else { "only embeds" };
        return Err((ApiErrorKind::NotFound, format!("unknown model: {} {problem}", request.model)));
    }
    Ok((profile, request, referenced))
}
