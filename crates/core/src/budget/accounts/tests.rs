//! Model tests against an ordered map.

use super::{Account, Accounts, FEWEST, MOST_FULL, NOBODY, OF, PARTS, Part, hash, part_of};
use crate::money::Money;
use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use std::collections::BTreeMap;

fn account(posted: u64) -> Account {
    Account { posted: Money::from_nanos(posted), held: Money::ZERO }
}

fn sorted(accounts: &Accounts) -> Vec<(u64, Account)> {
    let mut all: Vec<_> = accounts.iter().collect();
    all.sort_unstable_by_key(|(caller, _)| *caller);
    all
}

/// Callers of one shard in ascending order, so that their slots collide.
fn neighbours(how_many: usize) -> Vec<u64> {
    (1..).filter(|caller| part_of(hash(*caller, 0)) == 7).take(how_many).collect()
}

proptest! {
    /// All of them in one shard, where they collide.
    #[test]
    fn accounts_are_found_until_they_are_closed(steps in vec((0_usize..40, 0_u8..4, 0_u64..9), 0..400)) {
        let mut callers = neighbours(39);
        callers.push(NOBODY);
        let (mut accounts, mut model) = (Accounts::default(), BTreeMap::new());
        for (which, deed, amount) in steps {
            let caller = callers[which];
            if deed == 0 {
                accounts.remove(caller);
                model.remove(&caller);
            } else {
                *accounts.open(caller) = account(amount);
                model.insert(caller, account(amount));
            }
            prop_assert_eq!(accounts.len(), model.len());
            for caller in &callers {
                prop_assert_eq!(accounts.get(*caller), model.get(caller).copied());
            }
        }
        prop_assert_eq!(sorted(&accounts), model.clone().into_iter().collect::<Vec<_>>());
        let Part { places, taken } = &accounts.parts[7];
        prop_assert!(places.is_empty() || *taken < places.len());
        prop_assert!(taken * OF <= places.len() * MOST_FULL);
        for left in (0..model.len()).rev() {
            prop_assert!(accounts.dismantle());
            prop_assert_eq!(accounts.len(), left);
        }
        prop_assert!(!accounts.dismantle() && accounts.iter().next().is_none());
    }
}

#[test]
fn a_new_account_has_nothing_in_it_and_an_old_one_what_it_had() {
    let mut accounts = Accounts::default();
    for caller in [NOBODY, 1, u64::MAX] {
        assert_eq!(accounts.get(caller), None);
        assert_eq!(*accounts.open(caller), Account::default());
        assert_eq!(accounts.get(caller), Some(Account::default()), "it is there, however empty");
        *accounts.open(caller) = account(5);
        assert_eq!(*accounts.open(caller), account(5));
    }
    accounts.remove(1);
    accounts.remove(1);
    assert_eq!((accounts.get(1), *accounts.open(1), accounts.len()), (None, Account::default(), 3));
}

#[test]
fn an_account_lies_at_most_a_few_places_behind_where_its_number_leads() {
    let mut accounts = Accounts::default();
    // Sequential numbers and scattered numbers.
    for number in 1..=50_000_u64 {
        *accounts.open(number) = account(number);
        *accounts.open(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)) = account(number);
    }
    let (mut steps, mut places) = (0, 0);
    for part in &accounts.parts {
        places += part.places.len();
        for (at, place) in part.places.iter().enumerate().filter(|(_, place)| place.caller != NOBODY) {
            let home = part.home(hash(place.caller, 0));
            steps += (at + part.places.len() - home) % part.places.len();
        }
    }
    assert_eq!(accounts.len(), 100_000);
    assert!(steps < 300_000, "{steps} steps in all");
    assert!((123_000..=190_000).contains(&places), "{places} places for 100,000");
    let largest = accounts.parts.iter().map(|part| part.places.len()).max().unwrap();
    assert!(largest < 3 * places / PARTS, "no part is much larger than the rest, and {largest} is");
}

#[test]
fn places_are_laid_out_anew_when_thirteen_of_sixteen_are_taken() {
    let mut part = Part::default();
    let mut lengths = Vec::new();
    for caller in neighbours(14) {
        part.open(hash(caller, 0), caller, 0);
        lengths.push(part.places.len());
    }
    assert_eq!(FEWEST, 4);
    assert_eq!(lengths, [4, 4, 4, 6, 9, 9, 9, 13, 13, 13, 19, 19, 19, 19]);
}

#[test]
fn another_seed_lays_the_same_accounts_out_elsewhere() {
    let mut accounts = Accounts::default();
    for caller in 0..1_000 {
        accounts.open(caller).posted = Money::from_nanos(caller);
    }
    let other = accounts.laid_out_by(7);
    assert_eq!(other.len(), 1_000);
    for caller in 0..1_000 {
        assert_eq!(other.get(caller).map(|account| account.posted), Some(Money::from_nanos(caller)));
    }
    let order = |accounts: &Accounts| accounts.iter().map(|(caller, _)| caller).collect::<Vec<_>>();
    assert_ne!(order(&accounts), order(&other));
}
