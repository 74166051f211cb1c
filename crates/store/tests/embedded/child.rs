//! What a child process does until it is killed.

use crate::support::{DATA_DIR, Numbers, REPORT_PREFIX, ROLE, ROUND, options, time_of_round, wait};
use seawall_core::budget::{BudgetPeriod, PeriodCaps, ReservationRequest, WindowCaps};
use seawall_core::evaluator::Switch;
use seawall_core::history::{Role, TokenLimits};
use seawall_core::money::{Money, Usage};
use seawall_core::time::{Now, Timestamp};
use seawall_core::vocabulary::Tier;
use seawall_store::embedded::EmbeddedStore;
use seawall_store::{
    CallId, CallerRecord, Certainty, ChangeOrder, CredentialHash, Directory, LedgerCall, NodeLedger,
    RequestTokens, SessionKey, Sessions, SpendLabels, StoredTurn, SwitchChange, Switches,
};
use std::fmt;
use std::io::Write;
use std::path::Path;

/// Not a test: the entry point of the program when it is started as a child.
#[test]
fn run_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let data_dir = std::env::var(DATA_DIR).unwrap();
    let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    match role.as_str() {
        "spend" => spend(Path::new(&data_dir), round),
        "open" => {
            report_line(match EmbeddedStore::open(Path::new(&data_dir), options(), time_of_round(round)) {
                Ok(_) => "opened".to_owned(),
                Err(refusal) => format!("refused {refusal}"),
            });
        }
        "fill" => crate::large::fill(Path::new(&data_dir)),
        "fill the disk" => crate::unusable::fill_the_disk(Path::new(&data_dir)),
        "fill the journal" => crate::unusable::fill_the_journal(Path::new(&data_dir)),
        other => panic!("{other}"),
    }
}

/// Writes a line and flushes it.
pub(crate) fn report_line(what: impl fmt::Display) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{REPORT_PREFIX}{what}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

fn spend(data_dir: &Path, round: u64) {
    let opened = EmbeddedStore::open(data_dir, options(), time_of_round(round)).unwrap();
    let (store, ledger) = (opened.store, NodeLedger::with_ledger(opened.budget_ledger, opened.journal));
    report_line("ready");
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let ledger = &ledger;
            scope.spawn(move || call_models(ledger, thread, round));
        }
        scope.spawn(|| store_things(&store, round));
    });
}

/// Numbers of calls are unique over all rounds and threads.
fn number_of(round: u64, thread: u64, count: u64) -> u64 {
    round * 100_000_000 + thread * 10_000_000 + count
}

fn call_models(ledger: &NodeLedger, thread: u64, round: u64) {
    let now = time_of_round(round);
    let mut numbers = Numbers(number_of(round, thread, 0));
    let mut open_holds = Vec::new();
    for count in 0.. {
        let number = number_of(round, thread, count);
        let max_cost = numbers.below(1_000) + 1;
        report_line(format_args!("reserve? {number} {max_cost}"));
        let attempt = LedgerCall {
            id: call_id(number),
            model: "strong".into(),
            labels: SpendLabels { target: "t".into(), ..SpendLabels::default() },
        };
        let Ok(hold) = ledger.reserve(&ask(number, max_cost), attempt, now) else {
            report_line(format_args!("refused {number} {max_cost}"));
            continue;
        };
        report_line(format_args!("reserve {number} {max_cost}"));
        match numbers.below(8) {
            // Calls that take longer than others; some are in flight when the process is killed.
            0 => open_holds.push((number, max_cost, hold)),
            1 => {
                report_line(format_args!("void? {number} 0"));
                hold.release();
                report_line(format_args!("void {number} 0"));
            }
            2 => {
                report_line(format_args!("drop? {number} {max_cost}"));
                drop(hold);
                report_line(format_args!("drop {number} {max_cost}"));
            }
            _ => post(hold, number, numbers.below(max_cost) + 1, now),
        }
        if open_holds.len() > 20 {
            let (number, max_cost, hold) =
                open_holds.swap_remove(usize::try_from(numbers.below(20)).unwrap());
            post(hold, number, numbers.below(max_cost) + 1, now);
        }
    }
}

fn post(hold: seawall_store::Hold, number: u64, cost: u64, now: Now) {
    report_line(format_args!("post? {number} {cost}"));
    hold.post(Usage { output: cost, ..Usage::default() }, Money::from_nanos(cost), Certainty::Reported, now);
    report_line(format_args!("post {number} {cost}"));
}

pub(crate) fn call_id(number: u64) -> CallId {
    CallId { request: u128::from(number), attempt: 0 }
}

pub(crate) fn ask(number: u64, max_cost: u64) -> ReservationRequest {
    ReservationRequest {
        caller: number % 11,
        tier: Tier::Standard,
        session: None,
        limits: TokenLimits::default(),
        input: 1,
        output: 1,
        max_cost: Money::from_nanos(max_cost),
        expires: Timestamp::NEVER,
        windows: windows(number),
    }
}

/// Half of the calls also count in budgets by calendar window that nothing exhausts.
fn windows(number: u64) -> WindowCaps {
    let month = PeriodCaps::from_iter([(BudgetPeriod::Month, Money::from_dollars(1_000_000))]);
    let caps = if number.is_multiple_of(2) { [month; 3] } else { [PeriodCaps::NONE; 3] };
    WindowCaps { team: number % 3, caps, ..WindowCaps::default() }
}

/// The credential that belongs to this number.
pub(crate) fn credential(number: u64) -> CredentialHash {
    let mut hash = [7; 32];
    hash[..8].copy_from_slice(&number.to_be_bytes());
    CredentialHash(hash)
}

pub(crate) fn session(round: u64) -> SessionKey {
    SessionKey { caller: 1, name: format!("round {round}").into() }
}

fn store_things(store: &EmbeddedStore, round: u64) {
    let now = time_of_round(round);
    for count in 0.. {
        let number = number_of(round, 9, count);
        report_line(format_args!("store? {number} 0"));
        let turn = StoredTurn { role: Role::User, text: "漫画".into(), tokens: 1, at: now.utc };
        let used = RequestTokens { input: 1, output: 2 };
        wait(store.append(&session(round), number.into(), &[turn], used, now)).unwrap();
        let record = CallerRecord {
            caller: number,
            name: "ann".into(),
            tier: Tier::Guest,
            ceiling: None,
            created: now.utc,
            revoked: None,
            contract: Default::default(),
        };
        let _ = wait(store.add(&credential(number), &record)).unwrap();
        let order = ChangeOrder {
            change: SwitchChange::Throw(Switch::OffPeak, count % 2 == 0),
            operator: "ann".into(),
            role: "ops".into(),
            reason: number.to_string().into(),
            at: now.utc,
            refused: count % 3 == 0,
        };
        let seen = wait(Switches::read(store)).unwrap().version;
        let _ = wait(store.apply(&order, seen)).unwrap();
        report_line(format_args!("store {number} 0"));
    }
}
