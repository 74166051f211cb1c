//! Model tests against an ordered map.

use super::{
    AccountShard, AccountTable, BudgetAccount, EMPTY, MAX_FULL, MIN_CAPACITY, OF, SHARDS, hash, shard_of,
};
use crate::money::Money;
use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use std::collections::BTreeMap;

fn account(posted: u64) -> BudgetAccount {
    BudgetAccount { posted: Money::from_nanos(posted), held: Money::ZERO }
}

fn sorted(accounts: &AccountTable) -> Vec<(u64, BudgetAccount)> {
    let mut all: Vec<_> = accounts.iter().collect();
    all.sort_unstable_by_key(|(caller, _)| *caller);
    all
}

/// Callers of one shard in ascending order, so that their slots collide.
fn neighbours(how_many: usize) -> Vec<u64> {
    (1..).filter(|caller| shard_of(hash(*caller, 0)) == 7).take(how_many).collect()
}

proptest! {
    /// All of them in one shard, where they collide.
    #[test]
    fn accounts_are_found_until_they_are_closed(steps in vec((0_usize..40, 0_u8..4, 0_u64..9), 0..400)) {
        let mut callers = neighbours(39);
        callers.push(EMPTY);
        let (mut accounts, mut model) = (AccountTable::default(), BTreeMap::new());
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
        let AccountShard { slots, occupied } = &accounts.shards[7];
        prop_assert!(slots.is_empty() || *occupied < slots.len());
        prop_assert!(occupied * OF <= slots.len() * MAX_FULL);
        for left in (0..model.len()).rev() {
            prop_assert!(accounts.remove_any());
            prop_assert_eq!(accounts.len(), left);
        }
        prop_assert!(!accounts.remove_any() && accounts.iter().next().is_none());
    }
}

#[test]
fn a_new_account_has_nothing_in_it_and_an_old_one_what_it_had() {
    let mut accounts = AccountTable::default();
    for caller in [EMPTY, 1, u64::MAX] {
        assert_eq!(accounts.get(caller), None);
        assert_eq!(*accounts.open(caller), BudgetAccount::default());
        assert_eq!(accounts.get(caller), Some(BudgetAccount::default()), "it is there, however empty");
        *accounts.open(caller) = account(5);
        assert_eq!(*accounts.open(caller), account(5));
    }
    accounts.remove(1);
    accounts.remove(1);
    assert_eq!((accounts.get(1), *accounts.open(1), accounts.len()), (None, BudgetAccount::default(), 3));
}

#[test]
fn probing_is_short() {
    let mut accounts = AccountTable::default();
    // Sequential numbers and scattered numbers.
    for number in 1..=50_000_u64 {
        *accounts.open(number) = account(number);
        *accounts.open(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)) = account(number);
    }
    let (mut steps, mut slots) = (0, 0);
    for shard in &accounts.shards {
        slots += shard.slots.len();
        for (at, slot) in shard.slots.iter().enumerate().filter(|(_, slot)| slot.caller != EMPTY) {
            let home = shard.home(hash(slot.caller, 0));
            steps += (at + shard.slots.len() - home) % shard.slots.len();
        }
    }
    assert_eq!(accounts.len(), 100_000);
    assert!(steps < 300_000, "{steps} steps in all");
    assert!((123_000..=190_000).contains(&slots), "{slots} slots for 100,000");
    let largest = accounts.shards.iter().map(|shard| shard.slots.len()).max().unwrap();
    assert!(largest < 3 * slots / SHARDS, "no shard is much larger than the rest, and {largest} is");
}

#[test]
fn a_shard_grows_at_its_load_factor() {
    let mut shard = AccountShard::default();
    let mut lengths = Vec::new();
    for caller in neighbours(14) {
        shard.open(hash(caller, 0), caller, 0);
        lengths.push(shard.slots.len());
    }
    assert_eq!(MIN_CAPACITY, 4);
    assert_eq!(lengths, [4, 4, 4, 6, 9, 9, 9, 13, 13, 13, 19, 19, 19, 19]);
}

#[test]
fn another_seed_changes_the_layout_and_not_the_accounts() {
    let mut accounts = AccountTable::default();
    for caller in 0..1_000 {
        accounts.open(caller).posted = Money::from_nanos(caller);
    }
    let other = accounts.rehashed(7);
    assert_eq!(other.len(), 1_000);
    for caller in 0..1_000 {
        assert_eq!(other.get(caller).map(|account| account.posted), Some(Money::from_nanos(caller)));
    }
    let order = |accounts: &AccountTable| accounts.iter().map(|(caller, _)| caller).collect::<Vec<_>>();
    assert_ne!(order(&accounts), order(&other));
}
