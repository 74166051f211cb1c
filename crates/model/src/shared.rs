//! A model for concurrent callers, with its bill and call log.
//!
//! All users of a model, whether a server or a target in the same process, share one instance: requests have one order,
//! faults are timed by one clock, and there is one bill and one call log. The clock is injected, so that the model runs
//! in real time as well as on a virtual clock.
//!
//! It writes nothing to disk and has no limits of its own.

use crate::bill::Bill;
use crate::calls::{CallEnd, CallList, CallRecord};
use crate::engine::{Ask, Engine, ModelCall, ModelOptions, Profile, Script, read_faults};
use crate::play::Play;
use seawall_core::handle::Timer;
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
pub struct Meter(Arc<Mutex<Books>>);

#[derive(Debug)]
struct Books {
    behaviour: Behaviour,
    /// Number of requests so far.
    asked: u64,
    in_flight: u64,
    bill: Bill,
    calls: CallList,
    /// The minute of the most recent request on the model's clock, and the number of requests in it.
    minute: (u64, u64),
}

/// The current behaviour, when it took effect, and the number of the first request under it.
#[derive(Clone, Debug)]
struct Behaviour {
    engine: Arc<Engine>,
    began: Timestamp,
    first: u64,
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
        let behaviour = Behaviour { engine: Arc::new(engine), began: started, first: 0 };
        let books = Books {
            behaviour,
            asked: 0,
            in_flight: 0,
            bill: Bill::default(),
            calls: CallList::default(),
            minute: (0, 0),
        };
        Self { timer, started, meter: Meter(Arc::new(Mutex::new(books))) }
    }

    /// The handle to its bill and call log.
    #[must_use]
    pub const fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Sends a request to the model, now. The script is played as it is polled, and billed as it is delivered.
    #[must_use]
    pub fn ask(&self, call: &ModelCall, body: &[u8]) -> Play<T> {
        let now = self.timer.monotonic();
        let (open, engine, ask) = self.meter.with(|books| {
            let Behaviour { engine, began, first } = books.behaviour.clone();
            let at = now - began;
            let minute = at.as_secs() / 60;
            let number = books.asked;
            books.asked += 1;
            books.in_flight += 1;
            books.calls.begin(number, now - self.started, call);
            books.minute = if books.minute.0 == minute { (minute, books.minute.1 + 1) } else { (minute, 1) };
            let (in_flight, this_minute) = (books.in_flight, books.minute.1);
            let place = number.saturating_sub(first);
            let open = OpenCall { meter: self.meter.clone(), number };
            (open, engine, Ask { number, place, at, in_flight, this_minute, call, body })
        });
        // Computed without the lock, because generating the answer takes a while.
        let script: Script = engine.script(&ask);
        self.meter.with(|books| {
            books.calls.decide(ask.number, &script);
            if let Some(profile) = script.profile {
                books.bill.ask(profile);
            }
        });
        Play::new(self.timer.clone(), now, script, open)
    }

    /// Replaces the fault schedule, timed from now, and returns its number of rules. On an error the previous one stays
    /// in effect.
    pub fn set_faults(&self, text: &[u8]) -> Result<usize, SettingError> {
        let faults = read_faults(text)?;
        let number = faults.len();
        let (seed, pace) = self.meter.with(|books| {
            let engine = &books.behaviour.engine;
            (engine.seed(), engine.pace())
        });
        let engine = Arc::new(Engine::new(ModelOptions { seed, faults, pace })?);
        let began = self.timer.monotonic();
        self.meter.with(|books| books.behaviour = Behaviour { engine, began, first: books.asked });
        Ok(number)
    }
}

impl Meter {
    /// The bill so far.
    #[must_use]
    pub fn bill(&self) -> Bill {
        self.with(|books| books.bill.clone())
    }

    /// The call log, oldest first.
    #[must_use]
    pub fn calls(&self) -> Vec<CallRecord> {
        self.with(|books| books.calls.iter().cloned().collect())
    }

    /// Clears the bill and the call log. Requests in flight continue, and what they still deliver is billed.
    pub fn reset(&self) {
        self.with(|books| {
            books.bill = Bill::default();
            books.calls.clear();
        });
    }

    fn with<R>(&self, act: impl FnOnce(&mut Books) -> R) -> R {
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
        self.meter.with(|books| {
            books.in_flight = books.in_flight.saturating_sub(1);
            // No effect on a request that was served completely, because its end is already recorded.
            books.calls.end(self.number, CallEnd::CallerGone);
        });
    }
}

impl OpenCall {
    pub(crate) fn deliver(&self, profile: &Profile, usage: Usage) {
        self.meter.with(|books| {
            books.bill.deliver(profile, usage);
            books.calls.deliver(self.number, usage, profile.price_of(usage));
        });
    }

    pub(crate) fn complete(&self, profile: Option<&Profile>) {
        self.meter.with(|books| {
            if let Some(profile) = profile {
                books.bill.complete(profile);
            }
            books.calls.end(self.number, CallEnd::Complete);
        });
    }

    pub(crate) fn broken(&self) {
        self.meter.with(|books| books.calls.end(self.number, CallEnd::Broken));
    }
}
