//! Budget settings: caps per day, tier, caller and session.

use crate::money::Money;
use crate::setting::{Factor, Ratio, SettingError, at_least_one};
use crate::time::UtcTime;
use crate::vocabulary::Tier;

/// A different cap for a range of days, configured in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventBudget {
    /// First day (UTC).
    pub first_day: UtcTime,
    /// Last day (UTC), inclusive.
    pub last_day: UtcTime,
    /// The cap on each of these days.
    pub day: Money,
}

/// Budget settings before validation.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetOptions {
    /// Maximum input tokens of a session.
    pub session_input: u64,
    /// Maximum output tokens of a session.
    pub session_output: u64,
    /// Daily cap of one caller.
    pub caller_day: Money,
    /// Global daily cap.
    pub day: Money,
    /// Each tier's share of the global cap, in percent, in the order of [`Tier::ALL`].
    pub shares: [f64; 3],
    /// Share of the global cap, in percent, above which one caller's spend raises an alarm.
    pub single_source_alarm: f64,
    /// Days with a different global cap.
    pub events: Vec<EventBudget>,
}

impl Default for BudgetOptions {
    fn default() -> Self {
        Self {
            session_input: 50_000,
            session_output: 25_000,
            caller_day: Money::from_dollars(5),
            day: Money::from_dollars(5_000),
            shares: [50.0, 35.0, 15.0],
            single_source_alarm: 10.0,
            events: Vec::new(),
        }
    }
}

/// Validated [`BudgetOptions`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetLimits {
    pub(super) session_input: u64,
    pub(super) session_output: u64,
    pub(super) caller_day: Money,
    pub(super) single_source_alarm: Ratio,
    day: Money,
    shares: [Ratio; 3],
    /// Sorted by first day, without overlaps.
    events: Vec<EventBudget>,
}

impl BudgetOptions {
    /// Fails if the shares exceed 100 % or a day has two caps, among others.
    pub fn check(&self) -> Result<BudgetLimits, SettingError> {
        let mut shares = [Ratio::percent("shares", 100.0)?; 3];
        for (share, percent) in shares.iter_mut().zip(self.shares) {
            *share = Ratio::percent("shares", percent)?;
        }
        // A tier with the whole budget has no limit of its own; the daily budget limits it.
        let whole: u32 =
            shares.iter().map(|share| share.millionths()).filter(|share| *share < 1_000_000).sum();
        if whole > 1_000_000 {
            let problem =
                format!("the tiers' shares add up to {}%, more than 100%", f64::from(whole) / 10_000.0);
            return Err(SettingError::new("shares", problem));
        }
        for (setting, amount) in [("day", self.day), ("caller_day", self.caller_day)] {
            if amount == Money::ZERO {
                return Err(SettingError::new(setting, "must be more than $0.00"));
            }
        }
        if self.caller_day > self.day {
            let problem = format!("{} is more than the daily budget ({})", self.caller_day, self.day);
            return Err(SettingError::new("caller_day", problem));
        }
        Ok(BudgetLimits {
            session_input: at_least_one("session_input", self.session_input)?,
            session_output: at_least_one("session_output", self.session_output)?,
            caller_day: self.caller_day,
            single_source_alarm: Ratio::percent("single_source_alarm", self.single_source_alarm)?,
            day: self.day,
            shares,
            events: checked_events(&self.events)?,
        })
    }
}

fn checked_events(events: &[EventBudget]) -> Result<Vec<EventBudget>, SettingError> {
    let mut events = events.to_vec();
    events.sort_by_key(|event| event.first_day);
    for event in &events {
        if event.first_day.day() > event.last_day.day() {
            let problem =
                format!("{} ends before it begins ({})", date(event.last_day), date(event.first_day));
            return Err(SettingError::new("events", problem));
        }
        if event.day == Money::ZERO {
            return Err(SettingError::new("events", format!("{} has a cap of $0.00", date(event.first_day))));
        }
    }
    for pair in events.windows(2) {
        if pair[1].first_day.day() <= pair[0].last_day.day() {
            let problem =
                format!("{} has two caps: {} and {}", date(pair[1].first_day), pair[0].day, pair[1].day);
            return Err(SettingError::new("events", problem));
        }
    }
    Ok(events)
}

fn date(day: UtcTime) -> String {
    let (year, month, day) = day.civil();
    format!("{year:04}-{month:02}-{day:02}")
}

impl BudgetLimits {
    /// The global cap on a day, in days since 1970.
    #[must_use]
    pub fn day_cap(&self, day: u64) -> Money {
        let falls_on = |event: &&EventBudget| (event.first_day.day()..=event.last_day.day()).contains(&day);
        self.events.iter().find(falls_on).map_or(self.day, |event| event.day)
    }

    /// A tier's cap on a day.
    #[must_use]
    pub fn tier_cap(&self, day: u64, tier: Tier) -> Money {
        Money::from_nanos(self.shares[tier.index()].of(self.day_cap(day).as_nanos()))
    }

    /// The daily cap of one caller.
    #[must_use]
    pub const fn caller_cap(&self) -> Money {
        self.caller_day
    }

    /// A copy with every daily cap multiplied. The cap per caller stays.
    #[must_use]
    pub fn scaled(&self, factor: Factor) -> Self {
        let mut scaled = self.clone();
        scaled.day = factor.of(self.day);
        for event in &mut scaled.events {
            event.day = factor.of(event.day);
        }
        scaled
    }
}

#[cfg(test)]
mod tests {
    use super::{BudgetOptions, EventBudget, Money, Tier, UtcTime};
    use crate::setting::Factor;

    fn problem(options: &BudgetOptions) -> String {
        options.check().unwrap_err().to_string()
    }

    fn november(day: u32) -> UtcTime {
        UtcTime::from_civil(2026, 11, day)
    }

    fn event(first: u32, last: u32, dollars: u64) -> EventBudget {
        EventBudget {
            first_day: november(first),
            last_day: november(last),
            day: Money::from_dollars(dollars),
        }
    }

    #[test]
    fn a_day_of_five_thousand_dollars_is_split_between_the_tiers() {
        let limits = BudgetOptions::default().check().unwrap();
        let caps = Tier::ALL.map(|tier| limits.tier_cap(0, tier));
        assert_eq!(caps, [2_500, 1_750, 750].map(Money::from_dollars));
        assert_eq!(limits.day_cap(0), Money::from_dollars(5_000));
        assert_eq!(limits.caller_cap(), Money::from_dollars(5));
    }

    #[test]
    fn parts_that_exceed_the_whole_are_refused() {
        let options = BudgetOptions::default;
        assert_eq!(
            problem(&BudgetOptions { shares: [50.0, 35.0, 15.001], ..options() }),
            "shares: the tiers' shares add up to 100.001%, more than 100%"
        );
        assert!(BudgetOptions { shares: [20.0, 20.0, 20.0], ..options() }.check().is_ok());
        assert!(BudgetOptions { shares: [100.0, 100.0, 100.0], ..options() }.check().is_ok());
        assert!(BudgetOptions { shares: [100.0, 60.0, 50.0], ..options() }.check().is_err());
        assert_eq!(
            problem(&BudgetOptions { shares: [f64::NAN, 1.0, 1.0], ..options() }),
            "shares: NaN% is not a percentage"
        );
        assert_eq!(
            problem(&BudgetOptions { caller_day: Money::from_dollars(5_001), ..options() }),
            "caller_day: $5001.00 is more than the daily budget ($5000.00)"
        );
        assert!(BudgetOptions { caller_day: Money::from_dollars(5_000), ..options() }.check().is_ok());
        assert_eq!(problem(&BudgetOptions { day: Money::ZERO, ..options() }), "day: must be more than $0.00");
        assert_eq!(
            problem(&BudgetOptions { caller_day: Money::ZERO, ..options() }),
            "caller_day: must be more than $0.00"
        );
        assert_eq!(
            problem(&BudgetOptions { session_input: 0, ..options() }),
            "session_input: must be at least 1"
        );
        assert_eq!(
            problem(&BudgetOptions { session_output: 0, ..options() }),
            "session_output: must be at least 1"
        );
        assert!(
            problem(&BudgetOptions { single_source_alarm: 0.0, ..options() })
                .starts_with("single_source_alarm")
        );
    }

    #[test]
    fn an_announced_event_has_its_own_cap_from_its_first_day_through_its_last() {
        let events = vec![event(27, 29, 20_000), event(10, 10, 8_000)];
        let limits = BudgetOptions { events, ..BudgetOptions::default() }.check().unwrap();
        let caps = [9, 10, 11, 26, 27, 29, 30].map(|day| limits.day_cap(november(day).day()));
        assert_eq!(caps, [5_000, 8_000, 5_000, 5_000, 20_000, 20_000, 5_000].map(Money::from_dollars));
        assert_eq!(limits.tier_cap(november(28).day(), Tier::Guest), Money::from_dollars(3_000));
        let larger = limits.scaled(Factor::new("budget", 1.5).unwrap());
        assert_eq!(larger.day_cap(november(28).day()), Money::from_dollars(30_000));
        assert_eq!(larger.day_cap(0), Money::from_dollars(7_500));
        assert_eq!(larger.caller_cap(), limits.caller_cap());
    }

    #[test]
    fn events_that_overlap_or_run_backwards_are_refused() {
        let with = |events| BudgetOptions { events, ..BudgetOptions::default() };
        assert_eq!(
            problem(&with(vec![event(12, 14, 1), event(10, 12, 2)])),
            "events: 2026-11-12 has two caps: $2.00 and $1.00"
        );
        assert!(with(vec![event(13, 14, 1), event(10, 12, 2)]).check().is_ok());
        assert_eq!(
            problem(&with(vec![event(14, 12, 1)])),
            "events: 2026-11-12 ends before it begins (2026-11-14)"
        );
        assert_eq!(problem(&with(vec![event(14, 14, 0)])), "events: 2026-11-14 has a cap of $0.00");
    }
}
