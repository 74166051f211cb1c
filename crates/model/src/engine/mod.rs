//! The simulated model: what it answers, with what timing, and how it fails.
//!
//! [`Engine::script`] is a pure function of the seed, the request, its number and the time since the model started. It
//! performs no I/O and keeps no state.

mod call;
mod catalogue;
mod chance;
mod compose;
mod fault;
mod own_shape;
mod period;
mod profile;
mod reference;
mod schedule;
mod script;
mod speaker;
mod speech;
mod tokens;
mod tool;

#[cfg(test)]
mod tests;

pub use call::ModelCall;
pub use fault::{Fault, FaultRule, Frequency, read_faults};
pub use profile::Profile;
pub use script::{Act, Ending, Head, Script, Step};
pub use tokens::count_tokens;

use chance::Dice;
use reference::Referenced;
use schedule::Schedule;
use seawall_core::setting::SettingError;
use seawall_wire::bedrock::BedrockOperation;
use seawall_wire::chat::ChatRequest;
use seawall_wire::{Refusal, RequestError};
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

    fn from_str(word: &str) -> Result<Self, SettingError> {
        match word {
            "real" => Ok(Self::Real),
            "instant" => Ok(Self::Instant),
            _ => Err(SettingError::new("pace", format!("{word:?} is neither real nor instant"))),
        }
    }
}

/// One request to a simulated model.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The sequence number since the model started, from 0.
    pub number: u64,
    /// The sequence number since the fault schedule took effect, from 0.
    pub place: u64,
    /// The arrival time, measured from the same moment.
    pub at: Duration,
    /// The number of requests in flight, including this one.
    pub in_flight: u64,
    /// The number of requests in this minute of the model's time, including this one.
    pub this_minute: u64,
    /// The dialect and operation.
    pub call: &'a ModelCall,
    /// The request body.
    pub body: &'a [u8],
}

impl<'a> Ask<'a> {
    /// A first request, which arrives at time 0.
    #[must_use]
    pub const fn first(call: &'a ModelCall, body: &'a [u8]) -> Self {
        Self { number: 0, place: 0, at: Duration::ZERO, in_flight: 1, this_minute: 1, call, body }
    }
}

/// A simulated model.
#[derive(Clone, Debug)]
pub struct Engine {
    seed: u64,
    pace: Pace,
    schedule: Schedule,
}

impl Engine {
    /// Creates a model. Returns an error for the first invalid setting.
    pub fn new(options: ModelOptions) -> Result<Self, SettingError> {
        let schedule = Schedule::new(options.seed, options.faults)?;
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
    pub fn script(&self, ask: &Ask<'_>) -> Script {
        // The text depends on the content of the request alone, so that a retry or another dialect gets the same text.
        // The id also depends on the number, so that no two answers share one.
        let names = Dice::new(self.seed).with_bytes(ask.body).with_number(ask.number);
        let request_id = format!("req_{:016x}", names.bits());
        let (profile, request, referenced) = match understand(ask) {
            Ok(understood) => understood,
            Err((refusal, message)) => return compose::refusal(ask.call, refusal, &message, &request_id),
        };
        let turn =
            compose::Turn { profile, call: ask.call, request: &request, request_id: &request_id, referenced };
        if is_count(ask.call) {
            return compose::count(&turn);
        }
        let speech =
            compose::speech(&turn, compose::texts(&request).fold(Dice::new(self.seed), Dice::with_text));
        let mut script = match self.schedule.rule_for(ask, profile) {
            Some(rule) => {
                let mut script = rule.fault.spoil(&turn, speech, rule.dice_for(ask), ask.at);
                script.fault = Some(rule.name.clone());
                script
            }
            None => fault::played(&turn, &speech),
        };
        // A fault does not change the service options: the request is billed as it asked to be served.
        script.steps.iter_mut().for_each(|step| step.charge.extras.service = referenced.service);
        if self.pace == Pace::Instant {
            script.steps.iter_mut().for_each(|step| step.at = Duration::ZERO);
        }
        script
    }
}

fn is_count(call: &ModelCall) -> bool {
    matches!(call, ModelCall::Bedrock(call) if call.operation == BedrockOperation::CountTokens)
}

type Understood = (&'static Profile, ChatRequest, Referenced);

fn understand(ask: &Ask<'_>) -> Result<Understood, (Refusal, String)> {
    let refused = |error: RequestError| (error.refusal(), error.to_string());
    let (body, referenced) = reference::resolve(ask.body);
    let request = ask.call.read(&body).map_err(refused)?;
    let profile = Profile::named(&request.model)
        .ok_or_else(|| (Refusal::NotFound, format!("model: {} is not simulated here", request.model)))?;
    Ok((profile, request, referenced))
}
