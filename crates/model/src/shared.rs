//! A model for concurrent callers, with its bill and call log.
//!
//! All users of a model, whether a server or a target in the same process, share one instance: requests have one order,
//! faults are timed by one clock, and there is one bill and one call log. The clock is injected, so that the model runs
//! in real time as well as on a virtual clock.
//!
//! It writes nothing to disk and has no limits of its own.

use crate::bill::Bill;
use crate::call_log::{CallEnd, CallLog, CallRecord};
use crate::engine::{Engine, ModelCall, ModelOptions, ModelRequest, Profile, Script, read_faults};
use crate::playback::Playback;
use crate::prompt_cache::{PromptCache, PromptCacheOptions};
use seawall_core::runtime::Timer;
use seawall_core::setting::SettingError;
use seawall_core::time::Timestamp;
use seawall_wire::chat::Usage;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A model and its clock. Clones share the same model.
#[derive(Clone)]
pub struct SharedModel<T> {
    timer: T,
    started: Timestamp,
    meter: Meter,
}

/// The bill, call log and behaviour of a model. Clones share the same state.
#[derive(Clone, Debug)]
pub struct Meter(Arc<Mutex<ModelState>>);

#[derive(Debug)]
struct ModelState {
    behaviour: Behaviour,
    /// Number of requests so far.
    requests: u64,
    in_flight: u64,
    bill: Bill,
    calls: CallLog,
    /// The prompts of recent requests, if the model has a prompt cache.
    prompt_cache: Option<PromptCache>,
    /// The minute of the most recent request on the model's clock, and the number of requests in it.
    minute: (u64, u64),
}

/// The current behaviour, when it took effect, and the number of the first request under it.
#[derive(Clone, Debug)]
struct Behaviour {
    engine: Arc<Engine>,
    started_at: Timestamp,
    first_request: u64,
}

impl<T> fmt::Debug for SharedModel<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("SharedModel").field(&self.meter).finish()
    }
}

impl<T: Timer> SharedModel<T> {
    /// Creates a model with this behaviour. Its clock starts now.
    #[must_use]
    pub fn new(engine: Engine, timer: T) -> Self {
        let started = timer.monotonic();
        let behaviour = Behaviour { engine: Arc::new(engine), started_at: started, first_request: 0 };
        let state = ModelState {
            behaviour,
            requests: 0,
            in_flight: 0,
            bill: Bill::default(),
            calls: CallLog::default(),
            prompt_cache: None,
            minute: (0, 0),
        };
        Self { timer, started, meter: Meter(Arc::new(Mutex::new(state))) }
    }

    /// The same model with a prompt cache.
    #[must_use]
    pub fn with_prompt_cache(self, options: PromptCacheOptions) -> Self {
        self.meter.with(|state| state.prompt_cache = Some(PromptCache::new(options)));
        self
    }

    /// The handle to its bill and call log.
    #[must_use]
    pub const fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Sends a request to the model, now. The script is played as it is polled, and billed as it is delivered.
    #[must_use]
    pub fn call(&self, call: &ModelCall, body: &[u8]) -> Playback<T> {
        let now = self.timer.monotonic();
        let (open, engine, request) = self.meter.with(|state| {
            let Behaviour { engine, started_at: began, first_request: first } = state.behaviour.clone();
            let at = now - began;
            let minute = at.as_secs() / 60;
            let number = state.requests;
            state.requests += 1;
            state.in_flight += 1;
            state.calls.begin(number, now - self.started, call);
            state.minute = if state.minute.0 == minute { (minute, state.minute.1 + 1) } else { (minute, 1) };
            let (in_flight, requests_this_minute) = (state.in_flight, state.minute.1);
            let schedule_number = number.saturating_sub(first);
            let open = OpenCall { meter: self.meter.clone(), number };
            (
                open,
                engine,
                ModelRequest { number, schedule_number, at, in_flight, requests_this_minute, call, body },
            )
        });
        // Computed without the lock, because generating the answer takes a while.
        let block_chars =
            self.meter.with(|state| state.prompt_cache.as_ref().map(|cache| cache.options.block_chars));
        let cached = block_chars.map_or(0, |block_chars| {
            let prompt = Engine::prompt_blocks(&request, block_chars);
            self.meter.with(|state| state.prompt_cache.as_mut().map_or(0, |cache| cache.read(&prompt, now)))
        });
        let script: Script = engine.script_with_cache(&request, cached);
        self.meter.with(|state| {
            state.calls.record_script(request.number, &script);
            if let Some(profile) = script.profile {
                state.bill.count_request(profile);
            }
        });
        Playback::new(self.timer.clone(), now, script, open)
    }

    /// Replaces the fault schedule, timed from now, and returns its number of rules. On an error the previous one stays
    /// in effect.
    pub fn set_faults(&self, text: &[u8]) -> Result<usize, SettingError> {
        let faults = read_faults(text)?;
        let number = faults.len();
        let (seed, pace) = self.meter.with(|state| {
            let engine = &state.behaviour.engine;
            (engine.seed(), engine.pace())
        });
        let engine = Arc::new(Engine::new(ModelOptions { seed, faults, pace })?);
        let began = self.timer.monotonic();
        self.meter.with(|state| {
            state.behaviour = Behaviour { engine, started_at: began, first_request: state.requests }
        });
        Ok(number)
    }
}

impl Meter {
    /// The bill so far.
    #[must_use]
    pub fn bill(&self) -> Bill {
        self.with(|state| state.bill.clone())
    }

    /// The call log, oldest first.
    #[must_use]
    pub fn calls(&self) -> Vec<CallRecord> {
        self.with(|state| state.calls.iter().cloned().collect())
    }

    /// Clears the bill and the call log. Requests in flight continue, and what they still deliver is billed.
    pub fn reset(&self) {
        self.with(|state| {
            state.bill = Bill::default();
            state.calls.clear();
        });
    }

    fn with<R>(&self, act: impl FnOnce(&mut ModelState) -> R) -> R {
        // No code panics while it holds the lock; if it did, a count would be missing but no invariant broken.
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A request in flight; dropping it ends it.
#[derive(Debug)]
pub(crate) struct OpenCall {
    meter: Meter,
    number: u64,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.meter.with(|state| {
            state.in_flight = state.in_flight.saturating_sub(1);
            // No effect on a request that was served completely, because its end is already recorded.
            state.calls.end(self.number, CallEnd::CallerGone);
        });
    }
}

impl OpenCall {
    pub(crate) fn deliver(&self, profile: &Profile, usage: Usage) {
        self.meter.with(|state| {
            state.bill.count_delivered(profile, usage);
            state.calls.deliver(self.number, usage, profile.price_of(usage));
        });
    }

    pub(crate) fn complete(&self, profile: Option<&Profile>) {
        self.meter.with(|state| {
            if let Some(profile) = profile {
                state.bill.count_complete(profile);
            }
            state.calls.end(self.number, CallEnd::Complete);
        });
    }

    pub(crate) fn abort(&self) {
        self.meter.with(|state| state.calls.end(self.number, CallEnd::Broken));
    }
}
