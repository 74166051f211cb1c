//! A small test deployment: three callers, two targets, a daily budget.

use crate::recorded::{RecordedAttempt, RecordedEvent, Records};
use bytes::{Bytes, BytesMut};
use seawall_assistant::router::Router;
use seawall_assistant::{
    AnswerSingleFlight, Assistant, AssistantContent, ChatInbound, ChatPromptOptions, ChatRules,
};
use seawall_core::balance::BalanceStrategy;
use seawall_core::breaker::BreakerProfile;
use seawall_core::budget::{BudgetAccount, BudgetOptions};
use seawall_core::cache_policy::{CacheAgeOptions, CacheStoreOptions, SingleFlightOptions};
use seawall_core::credit::{RetryBudget, RetryBudgetOptions};
use seawall_core::deadline::RungReserves;
use seawall_core::deadline::TimeLimitOptions;
use seawall_core::evaluator::{PlanPolicy, Protection};
use seawall_core::history::TokenLimits;
use seawall_core::hours::{HoursOptions, OffPeakOptions};
use seawall_core::in_flight::SlotShares;
use seawall_core::money::{Money, Price, PriceTable};
use seawall_core::pressure::PressureOptions;
use seawall_core::queue::QueueOptions;
use seawall_core::quota::{Quota, QuotaGroup, QuotaUnit, RetryAfterPolicy};
use seawall_core::retry::RetryOptions;
use seawall_core::retry::{HedgeOptions, HedgePolicy};
use seawall_core::strategy::Language;
use seawall_core::time::Timestamp;
use seawall_core::tokens::OverheadOptions;
use seawall_core::untracked::InputModel;
use seawall_core::vocabulary::{Grade, Mode, OutputLimitField};
use seawall_pipeline::callers::{CallerOptions, StaticKey};
use seawall_pipeline::dialect::{DialectHeaders, Face};
use seawall_pipeline::event::EventSinks;
use seawall_pipeline::guardrail::{DenyList, Guardrail, Guardrails};
use seawall_pipeline::{
    ApiOperation, BalanceOptions, CallerIdentity, CallerResolver, CredentialKind, Faces, GuardedTarget,
    InboundRequest, LimitRules, ModelTerms, Pipeline, PipelineOptions, PriceStatus, QuotaStore,
    ReceiveLimits, ReplyContent, ReplyStream, RequestRecord, Route, RouteOptions, RuleOptions, TargetOptions,
    Tier,
};
use seawall_provider::Target;
use seawall_sim::World;
use seawall_store::MemoryAnswers;
use seawall_store::{NoJournal, NodeLedger};
use seawall_wire::chat_face::ChatReplyEvent;
use seawall_wire::dialect::{DialectId, RequestOptions, route};
use seawall_wire::reply::ReplyEncoder;
use seawall_wire::{RequestLimits, anthropic};
use std::future::poll_fn;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

pub(crate) const PRIME: &str = "sk-prime-0000000000";
pub(crate) const GUEST: &str = "sk-guest-0000000001";

pub(crate) struct Shop {
    pub(crate) world: World,
    pub(crate) pipeline: Arc<Pipeline<World>>,
    pub(crate) assistant: Arc<Assistant<World>>,
    pub(crate) ledger: NodeLedger,
    records: Arc<Records>,
    /// When each request arrived, indexed by request id.
    arrivals: Mutex<Vec<Timestamp>>,
}

/// The settings that differ between tests.
pub(crate) struct Numbers {
    pub(crate) cap: Money,
    pub(crate) concurrency: u32,
    pub(crate) hedge: HedgeOptions,
    /// The daily budget of one caller, if lower than the whole.
    pub(crate) caller_cap: Option<Money>,
    /// Texts that are denied in questions and answers.
    pub(crate) deny: Vec<String>,
    /// The global limit on tokens per minute, if any.
    pub(crate) tokens: Option<u32>,
    /// The model's maximum output tokens, if known.
    pub(crate) max_output: Option<u64>,
    /// The model's context window in tokens, if known.
    pub(crate) window: Option<u64>,
    /// Whether limits are enforced or only observed.
    pub(crate) limits: Mode,
    /// The deadline of an API request.
    pub(crate) api: Duration,
    /// Whether every event is recorded.
    pub(crate) records_events: bool,
    /// How many of the two targets the route has.
    pub(crate) targets: usize,
    /// Further keys of the strong target, behind targets of their own.
    pub(crate) more_keys: Vec<Arc<dyn Target>>,
    /// Further targets with the model of the strong one.
    pub(crate) replicas: Vec<Arc<dyn Target>>,
    /// The model of these.
    pub(crate) replica_model: &'static str,
    /// How targets of the same model are balanced, by these weights; 1 where there is none.
    pub(crate) balance: (BalanceStrategy, Vec<u32>),
    /// Modifies the price table of both targets.
    pub(crate) surcharges: fn(PriceTable) -> PriceTable,
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            cap: Money::from_dollars(1_000),
            concurrency: 1_000,
            hedge: HedgeOptions::default(),
            caller_cap: None,
            deny: Vec::new(),
            tokens: None,
            max_output: None,
            window: None,
            limits: Mode::Enforce,
            api: Duration::from_secs(600),
            records_events: false,
            targets: 2,
            more_keys: Vec::new(),
            replicas: Vec::new(),
            replica_model: "strong-model",
            balance: (BalanceStrategy::Ordered, Vec::new()),
            surcharges: |price| price,
        }
    }
}

/// What a caller received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Unstreamed(Bytes),
    Stream(Vec<Bytes>),
    Rejected(seawall_pipeline::Rejection),
}

impl Shop {
    pub(crate) fn new(world: &World, strong: Arc<dyn Target>, fast: Arc<dyn Target>, cap: Money) -> Self {
        let callers = callers(&[(PRIME, Tier::Prime), (GUEST, Tier::Guest)]);
        let models = [("strong-model", 3_000_000_000, strong), ("fast-model", 1_000_000_000, fast)];
        Self::with(world, callers, models, cap)
    }

    /// A deployment with these callers, and models with these names and prices of a million input tokens.
    pub(crate) fn with(
        world: &World,
        callers: CallerResolver,
        models: [(&str, u64, Arc<dyn Target>); 2],
        cap: Money,
    ) -> Self {
        Self::with_options(world, callers, models, &Numbers { cap, ..Numbers::default() })
    }

    pub(crate) fn with_options(
        world: &World,
        callers: CallerResolver,
        [strong, fast]: [(&str, u64, Arc<dyn Target>); 2],
        numbers: &Numbers,
    ) -> Self {
        let Numbers { cap, concurrency, hedge, .. } = *numbers;
        let minute = Duration::from_secs(60);
        let tier = |name: &str, limit, burst, hour| {
            let quotas = vec![
                Quota::sliding("minute", QuotaUnit::Request, limit, minute, burst).unwrap(),
                Quota::sliding("hour", QuotaUnit::Request, hour, minute * 60, 0).unwrap(),
            ];
            QuotaGroup::new(name, quotas).unwrap()
        };
        let mut global = vec![Quota::sliding("minute", QuotaUnit::Request, 50_000, minute, 0).unwrap()];
        global.extend(
            numbers.tokens.map(|limit| Quota::sliding("tokens", QuotaUnit::Token, limit, minute, 0).unwrap()),
        );
        let target =
            |name: &str, (model, input, upstream): (&str, u64, Arc<dyn Target>), breaker: BreakerProfile| {
                let is_strong = breaker == BreakerProfile::Sonnet;
                let options = TargetOptions {
                    name: name.to_owned(),
                    model: model.to_owned(),
                    grade: if is_strong { Grade::Strong } else { Grade::Fast },
                    // Output costs five times as much as input.
                    price: (numbers.surcharges)(
                        Price::per_million(Money::from_nanos(input), Money::from_nanos(input * 5)).into(),
                    ),
                    price_status: PriceStatus::Known,
                    input: InputModel::of(model, numbers.window),
                    max_output: numbers.max_output,
                    output_limit_field: OutputLimitField::MaxTokens,
                    concurrency: NonZeroU32::new(concurrency).unwrap(),
                    shares: SlotShares::default(),
                    queue: QueueOptions::default().check().unwrap(),
                    breaker: breaker.options().check().unwrap(),
                    pressure: PressureOptions::default().check().unwrap(),
                    upstream,
                    more_keys: if name == "strong" { numbers.more_keys.clone() } else { Vec::new() },
                };
                Arc::new(GuardedTarget::new(options))
            };
        let mut targets = vec![
            target("strong", strong, BreakerProfile::Sonnet),
            target("fast", fast, BreakerProfile::Haiku),
        ];
        targets.truncate(numbers.targets);
        for (replica, number) in numbers.replicas.iter().zip(1..) {
            let name = format!("replica-{number}");
            targets.push(target(
                &name,
                (numbers.replica_model, 3_000_000_000, Arc::clone(replica)),
                BreakerProfile::Sonnet,
            ));
        }
        let (strategy, weights) = &numbers.balance;
        let weight = |index: usize| weights.get(index).copied().unwrap_or(1);
        let group = |index: usize| if index == 1 { "fast-model" } else { "strong-model" }.to_owned();
        let members = (0..targets.len()).map(|index| (group(index), weight(index))).collect();
        let balance = BalanceOptions { strategy: *strategy, members };
        let records = Arc::new(Records::new(numbers.records_events));
        let budget = BudgetOptions {
            day: cap,
            caller_day: numbers.caller_cap.unwrap_or(cap),
            ..BudgetOptions::default()
        };
        let ledger = NodeLedger::new(budget.check().unwrap(), NoJournal);
        let night = OffPeakOptions::of(HoursOptions::full_hours(23, 8, 9 * 60)).check().unwrap();
        let mut plan = PlanPolicy { off_peak: Some(night), ..PlanPolicy::default() };
        plan.protections.set_mode(Protection::RateLimit, numbers.limits);
        let chat = chat_rules(&numbers.deny);
        let rules = RuleOptions {
            callers: Arc::new(callers),
            limits: LimitRules {
                tiers: [
                    Some(tier("prime", 60_000, 10, 500_000)),
                    Some(tier("standard", 30, 5, 200)),
                    Some(tier("guest", 10, 2, 50)),
                ],
                global: QuotaGroup::new("global", global).unwrap(),
                by_address: None,
                routes: Vec::new(),
                retry_after: RetryAfterPolicy::default(),
                keys: Default::default(),
            },
            routes: vec![
                Route::new(RouteOptions {
                    alias: "manga".to_owned(),
                    faces: Faces::ALL,
                    guest_faces: Faces::ALL,
                    start_timeout: Duration::from_secs(30),
                    token_limit: numbers.tokens.map(u64::from),
                    fallback_texts: Arc::default(),
                    guardrails: chat.guardrails.clone(),
                    targets,
                    balance: (balance.strategy != BalanceStrategy::Ordered).then_some(balance),
                })
                .unwrap(),
            ],
            models: Arc::new(|_, model| ModelTerms {
                price: Price::per_million(Money::ZERO, Money::ZERO).into(),
                price_status: PriceStatus::Missing,
                input: InputModel::of(model, None),
                max_output: None,
            }),
            hedge: Arc::new(HedgePolicy::new(hedge).unwrap()),
            plan,
            shared_caller_budget: None,
            retry: RetryOptions::interactive().check().unwrap(),
            time: TimeLimitOptions { api: numbers.api, ..TimeLimitOptions::default() }.check().unwrap(),
            request: RequestLimits::default(),
            retry_budget: Arc::new(RetryBudget::new(RetryBudgetOptions::default()).unwrap()),
            receive: ReceiveLimits::uniform(minute),
            budgets: Default::default(),
        };
        let quotas = Arc::new(QuotaStore::local(rules.limits.groups(), 1).unwrap());
        let options = PipelineOptions {
            rules: rules.check(&quotas).unwrap(),
            quotas,
            ledger: ledger.clone(),
            events: Arc::new(EventSinks::new(vec![Arc::<Records>::clone(&records)])),
        };
        let pipeline = Arc::new(Pipeline::new(world.clone(), options));
        let assistant = Arc::new(Assistant::new(world.clone(), Arc::clone(&pipeline)));
        assistant.set_rules(Some(Arc::new(chat)));
        Self { world: world.clone(), pipeline, assistant, ledger, records, arrivals: Mutex::default() }
    }

    /// Sends one request and reads the reply to its end, or disconnects after this many chunks.
    pub(crate) fn ask(
        &self,
        key: &str,
        body: &str,
        give_up_after: Option<usize>,
    ) -> Arc<Mutex<Option<Seen>>> {
        self.ask_at(self.world.now(), key, body, give_up_after)
    }

    /// The same, recorded as having arrived at this time.
    pub(crate) fn ask_at(
        &self,
        arrived: Timestamp,
        key: &str,
        body: &str,
        give_up_after: Option<usize>,
    ) -> Arc<Mutex<Option<Seen>>> {
        self.ask_face_at(
            arrived,
            key,
            (FaceOperation::Api(ApiOperation::of(DialectId::ANTHROPIC_MESSAGES)), body.to_owned()),
            give_up_after,
        )
    }

    /// The same at any face.
    pub(crate) fn ask_face_at(
        &self,
        arrived: Timestamp,
        key: &str,
        (operation, body): (FaceOperation, String),
        give_up_after: Option<usize>,
    ) -> Arc<Mutex<Option<Seen>>> {
        let seen = Arc::new(Mutex::new(None));
        let received = Arc::clone(&seen);
        let id = {
            let mut arrivals = self.arrivals.lock().unwrap();
            arrivals.push(arrived);
            arrivals.len() as u64 - 1
        };
        let inbound = match operation {
            FaceOperation::Api(operation) => {
                Inbound::Api(InboundRequest { operation, ..inbound(id, key, &body) })
            }
            FaceOperation::Chat => Inbound::Chat(question(id, key, &body)),
        };
        self.send(inbound, received, give_up_after);
        seen
    }

    /// Sends a request as it is. It is not added to the arrivals.
    pub(crate) fn ask_as(&self, inbound: impl Into<Inbound>) -> Arc<Mutex<Option<Seen>>> {
        let seen = Arc::new(Mutex::new(None));
        self.send(inbound.into(), Arc::clone(&seen), None);
        seen
    }

    fn send(&self, inbound: Inbound, received: Arc<Mutex<Option<Seen>>>, give_up_after: Option<usize>) {
        let (pipeline, assistant) = (Arc::clone(&self.pipeline), Arc::clone(&self.assistant));
        self.world.spawn(async move {
            let seen = read_reply(&pipeline, &assistant, inbound, give_up_after).await;
            *received.lock().unwrap() = Some(seen);
        });
    }

    /// Sends one request and disconnects after this long, whatever has arrived by then.
    pub(crate) fn ask_for(&self, patience: Duration, key: &str, body: &str) {
        self.send_for(patience, inbound(0, key, body));
    }

    /// The same with a request as it is.
    pub(crate) fn send_for(&self, patience: Duration, inbound: impl Into<Inbound>) {
        let (pipeline, assistant) = (Arc::clone(&self.pipeline), Arc::clone(&self.assistant));
        let (world, inbound) = (self.world.clone(), inbound.into());
        self.world.spawn(async move {
            let mut serving =
                Box::pin(async move { read_reply(&pipeline, &assistant, inbound, Some(0)).await });
            let mut disconnected = Box::pin(world.sleep(patience));
            std::future::poll_fn(|context| {
                let _ = serving.as_mut().poll(context).is_ready();
                disconnected.as_mut().poll(context)
            })
            .await;
        });
    }

    /// Sends one request and runs the world until it is idle.
    pub(crate) fn ask_and_wait(&self, key: &str, body: &str) -> Seen {
        let seen = self.ask(key, body, None);
        self.world.run();
        let seen = seen.lock().unwrap().take();
        seen.unwrap()
    }

    pub(crate) fn attempts(&self) -> Vec<RecordedAttempt> {
        self.records.attempts()
    }

    /// Every event so far, in order.
    pub(crate) fn events(&self) -> Vec<RecordedEvent> {
        self.records.events()
    }

    pub(crate) fn records(&self) -> Vec<RequestRecord> {
        self.records.requests()
    }

    /// Every record with the arrival time of its request.
    pub(crate) fn arrivals(&self) -> Vec<(Timestamp, RequestRecord)> {
        let arrivals = self.arrivals.lock().unwrap();
        let at = |record: &RequestRecord| arrivals[usize::try_from(record.id).unwrap()];
        self.records().into_iter().map(|record| (at(&record), record)).collect()
    }

    /// What is posted and held today.
    pub(crate) fn day(&self) -> BudgetAccount {
        self.ledger.day(seawall_pipeline::Runtime::now(&self.world).utc.day())
    }
}

/// The chat with its default settings.
fn chat_rules(deny: &[String]) -> ChatRules {
    let ages = CacheAgeOptions::default().check().unwrap();
    let prompt = ChatPromptOptions {
        system: vec![("ja".to_owned(), "短く。".to_owned()), ("en".to_owned(), "Be brief.".to_owned())],
        temperature: Some(0.3),
        max_output: 100,
        history_turns: 10,
    };
    let guardrails: Vec<Arc<dyn Guardrail>> =
        if deny.is_empty() { Vec::new() } else { vec![Arc::new(DenyList::new(deny).unwrap())] };
    let router = Router::new(HoursOptions::full_hours(19, 23, 9 * 60).check().unwrap());
    ChatRules {
        route: "manga".to_owned(),
        router,
        model: "strong-model".to_owned(),
        prompt: prompt.check().unwrap(),
        tokens: TokenLimits::default(),
        overhead: OverheadOptions::default(),
        prompt_version: "1".to_owned(),
        catalogue_version: "1".to_owned(),
        guardrails: Guardrails(guardrails),
        ages,
        reserves: RungReserves::chat(),
        answer_cache: Arc::new(MemoryAnswers::new(ages, CacheStoreOptions::default(), 1_000).unwrap()),
        single_flight: Arc::new(AnswerSingleFlight::new(SingleFlightOptions::default().check().unwrap())),
        language: Language::Japanese,
    }
}

/// What a request asks for: an operation of a vendor's dialect, or the chat.
#[derive(Clone)]
pub(crate) enum FaceOperation {
    Api(ApiOperation),
    Chat,
}

impl FaceOperation {
    /// The operation of a vendor's dialect.
    pub(crate) fn api(self) -> ApiOperation {
        match self {
            Self::Api(operation) => operation,
            Self::Chat => panic!("the chat has no dialect"),
        }
    }
}

/// A request of either kind.
pub(crate) enum Inbound {
    Api(InboundRequest),
    Chat(ChatInbound),
}

impl From<InboundRequest> for Inbound {
    fn from(inbound: InboundRequest) -> Self {
        Self::Api(inbound)
    }
}

impl From<ChatInbound> for Inbound {
    fn from(inbound: ChatInbound) -> Self {
        Self::Chat(inbound)
    }
}

/// A stream in the caller's dialect, as the gateway's edge encodes it.
pub(crate) struct Encoded {
    pub(crate) stream: Box<ReplyStream<World>>,
    encoder: ReplyEncoder,
}

impl Encoded {
    pub(crate) fn new(stream: Box<ReplyStream<World>>) -> Self {
        let encoder = stream.encoder().unwrap();
        Self { stream, encoder }
    }

    pub(crate) async fn chunk(&mut self) -> Option<Bytes> {
        poll_fn(|context| self.poll_chunk(context)).await
    }

    pub(crate) fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Self { stream, encoder } = self;
        loop {
            let Some(event) = ready!(stream.poll_event(context)) else { return Poll::Ready(None) };
            let bytes = encoder.encode(event, || stream.take_ready());
            if !bytes.is_empty() {
                return Poll::Ready(Some(bytes));
            }
        }
    }
}

fn sse(events: &[ChatReplyEvent]) -> Bytes {
    let mut out = BytesMut::new();
    events.iter().for_each(|event| event.write_sse(&mut out));
    out.freeze()
}

/// Serves a request and reads its reply to the end, or up to this many chunks.
async fn read_reply(
    pipeline: &Pipeline<World>,
    assistant: &Assistant<World>,
    inbound: Inbound,
    give_up_after: Option<usize>,
) -> Seen {
    let mut chunks = Vec::new();
    let reads_on = |chunks: &Vec<Bytes>| give_up_after.is_none_or(|max_chunks| chunks.len() < max_chunks);
    match inbound {
        Inbound::Api(inbound) => {
            let dialect = inbound.operation.dialect;
            match pipeline.serve(inbound).await.content {
                ReplyContent::Unstreamed(answer) => Seen::Unstreamed(answer.content.encode(dialect)),
                ReplyContent::Rejected(rejection) => Seen::Rejected(rejection),
                ReplyContent::CompleteStream(events, mut encoder) => {
                    let mut out = BytesMut::new();
                    events.iter().for_each(|event| encoder.append(&mut out, event));
                    Seen::Stream(vec![out.freeze()])
                }
                ReplyContent::Stream(stream) => {
                    let mut stream = Encoded::new(stream);
                    while reads_on(&chunks) {
                        let Some(chunk) = stream.chunk().await else { break };
                        chunks.push(chunk);
                    }
                    Seen::Stream(chunks)
                }
            }
        }
        Inbound::Chat(inbound) => match assistant.serve(inbound).await.content {
            AssistantContent::Whole(reply) => Seen::Unstreamed(reply.body()),
            AssistantContent::CompleteStream(reply) => Seen::Stream(vec![sse(&reply.into_events())]),
            AssistantContent::Rejected(rejection) => Seen::Rejected(rejection),
            AssistantContent::Stream(mut stream) => {
                while reads_on(&chunks) {
                    let Some(event) = stream.event().await else { break };
                    chunks.push(sse(&[event]));
                }
                Seen::Stream(chunks)
            }
        },
    }
}

/// A question to the chat.
pub(crate) fn question(id: u64, key: &str, body: &str) -> ChatInbound {
    let InboundRequest { id, identity, caller, body, idempotency_key, .. } = inbound(id, key, body);
    ChatInbound { id, body, accepts_stream: false, identity, caller, idempotency_key }
}

/// The hash by which callers are looked up.
fn hash(key: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    for (place, byte) in key.bytes().enumerate() {
        hash[place % 32] ^= byte.rotate_left(u32::try_from(place / 32).unwrap());
    }
    // The first eight bytes become the caller's number, and the test keys have a common prefix.
    hash.rotate_left(key.len().min(32) % 32);
    hash.reverse();
    hash
}

pub(crate) fn callers(keys: &[(&str, Tier)]) -> CallerResolver {
    let listed = |(key, tier): &(&str, Tier)| {
        (hash(key), StaticKey { tier: *tier, routes: None, contract: Default::default() })
    };
    CallerResolver::new(CallerOptions {
        keys: keys.iter().map(listed).collect(),
        directory: None,
        cache_ttl: Duration::from_secs(10),
        lookup_timeout: Duration::from_millis(50),
        allows_guests: false,
    })
}

pub(crate) fn inbound(id: u64, key: &str, body: &str) -> InboundRequest {
    InboundRequest {
        id,
        operation: ApiOperation::of(DialectId::ANTHROPIC_MESSAGES),
        identity: CallerIdentity::Credential { hash: hash(key), kind: CredentialKind::Key, tier: None },
        caller: None,
        body: Bytes::copy_from_slice(body.as_bytes()),
        headers: DialectHeaders::default(),
        idempotency_key: None,
    }
}

/// The same question at any face.
pub(crate) fn at_face(face: Face, stream: bool) -> (FaceOperation, String) {
    let Some(dialect) = face.dialect() else {
        let body = format!(r#"{{"message":"おすすめは？","stream":{stream}}}"#);
        return (FaceOperation::Chat, body);
    };
    let limits = RequestLimits::default();
    let chat = anthropic::read_chat_request(body(stream).as_bytes(), &limits).unwrap();
    let options = RequestOptions {
        model: "manga",
        limit: None,
        limit_field: OutputLimitField::MaxTokens,
        betas: &[],
        limits: &limits,
    };
    let body = dialect.write_request(&chat, &options).unwrap();
    let (_, url) = route(&dialect.path("manga", stream)).unwrap();
    let operation = ApiOperation { dialect, url: url.unwrap() };
    (FaceOperation::Api(operation), String::from_utf8(body.to_vec()).unwrap())
}

pub(crate) fn body(stream: bool) -> String {
    format!(
        r#"{{"model":"manga","max_tokens":100,"stream":{stream},"messages":[{{"role":"user","content":"おすすめは？"}}]}}"#
    )
}
