//! The whole request path with everything enabled, without a socket.
//!
//! Key check, five limits, reservation, breaker, pressure, concurrency slot, usage, settlement and counters, around a
//! target that answers at once. This is the maximum that protections can cost a request.

use bytes::Bytes;
use seawall_core::breaker::BreakerProfile;
use seawall_core::budget::BudgetOptions;
use seawall_core::credit::{RetryBudget, RetryBudgetOptions};
use seawall_core::deadline::TimeLimitOptions;
use seawall_core::evaluator::Posture;
use seawall_core::in_flight::SlotShares;
use seawall_core::money::{Money, Price};
use seawall_core::pressure::PressureOptions;
use seawall_core::queue::QueueOptions;
use seawall_core::quota::{CalendarPeriod, ComeBackRule, Quota, QuotaGroup, Unit};
use seawall_core::retry::RetryOptions;
use seawall_core::retry::{HedgeOptions, HedgePolicy};
use seawall_core::setting::SettingError;
use seawall_core::untracked::InputModel;
use seawall_core::vocabulary::{Grade, OutputLimitField};
use seawall_gateway::identity::credential_of_key;
use seawall_gateway::{AccessLog, Metrics, TokioRuntime};
use seawall_pipeline::callers::{CallerOptions, ListedKey};
use seawall_pipeline::guardrail::Guardrails;
use seawall_pipeline::speech::SpokenHeaders;
use seawall_pipeline::{
    ArrivalLimits, Arriving, Callers, Faces, GuardedTarget, InboundRequest, LimitRules, Limits, Path,
    PathOptions, ProofKind, Proven, ReplyContent, Route, RouteOptions, RuleOptions, TargetOptions, Tier,
};
use seawall_provider::{Answer, Call, Calling, Target, TargetDialect};
use seawall_store::{Books, NoJournal};
use seawall_wire::RequestLimits;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const KEY: &str = "sk-bench-0123456789abcdef";
const ASK: &str =
    r#"{"model":"manga","max_tokens":100,"messages":[{"role":"user","content":"What should I read next?"}]}"#;
const ANSWER: &[u8] = br#"{"id":"msg_1","type":"message","role":"assistant","model":"strong","content":[{"type":"text","text":"The lighthouse keeper's cat."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":12,"output_tokens":8}}"#;

struct AtOnce;

impl Target for AtOnce {
    fn dialect(&self) -> TargetDialect {
        TargetDialect::AnthropicMessages
    }

    fn call(&self, _: Call) -> Calling<'_> {
        Box::pin(std::future::ready(Ok(Answer::Whole { body: Bytes::from_static(ANSWER), told: None })))
    }
}

/// A function that runs one caller's request through the whole path, and returns whether it was answered.
pub(crate) fn one_request() -> Result<impl FnMut(u64) -> bool, SettingError> {
    let hash = credential_of_key(KEY);
    let mut ask = requests()?;
    Ok(move |id| ask(id, Proven::Credential { hash, proof: ProofKind::Key, tier: None }))
}

/// A function that runs any caller's request through the whole path, and returns whether it was answered.
pub(crate) fn requests() -> Result<impl FnMut(u64, Proven) -> bool, SettingError> {
    let (minute, most) = (Duration::from_secs(60), u32::MAX / 2);
    let group = |name: &str| {
        let quotas = vec![
            Quota::sliding("minute", Unit::Request, most, minute, 0)?,
            Quota::sliding("hour", Unit::Request, most, minute * 60, 0)?,
            Quota::calendar("day", Unit::Request, most, CalendarPeriod::Day)?,
        ];
        QuotaGroup::new(name, quotas)
    };
    let everybody = vec![
        Quota::sliding("minute", Unit::Request, most, minute, 0)?,
        Quota::rate("second", Unit::Request, 100_000_000, Duration::from_secs(1), most)?,
    ];
    let target = TargetOptions {
        name: "strong".to_owned(),
        model: "strong".to_owned(),
        grade: Grade::Strong,
        queue: QueueOptions::default().check()?,
        price: Price::per_million(Money::from_dollars(3), Money::from_dollars(15)).into(),
        input: InputModel::of("any", None),
        max_output: None,
        output_limit_field: OutputLimitField::MaxTokens,
        concurrency: 1_000,
        shares: SlotShares::default(),
        breaker: BreakerProfile::Sonnet.options().check()?,
        pressure: PressureOptions::default().check()?,
        upstream: Arc::new(AtOnce),
    };
    let listed = ListedKey { tier: Tier::Prime, routes: None };
    let callers = Callers::new(CallerOptions {
        keys: [(credential_of_key(KEY), listed)].into_iter().collect(),
        directory: None,
        believe_for: Duration::from_secs(10),
        find_within: Duration::from_millis(50),
        guests: false,
    });
    let metrics = Arc::new(Metrics::default());
    metrics.know(["manga"], ["strong"]);
    let log = AccessLog::new(metrics, TokioRuntime::new(), None, |caller| caller);
    let log = log.map_err(|error| SettingError::new("log", error.to_string()))?;
    let time = TimeLimitOptions::default().check();
    let rules = RuleOptions {
        callers: Arc::new(callers),
        limits: LimitRules {
            tiers: [group("prime")?, group("standard")?, group("guest")?],
            everybody: QuotaGroup::new("everybody", everybody)?,
            by_address: None,
            routes: Vec::new(),
            come_back: ComeBackRule::default(),
        },
        routes: vec![Route::new(RouteOptions {
            alias: "manga".to_owned(),
            faces: Faces::ALL,
            guest_faces: Faces::ALL,
            start_limit: Duration::from_secs(30),
            token_limit: None,
            falls_back: false,
            guardrails: Guardrails::default(),
            targets: vec![Arc::new(GuardedTarget::new(target)?)],
        })?],
        hedge: Arc::new(HedgePolicy::new(HedgeOptions::default())?),
        posture: Posture::default(),
        shared_caller_day: None,
        chat: None,
        retry: RetryOptions::interactive().check()?,
        time: time.map_err(|_| SettingError::new("time", "the default limits do not nest"))?,
        request: RequestLimits::default(),
        retry_budget: Arc::new(RetryBudget::new(RetryBudgetOptions::default())?),
        arrival: ArrivalLimits::each(minute),
    };
    let day =
        BudgetOptions { day: Money::MAX, caller_day: Money::MAX, ..BudgetOptions::default() }.check()?;
    let limits = Limits::local(rules.limits.groups(), 1)?;
    let options = PathOptions { rules, limits, books: Books::new(day, NoJournal), observer: Arc::new(log) };
    let path = Path::new(TokioRuntime::new(), options)?;
    Ok(move |id, proven| {
        let body = Bytes::from_static(ASK.as_bytes());
        let (arriving, headers, name) = (Arriving::Messages, SpokenHeaders::default(), None);
        let mut serving =
            pin!(path.serve(InboundRequest { id, arriving, proven, caller: None, body, headers, name }));
        // Nothing on this path waits, so one poll is enough.
        let reply = serving.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        matches!(reply, Poll::Ready(reply) if matches!(reply.content, ReplyContent::Whole(_)))
    })
}
