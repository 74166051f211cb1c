//! The day's money.
//!
//! Before a call its worst case is held; after it the true cost is posted and the rest is free again. What is posted
//! and held together never passes the day's cap, so that no number of concurrent calls can overspend. A [`Hold`]
//! belongs to the day it was made on, whenever it is settled.

use crate::lock;
use seawall_core::money::Money;
use seawall_core::time::UtcTime;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Why a hold was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the day's budget has {free} left and this call may cost {wanted}")]
pub struct BudgetSpent {
    /// What could still be held.
    pub free: Money,
    /// What was asked for.
    pub wanted: Money,
}

/// The books of one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DayBooks {
    /// What calls have truly cost.
    pub posted: Money,
    /// What calls under way may still cost.
    pub held: Money,
    /// How many calls are under way.
    pub holds: u64,
}

impl DayBooks {
    fn committed(&self) -> Money {
        self.posted.saturating_add(self.held)
    }
}

#[derive(Debug)]
struct Books {
    cap: Money,
    days: BTreeMap<u64, DayBooks>,
}

/// A ledger in memory. Cloning it gives another handle to the same books.
///
/// ```
/// use seawall_core::money::Money;
/// use seawall_core::time::UtcTime;
/// use seawall_store::DayLedger;
///
/// let ledger = DayLedger::new(Money::from_dollars(1));
/// let now = UtcTime::from_civil(2026, 11, 15);
/// let hold = ledger.reserve(Money::from_dollars(1), now).unwrap();
/// assert!(ledger.reserve(Money::from_nanos(1), now).is_err());
/// hold.post(Money::from_nanos(400_000_000));
/// assert_eq!(ledger.day(now).posted.to_string(), "$0.40");
/// ```
#[derive(Clone, Debug)]
pub struct DayLedger(Arc<Mutex<Books>>);

/// Money that is held for one call. Dropped without a word, it is posted in full: what a call has cost and nobody can
/// say is its worst case.
#[derive(Debug)]
#[must_use = "dropping a hold posts it in full"]
pub struct Hold {
    ledger: DayLedger,
    day: u64,
    amount: Money,
    settled: bool,
}

impl DayLedger {
    /// Books with this cap on every day.
    #[must_use]
    pub fn new(cap: Money) -> Self {
        Self(Arc::new(Mutex::new(Books { cap, days: BTreeMap::new() })))
    }

    /// Holds `amount` of the day of `now`, if the cap allows it.
    pub fn reserve(&self, amount: Money, now: UtcTime) -> Result<Hold, BudgetSpent> {
        let day = now.day();
        let mut books = lock(&self.0);
        let cap = books.cap;
        let today = books.days.entry(day).or_default();
        let free = cap.saturating_sub(today.committed());
        if amount > free {
            return Err(BudgetSpent { free, wanted: amount });
        }
        today.held = today.held.saturating_add(amount);
        today.holds += 1;
        // Days that are over are kept only while a call of theirs is under way.
        books.days.retain(|number, day_books| *number >= day || day_books.holds > 0);
        Ok(Hold { ledger: self.clone(), day, amount, settled: false })
    }

    /// The books of the day of `now`.
    #[must_use]
    pub fn day(&self, now: UtcTime) -> DayBooks {
        lock(&self.0).days.get(&now.day()).copied().unwrap_or_default()
    }

    /// Changes the cap. Lowered below what is committed, it refuses until enough has been given back.
    pub fn set_cap(&self, cap: Money) {
        lock(&self.0).cap = cap;
    }

    fn settle(&self, day: u64, amount: Money, actual: Money) {
        if let Some(books) = lock(&self.0).days.get_mut(&day) {
            books.held = books.held.saturating_sub(amount);
            books.posted = books.posted.saturating_add(actual);
            books.holds = books.holds.saturating_sub(1);
        }
    }
}

impl Hold {
    /// What is held.
    #[must_use]
    pub fn amount(&self) -> Money {
        self.amount
    }

    /// The call cost this much. More than was held is booked all the same: it has been spent.
    pub fn post(mut self, actual: Money) {
        self.settled = true;
        self.ledger.settle(self.day, self.amount, actual);
    }

    /// The call was not made, or cost nothing.
    pub fn void(self) {
        self.post(Money::ZERO);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.settled {
            self.ledger.settle(self.day, self.amount, self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BudgetSpent, DayBooks, DayLedger, Hold};
    use proptest::collection::vec;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use seawall_core::money::Money;
    use seawall_core::time::UtcTime;
    use std::time::Duration;

    fn nanos(nanos: u64) -> Money {
        Money::from_nanos(nanos)
    }

    fn today() -> UtcTime {
        UtcTime::from_civil(2026, 11, 15)
    }

    #[test]
    fn the_cap_is_a_wall_and_the_refusal_says_what_is_left() {
        let ledger = DayLedger::new(nanos(10));
        let held = ledger.reserve(nanos(7), today()).unwrap();
        assert_eq!(held.amount(), nanos(7));
        let refusal = ledger.reserve(nanos(4), today()).unwrap_err();
        assert_eq!(refusal, BudgetSpent { free: nanos(3), wanted: nanos(4) });
        let text = "the day's budget has $0.000000003 left and this call may cost $0.000000004";
        assert_eq!(refusal.to_string(), text);
        let rest = ledger.reserve(nanos(3), today()).unwrap();
        held.post(nanos(5));
        assert_eq!(ledger.day(today()), DayBooks { posted: nanos(5), held: nanos(3), holds: 1 });
        rest.void();
        assert_eq!(ledger.day(today()), DayBooks { posted: nanos(5), held: nanos(0), holds: 0 });
    }

    #[test]
    fn a_hold_that_is_dropped_is_posted_in_full_and_an_overrun_is_booked() {
        let ledger = DayLedger::new(nanos(10));
        drop(ledger.reserve(nanos(4), today()));
        assert_eq!(ledger.day(today()).posted, nanos(4));
        ledger.reserve(nanos(1), today()).unwrap().post(nanos(9));
        assert_eq!(ledger.day(today()), DayBooks { posted: nanos(13), held: nanos(0), holds: 0 });
        assert_eq!(ledger.reserve(nanos(1), today()).unwrap_err().free, Money::ZERO);
    }

    #[test]
    fn a_hold_belongs_to_the_day_it_was_made_on() {
        let ledger = DayLedger::new(nanos(10));
        let evening = ledger.reserve(nanos(10), today()).unwrap();
        let tomorrow = today() + Duration::from_secs(86_400);
        let morning = ledger.reserve(nanos(10), tomorrow).unwrap();
        evening.post(nanos(6));
        assert_eq!(ledger.day(today()).posted, nanos(6));
        assert_eq!(ledger.day(tomorrow), DayBooks { posted: nanos(0), held: nanos(10), holds: 1 });
        morning.void();
        // A day that is over and has nothing under way is forgotten with the next hold.
        drop(ledger.reserve(nanos(1), tomorrow));
        assert_eq!(ledger.day(today()), DayBooks::default());
    }

    #[test]
    fn a_lowered_cap_refuses_until_enough_is_given_back() {
        let ledger = DayLedger::new(nanos(10));
        let held = ledger.reserve(nanos(8), today()).unwrap();
        ledger.set_cap(nanos(5));
        assert_eq!(ledger.reserve(nanos(1), today()).unwrap_err().free, Money::ZERO);
        held.post(nanos(2));
        assert!(ledger.reserve(nanos(3), today()).is_ok());
    }

    #[test]
    fn two_hundred_threads_worth_of_calls_never_pass_a_tiny_budget() {
        let ledger = DayLedger::new(nanos(100));
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let ledger = &ledger;
                scope.spawn(move || {
                    for round in 0..2_000 {
                        if let Ok(hold) = ledger.reserve(nanos(7), today()) {
                            let books = ledger.day(today());
                            assert!(books.committed() <= nanos(100), "{books:?}");
                            match (round + thread) % 3 {
                                0 => hold.void(),
                                1 => hold.post(nanos(1)),
                                _ => drop(hold),
                            }
                        }
                    }
                });
            }
        });
        let books = ledger.day(today());
        assert_eq!((books.held, books.holds), (Money::ZERO, 0));
        assert!(books.posted <= nanos(100) && books.posted > nanos(93));
    }

    proptest! {
        #[test]
        fn posted_and_held_are_what_was_done(steps in vec((0_u8..4, 0_u64..40, proptest::num::usize::ANY), 1..80)) {
            let ledger = DayLedger::new(nanos(100));
            let (mut open, mut posted): (Vec<Hold>, u64) = (Vec::new(), 0);
            for (step, amount, which) in steps {
                if step == 0 || open.is_empty() {
                    let held: u64 = open.iter().map(|hold| hold.amount().as_nanos()).sum();
                    let granted = ledger.reserve(nanos(amount), today());
                    prop_assert_eq!(granted.is_ok(), posted + held + amount <= 100);
                    open.extend(granted);
                } else {
                    let hold = open.swap_remove(which % open.len());
                    let actual = amount.min(hold.amount().as_nanos());
                    match step {
                        1 => { posted += actual; hold.post(nanos(actual)); }
                        2 => hold.void(),
                        _ => { posted += hold.amount().as_nanos(); drop(hold); }
                    }
                }
                let books = ledger.day(today());
                prop_assert_eq!(books.posted, nanos(posted));
                prop_assert_eq!(books.held, open.iter().map(Hold::amount).sum());
                prop_assert_eq!(books.holds, open.len() as u64);
                prop_assert!(books.committed() <= nanos(100));
            }
        }
    }
}
