//! The guarantees of the bucket, each as one property over arbitrary use.

use super::at;
use crate::invariant::consumed_matches_granted;
use crate::time::Timestamp;
use crate::waiting::{
    Grant, Ticket, WaitingAcquireDecision, WaitingBucket, WaitingBuckets, WaitingPollDecision,
    WaitingSettings,
};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use std::time::Duration;

/// One request: after how many milliseconds, for how many units, and what happens to it.
type Ask = (u64, u64, u8);

const PATIENCE: u64 = 5_000;

fn settings(interval: u64, capacity: u64) -> WaitingSettings {
    WaitingSettings::new(1, Duration::from_millis(interval), capacity).unwrap()
}

/// Units granted and refunded, by millisecond.
#[derive(Default)]
struct GrantLog {
    granted: Vec<(u64, u64)>,
    refunded: Vec<(u64, u64)>,
    served: Vec<Ticket>,
    overtaken: bool,
}

impl GrantLog {
    /// Runs `asks` and polls every ticket in every millisecond, so that a turn is noticed when it comes.
    fn of(bucket: &mut WaitingBucket, asks: &[Ask]) -> Self {
        let mut log = Self::default();
        let mut waiting: Vec<(Ticket, Timestamp, bool)> = vec![];
        let mut held: Vec<(u64, Grant)> = vec![];
        let mut now = 0;
        for &(pause, units, fate) in asks {
            for moment in now..=now + pause {
                held.extend(log.look(bucket, &mut waiting, moment).into_iter().map(|grant| (moment, grant)));
            }
            now += pause;
            match bucket.acquire(at(now), units, at(now + PATIENCE)) {
                WaitingAcquireDecision::Granted(grant) => {
                    log.overtaken |= units > 0 && !waiting.is_empty();
                    log.granted.push((now, units));
                    held.push((now, grant));
                }
                WaitingAcquireDecision::Wait { ticket, until } => {
                    waiting.push((ticket, until, fate % 4 == 0));
                }
                WaitingAcquireDecision::Refused { .. } | WaitingAcquireDecision::TooLarge => {}
            }
            if fate % 5 == 0
                && let Some((_, grant)) = held.pop()
            {
                log.refunded.push((now, grant.units()));
                bucket.refund(grant, at(now));
            }
            if fate % 7 == 0
                && let Some(place) = waiting.iter().position(|waiter| waiter.2)
            {
                assert!(bucket.cancel(waiting.remove(place).0, at(now)));
            }
        }
        for moment in now..=now + PATIENCE {
            let _spent = log.look(bucket, &mut waiting, moment);
        }
        assert!(waiting.is_empty(), "every queued waiter is served within its deadline");
        log
    }

    fn look(
        &mut self,
        bucket: &mut WaitingBucket,
        waiting: &mut Vec<(Ticket, Timestamp, bool)>,
        moment: u64,
    ) -> Vec<Grant> {
        let mut grants = vec![];
        waiting.retain(|&(ticket, promised, _)| match bucket.poll(ticket, at(moment)) {
            WaitingPollDecision::Ready(grant) => {
                self.granted.push((moment, grant.units()));
                self.served.push(ticket);
                grants.push(grant);
                false
            }
            WaitingPollDecision::Wait { until } => {
                assert!(at(moment) < until && until <= promised, "a turn moves up, never back");
                true
            }
            WaitingPollDecision::Unknown => panic!("a ticket in line is known"),
        });
        grants
    }
}

fn within(log: &[(u64, u64)], from: u64, to: u64) -> u64 {
    log.iter().filter(|(moment, _)| (from..=to).contains(moment)).map(|(_, units)| units).sum()
}

proptest! {
    #[test]
    fn over_any_span_no_more_is_taken_than_the_capacity_and_what_drips_in(
        interval in 1_u64..30,
        capacity in 1_u64..6,
        asks in vec((0_u64..80, 0_u64..7, any::<u8>()), 1..25),
    ) {
        let mut bucket = WaitingBucket::new(settings(interval, capacity), at(0));
        let log = GrantLog::of(&mut bucket, &asks);
        let [granted, refunded] = [&log.granted, &log.refunded].map(|entries| within(entries, 0, u64::MAX));
        prop_assert_eq!(consumed_matches_granted(bucket.consumed(), granted, refunded), Ok(()));
        for &(from, _) in &log.granted {
            for &(to, _) in log.granted.iter().filter(|(moment, _)| *moment >= from) {
                let allowed = capacity + (to - from) / interval + within(&log.refunded, from, to);
                prop_assert!(within(&log.granted, from, to) <= allowed, "{from} to {to}");
            }
        }
    }

    #[test]
    fn the_queue_is_served_in_order_at_the_promised_times(
        interval in 1_u64..30,
        capacity in 1_u64..6,
        asks in vec((0_u64..80, 0_u64..7, any::<u8>()), 1..25),
    ) {
        let log = GrantLog::of(&mut WaitingBucket::new(settings(interval, capacity), at(0)), &asks);
        prop_assert!(log.served.is_sorted());
        prop_assert!(!log.overtaken);
    }

    #[test]
    fn time_that_jumps_about_adds_no_units(
        capacity in 1_u64..6,
        asks in vec((0_u64..3_000, 0_u64..7, any::<bool>()), 1..60),
    ) {
        let mut bucket = WaitingBucket::new(settings(20, capacity), at(0));
        let (mut latest, mut tickets) = (0, vec![]);
        for (now, units, refunded) in asks {
            latest = latest.max(now);
            match bucket.acquire(at(now), units, at(now + PATIENCE)) {
                WaitingAcquireDecision::Granted(grant) if refunded => bucket.refund(grant, at(now / 2)),
                WaitingAcquireDecision::Wait { ticket, .. } => tickets.push(ticket),
                _ => {}
            }
            if refunded && let Some(ticket) = tickets.pop() {
                let _spent = bucket.poll(ticket, at(now / 3));
            }
            prop_assert!(bucket.available(at(now)) <= capacity);
            prop_assert!(bucket.balance <= bucket.settings.full());
            prop_assert!(bucket.consumed() <= capacity + latest / 20);
        }
    }

    #[test]
    fn regions_do_not_feel_each_other(
        asks in vec((0_u64..80, 0_u64..7, any::<bool>()), 1..60),
    ) {
        let mut buckets = WaitingBuckets::new();
        let mut alone = [false, true].map(|_| WaitingBucket::new(settings(10, 5), at(0)));
        let mut now = 0;
        for (pause, units, region) in asks {
            now += pause;
            let give_up_at = at(now + 100);
            let shared = buckets.get_or_create(region, settings(10, 5), at(0)).unwrap();
            prop_assert_eq!(
                shared.acquire(at(now), units, give_up_at),
                alone[usize::from(region)].acquire(at(now), units, give_up_at),
            );
        }
    }
}
