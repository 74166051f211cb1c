//! Kills a process that spends, again and again: what it has reported is stored, and nothing else.

use crate::child::{call_id, credential, session};
use crate::support::{CAP, Numbers, Running, Scratch, command, moment, options, wait};
use seawall_core::money::Money;
use seawall_core::time::UtcTime;
use seawall_store::embedded::{EmbeddedStore, Opened};
use seawall_store::{
    CallId, Certainty, Directory, Ledger, Sessions, Switches, Totals, UsageEvent, verify_trail,
};
use std::collections::{BTreeMap, BTreeSet};

/// The number of processes to kill, unless [`ROUNDS_VARIABLE`] says otherwise.
const ROUNDS: u64 = 30;
/// The most ended calls whose end is not yet written when a process is killed. Its three threads end one or two calls
/// each before they reserve again, unless the day's budget is spent: then the ends wait for the next flush.
const UNWRITTEN: usize = 40;
const ROUNDS_VARIABLE: &str = "SEAWALL_KILL_ROUNDS";

/// The expected state of a call, from the last report about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Whether it was reserved is unknown.
    Asked {
        worst: u64,
    },
    Refused,
    Reserved {
        worst: u64,
    },
    /// It was about to end like this. Whether it did is unknown.
    Ending {
        worst: u64,
        cost: u64,
    },
    Ended {
        worst: u64,
        cost: u64,
        certainty: Certainty,
    },
    Voiding {
        worst: u64,
    },
    Voided {
        worst: u64,
    },
    /// A later process has found it like this: nothing changes it any more.
    Settled(Option<(u64, Certainty)>),
}

impl Known {
    fn worst(self) -> u64 {
        match self {
            Self::Asked { worst }
            | Self::Reserved { worst }
            | Self::Ending { worst, .. }
            | Self::Voiding { worst } => worst,
            other => panic!("{other:?} comes last"),
        }
    }

    /// Whether the ledger may contain this after a crash. An end that was reported may not have been written yet; then
    /// the call is charged at its worst-case cost.
    fn allows(self, found: Option<&UsageEvent>) -> bool {
        let found = found.map(|event| (event.cost.as_nanos(), event.certainty));
        let at_worst = |worst| found == Some((worst, Certainty::Worst));
        match self {
            Self::Refused => found.is_none(),
            Self::Asked { worst } | Self::Voiding { worst } | Self::Voided { worst } => {
                found.is_none() || at_worst(worst)
            }
            Self::Reserved { worst } => at_worst(worst),
            Self::Ending { worst, cost } => at_worst(worst) || found == Some((cost, Certainty::Told)),
            Self::Ended { worst, cost, certainty } => at_worst(worst) || found == Some((cost, certainty)),
            Self::Settled(before) => found == before,
        }
    }
}

/// Everything that the children have reported.
#[derive(Default)]
struct Told {
    calls: BTreeMap<u64, Known>,
    /// By round: what was about to be stored, and what was.
    wanted: BTreeSet<u64>,
    kept: BTreeSet<u64>,
    kept_in_round: u64,
    wanted_in_round: u64,
}

impl Told {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let [word, number, amount] = words[..] else { return };
        let (number, amount): (u64, u64) = (number.parse().unwrap(), amount.parse().unwrap());
        let before = self.calls.get(&number).copied();
        let worst = || before.unwrap().worst();
        let known = match word {
            "reserve?" => Known::Asked { worst: amount },
            "refused" => Known::Refused,
            "reserve" => Known::Reserved { worst: amount },
            "post?" => Known::Ending { worst: worst(), cost: amount },
            "post" => Known::Ended { worst: worst(), cost: amount, certainty: Certainty::Told },
            "drop?" => Known::Reserved { worst: worst() },
            "drop" => Known::Ended { worst: worst(), cost: amount, certainty: Certainty::Worst },
            "void?" => Known::Voiding { worst: worst() },
            "void" => Known::Voided { worst: worst() },
            "keep?" => {
                self.wanted.insert(number);
                self.wanted_in_round += 1;
                return;
            }
            "keep" => {
                self.kept.insert(number);
                self.kept_in_round += 1;
                return;
            }
            other => panic!("{other}"),
        };
        self.calls.insert(number, known);
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
fn check(opened: &Opened, told: &mut Told, round: u64) -> usize {
    let (store, now) = (&opened.store, moment(round));
    let events = all_events(store);
    let by_id: BTreeMap<CallId, &UsageEvent> = events.iter().map(|event| (event.id, event)).collect();
    assert_eq!(by_id.len(), events.len(), "a call is there twice");
    let mut unwritten = 0;
    for (number, known) in &mut told.calls {
        let found = by_id.get(&call_id(*number)).copied();
        assert!(known.allows(found), "round {round}, call {number}: {known:?}, and there is {found:?}");
        let found = found.map(|event| (event.cost.as_nanos(), event.certainty));
        let is_worst = found.is_some_and(|(_, certainty)| certainty == Certainty::Worst);
        let is_told = matches!(known, Known::Ended { certainty: Certainty::Told, .. } | Known::Voided { .. });
        unwritten += usize::from(is_told && is_worst);
        *known = Known::Settled(found);
    }
    for id in by_id.keys() {
        let number = u64::try_from(id.request).unwrap();
        assert!(told.calls.contains_key(&number), "nobody has asked for {id:?}");
    }
    // The stored sums must match the calls, and so must the node's books.
    let mut sum = Totals::default();
    for event in events.iter().filter(|event| event.day == now.utc.day()) {
        sum.calls += 1;
        sum.cost = sum.cost.checked_add(event.cost).unwrap();
    }
    let day = wait(store.day(now.utc.day())).unwrap();
    assert_eq!((day.tiers[1].calls, day.tiers[1].cost), (sum.calls, sum.cost));
    let account = opened.book.all(now.utc.day());
    assert_eq!((account.posted, account.held), (sum.cost, Money::ZERO));
    assert!(account.posted <= Money::from_nanos(CAP));
    check_things(store, told, round);
    unwritten
}

fn check_things(store: &EmbeddedStore, told: &Told, round: u64) {
    let tokens = wait(store.tokens(&session(round), moment(round))).unwrap();
    assert!((told.kept_in_round..=told.wanted_in_round).contains(&tokens.input), "{tokens:?}");
    let turns = wait(store.load(&session(round), 1_000, moment(round))).unwrap();
    assert_eq!(turns.len() as u64, tokens.input.min(256));
    let trail = wait(store.trail(0, usize::MAX)).unwrap();
    assert_eq!(verify_trail(&trail), Ok(()));
    let reasons: BTreeSet<u64> = trail.iter().map(|record| record.order.why.parse().unwrap()).collect();
    assert_eq!(reasons.len(), trail.len(), "an order is there twice");
    assert!(reasons.is_subset(&told.wanted) && told.kept.is_subset(&reasons));
    for number in &told.kept {
        let found = wait(store.find(&credential(*number))).unwrap();
        assert_eq!(found.map(|record| record.caller), Some(*number));
    }
}

#[test]
fn what_was_told_survives_being_killed_at_any_moment() {
    let rounds = std::env::var(ROUNDS_VARIABLE).map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let scratch = Scratch::new();
    let mut told = Told::default();
    let mut numbers = Numbers(rounds);
    let (mut charged, mut refused, mut ended) = (0, 0, 0);
    for round in 0..rounds {
        (told.kept_in_round, told.wanted_in_round) = (0, 0);
        let mut child = Running::start(command("spend", scratch.path(), round));
        for _ in 0..numbers.below(4_000) {
            told.hear(&child.line().expect("the child has ended by itself"));
        }
        for line in child.kill() {
            told.hear(&line);
        }
        let opened = EmbeddedStore::open(scratch.path(), options(), moment(round)).unwrap();
        charged += opened.report.charged.len();
        let count = |is: fn(&&Known) -> bool| told.calls.values().filter(is).count();
        refused += count(|known| matches!(known, Known::Refused));
        let told_of = count(|known| matches!(known, Known::Ended { .. } | Known::Voided { .. }));
        ended += told_of;
        let unwritten = check(&opened, &mut told, round);
        // They wait for the next reservation: one or two of each thread, and those whose holds are kept.
        assert!(unwritten <= UNWRITTEN, "round {round}: {unwritten} of {told_of}");
    }
    assert!(ended > 1_000 && charged > 100, "{ended}, {charged}");
    assert!(refused > 0, "the cap was never reached");
}
