use super::{at, dollars, nanos};
use crate::budget::SpendPace;
use crate::money::Money;
use crate::time::Now;
use proptest::collection::vec;
use proptest::prelude::{prop_assert_eq, proptest};

const MINUTE: u64 = 60;
const HOUR: u64 = 3_600;
const DAY: u64 = 86_400;

fn pace(from: u64) -> SpendPace {
    SpendPace::new(at(from))
}

#[test]
fn the_last_hour_drops_older_spend_gradually() {
    let mut pace = pace(0);
    pace.record(nanos(60), at(0));
    pace.record(nanos(7), at(59 * MINUTE));
    for (seconds, left) in
        [(HOUR - 1, 67), (HOUR, 67), (HOUR + 1, 66), (HOUR + 45, 22), (HOUR + 59, 8), (HOUR + 60, 7)]
    {
        assert_eq!(pace.last_hour(at(seconds).monotonic), nanos(left), "{seconds}");
    }
    assert_eq!(pace.last_hour(at(2 * HOUR).monotonic), Money::ZERO);
    // A jump of more than an hour clears all minutes.
    pace.record(nanos(1), at(3 * HOUR));
    assert_eq!(pace.last_hour(at(3 * HOUR).monotonic), nanos(1));
    // A late timestamp counts towards the latest minute.
    pace.record(nanos(2), at(HOUR));
    assert_eq!(pace.last_hour(at(3 * HOUR).monotonic), nanos(3));
}

#[test]
fn a_steady_dollar_a_minute_is_sixty_an_hour_at_every_moment() {
    let mut pace = pace(0);
    for minute in 0..120 {
        pace.record(dollars(1), at(minute * MINUTE + 30));
    }
    assert_eq!(pace.hourly_rate(at(120 * MINUTE).monotonic), dollars(60));
    assert_eq!(pace.hourly_rate(at(120 * MINUTE - 15).monotonic).as_nanos(), 60_250_000_000);
}

/// A wall clock that is `ahead` seconds ahead of the monotonic clock.
fn ahead(seconds: u64, ahead: u64) -> Now {
    Now::new(at(seconds).monotonic, at(seconds + ahead).utc)
}

#[test]
fn spend_after_the_clock_was_set_back_counts() {
    let mut pace = pace(0);
    pace.record(Money::ZERO, ahead(HOUR, 3 * HOUR));
    for minute in 0..60 {
        pace.record(dollars(10), at(HOUR + minute * MINUTE));
    }
    let now = at(2 * HOUR);
    assert_eq!(pace.last_hour(now.monotonic), dollars(600));
    assert_eq!(pace.projected(Money::ZERO, now), dollars(22 * 600));
}

#[test]
fn hours_at_either_end_of_a_clock_step_are_excluded() {
    let steady = |hours: std::ops::Range<u64>, pace: &mut SpendPace, set: u64| {
        for hour in hours {
            pace.record(dollars(10), ahead(hour * HOUR + HOUR / 2, set));
        }
    };
    let usual = |pace: &SpendPace, hour: u64| pace.usual_hour(at(DAY + hour * HOUR).utc, 1);
    let mut kept = pace(0);
    steady(0..20, &mut kept, 0);
    assert_eq!([1, 5, 18].map(|hour| usual(&kept, hour)), [Some(dollars(10)); 3]);
    // One record ten years ahead, in the hour from 10:00.
    let mut stepped = pace(0);
    steady(0..11, &mut stepped, 0);
    stepped.record(Money::ZERO, ahead(10 * HOUR + 40 * MINUTE, 3_650 * DAY));
    steady(11..20, &mut stepped, 0);
    assert_eq!(
        [9, 10, 11, 12, 13].map(|hour| usual(&stepped, hour).is_some()),
        [true, false, false, false, true]
    );
    // Two hours forward for good: the skipped hours were not observed.
    let mut summer = pace(0);
    steady(0..11, &mut summer, 0);
    steady(11..20, &mut summer, 2 * HOUR);
    assert_eq!(
        [9, 10, 11, 12, 13, 14, 15].map(|hour| usual(&summer, hour).is_some()),
        [true, false, false, false, false, false, true]
    );
    // A drift of up to a minute is not a clock step.
    let mut drifting = pace(0);
    steady(0..11, &mut drifting, 0);
    steady(11..20, &mut drifting, MINUTE);
    assert!((1..19).all(|hour| usual(&drifting, hour).is_some()));
    // Nor is a drift of half a minute per hour, however much it adds up to.
    let mut slow = pace(0);
    (0..20).for_each(|hour| slow.record(dollars(10), ahead(hour * HOUR + 10 * MINUTE, hour * MINUTE / 2)));
    assert!((1..19).all(|hour| usual(&slow, hour).is_some()));
    let mut set = pace(0);
    steady(0..11, &mut set, 0);
    steady(11..20, &mut set, MINUTE + 1);
    assert_eq!(
        [9, 10, 11, 12, 13].map(|hour| usual(&set, hour).is_some()),
        [true, false, false, false, true]
    );
}

#[test]
fn hours_without_a_record_cost_nothing() {
    let mut pace = pace(0);
    pace.record(dollars(8), at(HOUR / 2));
    pace.record(Money::ZERO, at(30 * HOUR));
    assert_eq!(pace.usual_hour(at(DAY + HOUR).utc, 1), Some(dollars(8)));
    assert_eq!(pace.usual_hour(at(DAY + 5 * HOUR).utc, 1), Some(Money::ZERO));
    // After weeks, only the retained hours count.
    pace.record(Money::ZERO, at(60 * DAY));
    assert_eq!(pace.usual_hour(at(60 * DAY).utc, 7), Some(Money::ZERO));
}

#[test]
fn a_short_start_is_extrapolated_from_at_least_five_minutes() {
    let mut pace = pace(0);
    pace.record(nanos(100), at(0));
    assert_eq!(pace.hourly_rate(at(3).monotonic), nanos(1_200));
    assert_eq!(pace.hourly_rate(at(5 * MINUTE).monotonic), nanos(1_200));
    assert_eq!(pace.hourly_rate(at(30 * MINUTE).monotonic), nanos(200));
    assert_eq!(pace.hourly_rate(at(HOUR - 1).monotonic), nanos(100));
}

#[test]
fn the_projection_follows_the_last_hour() {
    let mut pace = pace(0);
    for minute in 0..(22 * 60) {
        pace.record(dollars(1), at(minute * MINUTE));
    }
    // Sixty minutes and a sixtieth of the first, partial one.
    assert_eq!(pace.hourly_rate(at(22 * HOUR - 1).monotonic), nanos(60_016_666_666));
    assert_eq!(pace.projected(dollars(4_200), at(22 * HOUR - 1)).as_nanos() / 1_000_000_000, 4_320);
    pace.record(Money::ZERO, at(22 * HOUR));
    assert_eq!(pace.projected(dollars(4_200), at(22 * HOUR)), dollars(4_200 + 60 * 2));
    assert_eq!(pace.projected(Money::MAX, at(22 * HOUR)), Money::MAX);
}

#[test]
fn the_projection_includes_usually_expensive_hours() {
    let mut pace = pace(0);
    // Three days: $10 in each hour, and $100 in the hour from 20:00.
    for hour in 0..72 {
        let amount = if hour % 24 == 20 { 100 } else { 10 };
        pace.record(dollars(amount), at(hour * HOUR));
    }
    let now = at(72 * HOUR + 18 * HOUR + 30 * MINUTE);
    pace.record(Money::ZERO, now);
    assert_eq!(pace.last_hour(now.monotonic), Money::ZERO);
    // Half of hour 18, all of hours 19 to 23.
    assert_eq!(pace.projected(dollars(7), now), dollars(7 + 5 + 10 + 100 + 10 + 10 + 10));
}

#[test]
fn the_usual_cost_needs_fully_observed_days() {
    let mut pace = pace(HOUR / 2);
    for hour in 1..(3 * 24 + 13) {
        pace.record(dollars(hour / 24 + 1), at(hour * HOUR));
    }
    let noon = |day: u64| at(day * DAY + 12 * HOUR).utc;
    // The hour before noon of day 3 compares with days 0, 1 and 2: $1, $2 and $3.
    assert_eq!(pace.usual_hour(noon(3), 3), Some(dollars(2)));
    assert_eq!(pace.usual_hour(noon(3), 4), None);
    assert_eq!(pace.usual_hour(noon(0), 0), None);
    // Only half of the first hour was observed: it does not count, so that only two days are known.
    let one = at(3 * DAY + HOUR).utc;
    assert_eq!((pace.usual_hour(one, 3), pace.usual_hour(one, 2)), (None, Some(nanos(2_500_000_000))));
    // Between two hours, both are interpolated.
    let mut steep = SpendPace::new(at(0));
    for hour in 0..25 {
        steep.record(if hour == 11 { dollars(30) } else { dollars(10) }, at(hour * HOUR));
    }
    steep.record(Money::ZERO, at(DAY + 11 * HOUR + 15 * MINUTE));
    assert_eq!(steep.usual_hour(at(DAY + 11 * HOUR + 15 * MINUTE).utc, 1), Some(dollars(15)));
}

#[test]
fn a_week_is_remembered_and_not_more() {
    let mut pace = pace(0);
    for hour in 0..(9 * 24) {
        pace.record(dollars(if hour < 24 { 1_000 } else { 7 }), at(hour * HOUR));
    }
    // On day 8 the week before is days 1 to 7.
    assert_eq!(pace.usual_hour(at(8 * DAY + 12 * HOUR).utc, 7), Some(dollars(7)));
}

proptest! {
    /// Compared minute by minute, whatever the wall clock does meanwhile.
    #[test]
    fn the_last_hour_is_the_sum_of_its_minutes(steps in vec((0..400_u64, 0..1_000_u64, 0..3_u64), 1..60)) {
        let mut pace = pace(0);
        let mut all = vec![];
        let mut now = 0;
        for (wait, amount, day) in steps {
            now += wait;
            pace.record(nanos(amount), ahead(now, day * 5 * DAY));
            all.push((now / MINUTE, amount));
            let minute = now / MINUTE;
            let sum = |of: &dyn Fn(u64) -> bool| all.iter().filter(|(when, _)| of(*when)).map(|(_, amount)| amount).sum::<u64>();
            let slow = sum(&|when| when + 60 > minute) + sum(&|when| when + 60 == minute) * (60 - now % 60) / 60;
            prop_assert_eq!(pace.last_hour(at(now).monotonic), nanos(slow));
        }
    }
}
