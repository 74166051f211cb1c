//! `seawall-bench ledger`: the cost of the ledger to a process, at the request rate of a gateway.
//!
//! Calls arrive at a steady rate and take a while, so that the end of one call shares a journal write with the
//! beginning of another. The results are CPU time, of the serving thread and of all threads, and memory. The same loop
//! runs first without a ledger and then with a ledger in memory; figures are compared within one run only. At the end
//! the process is killed, and another process opens the directory again.

use crate::measure::{now as instant, resident_bytes, since};
use anyhow::Context as _;
use seawall_core::budget::{BudgetLedger, BudgetOptions, ReservationRequest};
use seawall_core::history::TokenLimits;
use seawall_core::money::{Money, Usage};
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_core::vocabulary::Tier;
use seawall_store::embedded::{EmbeddedOptions, EmbeddedStore};
use seawall_store::{CallId, Certainty, Hold, LedgerCall, NoJournal, NodeLedger};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of calls in flight.
const IN_FLIGHT: usize = 100;
/// How often the loop wakes up.
const TICK: Duration = Duration::from_millis(1);

#[derive(clap::Args, Clone)]
pub(crate) struct LedgerBenchArguments {
    /// Calls per second.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    rate: u64,
    /// Total number of calls.
    #[arg(long, default_value_t = 200_000)]
    calls: u64,
    /// Number of distinct callers.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    callers: u64,
    /// Maximum length of a journal segment in bytes; by default that of the store.
    #[arg(long)]
    segment: Option<u64>,
    /// Runs one loop, in this process.
    #[arg(long, hide = true)]
    only: Option<LedgerLoop>,
    /// The data directory; a temporary one by default.
    #[arg(long, hide = true)]
    directory: Option<PathBuf>,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq)]
enum LedgerLoop {
    Empty,
    Memory,
    Journal,
    Open,
}

impl LedgerLoop {
    const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Memory => "memory",
            Self::Journal => "journal",
            Self::Open => "open",
        }
    }
}

pub(crate) fn run(arguments: &LedgerBenchArguments) -> anyhow::Result<ExitCode> {
    match (arguments.only, &arguments.directory) {
        (Some(LedgerLoop::Open), Some(directory)) => open(directory, arguments)?,
        (Some(which), Some(directory)) => run_loop(which, directory, arguments)?,
        _ => {
            let directory = std::env::temp_dir().join(format!("seawall-bench-ledger-{}", std::process::id()));
            let all = [LedgerLoop::Empty, LedgerLoop::Memory, LedgerLoop::Journal, LedgerLoop::Open];
            let outcome = all.into_iter().try_for_each(|which| start(which, &directory, arguments));
            let _ = fs::remove_dir_all(&directory);
            outcome?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a loop in a separate process, so that its memory can be measured alone.
fn start(which: LedgerLoop, directory: &Path, arguments: &LedgerBenchArguments) -> anyhow::Result<()> {
    let LedgerBenchArguments { rate, calls, callers, segment, .. } = arguments;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["ledger", "--only", which.name(), "--directory"]).arg(directory);
    command.args([format!("--rate={rate}"), format!("--calls={calls}"), format!("--callers={callers}")]);
    command.args(segment.map(|segment| format!("--segment={segment}")));
    // The loop with a journal ends by being killed, so its exit status is ignored.
    command.status().map(|_| ()).context("cannot start the loop")
}

/// CPU time so far, in nanoseconds: of this thread and of all threads.
fn processor_time() -> (u64, u64) {
    let spent = |path: &Path| -> u64 {
        let text = fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
    };
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    (spent(Path::new("/proc/thread-self")), threads.map(|thread| spent(&thread.path())).sum())
}

fn mebibytes() -> f64 {
    resident_bytes().unwrap_or(0) as f64 / f64::from(1 << 20)
}

fn options(arguments: &LedgerBenchArguments) -> anyhow::Result<EmbeddedOptions> {
    let limits = BudgetOptions { day: Money::MAX, caller_day: Money::MAX, ..BudgetOptions::default() };
    let defaults = EmbeddedOptions::new(limits.check()?);
    Ok(EmbeddedOptions { segment_bytes: arguments.segment.unwrap_or(defaults.segment_bytes), ..defaults })
}

struct Clock(Instant);

impl Clock {
    fn now(&self) -> Now {
        let passed = since(self.0);
        Now::new(Timestamp::ZERO + passed, UtcTime::from_civil(2026, 11, 15) + passed)
    }
}

fn run_loop(which: LedgerLoop, directory: &Path, arguments: &LedgerBenchArguments) -> anyhow::Result<()> {
    let clock = Clock(instant());
    let before = mebibytes();
    let (ledger, store) = if which == LedgerLoop::Journal {
        let opened = EmbeddedStore::open(directory, options(arguments)?, clock.now())?;
        (NodeLedger::with_ledger(opened.budget_ledger, opened.journal), Some(opened.store))
    } else {
        (NodeLedger::with_ledger(BudgetLedger::new(options(arguments)?.limits), NoJournal), None)
    };
    let idle = mebibytes();
    let model: Arc<str> = "anthropic.claude-3-5-sonnet-20241022".into();
    let mut open: VecDeque<Hold> = VecDeque::new();
    let (start, began) = (instant(), processor_time());
    let (mut number, mut ticks) = (0, 0_u32);
    while number < arguments.calls {
        for _ in 0..arguments.rate / 1_000 {
            number += 1;
            if which != LedgerLoop::Empty {
                let ask = ask(number, arguments.callers, &clock);
                let attempt =
                    LedgerCall { id: call(number), model: Arc::clone(&model), labels: Default::default() };
                open.push_back(ledger.reserve(&ask, attempt, clock.now())?);
            }
            if open.len() > IN_FLIGHT
                && let Some(hold) = open.pop_front()
            {
                let usage = Usage { input: 1_200, output: 250, ..Usage::default() };
                hold.post(usage, Money::from_nanos(7_350_000), Certainty::Reported, clock.now());
            }
            if number.is_multiple_of(5_000) {
                while !ledger.take_events(1_024).is_empty() {}
            }
        }
        ticks += 1;
        if let Some(left) = (TICK * ticks).checked_sub(since(start)) {
            sleep(left);
        }
    }
    let (own, all) = processor_time();
    let each = |from: u64, to: u64| to.saturating_sub(from) as f64 / number as f64 / 1e3;
    println!(
        "{:<8} {:>7.0}/s  all threads {:>6.2} us  this one {:>6.2} us  memory idle +{:.1} MiB, loaded +{:.1} MiB",
        which.name(),
        number as f64 / since(start).as_secs_f64(),
        each(began.1, all),
        each(began.0, own),
        idle - before,
        mebibytes() - before,
    );
    if store.is_some() {
        let own = std::process::id().to_string();
        let _ = Command::new("kill").args(["-9", &own]).status();
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark keeps a real pace")]
fn sleep(left: Duration) {
    std::thread::sleep(left);
}

fn call(number: u64) -> CallId {
    let request = u128::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    CallId { request, attempt: 0 }
}

fn ask(number: u64, callers: u64, clock: &Clock) -> ReservationRequest {
    // Spread over the whole range, as hashes of names are.
    let caller = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    ReservationRequest {
        caller: (caller % callers).wrapping_mul(0x9E37_79B9_7F4A_7C15),
        tier: Tier::Standard,
        session: None,
        limits: TokenLimits::default(),
        input: 1_200,
        output: 1_024,
        max_cost: Money::from_nanos(27_000_000),
        expires: clock.now().monotonic + Duration::from_secs(60),
        windows: Default::default(),
    }
}

fn open(directory: &Path, arguments: &LedgerBenchArguments) -> anyhow::Result<()> {
    let (start, before) = (instant(), mebibytes());
    let opened = EmbeddedStore::open(directory, options(arguments)?, Now::default())?;
    println!(
        "opened after kill -9 in {:.0} ms: {} records replayed, {} calls charged at their maximum cost, memory +{:.1} MiB",
        since(start).as_secs_f64() * 1e3,
        opened.report.replayed,
        opened.report.charged.len(),
        mebibytes() - before,
    );
    Ok(())
}
