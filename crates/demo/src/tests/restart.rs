//! Seawall is restarted while callers connect.

use crate::caller::{Caller, PATIENCE};
use crate::front::Front as _;
use crate::judge::Verdict;
use crate::models::Models;
use crate::seawall::{ROUTE, Seawall};
use crate::timetable::Timetable;
use crate::traffic::{Arrival, Who};
use seawall_core::handle::Timer as _;
use seawall_gateway::TokioRuntime;
use std::time::Duration;
use tokio::task::JoinSet;

/// So long that no outage occurs while the test runs.
const CALM: Timetable = Timetable { whole: Duration::from_secs(1_000) };
const CALLERS: u32 = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_who_comes_while_it_is_started_anew_is_lost() {
    let runtime = TokioRuntime::new();
    let models = Models::start(CALM, 1).await.unwrap();
    let mut seawall = Seawall::start(models.address, 1_000, CALM.whole, runtime).await.unwrap();
    let caller = Caller { timer: runtime, address: seawall.address(), model: ROUTE, patience: PATIENCE };
    let mut asking = JoinSet::new();
    asking.spawn(async move {
        let mut callers = JoinSet::new();
        for number in 0..CALLERS {
            runtime.sleep_until(runtime.monotonic() + Duration::from_millis(1)).await;
            let (at, question) = (Duration::ZERO, number.to_string());
            let arrival = Arrival { at, who: Who::Flooder, question, is_streamed: true };
            callers.spawn(async move { caller.ask(&arrival).await.verdict });
        }
        callers.join_all().await
    });
    for _ in 0..3 {
        runtime.sleep_until(runtime.monotonic() + Duration::from_millis(200)).await;
        seawall.stop().await.unwrap();
        seawall.start_again().await.unwrap();
    }
    let verdicts = asking.join_next().await.unwrap().unwrap();
    seawall.stop().await.unwrap();
    // Most are rate-limited, which counts as served here.
    let is_served = |verdict: &&Verdict| matches!(verdict, Verdict::Answered | Verdict::Refused { .. });
    assert_eq!(verdicts.iter().filter(is_served).count(), 1_000, "{verdicts:?}");
}
