//! The embedded store: a ledger and a journal in a directory.
//!
//! Posts are acknowledged when they are durable, so the peer is a file that is appended to and synced each time: no
//! store can be faster for a single waiter, and only group commit for many concurrent waiters can be. Reservations are
//! acknowledged when they have been handed to the operating system; the peer is the same ledger without a journal.

use super::StoreCases;
use crate::measure::{Case, Measurement, median_of};
use crate::report::BenchGate;
use seawall_core::budget::{BudgetLimits, BudgetOptions, ReservationRequest};
use seawall_core::history::TokenLimits;
use seawall_core::money::{Money, Usage};
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_core::vocabulary::Tier;
use seawall_store::embedded::{EmbeddedOptions, EmbeddedStore};
use seawall_store::{CallId, Certainty, Journal, Ledger, LedgerCall, NoJournal, NodeLedger, UsageEvent};
use seawall_testkit::TestDirectory;
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::Write;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

const APPEND: &str = "file, append and fsync";
const POST_1: &str = "ledger, post, 1 waiter";
const POST_16: &str = "ledger, post, 16 waiters";
const POST_256: &str = "ledger, post, 256 waiters";
const IN_MEMORY: &str = "ledger, reserve and post, no journal";
const JOURNALED: &str = "ledger, reserve and post, journal";

fn limits() -> anyhow::Result<BudgetLimits> {
    let options = BudgetOptions { day: Money::MAX, caller_day: Money::MAX, ..BudgetOptions::default() };
    Ok(options.check()?)
}

fn now() -> Now {
    Now::new(Timestamp::ZERO, UtcTime::from_civil(2026, 11, 15))
}

fn event(number: u64) -> UsageEvent {
    UsageEvent {
        id: CallId { request: u128::from(number), attempt: 0 },
        at: now().utc,
        day: now().utc.day(),
        caller: number % 10_000,
        tier: Tier::Standard,
        model: "strong".into(),
        usage: Usage { input: 1_200, output: 250, ..Usage::default() },
        cost: Money::from_nanos(7_350_000),
        certainty: Certainty::Reported,
        labels: Default::default(),
    }
}

/// Appends about as much as one call writes, and waits until it is durable.
fn appending<'a>(directory: &Arc<TestDirectory>) -> anyhow::Result<Case<'a>> {
    let mut file = File::create(directory.path().join("peer"))?;
    let kept = Arc::clone(directory);
    let run = move |decisions: u32| {
        let _ = &kept;
        let written = |_| file.write_all(&[7; 128]).and_then(|()| file.sync_data()).is_err();
        (0..decisions).map(written).map(u64::from).sum()
    };
    Ok(Case { name: APPEND, decisions: 200, run: Box::new(run) })
}

async fn join_all<T>(mut works: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) {
    poll_fn(|context| {
        works.retain_mut(|work| work.as_mut().poll(context).is_pending());
        if works.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Posts one call at a time for each of `waiting` tasks.
fn posting<'a>(
    directory: &Arc<TestDirectory>,
    name: &'static str,
    waiting: u32,
    decisions: u32,
) -> anyhow::Result<Case<'a>> {
    let path = directory.path().join(format!("ledger-{waiting}"));
    let store = EmbeddedStore::open(&path, EmbeddedOptions::new(limits()?), now())?.store;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let kept = Arc::clone(directory);
    let mut next = 0_u64;
    let run = move |decisions: u32| {
        let _ = &kept;
        for _ in 0..decisions / waiting {
            let events: Vec<UsageEvent> = (next..next + u64::from(waiting)).map(event).collect();
            next += u64::from(waiting);
            let post = |event: &UsageEvent| {
                let (store, event) = (store.clone(), event.clone());
                let work: Pin<Box<dyn Future<Output = bool>>> =
                    Box::pin(async move { store.post(&[event]).await.is_ok() });
                work
            };
            runtime.block_on(join_all(events.iter().map(post).collect()));
        }
        0
    };
    Ok(Case { name, decisions, run: Box::new(run) })
}

fn reserving<'a>(
    name: &'static str,
    ledger: NodeLedger,
    kept: Option<(Arc<TestDirectory>, EmbeddedStore)>,
) -> Case<'a> {
    let model: Arc<str> = "strong".into();
    let mut next = 0_u64;
    let run = move |decisions: u32| {
        let _ = &kept;
        let mut refused = 0;
        for _ in 0..decisions {
            next += 1;
            let ask = ReservationRequest {
                caller: next % 10_000,
                tier: Tier::Standard,
                session: None,
                limits: TokenLimits::default(),
                input: 1_200,
                output: 1_024,
                max_cost: Money::from_nanos(27_000_000),
                expires: Timestamp::NEVER,
                windows: Default::default(),
            };
            let id = CallId { request: next.into(), attempt: 0 };
            match ledger.reserve(
                &ask,
                LedgerCall { id, model: Arc::clone(&model), labels: Default::default() },
                now(),
            ) {
                Ok(hold) => hold.post(Usage::default(), Money::from_nanos(1), Certainty::Reported, now()),
                Err(_) => refused += 1,
            }
            if next.is_multiple_of(1_000) {
                drop(ledger.take_events(usize::MAX));
            }
        }
        refused
    };
    Case { name, decisions: 20_000, run: Box::new(run) }
}

fn journaled<'a>(directory: &Arc<TestDirectory>) -> anyhow::Result<Case<'a>> {
    let path: &Path = &directory.path().join("journal");
    let opened = EmbeddedStore::open(path, EmbeddedOptions::new(limits()?), now())?;
    let ledger = with(opened.budget_ledger, opened.journal);
    Ok(reserving(JOURNALED, ledger, Some((Arc::clone(directory), opened.store))))
}

fn with(budget_ledger: seawall_core::budget::BudgetLedger, journal: impl Journal + 'static) -> NodeLedger {
    NodeLedger::with_ledger(budget_ledger, journal)
}

fn per_second(measured: &[Measurement], name: &str) -> f64 {
    1e9 / median_of(measured, name)
}

fn ratio(measured: &[Measurement], name: &str, peer: &str) -> f64 {
    let find = |name: &str| measured.iter().find(|case| case.name == name);
    find(name).zip(find(peer)).map_or(f64::NAN, |(case, peer)| case.ratio_to(peer))
}

pub(crate) fn store_cases<'a>() -> anyhow::Result<StoreCases<'a>> {
    let directory = Arc::new(TestDirectory::new()?);
    Ok(StoreCases {
        cases: vec![
            appending(&directory)?,
            posting(&directory, POST_1, 1, 100)?,
            posting(&directory, POST_16, 16, 1_600)?,
            posting(&directory, POST_256, 256, 12_800)?,
            reserving(IN_MEMORY, with(seawall_core::budget::BudgetLedger::new(limits()?), NoJournal), None),
            journaled(&directory)?,
        ],
        figures: vec![
            |measured| ("posts per second, 1 waiter", per_second(measured, POST_1), "/s"),
            |measured| ("posts per second, 16 waiters", per_second(measured, POST_16), "/s"),
            |measured| ("posts per second, 256 waiters", per_second(measured, POST_256), "/s"),
            |measured| ("calls per second with journal", per_second(measured, JOURNALED), "/s"),
            |measured| ("calls per second without journal", per_second(measured, IN_MEMORY), "/s"),
        ],
        gates: vec![
            |measured| BenchGate {
                name: "post with 256 waiters ÷ 1 waiter",
                figure: ratio(measured, POST_256, POST_1),
                bound: 0.1,
            },
            |measured| BenchGate {
                name: "post with 1 waiter ÷ plain file",
                figure: ratio(measured, POST_1, APPEND),
                bound: 10.0,
            },
        ],
    })
}
