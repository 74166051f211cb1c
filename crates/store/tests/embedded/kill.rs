//! Kills a process that spends, again and again: what it has reported is stored, and nothing else.

use crate::child::{call_id, credential, session};
use crate::support::{CAP, Numbers, Running, command, options, time_of_round, wait};
use seawall_core::money::Money;
use seawall_core::time::UtcTime;
use seawall_store::embedded::{EmbeddedStore, OpenedStore};
use seawall_store::{
    CallId, Certainty, Directory, Ledger, Sessions, Switches, Totals, UsageEvent, verify_trail,
};
use seawall_testkit::TestDirectory;
use std::collections::{BTreeMap, BTreeSet};

/// The number of processes to kill, unless [`ROUNDS_VARIABLE`] says otherwise.
const ROUNDS: u64 = 30;
/// The most ended calls whose end is not yet written when a process is killed. Its three threads end one or two calls
/// each before they reserve again, unless the day's budget is spent: then the ends wait for the next flush.
const UNWRITTEN: usize = 40;
const ROUNDS_VARIABLE: &str = "SEAWALL_KILL_ROUNDS";

/// The expected state of a call, from the last report about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedCall {
    /// Whether it was reserved is unknown.
    Requested {
        max_cost: u64,
    },
    Refused,
    Reserved {
        max_cost: u64,
    },
    /// It was about to end like this. Whether it did is unknown.
    Ending {
        max_cost: u64,
        cost: u64,
    },
    Ended {
        max_cost: u64,
        cost: u64,
        certainty: Certainty,
    },
    Voiding {
        max_cost: u64,
    },
    Voided {
        max_cost: u64,
    },
    /// A later process has found it like this: nothing changes it any more.
    Settled(Option<(u64, Certainty)>),
}

impl ExpectedCall {
    fn max_cost(self) -> u64 {
        match self {
            Self::Requested { max_cost }
            | Self::Reserved { max_cost }
            | Self::Ending { max_cost, .. }
            | Self::Voiding { max_cost } => max_cost,
            other => panic!("{other:?} comes last"),
        }
    }

    /// Whether the ledger may contain this after a crash. An end that was reported may not have been written yet; then
    /// the call is charged at its maximum cost.
    fn allows(self, found: Option<&UsageEvent>) -> bool {
        let found = found.map(|event| (event.cost.as_nanos(), event.certainty));
        let at_worst = |max_cost| found == Some((max_cost, Certainty::Maximum));
        match self {
            Self::Refused => found.is_none(),
            Self::Requested { max_cost } | Self::Voiding { max_cost } | Self::Voided { max_cost } => {
                found.is_none() || at_worst(max_cost)
            }
            Self::Reserved { max_cost } => at_worst(max_cost),
            Self::Ending { max_cost, cost } => {
                at_worst(max_cost) || found == Some((cost, Certainty::Reported))
            }
            Self::Ended { max_cost, cost, certainty } => {
                at_worst(max_cost) || found == Some((cost, certainty))
            }
            Self::Settled(before) => found == before,
        }
    }
}

/// Everything that the children have reported.
#[derive(Default)]
struct ChildReport {
    calls: BTreeMap<u64, ExpectedCall>,
    /// By round: what was about to be stored, and what was.
    attempted: BTreeSet<u64>,
    stored: BTreeSet<u64>,
    stored_in_round: u64,
    attempted_in_round: u64,
}

impl ChildReport {
    fn record(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let [word, number, amount] = words[..] else { return };
        let (number, amount): (u64, u64) = (number.parse().unwrap(), amount.parse().unwrap());
        let before = self.calls.get(&number).copied();
        let max_cost = || before.unwrap().max_cost();
        let call = match word {
            "reserve?" => ExpectedCall::Requested { max_cost: amount },
            "refused" => ExpectedCall::Refused,
            "reserve" => ExpectedCall::Reserved { max_cost: amount },
            "post?" => ExpectedCall::Ending { max_cost: max_cost(), cost: amount },
            "post" => {
                ExpectedCall::Ended { max_cost: max_cost(), cost: amount, certainty: Certainty::Reported }
            }
            "drop?" => ExpectedCall::Reserved { max_cost: max_cost() },
            "drop" => {
                ExpectedCall::Ended { max_cost: max_cost(), cost: amount, certainty: Certainty::Maximum }
            }
            "void?" => ExpectedCall::Voiding { max_cost: max_cost() },
            "void" => ExpectedCall::Voided { max_cost: max_cost() },
            "store?" => {
                self.attempted.insert(number);
                self.attempted_in_round += 1;
                return;
            }
            "store" => {
                self.stored.insert(number);
                self.stored_in_round += 1;
                return;
            }
            other => panic!("{other}"),
        };
        self.calls.insert(number, call);
    }
}

fn all_events(store: &EmbeddedStore) -> Vec<UsageEvent> {
    let time = UtcTime::from_nanos(0)..UtcTime::from_nanos(u64::MAX);
    let (mut all, mut from) = (Vec::new(), None);
    loop {
        let page = wait(Ledger::events(store, time.clone(), from, 1_000)).unwrap();
        all.extend(page.events);
        from = page.next;
        if from.is_none() {
            return all;
        }
    }
}

/// Compares the stored state with the reports. What was found of a call is its expected state from now on. Returns how
/// many reported ends had not been written.
fn check(opened: &OpenedStore, report: &mut ChildReport, round: u64) -> usize {
    let (store, now) = (&opened.store, time_of_round(round));
    let events = all_events(store);
    let by_id: BTreeMap<CallId, &UsageEvent> = events.iter().map(|event| (event.id, event)).collect();
    assert_eq!(by_id.len(), events.len(), "a call is there twice");
    let mut unwritten = 0;
    for (number, call) in &mut report.calls {
        let found = by_id.get(&call_id(*number)).copied();
        assert!(call.allows(found), "round {round}, call {number}: {call:?}, and there is {found:?}");
        let found = found.map(|event| (event.cost.as_nanos(), event.certainty));
        let is_maximum = found.is_some_and(|(_, certainty)| certainty == Certainty::Maximum);
        let is_reported = matches!(
            call,
            ExpectedCall::Ended { certainty: Certainty::Reported, .. } | ExpectedCall::Voided { .. }
        );
        unwritten += usize::from(is_reported && is_maximum);
        *call = ExpectedCall::Settled(found);
    }
    for id in by_id.keys() {
        let number = u64::try_from(id.request).unwrap();
        assert!(report.calls.contains_key(&number), "no request was made for {id:?}");
    }
    // The stored sums must match the calls, and so must the node's ledger.
    let mut sum = Totals::default();
    for event in events.iter().filter(|event| event.day == now.utc.day()) {
        sum.calls += 1;
        sum.cost = sum.cost.checked_add(event.cost).unwrap();
    }
    let day = wait(store.day(now.utc.day())).unwrap();
    assert_eq!((day.tiers[1].calls, day.tiers[1].cost), (sum.calls, sum.cost));
    let account = opened.budget_ledger.all(now.utc.day());
    assert_eq!((account.posted, account.held), (sum.cost, Money::ZERO));
    assert!(account.posted <= Money::from_nanos(CAP));
    check_things(store, report, round);
    unwritten
}

fn check_things(store: &EmbeddedStore, report: &ChildReport, round: u64) {
    let tokens = wait(store.tokens(&session(round), time_of_round(round))).unwrap();
    assert!((report.stored_in_round..=report.attempted_in_round).contains(&tokens.input), "{tokens:?}");
    let turns = wait(store.load(&session(round), 1_000, time_of_round(round))).unwrap();
    assert_eq!(turns.len() as u64, tokens.input.min(256));
    let trail = wait(store.trail(0, usize::MAX)).unwrap();
    assert_eq!(verify_trail(&trail), Ok(()));
    let reasons: BTreeSet<u64> = trail.iter().map(|record| record.order.reason.parse().unwrap()).collect();
    assert_eq!(reasons.len(), trail.len(), "an order is there twice");
    assert!(reasons.is_subset(&report.attempted) && report.stored.is_subset(&reasons));
    for number in &report.stored {
        let found = wait(store.find(&credential(*number))).unwrap();
        assert_eq!(found.map(|record| record.caller), Some(*number));
    }
}

#[test]
fn what_was_acknowledged_survives_being_killed_at_any_moment() {
    let rounds = std::env::var(ROUNDS_VARIABLE).map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let scratch = TestDirectory::new().unwrap();
    let mut report = ChildReport::default();
    let mut numbers = Numbers(rounds);
    let (mut charged, mut refused, mut ended) = (0, 0, 0);
    for round in 0..rounds {
        (report.stored_in_round, report.attempted_in_round) = (0, 0);
        let mut child = Running::start(command("spend", scratch.path(), round));
        for _ in 0..numbers.below(4_000) {
            report.record(&child.line().expect("the child has ended by itself"));
        }
        for line in child.kill() {
            report.record(&line);
        }
        let opened = EmbeddedStore::open(scratch.path(), options(), time_of_round(round)).unwrap();
        charged += opened.report.charged.len();
        let count = |is: fn(&&ExpectedCall) -> bool| report.calls.values().filter(is).count();
        refused += count(|call| matches!(call, ExpectedCall::Refused));
        let reported = count(|call| matches!(call, ExpectedCall::Ended { .. } | ExpectedCall::Voided { .. }));
        ended += reported;
        let unwritten = check(&opened, &mut report, round);
        // They wait for the next reservation: one or two of each thread, and those whose holds are kept.
        assert!(unwritten <= UNWRITTEN, "round {round}: {unwritten} of {reported}");
    }
    assert!(ended > 1_000 && charged > 100, "{ended}, {charged}");
    assert!(refused > 0, "the cap was never reached");
}
