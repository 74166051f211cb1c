use super::{at, dollars, nanos};
use crate::budget::SpendPace;
use crate::money::Money;
use proptest::collection::vec;
use proptest::prelude::{prop_assert_eq, proptest};

const MINUTE: u64 = 60;
const HOUR: u64 = 3_600;
const DAY: u64 = 86_400;

fn pace(from: u64) -> SpendPace {
    SpendPace::new(at(from).utc)
}

#[test]
fn an_hour_is_sixty_minutes_and_what_is_older_falls_out() {
    let mut pace = pace(0);
    pace.record(nanos(5), at(0).utc);
    pace.record(nanos(7), at(59 * MINUTE).utc);
    assert_eq!(pace.last_hour(at(HOUR - 1).utc), nanos(12));
    assert_eq!(pace.last_hour(at(HOUR).utc), nanos(7));
    assert_eq!(pace.last_hour(at(2 * HOUR).utc), Money::ZERO);
    // A jump of more than an hour leaves nothing behind.
    pace.record(nanos(1), at(3 * HOUR).utc);
    assert_eq!(pace.last_hour(at(3 * HOUR).utc), nanos(1));
    // A clock that goes back adds to the latest minute.
    pace.record(nanos(2), at(HOUR).utc);
    assert_eq!(pace.last_hour(at(3 * HOUR).utc), nanos(3));
}

#[test]
fn a_short_start_is_stretched_to_an_hour_but_not_from_less_than_five_minutes() {
    let mut pace = pace(0);
    pace.record(nanos(100), at(0).utc);
    assert_eq!(pace.hourly_rate(at(3).utc), nanos(1_200));
    assert_eq!(pace.hourly_rate(at(5 * MINUTE).utc), nanos(1_200));
    assert_eq!(pace.hourly_rate(at(30 * MINUTE).utc), nanos(200));
    assert_eq!(pace.hourly_rate(at(HOUR - 1).utc), nanos(100));
}

#[test]
fn the_day_ends_where_the_last_hour_leads() {
    let mut pace = pace(0);
    for minute in 0..(22 * 60) {
        pace.record(dollars(1), at(minute * MINUTE).utc);
    }
    assert_eq!(pace.hourly_rate(at(22 * HOUR - 1).utc), dollars(60));
    assert_eq!(pace.projected(dollars(4_200), at(22 * HOUR - 1).utc).as_nanos() / 1_000_000_000, 4_320);
    pace.record(Money::ZERO, at(22 * HOUR).utc);
    assert_eq!(pace.projected(dollars(4_200), at(22 * HOUR).utc), dollars(4_200 + 59 * 2));
    assert_eq!(pace.projected(Money::MAX, at(22 * HOUR).utc), Money::MAX);
}

#[test]
fn hours_that_are_usually_dear_are_expected_to_be() {
    let mut pace = pace(0);
    // Three days: $10 in each hour, and $100 in the hour from 20:00.
    for hour in 0..72 {
        let amount = if hour % 24 == 20 { 100 } else { 10 };
        pace.record(dollars(amount), at(hour * HOUR).utc);
    }
    let now = at(72 * HOUR + 18 * HOUR + 30 * MINUTE).utc;
    pace.record(Money::ZERO, now);
    assert_eq!(pace.last_hour(now), Money::ZERO);
    // Half of 18, all of 19, 20, 21, 22, 23.
    assert_eq!(pace.projected(dollars(7), now), dollars(7 + 5 + 10 + 100 + 10 + 10 + 10));
}

#[test]
fn what_an_hour_usually_costs_needs_days_that_were_seen_whole() {
    let mut pace = pace(HOUR / 2);
    for hour in 1..(3 * 24 + 13) {
        pace.record(dollars(hour / 24 + 1), at(hour * HOUR).utc);
    }
    let noon = |day: u64| at(day * DAY + 12 * HOUR).utc;
    // The hour up to noon of day 3 is like those of days 0, 1 and 2: $1, $2 and $3.
    assert_eq!(pace.usual_hour(noon(3), 3), Some(dollars(2)));
    assert_eq!(pace.usual_hour(noon(3), 4), None);
    assert_eq!(pace.usual_hour(noon(0), 0), None);
    // The first hour was seen by half: it does not count, so that only two days know it.
    let one = at(3 * DAY + HOUR).utc;
    assert_eq!((pace.usual_hour(one, 3), pace.usual_hour(one, 2)), (None, Some(nanos(2_500_000_000))));
    // Between two hours it is a mixture of both.
    let mut steep = SpendPace::new(at(0).utc);
    for hour in 0..25 {
        steep.record(if hour == 11 { dollars(30) } else { dollars(10) }, at(hour * HOUR).utc);
    }
    steep.record(Money::ZERO, at(DAY + 11 * HOUR + 15 * MINUTE).utc);
    assert_eq!(steep.usual_hour(at(DAY + 11 * HOUR + 15 * MINUTE).utc, 1), Some(dollars(15)));
}

#[test]
fn a_week_is_remembered_and_not_more() {
    let mut pace = pace(0);
    for hour in 0..(9 * 24) {
        pace.record(dollars(if hour < 24 { 1_000 } else { 7 }), at(hour * HOUR).utc);
    }
    // On day 8 the week before it is days 1 to 7.
    assert_eq!(pace.usual_hour(at(8 * DAY + 12 * HOUR).utc, 7), Some(dollars(7)));
}

proptest! {
    #[test]
    fn the_last_hour_is_the_sum_of_its_minutes(steps in vec((0..400_u64, 0..1_000_u64), 1..60)) {
        let mut pace = pace(0);
        let mut all = vec![];
        let mut now = 0;
        for (wait, amount) in steps {
            now += wait;
            pace.record(nanos(amount), at(now).utc);
            all.push((now / MINUTE, amount));
            let minute = now / MINUTE;
            let slow: u64 = all.iter().filter(|(when, _)| when + 60 > minute).map(|(_, amount)| amount).sum();
            prop_assert_eq!(pace.last_hour(at(now).utc), nanos(slow));
        }
    }
}
