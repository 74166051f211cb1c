//! Targets with their protections.

use crate::baselines::Baselines;
use crate::dialect::DialectRequest;
use crate::health::SharedHealth;
use crate::output_history::OutputHistory;
use crate::output_limit::{OutputAllowance, OutputBudget};
use crate::pacing::{Pacing, TargetMeasurements};
use crate::route_table::ModelTerms;
use crate::slot::SlotQueue;
use crate::target_keys::TargetKeys;
use seawall_core::balance::PeakEwma;
use seawall_core::breaker::{Breaker, BreakerSettings, SharedBreaker};
use seawall_core::failure::{AttemptOutcome, Health};
use seawall_core::health::HealthEvidence;
use seawall_core::histogram::Histogram;
use seawall_core::in_flight::{SlotLimit, SlotShares};
use seawall_core::money::{Money, PriceTable, ServiceTier, Usage};
use seawall_core::pressure::{PressureGauge, PressureSettings};
use seawall_core::queue::QueueSettings;
use seawall_core::sender::ThrottleGate;
use seawall_core::time::Timestamp;
use seawall_core::tokens::{OutputLimit, TokenizerFamily};
use seawall_core::untracked::{InputFeature, InputModel, input_bound};
use seawall_core::vocabulary::{Grade, OutputLimitField};
use seawall_provider::Target;
use seawall_wire::dialect::ModelOperation;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, OnceLock};

/// No known model has a larger context window, input and output together.
const MAX_CONTEXT_WINDOW: u64 = 2_000_000;

/// One model at one provider, as the settings define it.
pub struct TargetOptions {
    /// The name in logs and metrics.
    pub name: String,
    /// The provider's name of the model.
    pub model: String,
    /// The model's grade.
    pub grade: Grade,
    /// The price of its tokens.
    pub price: PriceTable,
    /// Whether that price is known.
    pub price_status: PriceStatus,
    /// How its input is bounded.
    pub input: InputModel,
    /// The model's maximum output tokens per answer, if known.
    pub max_output: Option<u64>,
    /// The request field for the output limit, for targets that speak OpenAI's dialect.
    pub output_limit_field: OutputLimitField,
    /// Concurrency limit.
    pub concurrency: NonZeroU32,
    /// How callers share the concurrency slots.
    pub shares: SlotShares,
    /// The queue for concurrency slots. Fixed when the target is created; a reload does not change it.
    pub queue: QueueSettings,
    /// When the breaker opens.
    pub breaker: BreakerSettings,
    /// When retries are throttled because of pressure.
    pub pressure: PressureSettings,
    /// The connection to the provider.
    pub upstream: Arc<dyn Target>,
    /// The same with each further key, in the order in which they are used.
    pub more_keys: Vec<Arc<dyn Target>>,
}

/// Whether the price of a model is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriceStatus {
    /// It is known, or the model is free of charge.
    Known,
    /// It is unknown, and no budget applies: calls are made, and their cost is reported as unknown.
    Unknown,
    /// It is unknown, and a budget applies: no call can be made.
    Missing,
}

/// A target with its protections.
pub struct GuardedTarget {
    pub(crate) name: Arc<str>,
    /// Shared with every call in the ledger.
    pub(crate) model: Arc<str>,
    pub(crate) grade: Grade,
    pub(crate) price: PriceTable,
    pub(crate) price_status: PriceStatus,
    input: InputModel,
    max_output: Option<u64>,
    pub(crate) output_limit_field: OutputLimitField,
    /// The tokenizer family of the model.
    pub(crate) family: TokenizerFamily,
    pub(crate) output: Arc<OutputHistory>,
    pub(crate) in_flight: SlotLimit,
    pub(crate) slot_queue: Arc<SlotQueue>,
    pub(crate) time_to_first_content: Arc<Histogram>,
    pub(crate) breaker: SharedBreaker,
    pub(crate) measurements: Arc<Mutex<TargetMeasurements>>,
    pub(crate) pacing: Arc<Pacing>,
    pub(crate) health: Arc<SharedHealth>,
    /// Whether the settings name the model, and not the caller.
    is_model_configured: bool,
    /// The time to first content, where a route balances by it.
    pub(crate) latency: Arc<OnceLock<Mutex<PeakEwma>>>,
    /// With the first key.
    pub(crate) upstream: Arc<dyn Target>,
    /// All keys, if there are several.
    pub(crate) keys: Option<Arc<TargetKeys>>,
    protection: ProtectionSettings,
}

/// Settings of the protections.
#[derive(Clone)]
struct ProtectionSettings {
    concurrency: NonZeroU32,
    shares: SlotShares,
    breaker: BreakerSettings,
    pressure: PressureSettings,
}

impl GuardedTarget {
    /// A target without history.
    #[must_use]
    pub fn new(options: TargetOptions) -> Self {
        let TargetOptions {
            name,
            model,
            grade,
            price,
            price_status,
            input,
            max_output,
            output_limit_field,
            concurrency,
            shares,
            queue,
            breaker,
            pressure,
            upstream,
            more_keys,
        } = options;
        let measurements = TargetMeasurements {
            pressure: PressureGauge::new(pressure.clone()),
            gate: ThrottleGate::new(Timestamp::ZERO),
            baselines: Baselines::default(),
        };
        Self {
            name: name.into(),
            family: TokenizerFamily::of_model(&model),
            output: Arc::new(OutputHistory::of_model(&model)),
            model: model.into(),
            grade,
            price,
            price_status,
            input,
            max_output,
            output_limit_field,
            in_flight: SlotLimit::new(concurrency, shares),
            slot_queue: Arc::new(SlotQueue::new(queue)),
            time_to_first_content: Arc::default(),
            breaker: SharedBreaker::new(Breaker::new(breaker.clone())),
            measurements: Arc::new(Mutex::new(measurements)),
            pacing: Arc::default(),
            health: Arc::default(),
            is_model_configured: true,
            latency: Arc::default(),
            keys: TargetKeys::new(&upstream, more_keys).map(Arc::new),
            upstream,
            protection: ProtectionSettings { concurrency, shares, breaker, pressure },
        }
    }

    /// The same target with new settings. It shares history, slots and waiters with this one. New protection settings
    /// apply to both from [`apply_settings`](Self::apply_settings) on.
    #[must_use]
    pub fn with_settings(&self, options: TargetOptions) -> Self {
        let mut rebuilt = Self::new(options);
        // The output history belongs to the model, and the health to the connection.
        let is_same_model = self.model == rebuilt.model;
        let output = Arc::clone(if is_same_model { &self.output } else { &rebuilt.output });
        let is_same_connection = Arc::ptr_eq(&self.upstream, &rebuilt.upstream);
        let health = Arc::clone(if is_same_connection { &self.health } else { &rebuilt.health });
        let keys = rebuilt.keys.take().and_then(Arc::into_inner);
        Self {
            output,
            health,
            latency: Arc::clone(&self.latency),
            keys: keys.map(|keys| Arc::new(keys.continuing(self.keys.as_deref()))),
            in_flight: self.in_flight.clone(),
            slot_queue: Arc::clone(&self.slot_queue),
            time_to_first_content: Arc::clone(&self.time_to_first_content),
            breaker: self.breaker.clone(),
            measurements: Arc::clone(&self.measurements),
            pacing: Arc::clone(&self.pacing),
            ..rebuilt
        }
    }

    /// The same target for a model that a caller named. It shares everything but what belongs to the model.
    pub(crate) fn for_model(&self, model: &str, terms: &ModelTerms) -> Self {
        let ModelTerms { price, price_status, input, max_output } = *terms;
        Self {
            name: Arc::clone(&self.name),
            model: model.into(),
            grade: self.grade,
            price,
            price_status,
            input,
            max_output,
            output_limit_field: self.output_limit_field,
            family: TokenizerFamily::of_model(model),
            output: Arc::new(OutputHistory::of_model(model)),
            in_flight: self.in_flight.clone(),
            slot_queue: Arc::clone(&self.slot_queue),
            time_to_first_content: Arc::clone(&self.time_to_first_content),
            breaker: self.breaker.clone(),
            measurements: Arc::clone(&self.measurements),
            pacing: Arc::clone(&self.pacing),
            health: Arc::clone(&self.health),
            is_model_configured: false,
            latency: Arc::clone(&self.latency),
            keys: self.keys.as_ref().map(|keys| Arc::new(keys.for_model(model))),
            upstream: self.upstream.for_model(model).unwrap_or_else(|| Arc::clone(&self.upstream)),
            protection: self.protection.clone(),
        }
    }

    /// Applies the protection settings.
    pub fn apply_settings(&self, now: Timestamp) {
        let ProtectionSettings { concurrency, shares, breaker, pressure } = self.protection.clone();
        self.in_flight.set_limits(concurrency, shares);
        self.breaker.apply_settings(breaker, now);
        self.measurements().pressure.apply_settings(pressure);
        // The limit may have risen while requests wait for a slot.
        self.slot_queue.grant_free_slots(self, now);
    }

    /// The connection to the provider, with the first key.
    #[must_use]
    pub fn upstream(&self) -> Arc<dyn Target> {
        Arc::clone(&self.upstream)
    }

    /// The connection with each of the keys.
    #[must_use]
    pub fn upstreams(&self) -> Vec<Arc<dyn Target>> {
        match &self.keys {
            Some(keys) => keys.upstreams().to_vec(),
            None => vec![Arc::clone(&self.upstream)],
        }
    }

    /// The connection with the key of this position.
    pub(crate) fn upstream_with(&self, key: usize) -> &Arc<dyn Target> {
        self.keys.as_ref().and_then(|keys| keys.upstreams().get(key)).unwrap_or(&self.upstream)
    }

    /// The effect of an outcome on the health that its breaker counts.
    pub(crate) fn health_of(&self, outcome: &AttemptOutcome) -> Health {
        outcome.health(self.protection.breaker.slow_threshold())
    }

    /// What an outcome shows about the target.
    pub(crate) fn evidence(&self, outcome: &AttemptOutcome) -> Option<HealthEvidence> {
        HealthEvidence::of(outcome, self.protection.breaker.slow_threshold(), self.is_model_configured)
    }

    /// The maximum input tokens and the maximum output tokens of one call.
    pub(crate) fn output_bounds(&self) -> (u64, u64) {
        let window = self.input.window.unwrap_or(MAX_CONTEXT_WINDOW);
        (window, self.max_output.unwrap_or(window))
    }

    /// The output that a call may produce: the caller's limit, or what the remaining budget allows. The error says what
    /// has no bound or no price here.
    pub(crate) fn allowance(
        &self,
        input_bytes: u64,
        request: &DialectRequest,
        budget: impl FnOnce() -> OutputBudget,
    ) -> Result<OutputAllowance, String> {
        if self.price_status == PriceStatus::Missing {
            let model = &self.model;
            return Err(format!(
                "{model} has no price, and a budget applies; an operator can add its prices as [models.{model:?}]"
            ));
        }
        // An InvokeModel body of unknown format may be for an embedding model; any other answer would have no price.
        let may_embed = request.operation() == ModelOperation::Embed
            || request.operation() == ModelOperation::Generate && request.opaque_answers().is_some();
        if self.max_output == Some(0) && !may_embed {
            let model = &self.model;
            return Err(format!("{model} generates no answers: models.{model:?}.max_output is 0"));
        }
        if let Some(answers) = request.opaque_answers() {
            return Ok(OutputAllowance::opaque(self.opaque_output(answers)?));
        }
        let choices = request.choices();
        if let Some(limit) = request.max_output() {
            return Ok(OutputAllowance::of_request(limit, choices));
        }
        // The cost grows linearly with the output, so two points determine it.
        let bound = self.bound(input_bytes, request, OutputAllowance::of_request(1, 1))?;
        let dialect = request.dialect_at(&*self.upstream);
        let max_cost = |output| bound.max_cost_with_limit(output);
        Ok(OutputAllowance::without_limit(
            self.max_output,
            choices,
            dialect,
            &budget(),
            bound.input,
            max_cost,
        ))
    }

    /// The maximum output tokens of a request whose own limits cannot be parsed. The error says which property of the
    /// model is unknown. A free model needs no bound.
    fn opaque_output(&self, answers: u32) -> Result<u64, String> {
        let is_free = self.price.is_free();
        let unknown = |setting: &str| {
            let model = &self.model;
            format!(
                "the cost of this request cannot be bounded: it has no output limit that the gateway can read, and the \
                 {setting} of {model} is unknown; an operator can set models.{model:?}.{setting}"
            )
        };
        if !is_free && self.input.window.is_none() {
            return Err(unknown("context_window"));
        }
        match self.max_output {
            Some(max) => Ok(max.saturating_mul(answers.into())),
            None if is_free => Ok(0),
            None => Err(unknown("max_output")),
        }
    }

    /// The upper bound of a call with this request and output allowance. The error says what has no bound or no price
    /// here.
    pub(crate) fn bound(
        &self,
        input_bytes: u64,
        request: &DialectRequest,
        allowance: OutputAllowance,
    ) -> Result<CallBound, String> {
        let features = request.features();
        let untracked = features.map(|features| &features.untracked);
        let input =
            input_bound(input_bytes, untracked, &self.input).map_err(|problem| problem.to_string())?;
        let passes = request.passes_to(request.dialect_at(&*self.upstream));
        let pricing = features.filter(|_| passes).map(|features| &features.pricing);
        let uses_server_tools =
            passes && untracked.is_some_and(|untracked| untracked.tool_uses.is_some_and(|uses| uses > 0));
        let output = allowance.tokens;
        let reserved = OutputLimit::new(output).reserved();
        let cost = |output| {
            let cost = self.price.max_cost(input.tokens, output, input.tool_uses, pricing);
            cost.map_err(|unpriced| unpriced.to_string())
        };
        Ok(CallBound {
            input: input.tokens,
            output,
            added_limit: allowance.added_limit(),
            input_cost: cost(0)?,
            reserved,
            max_cost: cost(reserved)?,
            largest_feature: input.largest,
            service: pricing.map(|pricing| pricing.service).unwrap_or_default(),
            long_cache: pricing.is_some_and(|pricing| pricing.long_cache),
            // Thinking is translated, too.
            hides_output: uses_server_tools || request.enables_thinking(),
            rereads_input: uses_server_tools,
        })
    }
}

/// The upper bound of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallBound {
    /// Input tokens, over all rounds that the vendor makes.
    pub(crate) input: u64,
    /// Output tokens that the request allows.
    pub(crate) output: u64,
    /// The output limit that the gateway added.
    pub(crate) added_limit: Option<u32>,
    /// Output tokens that are reserved.
    reserved: u64,
    /// The maximum cost.
    pub(crate) max_cost: Money,
    /// The feature that accounts for most of the reserved input, if the input exceeds the body's bytes.
    pub(crate) largest_feature: Option<(InputFeature, u64)>,
    input_cost: Money,
    service: ServiceTier,
    long_cache: bool,
    /// Whether the request asks for output that is billed but not sent: thinking, or rounds of server tools.
    pub(crate) hides_output: bool,
    /// Whether the vendor may read the input again for each round of its server tools.
    pub(crate) rereads_input: bool,
}

impl CallBound {
    /// The maximum cost with this many output tokens.
    pub(crate) fn max_cost_for_output(&self, output: u64) -> Money {
        let all = u128::from(self.max_cost.saturating_sub(self.input_cost).as_nanos());
        let part = all.saturating_mul(output.into()).div_ceil(u128::from(self.reserved.max(1)));
        self.input_cost.saturating_add(Money::from_nanos(u64::try_from(part).unwrap_or(u64::MAX)))
    }

    /// The maximum cost if the request allowed this many output tokens.
    pub(crate) fn max_cost_with_limit(&self, output: u64) -> Money {
        self.max_cost_for_output(OutputLimit::new(output).reserved())
    }

    /// Records the service tier that the vendor reported, if any; otherwise the requested one stays.
    pub(crate) fn record_service_level(&mut self, service: ServiceTier) {
        self.service = service.or(self.service);
    }

    /// Completes the vendor's usage report: where it does not state the service tier, the requested one applies.
    pub(crate) fn completed(&self, usage: Usage) -> Usage {
        let extras = usage.extras.or_requested(usage.cache_write, self.service, self.long_cache);
        Usage { extras, ..usage }
    }
}
