//! Runs the demonstration: sends requests, restarts both fronts, observes, and counts at the end.

use crate::caller::{Caller, PATIENCE};
use crate::front::{Books, Front};
use crate::models::Models;
use crate::plain::Plain;
use crate::promise::{Facts, Ledger, judged};
use crate::report::{FirstText, OutageReport, Report, SideReport};
use crate::score::{Score, Side};
use crate::seawall::{DRAIN, ROUTE};
use crate::show::{Screen, Show};
use crate::timetable::{Outage, Timetable};
use crate::traffic::{Arrival, arrivals};
use crate::{DemoError, DemoSettings};
use seawall_core::handle::Timer as _;
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
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long settlements after the last answer may take.
const LAST_ENTRIES: Duration = Duration::from_secs(2);
const LOOK_AT_BOOKS_EVERY: Duration = Duration::from_millis(20);

/// All running parts at the beginning.
pub(crate) struct Stage<F> {
    pub(crate) runtime: TokioRuntime,
    pub(crate) timetable: Timetable,
    /// The time from which the models count.
    pub(crate) zero: Timestamp,
    /// The gateway under demonstration.
    pub(crate) front: F,
    pub(crate) front_models: Models,
    pub(crate) plain: Plain,
    pub(crate) plain_models: Models,
}

/// Observations of the restart.
struct Restart {
    stopped: Duration,
    billed_at_stop: u64,
    posted_at_start: u64,
}

/// State shared by callers, the display and the restart.
#[derive(Clone)]
struct Shared {
    runtime: TokioRuntime,
    zero: Timestamp,
    score: Arc<Mutex<Score>>,
}

impl Shared {
    fn score(&self) -> MutexGuard<'_, Score> {
        // Nothing panics while it holds the lock; if it did, one request would be missing.
        self.score.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self) -> Duration {
        self.runtime.monotonic() - self.zero
    }

    async fn until(&self, at: Duration) {
        self.runtime.sleep_until(self.zero + at).await;
    }
}

/// Runs the demonstration and returns the report.
pub(crate) async fn play<F: Front>(
    mut stage: Stage<F>,
    settings: &DemoSettings,
    show: Show,
) -> Result<Report, DemoError> {
    let (runtime, zero, timetable) = (stage.runtime, stage.zero, stage.timetable);
    let shared = Shared { runtime, zero, score: Arc::default() };
    let mut screen = Screen::new(show, timetable);
    let questions = arrivals(timetable, settings.seed);
    let addresses = [stage.front.address(), stage.plain.address()];
    let restart = {
        let asking = ask_all(&shared, timetable, questions, addresses);
        let mut playing = pin!(async { tokio::join!(asking, start_anew(&shared, &mut stage)).1 });
        loop {
            let next = runtime.monotonic() + LOOK_EVERY;
            tokio::select! {
                restart = &mut playing => break restart?,
                () = runtime.sleep_until(next) => screen.look(shared.at(), &shared.score()),
            }
        }
    };
    screen.look(shared.at().max(timetable.whole), &shared.score());
    screen.close();
    let ledger = close_books(&mut stage, settings, &restart).await?;
    stage.plain.stop().await;
    let score = shared.score();
    Ok(report(&score, settings, ledger, restart.stopped, stage.plain_models.billed()))
}

/// Sends every request to both sides at its time, and waits for the last response.
async fn ask_all(
    shared: &Shared,
    timetable: Timetable,
    questions: Vec<Arrival>,
    [seawall, plain]: [SocketAddr; 2],
) {
    let mut asking = JoinSet::new();
    for arrival in questions {
        shared.until(arrival.at).await;
        let arrival = Arc::new(arrival);
        for (side, address, model) in [(Side::Seawall, seawall, ROUTE), (Side::Plain, plain, STRONG)] {
            let outage = timetable.outage_at(arrival.at);
            let place = shared.score().ask(side, arrival.who, outage, shared.at());
            let (shared, arrival) = (shared.clone(), Arc::clone(&arrival));
            asking.spawn(async move {
                let caller = Caller { timer: shared.runtime, address, model, patience: PATIENCE };
                let got = caller.ask(&arrival).await;
                shared.score().end(place, got, shared.at());
            });
        }
        while asking.try_join_next().is_some() {}
    }
    while asking.join_next().await.is_some() {}
}

/// Restarts both fronts in the middle.
async fn start_anew<F: Front>(shared: &Shared, stage: &mut Stage<F>) -> Result<Restart, DemoError> {
    shared.until(stage.timetable.during(Outage::Restart).start).await;
    let stopped = shared.at();
    let Stage { front, front_models, plain, .. } = stage;
    let promising = async {
        front.stop().await?;
        // No calls are in flight now, so nothing is added to the bill after this reading.
        let billed_at_stop = front_models.billed();
        front.start_again().await?;
        let Books { posted, .. } = front.books().await?;
        Ok(Restart { stopped, billed_at_stop, posted_at_start: posted })
    };
    let comparing = async {
        plain.stop().await;
        plain.start_again().map_err(DemoError::Listen)
    };
    let (restart, compared) = tokio::join!(promising, comparing);
    compared?;
    restart
}

/// The final state of the ledger, and the bill beside it.
async fn close_books<F: Front>(
    stage: &mut Stage<F>,
    settings: &DemoSettings,
    restart: &Restart,
) -> Result<Ledger, DemoError> {
    let runtime = stage.runtime;
    let give_up = runtime.monotonic() + LAST_ENTRIES;
    let books = loop {
        let books = stage.front.books().await?;
        let now = runtime.monotonic();
        if books.held == 0 || now >= give_up {
            break books;
        }
        runtime.sleep_until(now + LOOK_AT_BOOKS_EVERY).await;
    };
    stage.front.stop().await?;
    Ok(Ledger {
        cap: settings.cap().as_nanos(),
        books,
        billed: stage.front_models.billed(),
        told_posted: stage.front.told()?,
        told_billed: stage.front_models.told().await?,
        billed_at_stop: restart.billed_at_stop,
        posted_at_start: restart.posted_at_start,
    })
}

fn report(
    score: &Score,
    settings: &DemoSettings,
    ledger: Ledger,
    stopped: Duration,
    plain_billed: u64,
) -> Report {
    let side = |side: Side, billed: u64| SideReport {
        shoppers: score.shoppers(side),
        flooder: score.flooder(side),
        first_text_ms: score.first_text(side).map(FirstText::new),
        billed,
    };
    let (seawall, plain) = (side(Side::Seawall, ledger.billed), side(Side::Plain, plain_billed));
    let during = |outage: Outage| OutageReport {
        outage,
        seawall: score.shoppers_in(Side::Seawall, outage),
        plain: score.shoppers_in(Side::Plain, outage),
    };
    let beyond_the_drain = score.beyond_the_drain(Side::Seawall, stopped, DRAIN);
    let facts = Facts { shoppers: seawall.shoppers, flooder: seawall.flooder, beyond_the_drain, ledger };
    let promises = judged(&facts);
    Report {
        seed: settings.seed,
        seconds: settings.seconds,
        seawall,
        plain,
        ledger,
        beyond_the_drain: beyond_the_drain.asked,
        outages: Outage::ALL.map(during).to_vec(),
        all_held: promises.iter().all(|promise| promise.held),
        promises,
    }
}
