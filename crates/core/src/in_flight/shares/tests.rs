use super::{SlotLimit, SlotOwner, SlotPermit, SlotRefusal, SlotShares};
use crate::invariant::Invariant;
use crate::setting::Ratio;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use std::num::NonZeroU32;

fn shares(per_caller: f64, per_address: f64, guests: f64, reserved: f64) -> SlotShares {
    let ratio = |percent| Ratio::percent("share", percent);
    SlotShares {
        per_caller: ratio(per_caller).unwrap(),
        per_address: ratio(per_address).unwrap(),
        guests: ratio(guests).unwrap(),
        reserved: ratio(reserved).ok(),
    }
}

fn slots_of(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

fn usual() -> SlotShares {
    shares(100.0, 25.0, 50.0, 10.0)
}

const fn caller(caller: u64) -> SlotOwner {
    SlotOwner { caller, guest_network: None }
}

const fn guest(caller: u64, from: u64) -> SlotOwner {
    SlotOwner { caller, guest_network: Some(from) }
}

/// Acquires as many slots as this owner can get.
fn all(slots: &SlotLimit, owner: SlotOwner) -> Vec<SlotPermit> {
    std::iter::from_fn(|| slots.try_acquire(owner).ok()).collect()
}

#[test]
fn one_caller_never_takes_all_and_who_has_none_gets_one() {
    let slots = SlotLimit::new(slots_of(20), usual());
    let first = all(&slots, caller(1));
    assert_eq!((first.len(), slots.try_acquire(caller(1)).err()), (18, Some(SlotRefusal::Reserved)));
    let second = slots.try_acquire(caller(2)).unwrap();
    assert_eq!(slots.try_acquire(caller(2)).err(), Some(SlotRefusal::Reserved));
    let third = slots.try_acquire(caller(3)).unwrap();
    assert_eq!(slots.try_acquire(caller(4)).err(), Some(SlotRefusal::Full));
    drop((first, second, third));
    assert_eq!((slots.in_flight(), slots.peak(), all(&slots, caller(9)).len()), (0, 20, 18));
}

#[test]
fn guests_together_have_half_and_one_address_a_quarter() {
    let slots = SlotLimit::new(slots_of(20), usual());
    // A new cookie for every request gains nothing.
    let of_one: Vec<_> = (0..20).filter_map(|cookie| slots.try_acquire(guest(cookie, 7)).ok()).collect();
    assert_eq!((of_one.len(), slots.try_acquire(guest(99, 7)).err()), (5, Some(SlotRefusal::NetworkShare)));
    let others: Vec<_> = (100..120).filter_map(|one| slots.try_acquire(guest(one, one)).ok()).collect();
    assert_eq!((others.len(), slots.try_acquire(guest(98, 98)).err()), (5, Some(SlotRefusal::GuestShare)));
    assert_eq!(all(&slots, caller(1)).len(), 8, "the rest is for who has shown who it is");
}

#[test]
fn few_slots_are_first_come_first_served() {
    for limit in 1..4 {
        let slots = SlotLimit::new(slots_of(limit), usual());
        assert_eq!(all(&slots, caller(1)).len(), limit as usize);
    }
    let slots = SlotLimit::new(slots_of(4), usual());
    assert_eq!(all(&slots, caller(1)).len(), 3);
    let slots = SlotLimit::new(slots_of(20), shares(100.0, 100.0, 100.0, 0.0));
    assert_eq!(all(&slots, caller(1)).len(), 20, "no slot is reserved if that is configured");
}

#[test]
fn other_shares_hold_for_the_next_and_a_limit_of_nothing_is_refused() {
    let slots = SlotLimit::new(slots_of(20), usual());
    let held = all(&slots, caller(1));
    slots.set_limits(slots_of(10), shares(50.0, 25.0, 50.0, 10.0));
    assert_eq!((slots.limit(), slots.try_acquire(caller(2)).err()), (10, Some(SlotRefusal::Full)));
    drop(held);
    assert_eq!(all(&slots, caller(1)).len(), 5);
    assert_eq!(slots.limit(), 10);
}

/// A naive reference: the list of owners, with every count recomputed.
fn naive(limit: u32, shares: (u64, u64, u64, u64), held: &[SlotOwner], wants: SlotOwner) -> bool {
    let count = |is: &dyn Fn(&SlotOwner) -> bool| held.iter().filter(|one| is(one)).count() as u64;
    let of = |percent: u64| (u64::from(limit) * percent / 100).max(1);
    let (mine, whole) = (count(&|one| one.caller == wants.caller), held.len() as u64);
    let near = count(&|one| one.guest_network == wants.guest_network);
    let is_guest = wants.guest_network.is_some();
    let reserved = if limit < 4 || shares.3 == 0 { 0 } else { of(shares.3).min(u64::from(limit) - 1) };
    let own = if is_guest { near } else { mine };
    whole < u64::from(limit)
        && (!is_guest || count(&|one| one.guest_network.is_some()) < of(shares.2))
        && (!is_guest || near < of(shares.1))
        && mine < of(shares.0)
        && (own == 0 || whole < u64::from(limit) - reserved)
}

fn owners() -> impl Strategy<Value = SlotOwner> {
    // Guests' numbers differ from callers', as hashes of different inputs do.
    prop_oneof![(0_u64..4).prop_map(caller), (10_u64..14, 0_u64..3).prop_map(|(one, from)| guest(one, from))]
}

proptest! {
    #[test]
    fn slots_match_a_reference_that_recounts(
        limit in 1_u32..30,
        percents in (1_u64..=100, 1_u64..=100, 1_u64..=100, 0_u64..=100),
        steps in vec((any::<bool>(), owners(), any::<usize>()), 0..120),
    ) {
        let float = |percent: u64| percent as f64;
        let (a, b, c, d) = percents;
        let slots = SlotLimit::new(slots_of(limit), shares(float(a), float(b), float(c), float(d)));
        let (mut held, mut permits) = (Vec::new(), Vec::new());
        for (takes, owner, which) in steps {
            if takes {
                let given = slots.try_acquire(owner);
                prop_assert_eq!(given.is_ok(), naive(limit, percents, &held, owner));
                if let Ok(permit) = given {
                    held.push(owner);
                    permits.push(permit);
                }
            } else if !held.is_empty() {
                let which = which % held.len();
                held.swap_remove(which);
                drop(permits.swap_remove(which));
            }
            prop_assert_eq!(slots.in_flight() as usize, held.len());
            prop_assert!(slots.in_flight() <= limit);
        }
        drop(permits);
        prop_assert_eq!(slots.in_flight(), 0);
        let owners = slots.owners.lock().unwrap();
        prop_assert!(owners.callers.is_empty() && owners.networks.is_empty() && owners.guests == 0);
    }
}

#[test]
fn more_in_flight_than_the_limit_is_a_violation() {
    let slots = SlotLimit::new(slots_of(2), usual());
    let held = [slots.try_acquire(caller(1)).unwrap(), slots.try_acquire(caller(2)).unwrap()];
    assert_eq!(slots.check_in_flight(), Ok(()));
    slots.all.set_limit(slots_of(1));
    assert_eq!(slots.check_in_flight().unwrap_err().invariant, Invariant::InFlightWithinLimit);
    drop(held);
}
