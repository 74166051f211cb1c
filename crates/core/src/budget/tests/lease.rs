use super::{at, nanos, small};
use crate::budget::{BudgetBook, BudgetOptions, Entry, LeaseBook, LeaseDecision, LeaseId, LentBooks, Recall};
use crate::invariant::spend_within_cap;
use crate::money::{Money, Usage};
use crate::setting::Factor;
use crate::time::Timestamp;
use crate::vocabulary::Tier;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::Index;

fn granted(decision: LeaseDecision) -> (LeaseId, u64) {
    match decision {
        LeaseDecision::Granted(lease) => (lease.id, lease.rest.as_nanos()),
        LeaseDecision::Spent => panic!("spent"),
    }
}

fn books(posted: u64, lent: u64, written_off: u64) -> LentBooks {
    LentBooks { posted: nanos(posted), lent: nanos(lent), written_off: nanos(written_off) }
}

const LATER: Timestamp = Timestamp::from_nanos(100);

#[test]
fn nodes_get_what_they_ask_for_until_the_rest_and_then_nothing() {
    let mut book = LeaseBook::new(small());
    let (first, amount) = granted(book.grant(1, Tier::Guest, 0, nanos(100), LATER));
    assert_eq!(amount, 100);
    let (_, amount) = granted(book.grant(2, Tier::Guest, 0, nanos(100), LATER));
    assert_eq!(amount, 50);
    assert_eq!(book.grant(3, Tier::Guest, 0, nanos(1), LATER), LeaseDecision::Spent);
    assert_eq!(book.grant(3, Tier::Prime, 0, Money::ZERO, LATER), LeaseDecision::Spent);
    assert_eq!(book.give_back(first, nanos(30)), nanos(30));
    let (_, amount) = granted(book.grant(3, Tier::Guest, 0, nanos(100), LATER));
    assert_eq!(amount, 30);
    assert_eq!(book.give_back(first, nanos(1_000)), nanos(70));
    assert_eq!(book.tier(0, Tier::Guest), books(0, 80, 0));
    assert_eq!(granted(book.grant(3, Tier::Guest, 1, nanos(200), LATER)).1, 150);
}

#[test]
fn what_is_posted_leaves_the_lease_and_an_overrun_is_booked() {
    let mut book = LeaseBook::new(small());
    let (lease, _) = granted(book.grant(1, Tier::Guest, 0, nanos(100), LATER));
    assert!(book.post(lease, nanos(30)));
    assert_eq!((book.tier(0, Tier::Guest), book.lease(lease).unwrap().rest), (books(30, 70, 0), nanos(70)));
    assert!(book.post(lease, nanos(90)));
    assert_eq!((book.tier(0, Tier::Guest), book.lease(lease).unwrap().rest), (books(120, 0, 0), nanos(0)));
    assert!(!book.post(LeaseId(99), nanos(5)));
    assert!(!book.renew(LeaseId(99), LATER));
    assert_eq!(book.give_back(LeaseId(99), nanos(5)), Money::ZERO);
    book.post_late(0, Tier::Guest, nanos(5));
    assert_eq!(book.all(0), books(125, 0, 0));
    book.forget_before(0);
    assert!(book.lease(lease).is_some());
    book.forget_before(1);
    assert_eq!((book.lease(lease), book.all(0)), (None, LentBooks::default()));
}

#[test]
fn a_silent_node_takes_its_rest_with_it_until_it_is_reconciled() {
    let mut book = LeaseBook::new(small());
    let (lease, _) = granted(book.grant(1, Tier::Guest, 0, nanos(100), LATER));
    book.post(lease, nanos(10));
    assert_eq!(book.expire(Timestamp::from_nanos(99)), []);
    assert_eq!(book.expire(LATER).iter().map(|lease| lease.id).collect::<Vec<_>>(), [lease]);
    assert_eq!(book.expire(LATER), []);
    assert_eq!(book.tier(0, Tier::Guest), books(10, 0, 90));
    // Late news is taken out of what was written off.
    book.post(lease, nanos(20));
    assert_eq!(book.tier(0, Tier::Guest), books(30, 0, 70));
    assert_eq!(granted(book.grant(2, Tier::Guest, 0, nanos(100), LATER)).1, 50);
    assert_eq!(book.reconcile(lease, nanos(15)), nanos(55));
    assert_eq!((book.tier(0, Tier::Guest), book.lease(lease)), (books(45, 50, 0), None));
    assert_eq!(book.reconcile(lease, nanos(15)), Money::ZERO);
}

#[test]
fn a_node_that_was_only_slow_has_its_lease_again() {
    let mut book = LeaseBook::new(small());
    let (lease, _) = granted(book.grant(1, Tier::Guest, 0, nanos(100), LATER));
    book.expire(LATER);
    assert!(book.renew(lease, Timestamp::from_nanos(300)));
    assert_eq!(book.tier(0, Tier::Guest), books(0, 100, 0));
    // A renewal that comes late does not shorten it.
    book.renew(lease, Timestamp::from_nanos(200));
    assert_eq!(book.expire(Timestamp::from_nanos(299)), []);
    assert_eq!(book.expire(Timestamp::from_nanos(300)).len(), 1);
    // A rest that is over midnight stays in the books of its day.
    book.forget_before(1);
    assert_eq!(book.tier(0, Tier::Guest), books(0, 0, 100));
}

#[test]
fn a_lower_cap_asks_the_newest_leases_back() {
    let mut book = LeaseBook::new(small());
    let (first, _) = granted(book.grant(1, Tier::Prime, 0, nanos(300), LATER));
    let (second, _) = granted(book.grant(2, Tier::Prime, 0, nanos(200), LATER));
    let (guest, _) = granted(book.grant(2, Tier::Guest, 0, nanos(20), LATER));
    let (lost, _) = granted(book.grant(3, Tier::Guest, 0, nanos(10), Timestamp::ZERO));
    book.expire(Timestamp::ZERO);
    let _ = granted(book.grant(2, Tier::Prime, 1, nanos(500), LATER));
    assert_eq!(book.set_limits(small(), 0), []);
    // 1,000 become 400: prime has 500 out of 200, guests 30 out of 60, and all together 530 out of 400.
    let less = small().scaled(Factor::new("budget", 0.4).unwrap());
    let recall = |lease, node, amount| Recall { lease, node, amount: nanos(amount) };
    assert_eq!(book.set_limits(less, 0), [recall(second, 2, 200), recall(first, 1, 100)]);
    // Shares that leave each tier its own but not all of them together.
    let odd = BudgetOptions {
        day: nanos(505),
        caller_day: nanos(5),
        shares: [99.9, 0.05, 0.05],
        ..BudgetOptions::default()
    };
    assert_eq!(book.set_limits(odd.check().unwrap(), 0), [recall(guest, 2, 20), recall(second, 2, 5)]);
    assert!(book.lease(lost).is_some());
}

#[derive(Clone, Debug)]
enum Step {
    Grant { node: u64, tier: usize, wanted: u64 },
    Post(Index, u64),
    GiveBack(Index, u64),
    Reconcile(Index, u64),
    Renew(Index),
    Expire,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let on = || (any::<Index>(), 0..200_u64);
    let step = prop_oneof![
        3 => (0..4_u64, 0..3_usize, 0..300_u64).prop_map(|(node, tier, wanted)| Step::Grant { node, tier, wanted }),
        3 => on().prop_map(|(lease, amount)| Step::Post(lease, amount)),
        2 => on().prop_map(|(lease, amount)| Step::GiveBack(lease, amount)),
        1 => on().prop_map(|(lease, amount)| Step::Reconcile(lease, amount)),
        1 => any::<Index>().prop_map(Step::Renew),
        1 => Just(Step::Expire),
    ];
    vec(step, 1..60)
}

proptest! {
    /// Each node's calls cost at most what it was lent, so that what is posted, lent and written off is within the caps,
    /// and it is exactly what the leases say.
    #[test]
    fn what_is_posted_lent_and_written_off_stays_within_the_cap(steps in steps()) {
        let mut book = LeaseBook::new(small());
        let (mut granted, mut posted, mut back) = (vec![], 0_u64, 0_u64);
        let mut lent = 0_u64;
        for step in steps {
            let pick = |which: &Index| (!granted.is_empty()).then(|| granted[which.index(granted.len())]);
            match step {
                Step::Grant { node, tier, wanted } => {
                    if let LeaseDecision::Granted(lease) = book.grant(node, Tier::ALL[tier], 0, nanos(wanted), LATER) {
                        granted.push(lease.id);
                        lent += lease.rest.as_nanos();
                    }
                }
                Step::Post(which, amount) => if let Some(id) = pick(&which) {
                    let rest = book.lease(id).map_or(0, |lease| lease.rest.as_nanos());
                    book.post(id, nanos(amount.min(rest)));
                    posted += amount.min(rest);
                }
                Step::GiveBack(which, amount) => if let Some(id) = pick(&which) {
                    back += book.give_back(id, nanos(amount)).as_nanos();
                }
                Step::Reconcile(which, amount) => if let Some(id) = pick(&which) {
                    let rest = book.lease(id).map_or(0, |lease| lease.rest.as_nanos());
                    if book.lease(id).is_some() {
                        posted += amount.min(rest);
                    }
                    back += book.reconcile(id, nanos(amount.min(rest))).as_nanos();
                }
                Step::Renew(which) => if let Some(id) = pick(&which) {
                    book.renew(id, LATER);
                }
                Step::Expire => {
                    book.expire(LATER);
                }
            }
            let all = book.all(0);
            prop_assert_eq!(all.posted, nanos(posted));
            prop_assert_eq!(all.committed(), nanos(lent - back));
            for tier in Tier::ALL {
                let books = book.tier(0, tier);
                let held = books.lent.saturating_add(books.written_off);
                prop_assert_eq!(spend_within_cap(books.posted, held, Money::ZERO, small().tier_cap(0, tier)), Ok(()));
                let rests = |off: bool| granted.iter().filter_map(|id| book.lease(*id))
                    .filter(|lease| lease.tier == tier && lease.written_off == off).map(|lease| lease.rest).sum::<Money>();
                prop_assert_eq!((books.lent, books.written_off), (rests(false), rests(true)));
            }
        }
    }

    /// A whole fleet: nodes reserve from their leases, post, crash and come back; the authority's cap holds.
    #[test]
    fn a_fleet_on_leases_never_spends_more_than_the_cap(
        steps in vec((0..4_usize, 0..3_usize, 0..40_u64, 0..40_u64, 0..10_u8), 1..80),
    ) {
        let mut authority = LeaseBook::new(small());
        let fresh = || BudgetBook::on_leases(small());
        let mut nodes: Vec<(BudgetBook, [Option<LeaseId>; 3])> = (0..4).map(|_| (fresh(), [None; 3])).collect();
        let mut billed = [0_u64; 3];
        for (node, tier, worst, actual, chance) in steps {
            let number = node as u64;
            let (book, leases) = &mut nodes[node];
            if chance == 0 {
                // It dies: its books are gone, its leases stay out.
                (*book, *leases) = (fresh(), [None; 3]);
                continue;
            }
            let of_tier = Tier::ALL[tier];
            let ask = super::ask(number * 100 + tier as u64, of_tier, worst);
            let Ok(id) = book.reserve(&ask, at(0)) else {
                if let LeaseDecision::Granted(lease) = authority.grant(number, of_tier, 0, nanos(worst * 2), LATER) {
                    if let Some(old) = leases[tier].replace(lease.id) {
                        let free = book.give_back(0, of_tier, Money::MAX);
                        authority.give_back(old, free);
                    }
                    book.lend(0, of_tier, lease.rest);
                }
                continue;
            };
            let cost = nanos(actual.min(worst));
            let _ = book.apply(&Entry::Posted { id, usage: Usage::default(), cost });
            if let Some(lease) = leases[tier] {
                authority.post(lease, cost);
            }
            billed[tier] += cost.as_nanos();
            for tier in Tier::ALL {
                let books = authority.tier(0, tier);
                prop_assert_eq!(books.posted.as_nanos(), billed[tier.index()]);
                prop_assert!(books.committed() <= small().tier_cap(0, tier));
            }
        }
    }
}
