//! The plain proxy behaves as a good proxy does.

use crate::caller::{Caller, Got, PATIENCE};
use crate::judge::Verdict;
use crate::plain::{Plain, SILENCE, Waits};
use crate::traffic::{Arrival, Who};
use seawall_gateway::TokioRuntime;
use seawall_model::engine::{Engine, Fault, FaultRule, ModelOptions, Pace};
use seawall_model::server::ModelServer;
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

async fn asked(proxy: &Plain, is_streamed: bool) -> Got {
    let question = "漫画？".to_owned();
    let arrival = Arrival { at: Duration::ZERO, who: Who::Shopper(1), question, is_streamed };
    asking(proxy, "sonnet", PATIENCE).ask(&arrival).await
}

fn asking(proxy: &Plain, model: &'static str, patience: Duration) -> Caller<TokioRuntime> {
    Caller { timer: TokioRuntime::new(), address: proxy.address(), model, patience }
}

const WAITS: Waits = Waits { silence: SILENCE, drain: Duration::ZERO };

#[tokio::test]
async fn what_a_model_says_comes_through_as_it_is() {
    let of = |fault| vec![FaultRule::always(fault)];
    let refused = Verdict::Refused { status: 429, has_hint: true };
    let throttled = Fault::Status { status: 429, retry_after: Some(Duration::from_secs(1)), error: None };
    for (faults, streamed, whole, has_text) in [
        (Vec::new(), Verdict::Answered, Verdict::Answered, true),
        (of(throttled), refused, refused, false),
        (of(Fault::Reset), Verdict::Lost, Verdict::Lost, false),
        (of(Fault::cut(3)), Verdict::Cut, Verdict::Answered, true),
        (of(Fault::cut(1)), Verdict::Cut, Verdict::Lost, false),
        (of(Fault::EndEarly { after: 3 }), Verdict::LookedComplete, Verdict::Answered, true),
        (of(Fault::Truncate { after: 1 }), Verdict::LookedComplete, Verdict::LookedComplete, false),
        (
            of(Fault::Error { after: 3 }),
            Verdict::BrokenOff,
            Verdict::Refused { status: 529, has_hint: false },
            true,
        ),
    ] {
        let (address, _serving) = model(faults.clone(), Pace::Instant).await;
        let proxy = Plain::start(address, TokioRuntime::new(), WAITS).unwrap();
        // Twice, because the second request uses a pooled connection.
        for _ in 0..2 {
            assert_eq!(asked(&proxy, true).await.verdict, streamed, "{faults:?}");
            assert_eq!(asked(&proxy, false).await.verdict, whole, "{faults:?}");
        }
        assert!(proxy.kept() <= 1, "{faults:?}: one connection is enough for who asks one by one");
        assert_eq!(asked(&proxy, true).await.first_text.is_some(), has_text, "{faults:?}");
    }
}

#[tokio::test]
async fn a_model_that_is_not_there_is_a_bad_gateway() {
    let nobody = crate::port::Port::free().unwrap();
    let proxy = Plain::start(nobody.address, TokioRuntime::new(), WAITS).unwrap();
    assert_eq!(asked(&proxy, true).await.verdict, Verdict::Lost);
}

#[tokio::test]
async fn a_restart_lets_what_is_under_way_finish_and_who_knocks_meanwhile_is_served_after_it() {
    let (address, _serving) = model(Vec::new(), Pace::Real).await;
    let mut proxy =
        Plain::start(address, TokioRuntime::new(), Waits { drain: Duration::from_secs(5), ..WAITS }).unwrap();
    let arrival = |question: &str| Arrival {
        at: Duration::ZERO,
        who: Who::Shopper(1),
        question: question.to_owned(),
        is_streamed: true,
    };
    let (runtime, caller) = (TokioRuntime::new(), asking(&proxy, "haiku", PATIENCE));
    let (first, second) = (arrival("a"), arrival("b"));
    let under_way = caller.ask(&first);
    let restart = async {
        use seawall_core::handle::Timer as _;
        runtime.sleep_until(runtime.monotonic() + Duration::from_millis(100)).await;
        proxy.stop().await;
        let knocking = caller.ask(&second);
        let again = async {
            runtime.sleep_until(runtime.monotonic() + Duration::from_millis(150)).await;
            proxy.start_again().unwrap();
        };
        tokio::join!(knocking, again).0
    };
    let (under_way, knocking) = tokio::join!(under_way, restart);
    assert_eq!((under_way.verdict, knocking.verdict), (Verdict::Answered, Verdict::Answered));
    assert!(knocking.first_text.unwrap() >= Duration::from_millis(150 + 250));
}

#[tokio::test]
async fn a_kept_connection_serves_the_next_request() {
    let (address, _serving) = model(Vec::new(), Pace::Instant).await;
    let proxy = Plain::start(address, TokioRuntime::new(), WAITS).unwrap();
    for _ in 0..3 {
        assert_eq!(asked(&proxy, true).await.verdict, Verdict::Answered);
        assert_eq!(proxy.kept(), 1);
    }
}

#[tokio::test]
async fn a_silent_model_is_given_up_and_so_is_a_silent_proxy() {
    let short = Duration::from_millis(150);
    for (after, proxy_gives_up) in [(0, Verdict::Lost), (3, Verdict::Cut)] {
        let (address, _serving) = model(vec![FaultRule::always(Fault::Hang { after })], Pace::Instant).await;
        let proxy = Plain::start(address, TokioRuntime::new(), Waits { silence: short, ..WAITS }).unwrap();
        assert_eq!(asked(&proxy, true).await.verdict, proxy_gives_up, "after {after}");
        let proxy = Plain::start(address, TokioRuntime::new(), WAITS).unwrap();
        let arrival =
            Arrival { at: Duration::ZERO, who: Who::Flooder, question: "?".to_owned(), is_streamed: true };
        assert_eq!(
            asking(&proxy, "sonnet", short).ask(&arrival).await.verdict,
            Verdict::Hung,
            "after {after}"
        );
    }
}

#[tokio::test]
async fn who_knocks_where_nobody_comes_is_lost() {
    let nobody = crate::port::Port::free().unwrap();
    let patience = Duration::from_millis(250);
    let caller = Caller { timer: TokioRuntime::new(), address: nobody.address, model: "sonnet", patience };
    let arrival =
        Arrival { at: Duration::ZERO, who: Who::Flooder, question: "?".to_owned(), is_streamed: true };
    assert_eq!(caller.ask(&arrival).await.verdict, Verdict::Lost);
}
