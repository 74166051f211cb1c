//! Property test of the bucket against a reference model that ticks through every millisecond.

use super::at;
use crate::invariant::units_within_capacity;
use crate::waiting::{
    Grant, Ticket, WaitingAcquireDecision, WaitingBucket, WaitingPollDecision, WaitingSettings,
};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use std::time::Duration;

/// One operation on a bucket; indices are taken modulo the number of choices.
#[derive(Clone, Copy, Debug)]
enum Step {
    Pass(u64),
    Acquire { units: u64, patience: u64 },
    Poll(usize),
    Cancel(usize),
    Refund(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_u64..60).prop_map(Step::Pass),
        1 => (60_u64..2_000).prop_map(Step::Pass),
        6 => (0_u64..7, prop_oneof![Just(0), 0_u64..400, Just(100_000)])
            .prop_map(|(units, patience)| Step::Acquire { units, patience }),
        3 => any::<usize>().prop_map(Step::Poll),
        2 => any::<usize>().prop_map(Step::Cancel),
        1 => any::<usize>().prop_map(Step::Refund),
    ]
}

/// One unit every `interval` milliseconds, at most `capacity`.
fn settings(interval: u64, capacity: u64) -> WaitingSettings {
    WaitingSettings::new(1, Duration::from_millis(interval), capacity).unwrap()
}

/// The bucket in milliseconds, as one plain loop.
#[derive(Clone)]
struct Ticking {
    interval: u64,
    capacity: u64,
    now: u64,
    balance: u64,
    line: Vec<(u64, u64)>,
    served: Vec<(u64, u64)>,
    tickets: u64,
    consumed: u64,
}

impl Ticking {
    fn new(interval: u64, capacity: u64) -> Self {
        let balance = interval * capacity;
        Self { interval, capacity, now: 0, balance, line: vec![], served: vec![], tickets: 0, consumed: 0 }
    }

    fn pass(&mut self, millis: u64) {
        for _ in 0..millis {
            self.now += 1;
            self.balance += 1;
            self.serve();
        }
    }

    fn serve(&mut self) {
        while let Some(&(ticket, units)) = self.line.first()
            && units * self.interval <= self.balance
        {
            self.balance -= units * self.interval;
            self.consumed += units;
            self.served.push((ticket, units));
            self.line.remove(0);
        }
        self.balance = self.balance.min(self.interval * self.capacity);
    }

    fn acquire(&mut self, units: u64, give_up_at: u64) -> WaitingAcquireDecision {
        if units > self.capacity {
            return WaitingAcquireDecision::TooLarge;
        }
        if units == 0 || (self.line.is_empty() && self.available() >= units) {
            self.balance -= units * self.interval;
            self.consumed += units;
            return WaitingAcquireDecision::Granted(Grant { units });
        }
        let mut later = self.clone();
        later.line.push((self.tickets, units));
        while !later.line.is_empty() {
            later.pass(1);
        }
        if later.now > give_up_at {
            return WaitingAcquireDecision::Refused { would_wait_until: at(later.now) };
        }
        self.line.push((self.tickets, units));
        self.tickets += 1;
        WaitingAcquireDecision::Wait { ticket: Ticket(self.tickets - 1), until: at(later.now) }
    }

    fn poll(&mut self, Ticket(ticket): Ticket) -> WaitingPollDecision {
        if let Some(place) = self.served.iter().position(|served| served.0 == ticket) {
            return WaitingPollDecision::Ready(Grant { units: self.served.remove(place).1 });
        }
        let Some(place) = self.line.iter().position(|waiter| waiter.0 == ticket) else {
            return WaitingPollDecision::Unknown;
        };
        let mut later = self.clone();
        later.line.truncate(place + 1);
        while !later.line.is_empty() {
            later.pass(1);
        }
        WaitingPollDecision::Wait { until: at(later.now) }
    }

    fn cancel(&mut self, Ticket(ticket): Ticket) {
        self.line.retain(|waiter| waiter.0 != ticket);
        if let Some(place) = self.served.iter().position(|served| served.0 == ticket) {
            let (_, units) = self.served.remove(place);
            self.refund(units);
        }
        self.serve();
    }

    fn refund(&mut self, units: u64) {
        self.consumed -= units;
        self.balance += units * self.interval;
        self.serve();
    }

    fn available(&self) -> u64 {
        if self.line.is_empty() { self.balance / self.interval } else { 0 }
    }
}

proptest! {
    #[test]
    fn the_bucket_decides_as_a_clock_that_ticks_through_every_millisecond(
        interval in 1_u64..30,
        capacity in 1_u64..6,
        steps in vec(step(), 1..40),
    ) {
        let mut model = Ticking::new(interval, capacity);
        let mut bucket = WaitingBucket::new(settings(interval, capacity), at(0));
        let (mut tickets, mut grants) = (vec![], vec![]);
        for step in steps {
            let now = at(model.now);
            match step {
                Step::Pass(millis) => model.pass(millis),
                Step::Acquire { units, patience } => {
                    let give_up_at = model.now + patience;
                    let decision = bucket.acquire(now, units, at(give_up_at));
                    prop_assert_eq!(&decision, &model.acquire(units, give_up_at));
                    match decision {
                        WaitingAcquireDecision::Granted(grant) => grants.push(grant),
                        WaitingAcquireDecision::Wait { ticket, .. } => tickets.push(ticket),
                        WaitingAcquireDecision::Refused { .. } | WaitingAcquireDecision::TooLarge => {}
                    }
                }
                Step::Poll(choice) if !tickets.is_empty() => {
                    let ticket = tickets[choice % tickets.len()];
                    let decision = bucket.poll(ticket, now);
                    prop_assert_eq!(&decision, &model.poll(ticket));
                    if let WaitingPollDecision::Ready(grant) = decision {
                        grants.push(grant);
                    }
                }
                Step::Cancel(choice) if !tickets.is_empty() => {
                    let ticket = tickets[choice % tickets.len()];
                    let known = model.clone().poll(ticket) != WaitingPollDecision::Unknown;
                    model.cancel(ticket);
                    prop_assert_eq!(bucket.cancel(ticket, now), known);
                }
                Step::Refund(choice) if !grants.is_empty() => {
                    let grant = grants.swap_remove(choice % grants.len());
                    model.refund(grant.units());
                    bucket.refund(grant, now);
                }
                Step::Poll(_) | Step::Cancel(_) | Step::Refund(_) => {}
            }
            let now = at(model.now);
            prop_assert_eq!(bucket.available(now), model.available());
            prop_assert_eq!(units_within_capacity(bucket.available(now), capacity), Ok(()));
            prop_assert!(bucket.balance <= bucket.settings.full());
            prop_assert_eq!(bucket.queued, bucket.queue.iter().map(|waiter| waiter.weight).sum::<u64>());
            prop_assert!(bucket.queue.front().is_none_or(|first| first.weight > bucket.balance));
        }
        bucket.advance(at(model.now));
        prop_assert_eq!(bucket.consumed(), model.consumed);
    }
}
