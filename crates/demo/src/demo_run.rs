//! Runs the demonstration: sends requests, restarts both fronts, observes, and counts at the end.

use crate::caller::{IDLE_TIMEOUT, RequestSender};
use crate::demo_gateway::{DemoGateway, LedgerBalance};
use crate::models::ModelServers;
use crate::plain_proxy::PlainProxy;
use crate::progress::{DemoProgress, ProgressMode};
use crate::promise::{LedgerComparison, PromiseInput, check_promises};
use crate::report::{DemoReport, LatencyPercentiles, OutageReport, SideReport};
use crate::schedule::{Outage, OutageSchedule};
use crate::score::{Scoreboard, Side};
use crate::seawall::{DRAIN_TIMEOUT, ROUTE};
use crate::traffic::{DemoRequest, schedule_requests};
use crate::{DemoError, DemoSettings};
use seawall_core::runtime::Timer as _;
use seawall_core::time::Timestamp;
use seawall_gateway::TokioRuntime;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// The strong model, which callers of the plain proxy name.
const STRONG: &str = "sonnet";
/// Refresh interval of the display.
const REFRESH_INTERVAL: Duration = Duration::from_millis(200);
/// How long settlements after the last answer may take.
const SETTLEMENT_TIMEOUT: Duration = Duration::from_secs(2);
const LEDGER_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// All running parts at the beginning.
pub(crate) struct DemoSetup<F> {
    pub(crate) runtime: TokioRuntime,
    pub(crate) schedule: OutageSchedule,
    /// The time from which the models count.
    pub(crate) started_at: Timestamp,
    /// The gateway under demonstration.
    pub(crate) front: F,
    pub(crate) front_models: ModelServers,
    pub(crate) plain: PlainProxy,
    pub(crate) plain_models: ModelServers,
}

struct RestartObservation {
    stopped_at: Duration,
    billed_at_stop: u64,
    posted_after_restart: u64,
}

/// State shared by callers, the display and the restart.
#[derive(Clone)]
struct RunState {
    runtime: TokioRuntime,
    started_at: Timestamp,
    score: Arc<Mutex<Scoreboard>>,
}

impl RunState {
    fn score(&self) -> MutexGuard<'_, Scoreboard> {
        // Nothing panics while it holds the lock; if it did, one request would be missing.
        self.score.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn elapsed(&self) -> Duration {
        self.runtime.monotonic() - self.started_at
    }

    async fn sleep_until(&self, at: Duration) {
        self.runtime.sleep_until(self.started_at + at).await;
    }
}

/// Runs the demonstration and returns the report.
pub(crate) async fn run_demo<F: DemoGateway>(
    mut setup: DemoSetup<F>,
    settings: &DemoSettings,
    mode: ProgressMode,
) -> Result<DemoReport, DemoError> {
    let (runtime, started_at, schedule) = (setup.runtime, setup.started_at, setup.schedule);
    let shared = RunState { runtime, started_at, score: Arc::default() };
    let mut progress = DemoProgress::new(mode, schedule);
    let requests = schedule_requests(schedule, settings.seed);
    let addresses = [setup.front.address(), setup.plain.address()];
    let restart = {
        let sending = send_all(&shared, schedule, requests, addresses);
        let mut running = pin!(async { tokio::join!(sending, restart_both(&shared, &mut setup)).1 });
        loop {
            let next = runtime.monotonic() + REFRESH_INTERVAL;
            tokio::select! {
                restart = &mut running => break restart?,
                () = runtime.sleep_until(next) => progress.update(shared.elapsed(), &shared.score()),
            }
        }
    };
    progress.update(shared.elapsed().max(schedule.duration), &shared.score());
    progress.clear();
    let ledger = final_ledger(&mut setup, settings, &restart).await?;
    setup.plain.stop().await;
    let score = shared.score();
    Ok(report(&score, settings, ledger, restart.stopped_at, setup.plain_models.billed()))
}

/// Sends every request to both sides at its time, and waits for the last response.
async fn send_all(
    shared: &RunState,
    schedule: OutageSchedule,
    requests: Vec<DemoRequest>,
    [seawall, plain]: [SocketAddr; 2],
) {
    let mut sending = JoinSet::new();
    for scheduled in requests {
        shared.sleep_until(scheduled.at).await;
        let scheduled = Arc::new(scheduled);
        for (side, address, model) in [(Side::Seawall, seawall, ROUTE), (Side::Plain, plain, STRONG)] {
            let outage = schedule.outage_at(scheduled.at);
            let index = shared.score().record_sent(side, scheduled.client, outage, shared.elapsed());
            let (shared, scheduled) = (shared.clone(), Arc::clone(&scheduled));
            sending.spawn(async move {
                let sender =
                    RequestSender { timer: shared.runtime, address, model, idle_timeout: IDLE_TIMEOUT };
                let result = sender.send(&scheduled).await;
                shared.score().record_result(index, result, shared.elapsed());
            });
        }
        while sending.try_join_next().is_some() {}
    }
    while sending.join_next().await.is_some() {}
}

/// Restarts both fronts in the middle.
async fn restart_both<F: DemoGateway>(
    shared: &RunState,
    setup: &mut DemoSetup<F>,
) -> Result<RestartObservation, DemoError> {
    shared.sleep_until(setup.schedule.period_of(Outage::Restart).start).await;
    let stopped_at = shared.elapsed();
    let DemoSetup { front, front_models, plain, .. } = setup;
    let gateway_restart = async {
        front.stop().await?;
        // No calls are in flight now, so nothing is added to the bill after this reading.
        let billed_at_stop = front_models.billed();
        front.restart().await?;
        let LedgerBalance { posted, .. } = front.ledger_balance().await?;
        Ok(RestartObservation { stopped_at, billed_at_stop, posted_after_restart: posted })
    };
    let proxy_restart = async {
        plain.stop().await;
        plain.restart().map_err(DemoError::Listen)
    };
    let (restart, proxy_restarted) = tokio::join!(gateway_restart, proxy_restart);
    proxy_restarted?;
    restart
}

/// The final state of the ledger, and the bill beside it.
async fn final_ledger<F: DemoGateway>(
    setup: &mut DemoSetup<F>,
    settings: &DemoSettings,
    restart: &RestartObservation,
) -> Result<LedgerComparison, DemoError> {
    let runtime = setup.runtime;
    let give_up = runtime.monotonic() + SETTLEMENT_TIMEOUT;
    let balance = loop {
        let balance = setup.front.ledger_balance().await?;
        let now = runtime.monotonic();
        if balance.held == 0 || now >= give_up {
            break balance;
        }
        runtime.sleep_until(now + LEDGER_POLL_INTERVAL).await;
    };
    setup.front.stop().await?;
    Ok(LedgerComparison {
        cap: settings.cap().as_nanos(),
        balance,
        billed: setup.front_models.billed(),
        reported_posted: setup.front.reported_calls()?,
        reported_billed: setup.front_models.completed_calls().await?,
        billed_at_stop: restart.billed_at_stop,
        posted_after_restart: restart.posted_after_restart,
    })
}

fn report(
    score: &Scoreboard,
    settings: &DemoSettings,
    ledger: LedgerComparison,
    stopped_at: Duration,
    plain_billed: u64,
) -> DemoReport {
    let side = |side: Side, billed: u64| SideReport {
        customers: score.customers(side),
        abusive_client: score.abusive_client(side),
        time_to_first_text_ms: score.time_to_first_text(side).map(LatencyPercentiles::new),
        billed,
    };
    let (seawall, plain) = (side(Side::Seawall, ledger.billed), side(Side::Plain, plain_billed));
    let during = |outage: Outage| OutageReport {
        outage,
        seawall: score.customers_during(Side::Seawall, outage),
        plain: score.customers_during(Side::Plain, outage),
    };
    let drain_exceeded = score.drain_exceeded(Side::Seawall, stopped_at, DRAIN_TIMEOUT);
    let input = PromiseInput {
        customers: seawall.customers,
        abusive_client: seawall.abusive_client,
        drain_exceeded,
        ledger,
    };
    let promises = check_promises(&input);
    DemoReport {
        seed: settings.seed,
        seconds: settings.seconds,
        seawall,
        plain,
        ledger,
        drain_exceeded: drain_exceeded.sent,
        outages: Outage::ALL.map(during).to_vec(),
        all_held: promises.iter().all(|promise| promise.held),
        promises,
    }
}
