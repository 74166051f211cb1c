//! The whole request path with everything enabled, without a socket.
//!
//! Key check, five limits, reservation, breaker, pressure, concurrency slot, usage, settlement and counters, around a
//! target that answers at once. This is the maximum that protections can cost a request.

use bytes::Bytes;
use seawall_core::breaker::BreakerProfile;
use seawall_core::budget::BudgetOptions;
use seawall_core::credit::{RetryBudget, RetryBudgetOptions};
use seawall_core::deadline::TimeLimitOptions;
use seawall_core::evaluator::PlanPolicy;
use seawall_core::in_flight::SlotShares;
use seawall_core::money::{Money, Price};
use seawall_core::pressure::PressureOptions;
use seawall_core::queue::QueueOptions;
use seawall_core::quota::{CalendarPeriod, Quota, QuotaGroup, QuotaUnit, RetryAfterPolicy};
use seawall_core::retry::RetryOptions;
use seawall_core::retry::{HedgeOptions, HedgePolicy};
use seawall_core::setting::SettingError;
use seawall_core::untracked::InputModel;
use seawall_core::vocabulary::{Grade, OutputLimitField};
use seawall_gateway::diagnostics::DiagnosticSink;
use seawall_gateway::identity::hash_api_key;
use seawall_gateway::{Metrics, RequestLog, Supervisor, TokioRuntime};
use seawall_pipeline::callers::{CallerOptions, StaticKey};
use seawall_pipeline::dialect::DialectHeaders;
use seawall_pipeline::event::EventSinks;
use seawall_pipeline::guardrail::Guardrails;
use seawall_pipeline::{
    ApiOperation, CallerIdentity, CallerResolver, CredentialKind, Faces, GuardedTarget, InboundRequest,
    LimitRules, ModelTerms, Pipeline, PipelineOptions, PriceStatus, QuotaStore, ReceiveLimits, ReplyContent,
    Route, RouteOptions, RuleOptions, TargetOptions, Tier,
};
use seawall_provider::{Call, CallFuture, Target, UpstreamResponse};
use seawall_store::{NoJournal, NodeLedger};
use seawall_wire::RequestLimits;
use seawall_wire::dialect::DialectId;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const KEY: &str = "sk-bench-0123456789abcdef";
const REQUEST: &str =
    r#"{"model":"manga","max_tokens":100,"messages":[{"role":"user","content":"What should I read next?"}]}"#;
const ANSWER: &[u8] = br#"{"id":"msg_1","type":"message","role":"assistant","model":"strong","content":[{"type":"text","text":"The lighthouse keeper's cat."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":12,"output_tokens":8}}"#;

struct ImmediateTarget;

impl Target for ImmediateTarget {
    fn dialect(&self) -> DialectId {
        DialectId::ANTHROPIC_MESSAGES
    }

    fn call(&self, _: Call) -> CallFuture<'_> {
        Box::pin(std::future::ready(Ok(UpstreamResponse::Unstreamed {
            body: Bytes::from_static(ANSWER),
            report: None,
        })))
    }
}

/// A function that runs one caller's request through the whole path, and returns whether it was answered.
pub(crate) fn one_request() -> Result<impl FnMut(u64) -> bool, SettingError> {
    let hash = hash_api_key(KEY);
    let mut send = requests()?;
    Ok(move |id| send(id, CallerIdentity::Credential { hash, kind: CredentialKind::Key, tier: None }))
}

/// A function that runs any caller's request through the whole path, and returns whether it was answered.
pub(crate) fn requests() -> Result<impl FnMut(u64, CallerIdentity) -> bool, SettingError> {
    let (minute, wide) = (Duration::from_secs(60), u32::MAX / 2);
    let group = |name: &str| {
        let quotas = vec![
            Quota::sliding("minute", QuotaUnit::Request, wide, minute, 0)?,
            Quota::sliding("hour", QuotaUnit::Request, wide, minute * 60, 0)?,
            Quota::calendar("day", QuotaUnit::Request, wide, CalendarPeriod::Day)?,
        ];
        QuotaGroup::new(name, quotas)
    };
    let global = vec![
        Quota::sliding("minute", QuotaUnit::Request, wide, minute, 0)?,
        Quota::rate("second", QuotaUnit::Request, 100_000_000, Duration::from_secs(1), wide)?,
    ];
    let target = TargetOptions {
        name: "strong".to_owned(),
        model: "strong".to_owned(),
        grade: Grade::Strong,
        queue: QueueOptions::default().check()?,
        price: Price::per_million(Money::from_dollars(3), Money::from_dollars(15)).into(),
        price_status: PriceStatus::Known,
        input: InputModel::of("any", None),
        max_output: None,
        output_limit_field: OutputLimitField::MaxTokens,
        concurrency: const { NonZeroU32::new(1_000).unwrap() },
        shares: SlotShares::default(),
        breaker: BreakerProfile::Sonnet.options().check()?,
        pressure: PressureOptions::default().check()?,
        upstream: Arc::new(ImmediateTarget),
        more_keys: Vec::new(),
    };
    let listed = StaticKey { tier: Tier::Prime, routes: None, contract: Default::default() };
    let callers = CallerResolver::new(CallerOptions {
        keys: [(hash_api_key(KEY), listed)].into_iter().collect(),
        directory: None,
        cache_ttl: Duration::from_secs(10),
        lookup_timeout: Duration::from_millis(50),
        allows_guests: false,
    });
    let metrics = Arc::new(Metrics::default());
    metrics.register_names(["manga"], ["strong"]);
    let log = RequestLog::new(TokioRuntime::new(), None, false, |caller| caller, &Supervisor::default());
    let log = log.map_err(|error| SettingError::new("log", error.to_string()))?;
    let events = Arc::new(EventSinks::new(vec![metrics, Arc::new(log), Arc::new(DiagnosticSink)]));
    let time = TimeLimitOptions::default().check();
    let rules = RuleOptions {
        callers: Arc::new(callers),
        limits: LimitRules {
            tiers: [Some(group("prime")?), Some(group("standard")?), Some(group("guest")?)],
            global: QuotaGroup::new("global", global)?,
            by_address: None,
            routes: Vec::new(),
            retry_after: RetryAfterPolicy::default(),
            keys: Default::default(),
        },
        routes: vec![Route::new(RouteOptions {
            alias: "manga".to_owned(),
            faces: Faces::ALL,
            guest_faces: Faces::ALL,
            start_timeout: Duration::from_secs(30),
            token_limit: None,
            fallback_texts: Arc::default(),
            guardrails: Guardrails::default(),
            targets: vec![Arc::new(GuardedTarget::new(target))],
            balance: None,
        })?],
        models: Arc::new(|_, model| ModelTerms {
            price: Price::per_million(Money::ZERO, Money::ZERO).into(),
            price_status: PriceStatus::Missing,
            input: InputModel::of(model, None),
            max_output: None,
        }),
        hedge: Arc::new(HedgePolicy::new(HedgeOptions::default())?),
        plan: PlanPolicy::default(),
        shared_caller_budget: None,
        retry: RetryOptions::interactive().check()?,
        time: time.map_err(|_| SettingError::new("time", "the default limits do not nest"))?,
        request: RequestLimits::default(),
        retry_budget: Arc::new(RetryBudget::new(RetryBudgetOptions::default())?),
        receive: ReceiveLimits::uniform(minute),
        budgets: Default::default(),
    };
    let day =
        BudgetOptions { day: Money::MAX, caller_day: Money::MAX, ..BudgetOptions::default() }.check()?;
    let quotas = Arc::new(QuotaStore::local(rules.limits.groups(), 1)?);
    let rules = rules.check(&quotas)?;
    let options = PipelineOptions { rules, quotas, ledger: NodeLedger::new(day, NoJournal), events };
    let pipeline = Pipeline::new(TokioRuntime::new(), options);
    Ok(move |id, identity| {
        let body = Bytes::from_static(REQUEST.as_bytes());
        let (operation, headers) =
            (ApiOperation::of(DialectId::ANTHROPIC_MESSAGES), DialectHeaders::default());
        let mut serving = pin!(pipeline.serve(InboundRequest {
            id,
            operation,
            identity,
            caller: None,
            body,
            headers,
            idempotency_key: None
        }));
        // Nothing on this path waits, so one poll is enough.
        let reply = serving.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        matches!(reply, Poll::Ready(reply) if matches!(reply.content, ReplyContent::Unstreamed(_)))
    })
}
