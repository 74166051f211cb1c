//! Model of a fleet: nodes with their own clocks that crash, and messages that are lost, delayed and duplicated.

use super::{DAY, ask, nanos, small};
use crate::budget::{
    ApplyDecision, BudgetEntry, BudgetLease, BudgetLedger, LeaseId, LeaseLedger, LeaseRecall, LeaseReport,
    LeaseState, ReservationId, ReservationRequest,
};
use crate::invariant::spend_within_cap;
use crate::money::{Money, Usage};
use crate::setting::Factor;
use crate::time::{Now, Timestamp, UtcTime};
use crate::vocabulary::Tier;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;
use std::collections::BTreeMap;
use std::time::Duration;

const LASTS: Duration = Duration::from_secs(30);
const MARGIN: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
enum Step {
    /// A request, or a request for a lease if there is no money.
    Request {
        node: usize,
        tier: usize,
        max_cost: u64,
        actual: u64,
    },
    /// A call ends, and its node records the cost.
    End(Index),
    Report(usize),
    /// A node gives back what it does not hold.
    Drain {
        node: usize,
        tier: usize,
    },
    /// A message is delivered, possibly more than once.
    Deliver {
        which: Index,
        again: bool,
    },
    Lose(Index),
    Wait(u64),
    /// Sets the wall clock of the whole fleet.
    SetDay(u64),
    /// A node crashes and restarts with or without its journal.
    Crash {
        node: usize,
        keeps_journal: bool,
    },
    /// The actual spend of written-off leases becomes known.
    Reconcile(Index),
    /// Caps, in percent of the original ones.
    SetCaps(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        10 => (0..3_usize, 0..2_usize, 0..60_u64, 0..60_u64)
            .prop_map(|(node, tier, max_cost, actual)| Step::Request { node, tier, max_cost, actual: actual.min(max_cost) }),
        4 => any::<Index>().prop_map(Step::End),
        3 => (0..3_usize).prop_map(Step::Report),
        1 => (0..3_usize, 0..2_usize).prop_map(|(node, tier)| Step::Drain { node, tier }),
        12 => (any::<Index>(), any::<bool>()).prop_map(|(which, again)| Step::Deliver { which, again }),
        1 => any::<Index>().prop_map(Step::Lose),
        3 => (0..40_u64).prop_map(Step::Wait),
        1 => (0..2_u64).prop_map(Step::SetDay),
        1 => (0..3_usize, any::<bool>()).prop_map(|(node, keeps_journal)| Step::Crash { node, keeps_journal }),
        2 => any::<Index>().prop_map(Step::Reconcile),
        1 => prop_oneof![Just(100_u32), Just(50), Just(10)].prop_map(Step::SetCaps),
    ];
    vec(step, 1..120)
}

#[derive(Clone, Copy, Debug)]
enum Message {
    Question { lease: LeaseId, total: Money, sent_at: Timestamp },
    Answer { lease: BudgetLease, sent_at: Timestamp },
    Report(LeaseReport),
    Recall(LeaseRecall),
}

struct Node {
    number: u64,
    /// How far its clock is ahead of the authority's.
    ahead: Duration,
    ledger: BudgetLedger,
    journal: Vec<BudgetEntry>,
}

impl Node {
    fn new(number: u64) -> Self {
        let ahead = Duration::from_secs(number % 3 * 1_000);
        Self { number, ahead, ledger: BudgetLedger::with_leases(small(), number), journal: Vec::new() }
    }

    fn apply(&mut self, entry: BudgetEntry) -> ApplyDecision {
        self.journal.push(entry);
        self.ledger.apply(&entry)
    }

    fn come_back(&mut self) {
        let journal = std::mem::take(&mut self.journal);
        let (old, mut new) = (&self.ledger, BudgetLedger::with_leases(small(), self.number));
        for entry in &journal {
            let _ = new.apply(entry);
        }
        for (day, tier) in [0, 1].into_iter().flat_map(|day| Tier::ALL.map(|tier| (day, tier))) {
            let figures = |ledger: &BudgetLedger| {
                (ledger.tier(day, tier), ledger.tier_cap(day, tier), ledger.lease_reports(day))
            };
            assert_eq!(figures(&new), figures(old));
        }
        (self.ledger, self.journal) = (new, journal);
        let expired = self.ledger.recover();
        self.journal.extend(expired.into_iter().map(|(entry, _)| entry));
    }
}

struct Call {
    node: u64,
    id: ReservationId,
    actual: Money,
}

struct World {
    authority: LeaseLedger,
    nodes: Vec<Node>,
    numbers: u64,
    wire: Vec<Message>,
    calls: Vec<Call>,
    /// Ground truth: what the vendor bills, from the moment of the call.
    billed: BTreeMap<LeaseId, Money>,
    now: Timestamp,
    day: u64,
}

impl World {
    fn new() -> Self {
        Self {
            authority: LeaseLedger::new(small()),
            nodes: (0..3).map(Node::new).collect(),
            numbers: 3,
            wire: Vec::new(),
            calls: Vec::new(),
            billed: BTreeMap::new(),
            now: Timestamp::ZERO,
            day: 0,
        }
    }

    fn clock(&self, node: usize) -> Now {
        let utc = UtcTime::start_of_day(self.day) + Duration::from_secs(DAY / 2);
        Now::new(self.now + self.nodes[node].ahead, utc)
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Request { node, tier, max_cost, actual } => {
                self.request(node, Tier::ALL[tier], max_cost, actual);
            }
            Step::End(which) if !self.calls.is_empty() => {
                let Call { node, id, actual } = self.calls.swap_remove(which.index(self.calls.len()));
                if let Some(node) = self.nodes.iter_mut().find(|one| one.number == node) {
                    let _ = node.apply(BudgetEntry::Posted { id, usage: Usage::default(), cost: actual });
                }
            }
            Step::Report(node) => self.report(node),
            Step::Drain { node, tier } => {
                let back = self.nodes[node].ledger.decide_return(self.day, Tier::ALL[tier], Money::MAX);
                if let Some(entry) = back {
                    let _ = self.nodes[node].apply(entry);
                }
                self.report(node);
            }
            Step::Deliver { which, again } if !self.wire.is_empty() => {
                let place = which.index(self.wire.len());
                let message = self.wire[place];
                if !again {
                    self.wire.swap_remove(place);
                }
                self.deliver(message);
            }
            Step::Lose(which) if !self.wire.is_empty() => {
                self.wire.swap_remove(which.index(self.wire.len()));
            }
            Step::End(_) | Step::Deliver { .. } | Step::Lose(_) => {}
            Step::Wait(seconds) => {
                self.now = self.now + Duration::from_secs(seconds);
                self.authority.expire(self.now);
                for node in &mut self.nodes {
                    let expired = node.ledger.expire(self.now + node.ahead);
                    node.journal.extend(expired.into_iter().map(|(entry, _)| entry));
                }
            }
            Step::SetDay(day) => self.day = day,
            Step::Crash { node, keeps_journal: true } => self.nodes[node].come_back(),
            Step::Crash { node, keeps_journal: false } => {
                self.nodes[node] = Node::new(self.numbers);
                self.numbers += 1;
            }
            Step::Reconcile(which) => {
                let is_lost = |lease: &&BudgetLease| lease.state == LeaseState::WrittenOff;
                let lost: Vec<_> = self.leases().filter(is_lost).map(|lease| lease.id).collect();
                if !lost.is_empty() {
                    let id = lost[which.index(lost.len())];
                    let _ = self.authority.reconcile(id, self.billed.get(&id).copied().unwrap_or_default());
                }
            }
            Step::SetCaps(percent) => {
                let factor = Factor::new("budget", f64::from(percent) / 100.0).unwrap();
                let recalls = self.authority.set_limits(small().scaled(factor), self.day);
                self.wire.extend(recalls.into_iter().map(Message::Recall));
            }
        }
    }

    fn leases(&self) -> impl Iterator<Item = &BudgetLease> {
        [0, 1].into_iter().flat_map(|day| self.authority.of_day(day))
    }

    fn request(&mut self, node: usize, tier: Tier, max_cost: u64, actual: u64) {
        let now = self.clock(node);
        let expires = now.monotonic + Duration::from_secs(20);
        let request = ReservationRequest {
            expires,
            ..ask(self.nodes[node].number * 10 + max_cost % 10, tier, max_cost)
        };
        let one = &mut self.nodes[node];
        let lease = one.ledger.held_lease(self.day, tier).unwrap();
        let Ok(entry) = one.ledger.decide(&request, now) else {
            let total = lease.granted.saturating_add(nanos(max_cost * 2));
            self.wire.push(Message::Question { lease: lease.id, total, sent_at: now.monotonic });
            return;
        };
        let BudgetEntry::Reserved(reservation) = entry else { panic!("{entry:?}") };
        let _ = one.apply(entry);
        self.calls.push(Call { node: one.number, id: reservation.id, actual: nanos(actual) });
        let billed = self.billed.entry(lease.id).or_default();
        *billed = billed.saturating_add(nanos(actual));
    }

    fn report(&mut self, node: usize) {
        let ledger = &self.nodes[node].ledger;
        self.wire.extend([0, 1].into_iter().flat_map(|day| ledger.lease_reports(day)).map(Message::Report));
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Question { lease, total, sent_at } => {
                let lease = *self.authority.grant(lease, total, LASTS, self.now).lease();
                self.wire.push(Message::Answer { lease, sent_at });
            }
            Message::Answer { lease, sent_at } => {
                if let Some(node) = self.nodes.iter_mut().find(|one| one.number == lease.id.node) {
                    node.journal.extend(node.ledger.set_lease(&lease, sent_at, MARGIN));
                }
            }
            Message::Report(report) => {
                self.authority.report(&report);
            }
            Message::Recall(LeaseRecall { lease, returned }) => {
                if let Some(node) = self.nodes.iter_mut().find(|one| one.number == lease.node) {
                    let is_present = node.ledger.held_lease(lease.day, lease.tier).unwrap().id == lease;
                    if let Some(entry) =
                        node.ledger.decide_return(lease.day, lease.tier, returned).filter(|_| is_present)
                    {
                        let _ = node.apply(entry);
                    }
                }
            }
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for (day, tier) in [0, 1].into_iter().flat_map(|day| Tier::ALL.map(|tier| (day, tier))) {
            let cap = small().tier_cap(day, tier);
            let is_here = |id: &LeaseId| id.day == day && id.tier == tier;
            let billed: Money = self.billed.iter().filter(|(id, _)| is_here(id)).map(|(_, cost)| *cost).sum();
            prop_assert!(billed <= cap, "{} was billed on day {} for {}, of {}", billed, day, tier, cap);
            let totals = self.authority.tier(day, tier);
            prop_assert!(billed <= totals.committed(), "{} was billed, and {:?} is known", billed, totals);
            // After a lease is closed, its node may still report a maximum charge above the reconciled spend.
            let truth = |id: LeaseId| self.billed.get(&id).copied().unwrap_or_default();
            let closed = |lease: &&BudgetLease| is_here(&lease.id) && lease.state == LeaseState::Closed;
            let feared =
                self.leases().filter(closed).map(|lease| lease.posted.saturating_sub(truth(lease.id))).sum();
            let held = totals.leased.saturating_add(totals.written_off);
            prop_assert_eq!(spend_within_cap(totals.posted, held, feared, cap), Ok(()));
        }
        Ok(())
    }
}

proptest! {
    /// Whatever crashes, clock skew or message loss occur, the fleet spends at most the cap, and everything the vendor
    /// bills is in the authority's ledger: posted, lent or written off.
    #[test]
    fn a_fleet_on_leases_never_spends_more_than_the_cap(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
            world.check()?;
        }
    }
}
