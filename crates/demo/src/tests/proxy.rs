//! The plain proxy behaves as a good proxy does.

use crate::caller::{CallerResult, IDLE_TIMEOUT, RequestSender};
use crate::plain_proxy::{PlainProxy, ProxyTimeouts, UPSTREAM_IDLE_TIMEOUT};
use crate::traffic::{DemoClient, DemoRequest};
use seawall_gateway::TokioRuntime;
use seawall_model::engine::{Engine, Fault, FaultRule, ModelOptions, Pace};
use seawall_model::server::ModelServer;
use seawall_testkit::validator::ClientOutcome;
use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinSet;

async fn model(faults: Vec<FaultRule>, pace: Pace) -> (SocketAddr, JoinSet<()>) {
    let engine = Engine::new(ModelOptions { seed: 1, faults, pace }).unwrap();
    let server = ModelServer::bind(engine, SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = server.address().unwrap();
    let mut serving = JoinSet::new();
    serving.spawn(server.run(pending(), Duration::ZERO));
    (address, serving)
}

async fn send(proxy: &PlainProxy, is_streamed: bool) -> CallerResult {
    let question = "漫画？".to_owned();
    let scheduled =
        DemoRequest { at: Duration::ZERO, client: DemoClient::Customer(1), question, is_streamed };
    sender(proxy, "sonnet", IDLE_TIMEOUT).send(&scheduled).await
}

fn sender(proxy: &PlainProxy, model: &'static str, idle_timeout: Duration) -> RequestSender<TokioRuntime> {
    RequestSender { timer: TokioRuntime::new(), address: proxy.address(), model, idle_timeout }
}

const TIMEOUTS: ProxyTimeouts = ProxyTimeouts { idle_timeout: UPSTREAM_IDLE_TIMEOUT, drain: Duration::ZERO };

#[tokio::test]
async fn responses_of_the_model_pass_through_unchanged() {
    let of = |fault| vec![FaultRule::always(fault)];
    let rejected = ClientOutcome::Rejected { status: 429, has_retry_advice: true };
    let throttled = Fault::Status { status: 429, retry_after: Some(Duration::from_secs(1)), error: None };
    for (faults, streamed, whole, has_text) in [
        (Vec::new(), ClientOutcome::Answered, ClientOutcome::Answered, true),
        (of(throttled), rejected, rejected, false),
        (of(Fault::Reset), ClientOutcome::Lost, ClientOutcome::Lost, false),
        (of(Fault::cut(3)), ClientOutcome::Cut, ClientOutcome::Answered, true),
        (of(Fault::cut(1)), ClientOutcome::Cut, ClientOutcome::Lost, false),
        (of(Fault::EndEarly { after: 3 }), ClientOutcome::FalselyComplete, ClientOutcome::Answered, true),
        (
            of(Fault::Truncate { after: 1 }),
            ClientOutcome::FalselyComplete,
            ClientOutcome::FalselyComplete,
            false,
        ),
        (
            of(Fault::Error { after: 3 }),
            ClientOutcome::Interrupted,
            ClientOutcome::Rejected { status: 529, has_retry_advice: false },
            true,
        ),
    ] {
        let (address, _serving) = model(faults.clone(), Pace::Instant).await;
        let proxy = PlainProxy::start(address, TokioRuntime::new(), TIMEOUTS).unwrap();
        // Twice, because the second request uses a pooled connection.
        for _ in 0..2 {
            assert_eq!(send(&proxy, true).await.outcome, streamed, "{faults:?}");
            assert_eq!(send(&proxy, false).await.outcome, whole, "{faults:?}");
        }
        assert!(
            proxy.idle_connections() <= 1,
            "{faults:?}: one connection is enough for sequential requests"
        );
        assert_eq!(send(&proxy, true).await.time_to_first_text.is_some(), has_text, "{faults:?}");
    }
}

#[tokio::test]
async fn a_model_that_is_not_there_is_a_bad_gateway() {
    let unused = seawall_testkit::ReservedPort::reserve().unwrap();
    let proxy = PlainProxy::start(unused.address, TokioRuntime::new(), TIMEOUTS).unwrap();
    assert_eq!(send(&proxy, true).await.outcome, ClientOutcome::Lost);
}

#[tokio::test]
async fn a_restart_finishes_requests_in_flight_and_serves_new_ones_afterwards() {
    let (address, _serving) = model(Vec::new(), Pace::Real).await;
    let mut proxy = PlainProxy::start(
        address,
        TokioRuntime::new(),
        ProxyTimeouts { drain: Duration::from_secs(5), ..TIMEOUTS },
    )
    .unwrap();
    let scheduled = |question: &str| DemoRequest {
        at: Duration::ZERO,
        client: DemoClient::Customer(1),
        question: question.to_owned(),
        is_streamed: true,
    };
    let (runtime, sender) = (TokioRuntime::new(), sender(&proxy, "haiku", IDLE_TIMEOUT));
    let (first, second) = (scheduled("a"), scheduled("b"));
    let in_flight = sender.send(&first);
    let restart = async {
        use seawall_core::runtime::Timer as _;
        runtime.sleep_until(runtime.monotonic() + Duration::from_millis(100)).await;
        proxy.stop().await;
        let waiting = sender.send(&second);
        let again = async {
            runtime.sleep_until(runtime.monotonic() + Duration::from_millis(150)).await;
            proxy.restart().unwrap();
        };
        tokio::join!(waiting, again).0
    };
    let (in_flight, waiting) = tokio::join!(in_flight, restart);
    assert_eq!((in_flight.outcome, waiting.outcome), (ClientOutcome::Answered, ClientOutcome::Answered));
    assert!(waiting.time_to_first_text.unwrap() >= Duration::from_millis(150 + 250));
}

#[tokio::test]
async fn a_kept_connection_serves_the_next_request() {
    let (address, _serving) = model(Vec::new(), Pace::Instant).await;
    let proxy = PlainProxy::start(address, TokioRuntime::new(), TIMEOUTS).unwrap();
    for _ in 0..3 {
        assert_eq!(send(&proxy, true).await.outcome, ClientOutcome::Answered);
        assert_eq!(proxy.idle_connections(), 1);
    }
}

#[tokio::test]
async fn a_silent_model_is_given_up_and_so_is_a_silent_proxy() {
    let short = Duration::from_millis(150);
    for (after, proxy_gives_up) in [(0, ClientOutcome::Lost), (3, ClientOutcome::Cut)] {
        let (address, _serving) = model(vec![FaultRule::always(Fault::Hang { after })], Pace::Instant).await;
        let proxy = PlainProxy::start(
            address,
            TokioRuntime::new(),
            ProxyTimeouts { idle_timeout: short, ..TIMEOUTS },
        )
        .unwrap();
        assert_eq!(send(&proxy, true).await.outcome, proxy_gives_up, "after {after}");
        let proxy = PlainProxy::start(address, TokioRuntime::new(), TIMEOUTS).unwrap();
        let scheduled = DemoRequest {
            at: Duration::ZERO,
            client: DemoClient::Abusive,
            question: "?".to_owned(),
            is_streamed: true,
        };
        assert_eq!(
            sender(&proxy, "sonnet", short).send(&scheduled).await.outcome,
            ClientOutcome::Hung,
            "after {after}"
        );
    }
}

#[tokio::test]
async fn a_request_without_a_server_is_lost() {
    let unused = seawall_testkit::ReservedPort::reserve().unwrap();
    let idle_timeout = Duration::from_millis(250);
    let sender =
        RequestSender { timer: TokioRuntime::new(), address: unused.address, model: "sonnet", idle_timeout };
    let scheduled = DemoRequest {
        at: Duration::ZERO,
        client: DemoClient::Abusive,
        question: "?".to_owned(),
        is_streamed: true,
    };
    assert_eq!(sender.send(&scheduled).await.outcome, ClientOutcome::Lost);
}
