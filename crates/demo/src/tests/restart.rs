//! Seawall is restarted while callers connect.

use crate::caller::{IDLE_TIMEOUT, RequestSender};
use crate::demo_gateway::DemoGateway as _;
use crate::models::ModelServers;
use crate::schedule::OutageSchedule;
use crate::seawall::{ROUTE, Seawall};
use crate::traffic::{DemoClient, DemoRequest};
use seawall_core::runtime::Timer as _;
use seawall_gateway::TokioRuntime;
use seawall_testkit::validator::ClientOutcome;
use std::time::Duration;
use tokio::task::JoinSet;

/// So long that no outage occurs while the test runs.
const CALM: OutageSchedule = OutageSchedule { duration: Duration::from_secs(1_000) };
const CALLERS: u32 = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_lost_during_a_restart() {
    let runtime = TokioRuntime::new();
    let models = ModelServers::start(CALM, 1).await.unwrap();
    let mut seawall = Seawall::start(models.address, 1_000, CALM.duration, runtime).await.unwrap();
    let sender = RequestSender {
        timer: runtime,
        address: seawall.address(),
        model: ROUTE,
        idle_timeout: IDLE_TIMEOUT,
    };
    let mut sending = JoinSet::new();
    sending.spawn(async move {
        let mut callers = JoinSet::new();
        for number in 0..CALLERS {
            runtime.sleep_until(runtime.monotonic() + Duration::from_millis(1)).await;
            let (at, question) = (Duration::ZERO, number.to_string());
            let scheduled = DemoRequest { at, client: DemoClient::Abusive, question, is_streamed: true };
            callers.spawn(async move { sender.send(&scheduled).await.outcome });
        }
        callers.join_all().await
    });
    for _ in 0..3 {
        runtime.sleep_until(runtime.monotonic() + Duration::from_millis(200)).await;
        seawall.stop().await.unwrap();
        seawall.restart().await.unwrap();
    }
    let outcomes = sending.join_next().await.unwrap().unwrap();
    seawall.stop().await.unwrap();
    // Most are rate-limited, which counts as served here.
    let is_served = |outcome: &&ClientOutcome| {
        matches!(outcome, ClientOutcome::Answered | ClientOutcome::Rejected { .. })
    };
    assert_eq!(outcomes.iter().filter(is_served).count(), 1_000, "{outcomes:?}");
}
