//! The scripts take the same decisions as the rate limiter in memory, step by step.

use super::server::Server;
use super::world::World;
use seawall_core::quota::{
    CalendarPeriod, Quota, QuotaDecision, QuotaGroup, QuotaKey, QuotaReservation, QuotaScope, QuotaUnit,
    QuotaUnits, RateLimiter,
};
use seawall_core::random::SeededRandom;
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_store::redis::{Placement, RedisQuotas};
use seawall_store::{AdmissionRequest, AdmitDecision, QuotaReceipt, Quotas, Settlement};
use std::time::Duration;

/// Periods of whole microseconds, so that both compute with the same numbers.
fn groups() -> Vec<QuotaGroup> {
    let second = Duration::from_secs(1);
    let tier = vec![
        Quota::sliding("minute", QuotaUnit::Request, 10, second * 60, 2).unwrap(),
        Quota::sliding("hour", QuotaUnit::Request, 40, second * 3_600, 0).unwrap(),
        Quota::rate("smooth", QuotaUnit::Request, 2, second, 4).unwrap(),
        Quota::sliding("tokens", QuotaUnit::Token, 900, second * 60, 0).unwrap(),
        Quota::calendar("day", QuotaUnit::Request, 60, CalendarPeriod::Day).unwrap(),
    ];
    let route = vec![
        Quota::rate("tokens", QuotaUnit::Token, 30, second * 3, 400).unwrap(),
        Quota::calendar("month", QuotaUnit::Token, 20_000, CalendarPeriod::Month).unwrap(),
    ];
    vec![QuotaGroup::new("tier", tier).unwrap(), QuotaGroup::new("route", route).unwrap()]
}

struct Both {
    limiter: RateLimiter,
    redis: RedisQuotas<World>,
    held: Vec<(QuotaReservation, QuotaReceipt)>,
    granted: u32,
    refused: u32,
    too_large: u32,
}

impl Both {
    async fn reserve(&mut self, partition: u64, scopes: &[QuotaScope], cost: QuotaUnits, now: Now) {
        let ask = AdmissionRequest { partition, scopes, units: cost, money: None, claim: None };
        let expected = self.limiter.reserve(scopes, cost, now).unwrap();
        let actual = self.redis.reserve(&ask, now).await.unwrap();
        match (expected, actual) {
            (
                QuotaDecision::Granted { reservation, tightest },
                AdmitDecision::Granted { reservation: redis_reservation, tightest: actual },
            ) => {
                assert_eq!(tightest, actual);
                self.held.push((reservation, redis_reservation));
                self.granted += 1;
            }
            (QuotaDecision::RetryAfter(expected), AdmitDecision::RateLimited(actual)) => {
                assert_eq!(expected, actual);
                self.refused += 1;
            }
            (
                QuotaDecision::TooLarge { limit, capacity },
                AdmitDecision::TooLarge { limit: actual, capacity: size },
            ) => {
                assert_eq!((limit, capacity), (actual, size));
                self.too_large += 1;
            }
            (expected, actual) => panic!("{expected:?}, but {actual:?} at {now:?}"),
        }
    }
}

#[tokio::test]
async fn scripts_decide_like_the_book_in_memory_step_by_step() {
    let server = Server::start().await;
    let world = World::new();
    for seed in 0..6 {
        server.command("FLUSHALL");
        let placed = groups().into_iter().map(|group| (group, Placement::Partition)).collect();
        let redis = RedisQuotas::new(server.link(&world), placed).unwrap().with_manual_clock();
        let limiter = RateLimiter::new(groups(), 1).unwrap();
        let (tier, route) = (redis.group("tier").unwrap(), redis.group("route").unwrap());
        assert_eq!((Some(tier), Some(route)), (limiter.group("tier"), limiter.group("route")));
        let mut both = Both { limiter, redis, held: Vec::new(), granted: 0, refused: 0, too_large: 0 };
        let mut chance = SeededRandom::new(seed);
        let mut now = Now::new(Timestamp::ZERO, UtcTime::from_civil(2027, 2, 28));
        for _ in 0..500 {
            let mut pick = |below: u64| chance.draw().below(below);
            let step = match pick(60) {
                0 => Duration::from_secs(pick(40_000)),
                1..4 => Duration::from_secs(pick(70)),
                4..35 => Duration::ZERO,
                _ => Duration::from_micros(pick(500_000)),
            };
            now = now + step;
            // A step back in time, as another thread or an adjusted clock would cause it.
            let back = if pick(12) == 0 { Duration::from_millis(pick(3_000)) } else { Duration::ZERO };
            let utc = UtcTime::from_nanos(
                now.utc.as_nanos().saturating_sub(u64::try_from(back.as_nanos()).unwrap()),
            );
            let seen = Now::new(now.monotonic - back, utc);
            let partition = 1 + pick(2);
            let own = QuotaScope { group: tier, key: QuotaKey(partition) };
            let other = QuotaScope { group: route, key: QuotaKey(partition + pick(2) * 16) };
            let scopes = if pick(3) == 0 { vec![own] } else { vec![other, own] };
            let tokens = u32::try_from(if pick(20) == 0 { pick(1_000) } else { pick(60) }).unwrap();
            let cost =
                QuotaUnits { requests: u32::try_from(pick(6) / 3 + pick(40) / 39 * 7).unwrap(), tokens };
            match pick(10) {
                0..7 => both.reserve(partition, &scopes, cost, seen).await,
                7..9 if !both.held.is_empty() => {
                    let place = usize::try_from(pick(both.held.len() as u64)).unwrap();
                    let (reservation, redis_reservation) = both.held.swap_remove(place);
                    let actual = QuotaUnits { requests: cost.requests % 3, tokens };
                    both.limiter.settle(reservation, actual, seen);
                    let spent = Settlement { units: actual, ..Settlement::default() };
                    both.redis.settle(redis_reservation, spent, seen).await.unwrap();
                }
                _ => {
                    let expected = both.limiter.view(&scopes, seen).unwrap();
                    assert_eq!(both.redis.view(partition, &scopes, seen).await.unwrap(), expected);
                }
            }
        }
        // Every kind of decision was compared several times.
        let seen = [both.granted, both.refused, both.too_large];
        assert!(seen.iter().all(|times| *times > 5), "{seen:?}");
    }
}
