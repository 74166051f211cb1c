use super::{DailySchedule, Hours, HoursOptions, OffPeakDecision, OffPeakOptions};
use crate::time::UtcTime;
use crate::vocabulary::{Ceiling, Priority, Tier};
use proptest::prelude::{prop_assert, prop_assert_eq, prop_assume, proptest};
use std::time::Duration;

const MINUTE: u64 = 60_000_000_000;

fn hours(start: u32, end: u32, utc_offset: i32) -> Hours {
    HoursOptions { start, end, utc_offset }.check().unwrap()
}

/// From one full hour to another, in Japan.
fn in_japan(start: u32, end: u32) -> HoursOptions {
    HoursOptions::full_hours(start, end, 540)
}

/// A moment of 15 November 2026 in Japan.
fn japan(hour: u64, minute: u64, nanos: u64) -> UtcTime {
    let midnight = UtcTime::from_civil(2026, 11, 15).as_nanos() - 9 * 60 * MINUTE;
    UtcTime::from_nanos(midnight + (hour * 60 + minute) * MINUTE + nanos)
}

#[test]
fn the_edges_of_the_night_and_of_the_evening_are_exact() {
    let night = in_japan(23, 8).check().unwrap();
    let evening = in_japan(19, 23).check().unwrap();
    for (moment, at_night, in_evening) in [
        (japan(18, 59, MINUTE - 1), false, false),
        (japan(19, 0, 0), false, true),
        (japan(22, 59, MINUTE - 1), false, true),
        (japan(23, 0, 0), true, false),
        (japan(23, 59, MINUTE - 1), true, false),
        (japan(24, 0, 0), true, false),
        (japan(7, 59, MINUTE - 1), true, false),
        (japan(8, 0, 0), false, false),
        (japan(12, 0, 0), false, false),
    ] {
        assert_eq!((night.contains(moment), evening.contains(moment)), (at_night, in_evening), "{moment:?}");
    }
}

#[test]
fn next_change_is_never_the_present_moment() {
    let night = in_japan(23, 8).check().unwrap();
    for (moment, change) in [
        (japan(8, 0, 0), japan(23, 0, 0)),
        (japan(22, 59, MINUTE - 1), japan(23, 0, 0)),
        (japan(23, 0, 0), japan(32, 0, 0)),
        (japan(31, 59, MINUTE - 1), japan(32, 0, 0)),
        (japan(0, 0, 0), japan(8, 0, 0)),
    ] {
        assert_eq!(night.next_change(moment), Some(change));
    }
    assert_eq!(hours(0, 1_440, 0).next_change(japan(0, 0, 0)), None);
    assert_eq!(night.next_change(UtcTime::from_nanos(u64::MAX)), Some(UtcTime::from_nanos(u64::MAX)));
}

#[test]
fn the_first_day_of_the_calendar_is_no_exception() {
    for offset in [-720, 0, 540, 840] {
        assert!(hours(0, 1_440, offset).contains(UtcTime::from_nanos(0)));
    }
    assert!(hours(12 * 60, 13 * 60, -720).contains(UtcTime::from_nanos(0)));
    assert!(hours(14 * 60, 15 * 60, 840).contains(UtcTime::from_nanos(0)));
    assert!(!hours(13 * 60, 14 * 60, 840).contains(UtcTime::from_nanos(0)));
}

#[test]
fn hours_that_make_no_sense_are_refused_by_name() {
    let refused =
        |start, end, utc_offset| HoursOptions { start, end, utc_offset }.check().unwrap_err().to_string();
    assert_eq!(refused(1_440, 0, 0), "start: 1440 is not a minute from 0 to 1439");
    assert_eq!(refused(0, 1_441, 0), "end: 1441 is not a minute from 0 to 1440");
    assert_eq!(refused(5, 5, 0), "end: 5 is also the start; for the whole day write 0 to 1440");
    assert_eq!(refused(0, 1, 841), "utc_offset: 841 minutes is not between -720 and 840");
    assert_eq!(refused(0, 1, -721), "utc_offset: -721 minutes is not between -720 and 840");
    assert_eq!(in_japan(u32::MAX, 8).check().unwrap_err().setting(), "start");
    assert_eq!(in_japan(8, u32::MAX).check().unwrap_err().setting(), "end");
    assert_eq!(in_japan(19, 19).check().unwrap_err().setting(), "end");
}

#[test]
fn hours_are_written_as_people_write_them() {
    for (hours, text) in [
        (hours(23 * 60, 8 * 60, 540), "23:00-08:00 UTC+09:00"),
        (hours(0, 1_440, 0), "00:00-24:00 UTC+00:00"),
        (hours(65, 0, -570), "01:05-24:00 UTC-09:30"),
        (hours(1_439, 1, 345), "23:59-00:01 UTC+05:45"),
    ] {
        assert_eq!(hours.to_string(), text);
    }
}

fn named(spans: &[(&str, Hours)]) -> Result<DailySchedule, crate::setting::SettingError> {
    DailySchedule::new(spans.iter().map(|(name, hours)| ((*name).to_owned(), *hours)).collect())
}

#[test]
fn a_schedule_refuses_what_overlaps_and_names_both() {
    let night = hours(23 * 60, 8 * 60, 540);
    let refused = |spans: &[(&str, Hours)]| named(spans).unwrap_err().to_string();
    assert_eq!(
        refused(&[("night", night), ("late", hours(22 * 60, 23 * 60 + 1, 540))]),
        "schedule: late (22:00-23:01 UTC+09:00) overlaps night (23:00-08:00 UTC+09:00)"
    );
    assert_eq!(
        refused(&[("night", night), ("noon", hours(720, 780, 540)), ("inside", hours(60, 120, 540))]),
        "schedule: inside (01:00-02:00 UTC+09:00) overlaps night (23:00-08:00 UTC+09:00)"
    );
    // Equal minutes in two zones are different moments, and different minutes may be the same moment.
    assert!(named(&[("night", night), ("elsewhere", hours(23 * 60, 24 * 60, 0))]).is_ok());
    assert_eq!(
        refused(&[("night", night), ("elsewhere", hours(14 * 60, 15 * 60, 0))]),
        "schedule: elsewhere (14:00-15:00 UTC+00:00) overlaps night (23:00-08:00 UTC+09:00)"
    );
    assert_eq!(refused(&[("a", night), ("a", hours(720, 780, 540))]), "schedule: a is a duplicate name");
}

#[test]
fn hours_that_touch_hand_over_at_the_edge() {
    let schedule =
        named(&[("night", hours(23 * 60, 8 * 60, 540)), ("evening", hours(19 * 60, 23 * 60, 540))]).unwrap();
    let mut moment = japan(12, 0, 0);
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(schedule.at(moment));
        moment = schedule.next_change(moment).unwrap();
    }
    assert_eq!(seen, [None, Some("evening"), Some("night"), None]);
    assert_eq!(moment, japan(24 + 19, 0, 0));
    assert_eq!(
        (DailySchedule::default().at(moment), DailySchedule::default().next_change(moment)),
        (None, None)
    );
}

#[test]
fn at_night_nobody_gets_more_than_a_fast_model_unless_exempt() {
    let everybody = OffPeakOptions::of(in_japan(23, 8)).check().unwrap();
    for tier in Tier::ALL {
        for priority in Priority::ALL {
            let decide = |moment| everybody.decide(tier, priority, moment);
            assert_eq!(decide(japan(23, 0, 0)), OffPeakDecision::Restricted);
            assert_eq!(decide(japan(7, 59, MINUTE - 1)), OffPeakDecision::Restricted);
            assert_eq!(decide(japan(8, 0, 0)), OffPeakDecision::OutsideWindow);
            assert_eq!(decide(japan(22, 59, MINUTE - 1)), OffPeakDecision::OutsideWindow);
        }
    }
    let some = OffPeakOptions {
        exempt_tiers: vec![Tier::Prime],
        exempt_priorities: vec![Priority::Critical],
        ..OffPeakOptions::of(in_japan(23, 8))
    };
    let some = some.check().unwrap();
    assert_eq!(some.decide(Tier::Prime, Priority::Bulk, japan(23, 30, 0)), OffPeakDecision::Exempt);
    assert_eq!(some.decide(Tier::Guest, Priority::Critical, japan(23, 30, 0)), OffPeakDecision::Exempt);
    assert_eq!(some.decide(Tier::Standard, Priority::High, japan(23, 30, 0)), OffPeakDecision::Restricted);
    assert_eq!(some.decide(Tier::Prime, Priority::High, japan(12, 0, 0)), OffPeakDecision::OutsideWindow);
    assert_eq!(some.hours().to_string(), "23:00-08:00 UTC+09:00");
    assert_eq!(OffPeakOptions::of(in_japan(8, 8)).check().unwrap_err().setting(), "end");
}

#[test]
fn only_a_restriction_restricts() {
    for (decision, ceiling, first) in [
        (OffPeakDecision::OutsideWindow, Ceiling::Strong, false),
        (OffPeakDecision::Exempt, Ceiling::Strong, false),
        (OffPeakDecision::Restricted, Ceiling::Fast, true),
    ] {
        assert_eq!((decision.ceiling(), decision.template_and_cache_first()), (ceiling, first));
    }
}

/// Every minute of the day inside the window, by stepping from start to end.
fn walked(start: u32, end: u32) -> Vec<bool> {
    let mut inside = vec![false; 1_440];
    let mut minute = start;
    loop {
        inside[minute as usize] = true;
        minute = (minute + 1) % 1_440;
        if minute == end % 1_440 {
            return inside;
        }
    }
}

proptest! {
    #[test]
    fn spans_equal_a_clock_that_is_read_minute_by_minute(
        start in 0_u32..1_440,
        end in 0_u32..=1_440,
        quarter in -48_i32..=56,
        day in 0_u64..30_000,
        into_minute in 0..MINUTE,
    ) {
        prop_assume!(start != end);
        let (offset, inside) = (quarter * 15, walked(start, end));
        let hours = hours(start, end, offset);
        let mut expected_change = None;
        // Backwards over four days, so that the next change is always the last one seen.
        for minute in (0_u64..4 * 1_440).rev() {
            let utc = day * 1_440 + minute;
            let read = |utc: u64| {
                let local = i64::try_from(utc).unwrap() + i64::from(offset);
                inside[usize::try_from(local.rem_euclid(1_440)).unwrap()]
            };
            let moment = UtcTime::from_nanos(utc * MINUTE + into_minute);
            prop_assert_eq!(hours.contains(moment), read(utc));
            if read(utc) != read(utc + 1) {
                expected_change = Some(UtcTime::from_nanos((utc + 1) * MINUTE));
            }
            if let Some(change) = expected_change {
                prop_assert_eq!(hours.next_change(moment), Some(change));
            }
        }
    }

    #[test]
    fn two_spans_overlap_when_they_share_a_minute(
        one in (0_u32..1_440, 0_u32..=1_440, -48_i32..=56),
        other in (0_u32..1_440, 0_u32..=1_440, -48_i32..=56),
    ) {
        prop_assume!(one.0 != one.1 && other.0 != other.1);
        let (one, other) = (hours(one.0, one.1, one.2 * 15), hours(other.0, other.1, other.2 * 15));
        let shared = (0..1_440).any(|minute| {
            let moment = UtcTime::from_nanos(minute * MINUTE);
            one.contains(moment) && other.contains(moment)
        });
        prop_assert_eq!(one.overlaps(&other), shared);
        prop_assert_eq!(other.overlaps(&one), shared);
        let schedule = named(&[("one", one), ("other", other)]);
        prop_assert_eq!(schedule.is_err(), shared);
        if let Ok(schedule) = schedule {
            let moment = UtcTime::from_nanos(777 * MINUTE);
            let change = schedule.next_change(moment).unwrap();
            prop_assert!(schedule.at(moment) != schedule.at(change));
            let just_before = UtcTime::from_nanos(change.as_nanos() - 1);
            prop_assert_eq!(schedule.at(moment), schedule.at(just_before));
            prop_assert!(change.since(moment) <= Duration::from_secs(86_400));
        }
    }
}
