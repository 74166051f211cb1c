//! The embedded store: a ledger and a journal in a directory.
//!
//! Posts are acknowledged when they are durable, so the peer is a file that is appended to and synced each time: no
//! store can be faster for a single waiter, and only group commit for many concurrent waiters can be. Reservations are
//! acknowledged when they have been handed to the operating system; the peer is the same ledger without a journal.

use super::Part;
use crate::measure::{Case, Measured, median_of};
use crate::report::Gate;
use anyhow::Context as _;
use seawall_core::budget::{Ask, BudgetLimits, BudgetOptions};
use seawall_core::history::TokenLimits;
use seawall_core::money::{Money, Usage};
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_core::vocabulary::Tier;
use seawall_store::embedded::{EmbeddedOptions, EmbeddedStore};
use seawall_store::{Attempt, Books, CallId, Certainty, Journal, Ledger, NoJournal, UsageEvent};
use std::fs::{self, File};
use std::future::{Future, poll_fn};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

const APPEND: &str = "a file, append and make durable";
const POST_1: &str = "ledger, post, one who waits";
const POST_16: &str = "ledger, post, 16 who wait";
const POST_256: &str = "ledger, post, 256 who wait";
const IN_MEMORY: &str = "books, reserve and post, no journal";
const JOURNALED: &str = "books, reserve and post, journal";

/// A temporary directory, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> anyhow::Result<Arc<Self>> {
        let path = std::env::temp_dir().join(format!("seawall-bench-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Arc::new(Self(path)))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

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
        certainty: Certainty::Told,
    }
}

/// Appends about as much as one call writes, and waits until it is durable.
fn appending<'a>(folder: &Arc<Scratch>) -> anyhow::Result<Case<'a>> {
    let mut file = File::create(folder.0.join("peer"))?;
    let kept = Arc::clone(folder);
    let run = move |decisions: u32| {
        let _ = &kept;
        let written = |_| file.write_all(&[7; 128]).and_then(|()| file.sync_data()).is_err();
        (0..decisions).map(written).map(u64::from).sum()
    };
    Ok(Case { name: APPEND, decisions: 200, run: Box::new(run) })
}

async fn all<T>(mut works: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) {
    poll_fn(|context| {
        works.retain_mut(|work| work.as_mut().poll(context).is_pending());
        if works.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Posts one call at a time for each of `waiting` tasks.
fn posting<'a>(
    folder: &Arc<Scratch>,
    name: &'static str,
    waiting: u32,
    decisions: u32,
) -> anyhow::Result<Case<'a>> {
    let place = folder.0.join(format!("ledger-{waiting}"));
    let store = EmbeddedStore::open(&place, EmbeddedOptions::new(limits()?), now())?.store;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let kept = Arc::clone(folder);
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
            runtime.block_on(all(events.iter().map(post).collect()));
        }
        0
    };
    Ok(Case { name, decisions, run: Box::new(run) })
}

fn reserving<'a>(name: &'static str, books: Books, kept: Option<(Arc<Scratch>, EmbeddedStore)>) -> Case<'a> {
    let model: Arc<str> = "strong".into();
    let mut next = 0_u64;
    let run = move |decisions: u32| {
        let _ = &kept;
        let mut refused = 0;
        for _ in 0..decisions {
            next += 1;
            let ask = Ask {
                caller: next % 10_000,
                tier: Tier::Standard,
                session: None,
                limits: TokenLimits::default(),
                input: 1_200,
                output: 1_024,
                worst: Money::from_nanos(27_000_000),
                expires: Timestamp::NEVER,
            };
            let id = CallId { request: next.into(), attempt: 0 };
            match books.reserve(&ask, Attempt { id, model: Arc::clone(&model) }, now()) {
                Ok(hold) => hold.post(Usage::default(), Money::from_nanos(1), Certainty::Told, now()),
                Err(_) => refused += 1,
            }
            if next.is_multiple_of(1_000) {
                drop(books.take_events(usize::MAX));
            }
        }
        refused
    };
    Case { name, decisions: 20_000, run: Box::new(run) }
}

fn journaled<'a>(folder: &Arc<Scratch>) -> anyhow::Result<Case<'a>> {
    let place: &Path = &folder.0.join("journal");
    let opened = EmbeddedStore::open(place, EmbeddedOptions::new(limits()?), now())?;
    let books = with(opened.book, opened.journal);
    Ok(reserving(JOURNALED, books, Some((Arc::clone(folder), opened.store))))
}

fn with(book: seawall_core::budget::BudgetBook, journal: impl Journal + 'static) -> Books {
    Books::with_book(book, journal)
}

fn per_second(measured: &[Measured], name: &str) -> f64 {
    1e9 / median_of(measured, name)
}

fn ratio(measured: &[Measured], name: &str, peer: &str) -> f64 {
    let find = |name: &str| measured.iter().find(|case| case.name == name);
    find(name).zip(find(peer)).map_or(f64::NAN, |(case, peer)| case.ratio_to(peer))
}

pub(crate) fn part<'a>() -> anyhow::Result<Part<'a>> {
    let folder = Scratch::new("embedded")?;
    Ok(Part {
        cases: vec![
            appending(&folder)?,
            posting(&folder, POST_1, 1, 100)?,
            posting(&folder, POST_16, 16, 1_600)?,
            posting(&folder, POST_256, 256, 12_800)?,
            reserving(IN_MEMORY, with(seawall_core::budget::BudgetBook::new(limits()?), NoJournal), None),
            journaled(&folder)?,
        ],
        figures: vec![
            |measured| ("posts a second, one who waits", per_second(measured, POST_1), "/s"),
            |measured| ("posts a second, 16 who wait", per_second(measured, POST_16), "/s"),
            |measured| ("posts a second, 256 who wait", per_second(measured, POST_256), "/s"),
            |measured| ("calls a second through the journal", per_second(measured, JOURNALED), "/s"),
            |measured| ("calls a second without a journal", per_second(measured, IN_MEMORY), "/s"),
        ],
        judge: vec![
            |measured| Gate {
                name: "a post of 256 to one that is alone",
                figure: ratio(measured, POST_256, POST_1),
                bound: 0.1,
            },
            |measured| Gate {
                name: "a post that is alone to a plain file",
                figure: ratio(measured, POST_1, APPEND),
                bound: 10.0,
            },
        ],
    })
}
