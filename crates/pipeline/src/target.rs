//! Where requests can go: targets with what protects them, and the names that callers use for them.

use crate::credential::CredentialHealth;
use crate::output_history::OutputHistory;
use crate::pacing::{Gauges, Pacing};
use crate::place::Line;
use crate::speech::{Face, SpokenRequest};
use crate::usual::Usual;
use seawall_core::breaker::{Breaker, BreakerSettings, SharedBreaker};
use seawall_core::histogram::Histogram;
use seawall_core::in_flight::{SlotLimit, SlotShares};
use seawall_core::money::{Money, PriceTable, ServiceLevel, Usage};
use seawall_core::pressure::{PressureGauge, PressureSettings};
use seawall_core::queue::QueueSettings;
use seawall_core::sender::ThrottleGate;
use seawall_core::setting::SettingError;
use seawall_core::time::Timestamp;
use seawall_core::tokens::{Family, OutputLimit};
use seawall_core::untracked::{InputFeature, InputModel, input_bound};
use seawall_core::vocabulary::{Grade, OutputLimitField};
use seawall_provider::Target;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// No model that is known holds more, in and out together.
const LARGEST_WINDOW: u64 = 2_000_000;

/// One model at one provider, as somebody wrote it.
pub struct TargetOptions {
    /// The name in logs and metrics.
    pub name: String,
    /// What the provider calls the model.
    pub model: String,
    /// How strong it is.
    pub grade: Grade,
    /// What its tokens cost.
    pub price: PriceTable,
    /// What is known of its input.
    pub input: InputModel,
    /// Where it takes the limit of output, if it speaks as OpenAI does.
    pub output_limit_field: OutputLimitField,
    /// Calls in flight at once.
    pub concurrency: u32,
    /// How many of those whose calls may be.
    pub shares: SlotShares,
    /// Who waits for a place there. Holds from the target's first day.
    pub queue: QueueSettings,
    /// When its breaker opens.
    pub breaker: BreakerSettings,
    /// When trying again becomes gentler.
    pub pressure: PressureSettings,
    /// The way there.
    pub upstream: Arc<dyn Target>,
}

/// A target with what protects it.
pub struct GuardedTarget {
    pub(crate) name: Arc<str>,
    /// Shared with every call that the books keep.
    pub(crate) model: Arc<str>,
    pub(crate) grade: Grade,
    pub(crate) price: PriceTable,
    input: InputModel,
    pub(crate) output_limit_field: OutputLimitField,
    /// How its model counts tokens.
    pub(crate) family: Family,
    pub(crate) output: Arc<OutputHistory>,
    pub(crate) in_flight: SlotLimit,
    pub(crate) line: Arc<Line>,
    /// How long answers take to begin.
    pub(crate) starts: Arc<Histogram>,
    pub(crate) breaker: SharedBreaker,
    pub(crate) gauges: Arc<Mutex<Gauges>>,
    pub(crate) pacing: Arc<Pacing>,
    /// Whether the vendor accepts our key.
    pub(crate) credential: Arc<CredentialHealth>,
    pub(crate) upstream: Arc<dyn Target>,
    protection: Protection,
}

/// How a target is protected.
#[derive(Clone)]
struct Protection {
    concurrency: u32,
    shares: SlotShares,
    breaker: BreakerSettings,
    pressure: PressureSettings,
}

impl GuardedTarget {
    /// A target that nothing is known of yet. Refuses settings that make no sense.
    pub fn new(options: TargetOptions) -> Result<Self, SettingError> {
        let TargetOptions {
            name,
            model,
            grade,
            price,
            input,
            output_limit_field,
            concurrency,
            shares,
            queue,
            breaker,
            pressure,
            upstream,
        } = options;
        let gauges = Gauges {
            pressure: PressureGauge::new(pressure.clone()),
            gate: ThrottleGate::new(Timestamp::ZERO),
            usual: Usual::default(),
        };
        Ok(Self {
            name: name.into(),
            family: Family::of_model(&model),
            output: Arc::new(OutputHistory::of_model(&model)),
            model: model.into(),
            grade,
            price,
            input,
            output_limit_field,
            in_flight: SlotLimit::new(concurrency, shares)?,
            line: Arc::new(Line::new(queue)),
            starts: Arc::default(),
            breaker: SharedBreaker::new(Breaker::new(breaker.clone())),
            gauges: Arc::new(Mutex::new(gauges)),
            pacing: Arc::default(),
            credential: Arc::default(),
            upstream,
            protection: Protection { concurrency, shares, breaker, pressure },
        })
    }

    /// The same target by other settings: what was learned of it, and who is on the way there, is shared with this one.
    /// Its other protection holds from [`take_effect`](Self::take_effect) on, for both.
    pub fn successor(&self, options: TargetOptions) -> Result<Self, SettingError> {
        let TargetOptions {
            name,
            model,
            grade,
            price,
            input,
            output_limit_field,
            concurrency,
            shares,
            breaker,
            pressure,
            upstream,
            ..
        } = options;
        // Only to have it checked.
        SlotLimit::new(concurrency, shares)?;
        let is_same_model = *self.model == *model;
        let history = || Arc::new(OutputHistory::of_model(&model));
        Ok(Self {
            name: name.into(),
            family: Family::of_model(&model),
            output: if is_same_model { Arc::clone(&self.output) } else { history() },
            model: model.into(),
            grade,
            price,
            input,
            output_limit_field,
            in_flight: self.in_flight.clone(),
            line: Arc::clone(&self.line),
            starts: Arc::clone(&self.starts),
            breaker: self.breaker.clone(),
            gauges: Arc::clone(&self.gauges),
            pacing: Arc::clone(&self.pacing),
            // Another way there may have another key.
            credential: if Arc::ptr_eq(&self.upstream, &upstream) {
                Arc::clone(&self.credential)
            } else {
                Arc::default()
            },
            upstream,
            protection: Protection { concurrency, shares, breaker, pressure },
        })
    }

    /// From now on it is protected as its settings say.
    pub fn take_effect(&self, now: Timestamp) -> Result<(), SettingError> {
        let Protection { concurrency, shares, breaker, pressure } = self.protection.clone();
        self.in_flight.change(concurrency, shares)?;
        self.breaker.change(breaker, now);
        self.gauges().pressure.change(pressure);
        // There may be more places than before, and who waits for one.
        self.line.serve(self, now);
        Ok(())
    }

    /// The way there.
    #[must_use]
    pub fn upstream(&self) -> Arc<dyn Target> {
        Arc::clone(&self.upstream)
    }

    /// The most tokens that one call can read, and the most that it can say.
    pub(crate) fn output_bounds(&self) -> (u64, u64) {
        let window = self.input.window.unwrap_or(LARGEST_WINDOW);
        (window, window)
    }

    /// The most that a call with this request can come to, whose body has so many bytes. An error says what has no bound or no
    /// price here.
    pub(crate) fn bound(&self, input_bytes: u64, spoken: &SpokenRequest) -> Result<CallBound, String> {
        let features = spoken.features();
        let untracked = features.map(|features| &features.untracked);
        let input =
            input_bound(input_bytes, untracked, &self.input).map_err(|problem| problem.to_string())?;
        let asked =
            features.filter(|_| spoken.passes_to(self.upstream.dialect())).map(|features| &features.pricing);
        let output = spoken.max_output();
        let reserved = OutputLimit::new(output).reserved();
        let cost = |output| {
            let cost = self.price.at_most(input.tokens, output, input.tool_uses, asked);
            cost.map_err(|unpriced| unpriced.to_string())
        };
        Ok(CallBound {
            input: input.tokens,
            output,
            input_cost: cost(0)?,
            reserved,
            worst: cost(reserved)?,
            largest: input.largest,
            service: asked.map(|asked| asked.service).unwrap_or_default(),
            long_cache: asked.is_some_and(|asked| asked.long_cache),
        })
    }
}

/// The most that a call can come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallBound {
    /// Tokens of input, over all passes that the vendor makes.
    pub(crate) input: u64,
    /// Tokens of output that the request allows.
    pub(crate) output: u64,
    /// Tokens of output that are reserved.
    reserved: u64,
    /// What all of it costs.
    pub(crate) worst: Money,
    /// The feature that most of the input is reserved for, where its bytes are not all of it.
    pub(crate) largest: Option<(InputFeature, u64)>,
    input_cost: Money,
    service: ServiceLevel,
    long_cache: bool,
}

impl CallBound {
    /// What it costs at the most with so many tokens of output.
    pub(crate) fn cost_with(&self, output: u64) -> Money {
        let all = u128::from(self.worst.saturating_sub(self.input_cost).as_nanos());
        let part = all.saturating_mul(output.into()).div_ceil(u128::from(self.reserved.max(1)));
        self.input_cost.saturating_add(Money::from_nanos(u64::try_from(part).unwrap_or(u64::MAX)))
    }

    /// What it may cost if the request allowed this many tokens of output.
    pub(crate) fn worst_with(&self, output: u64) -> Money {
        self.cost_with(OutputLimit::new(output).reserved())
    }

    /// What the vendor tells it used. How it was served is as it was asked for, where that is not told.
    pub(crate) fn completed(&self, usage: Usage) -> Usage {
        let extras = usage.extras.completed(usage.cache_write, self.service, self.long_cache);
        Usage { extras, ..usage }
    }
}

/// A name that callers use, as somebody wrote it.
pub struct RouteOptions {
    /// The name.
    pub alias: String,
    /// Where its requests may come in.
    pub faces: Faces,
    /// Which of these are open to guests.
    pub guest_faces: Faces,
    /// A stream's first content must come within this.
    pub start_limit: Duration,
    /// Whether a limit of its own counts tokens.
    pub counts_tokens: bool,
    /// Whether callers of a vendor's dialect get an apology rather than an error when no model answers.
    pub falls_back: bool,
    /// The targets in the order they are tried.
    pub targets: Vec<Arc<GuardedTarget>>,
}

/// A set of faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faces(u8);

impl Faces {
    /// All of them.
    pub const ALL: Self = Self(u8::MAX);

    /// These.
    #[must_use]
    pub fn of(faces: impl IntoIterator<Item = Face>) -> Self {
        Self(faces.into_iter().fold(0, |set, face| set | 1 << face as u8))
    }

    /// Whether this face is one of them.
    #[must_use]
    pub const fn has(self, face: Face) -> bool {
        self.0 & 1 << face as u8 != 0
    }
}

/// A name that callers use, and the targets behind it in the order they are tried.
pub struct Route {
    pub(crate) alias: Arc<str>,
    pub(crate) faces: Faces,
    pub(crate) guest_faces: Faces,
    pub(crate) start_limit: Duration,
    pub(crate) counts_tokens: bool,
    pub(crate) falls_back: bool,
    pub(crate) targets: Box<[Arc<GuardedTarget>]>,
}

impl Route {
    /// Refuses a route without targets.
    pub fn new(options: RouteOptions) -> Result<Self, SettingError> {
        let RouteOptions { alias, faces, guest_faces, start_limit, counts_tokens, falls_back, targets } =
            options;
        if targets.is_empty() {
            return Err(SettingError::new("targets", format!("route {alias} has none")));
        }
        let (alias, targets) = (alias.into(), targets.into());
        Ok(Self { alias, faces, guest_faces, start_limit, counts_tokens, falls_back, targets })
    }
    /// Whether its requests may come in at this face: a guest's only where the route says so.
    pub(crate) const fn is_open_at(&self, face: Face, is_guest: bool) -> bool {
        self.faces.has(face) && (!is_guest || self.guest_faces.has(face))
    }
}
