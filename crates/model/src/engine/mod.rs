//! What a simulated model says, when, and how it fails.
//!
//! [`Engine::script`] is a function of the seed, the request, its number and the time since the model started.
//! It plays nothing itself and remembers nothing.

mod catalogue;
mod chance;
mod compose;
mod fault;
mod period;
mod profile;
mod schedule;
mod script;
mod speech;
mod tokens;

#[cfg(test)]
mod tests;

pub use fault::{Fault, FaultRule, Frequency, read_faults};
pub use profile::Profile;
pub use script::{Act, Ending, Head, Script, Step};
pub use tokens::count_tokens;

use chance::Dice;
use schedule::Schedule;
use seawall_core::setting::SettingError;
use seawall_wire::anthropic::{RequestHead, RequestText, read_request, read_text};
use seawall_wire::{Refusal, RequestError, RequestLimits};
use std::str::FromStr;
use std::time::Duration;

/// How a simulated model behaves; checked by [`Engine::new`].
#[derive(Clone, Debug, Default)]
pub struct ModelOptions {
    /// What everything drawn by lot follows from.
    pub seed: u64,
    /// When it fails, and how. Of the rules that apply to a request the first counts.
    pub faults: Vec<FaultRule>,
    /// Whether it takes its time.
    pub pace: Pace,
}

/// Whether a model takes its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As long as its profile says.
    #[default]
    Real,
    /// Everything at once, without a single timer; for measuring what stands in front of it.
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
    /// Which request it is since the model started, from 0.
    pub number: u64,
    /// When it came, from the model's start.
    pub at: Duration,
    /// What was sent.
    pub body: &'a [u8],
}

/// A simulated model.
#[derive(Clone, Debug)]
pub struct Engine {
    seed: u64,
    pace: Pace,
    schedule: Schedule,
}

impl Engine {
    /// A model that behaves as told, or the first setting that makes no sense.
    pub fn new(options: ModelOptions) -> Result<Self, SettingError> {
        let schedule = Schedule::new(options.seed, options.faults)?;
        Ok(Self { seed: options.seed, pace: options.pace, schedule })
    }

    /// What happens to a request.
    #[must_use]
    pub fn script(&self, ask: &Ask<'_>) -> Script {
        // Text follows from the request alone, so that a retry gets the same words; names from the number too,
        // so that no two answers share one.
        let text_dice = Dice::new(self.seed).with_bytes(ask.body);
        let request_id = format!("req_{:016x}", text_dice.with_number(ask.number).bits());
        let (profile, head, text) = match understand(ask.body) {
            Ok(understood) => understood,
            Err((refusal, message)) => {
                return compose::refusal(refusal, &message, &request_id, None);
            }
        };
        let turn = compose::Turn { profile, head: &head, text: &text, request_id: &request_id };
        let mut script = compose::answer(&turn, text_dice);
        if let Some(fault) = self.schedule.fault_for(ask, profile) {
            fault.spoil(&mut script, &turn);
        }
        if self.pace == Pace::Instant {
            script.steps.iter_mut().for_each(|step| step.at = Duration::ZERO);
        }
        script
    }
}

type Understood = (&'static Profile, RequestHead, RequestText);

fn understand(body: &[u8]) -> Result<Understood, (Refusal, String)> {
    let refused = |error: RequestError| (error.refusal(), error.to_string());
    let head = read_request(body, &RequestLimits::default()).map_err(refused)?;
    let text = read_text(body).map_err(refused)?;
    let profile = Profile::named(&head.model)
        .ok_or_else(|| (Refusal::NotFound, format!("model: {} is not simulated here", head.model)))?;
    Ok((profile, head, text))
}
