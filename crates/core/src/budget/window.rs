//! Budgets by calendar window: how much a key, a team or a tier may spend in an hour, a day, a week, a month or a quarter.
//!
//! Windows follow a calendar at a fixed offset from UTC and consist of whole hours of it. A reservation belongs to the
//! windows of the hour in which it was made, whenever it ends.

use crate::money::Money;
use crate::time::UtcTime;
use crate::vocabulary::Tier;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

const HOURS_PER_DAY: u32 = 24;
const SECONDS_PER_HOUR: u64 = 3_600;
const NANOS_PER_HOUR: u64 = SECONDS_PER_HOUR * 1_000_000_000;
/// 1970-01-01 was a Thursday, three days after a Monday.
const DAYS_SINCE_MONDAY: u32 = 3;

/// How long a window of a budget lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BudgetPeriod {
    /// From one full hour to the next.
    Hour,
    /// From midnight to midnight.
    Day,
    /// From Monday to Sunday.
    Week,
    /// A calendar month.
    Month,
    /// Three calendar months, the first from January to March.
    Quarter,
}

impl BudgetPeriod {
    /// All periods, from the shortest to the longest.
    pub const ALL: [Self; 5] = [Self::Hour, Self::Day, Self::Week, Self::Month, Self::Quarter];

    /// The name in settings, messages and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Quarter => "quarter",
        }
    }

    /// The position in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The window that contains an hour: its first hour, and the hour after its last.
    #[must_use]
    pub fn window(self, hour: CalendarHour) -> Range<CalendarHour> {
        let CalendarHour(hour) = hour;
        let day = hour / HOURS_PER_DAY;
        let days = |from: u32, to: u32| {
            let start = |day: u32| CalendarHour(day.saturating_mul(HOURS_PER_DAY));
            start(from)..start(to)
        };
        let months = |length: u32| {
            let (year, month, _) = UtcTime::start_of_day(day.into()).civil();
            let first = (month - 1) / length * length + 1;
            let (next_year, next) = if first + length > 12 { (year + 1, 1) } else { (year, first + length) };
            let start =
                |year, month| u32::try_from(UtcTime::from_civil(year, month, 1).day()).unwrap_or(u32::MAX);
            days(start(year, first), start(next_year, next))
        };
        match self {
            Self::Hour => CalendarHour(hour)..CalendarHour(hour.saturating_add(1)),
            Self::Day => days(day, day + 1),
            Self::Week => {
                let week = (day + DAYS_SINCE_MONDAY) / 7;
                let monday = |week: u32| (week * 7).saturating_sub(DAYS_SINCE_MONDAY);
                days(monday(week), monday(week + 1))
            }
            Self::Month => months(1),
            Self::Quarter => months(3),
        }
    }
}

impl fmt::Display for BudgetPeriod {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The fixed offset from UTC of a calendar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CalendarOffset {
    /// In minutes, positive east of Greenwich.
    pub minutes: i32,
}

impl CalendarOffset {
    /// The hour of the calendar that contains this time.
    #[must_use]
    pub fn hour(self, at: UtcTime) -> CalendarHour {
        let offset = i64::from(self.minutes) * 60;
        let seconds = i64::try_from(at.as_nanos() / 1_000_000_000).unwrap_or(i64::MAX).saturating_add(offset);
        let hours = seconds.max(0) / 3_600;
        CalendarHour(u32::try_from(hours).unwrap_or(u32::MAX))
    }

    /// When an hour of the calendar begins.
    #[must_use]
    pub fn start(self, hour: CalendarHour) -> UtcTime {
        let nanos = u64::from(hour.0).saturating_mul(NANOS_PER_HOUR);
        let offset = Duration::from_secs(u64::from(self.minutes.unsigned_abs()) * 60);
        let nanos_of_offset = u64::try_from(offset.as_nanos()).unwrap_or(u64::MAX);
        if self.minutes < 0 {
            UtcTime::from_nanos(nanos.saturating_add(nanos_of_offset))
        } else {
            UtcTime::from_nanos(nanos.saturating_sub(nanos_of_offset))
        }
    }
}

/// An hour of a calendar, counted from its 1970-01-01T00:00.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CalendarHour(pub u32);

/// Whose spending a budget limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BudgetOwner {
    /// One API key.
    Key,
    /// All keys of a team.
    Team,
    /// All callers of a tier.
    Tier,
}

impl BudgetOwner {
    /// All owners, from the narrowest to the widest.
    pub const ALL: [Self; 3] = [Self::Key, Self::Team, Self::Tier];

    /// The name in messages and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Team => "team",
            Self::Tier => "tier",
        }
    }

    /// The position in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// One budget: whose it is, and for which period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BudgetName {
    /// Whose spending it limits.
    pub owner: BudgetOwner,
    /// How long its windows last.
    pub period: BudgetPeriod,
}

impl BudgetName {
    const COUNT: usize = BudgetOwner::ALL.len() * BudgetPeriod::ALL.len();

    const fn index(self) -> usize {
        self.owner.index() * BudgetPeriod::ALL.len() + self.period.index()
    }

    fn all() -> impl Iterator<Item = Self> {
        BudgetOwner::ALL
            .into_iter()
            .flat_map(|owner| BudgetPeriod::ALL.into_iter().map(move |period| Self { owner, period }))
    }
}

/// The caps of one owner, one per period at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodCaps([Money; BudgetPeriod::ALL.len()]);

impl Default for PeriodCaps {
    fn default() -> Self {
        Self::NONE
    }
}

impl PeriodCaps {
    /// No cap at all.
    pub const NONE: Self = Self([Money::MAX; BudgetPeriod::ALL.len()]);

    /// The cap of a period, if there is one.
    #[must_use]
    pub fn get(&self, period: BudgetPeriod) -> Option<Money> {
        Some(self.0[period.index()]).filter(|cap| *cap != Money::MAX)
    }

    /// Sets the cap of a period. Returns the previous one, if there was one.
    pub fn set(&mut self, period: BudgetPeriod, cap: Money) -> Option<Money> {
        let before = self.get(period);
        self.0[period.index()] = cap;
        before
    }

    /// All caps, from the shortest period to the longest.
    pub fn iter(&self) -> impl Iterator<Item = (BudgetPeriod, Money)> + '_ {
        BudgetPeriod::ALL.into_iter().filter_map(|period| Some((period, self.get(period)?)))
    }

    /// Whether there is no cap.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl FromIterator<(BudgetPeriod, Money)> for PeriodCaps {
    /// Of several caps for a period the lowest applies.
    fn from_iter<I: IntoIterator<Item = (BudgetPeriod, Money)>>(caps: I) -> Self {
        let mut all = Self::NONE;
        for (period, cap) in caps {
            let slot = &mut all.0[period.index()];
            *slot = cap.min(*slot);
        }
        all
    }
}

/// The budgets by calendar window that apply to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCaps {
    /// The calendar of all windows.
    pub offset: CalendarOffset,
    /// The number of the caller's team; without a team its caps are empty.
    pub team: u64,
    /// The caps of each owner, in the order of [`BudgetOwner::ALL`].
    pub caps: [PeriodCaps; 3],
}

impl WindowCaps {
    /// Whether no budget applies.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.caps.iter().all(PeriodCaps::is_empty)
    }

    /// All budgets with their caps, the narrowest owner and the shortest period first.
    pub fn iter(&self) -> impl Iterator<Item = (BudgetName, Money)> + '_ {
        BudgetOwner::ALL.into_iter().zip(&self.caps).flat_map(|(owner, caps)| {
            caps.iter().map(move |(period, cap)| (BudgetName { owner, period }, cap))
        })
    }

    /// The windows that a reservation at this time is charged to.
    #[must_use]
    pub fn windows(&self, at: UtcTime) -> BudgetWindows {
        let mut windows = BudgetWindows::NONE;
        for (name, _) in self.iter() {
            windows.set |= 1 << name.index();
        }
        if windows.set != 0 {
            windows.hour = self.offset.hour(at);
            windows.team = if self.caps[BudgetOwner::Team.index()].is_empty() { 0 } else { self.team };
        }
        windows
    }
}

/// The windows that a reservation is charged to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BudgetWindows {
    /// One bit per budget.
    set: u16,
    hour: CalendarHour,
    team: u64,
}

impl BudgetWindows {
    /// No window.
    pub const NONE: Self = Self { set: 0, hour: CalendarHour(0), team: 0 };

    /// Whether there is no window.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.set == 0
    }

    /// The bits of the budgets, the hour of the reservation, and the number of the team, for storage.
    #[must_use]
    pub const fn to_parts(self) -> (u16, u32, u64) {
        (self.set, self.hour.0, self.team)
    }

    /// Restores what [`to_parts`](Self::to_parts) returned. `None` if these are no windows.
    #[must_use]
    pub fn from_parts(set: u16, hour: u32, team: u64) -> Option<Self> {
        let is_known = u32::from(set) < 1 << BudgetName::COUNT && set != 0;
        let has_team =
            BudgetName::all().any(|name| name.owner == BudgetOwner::Team && set & (1 << name.index()) != 0);
        (is_known && (has_team || team == 0)).then_some(Self { set, hour: CalendarHour(hour), team })
    }

    /// The hour in which the reservation was made.
    pub(super) const fn hour(&self) -> CalendarHour {
        self.hour
    }

    /// The key of each window's account.
    pub(super) fn keys(self, caller: u64, tier: Tier) -> impl Iterator<Item = WindowKey> {
        BudgetName::all().filter(move |name| self.set & (1 << name.index()) != 0).map(move |name| {
            let id = match name.owner {
                BudgetOwner::Key => caller,
                BudgetOwner::Team => self.team,
                BudgetOwner::Tier => tier.index() as u64,
            };
            WindowKey { name, id, end: name.period.window(self.hour).end }
        })
    }
}

/// Identifies the account of one window of one budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowKey {
    /// The budget.
    pub name: BudgetName,
    /// The number of its owner.
    pub id: u64,
    /// The hour after the last one of the window.
    pub end: CalendarHour,
}

impl WindowKey {
    /// Not greater than any other key.
    pub(super) const LOWEST: Self = Self {
        name: BudgetName { owner: BudgetOwner::Key, period: BudgetPeriod::Hour },
        id: 0,
        end: CalendarHour(0),
    };

    /// The budget as one byte, for storage.
    #[must_use]
    pub fn name_byte(&self) -> u8 {
        u8::try_from(self.name.index()).unwrap_or(u8::MAX)
    }

    /// Restores a key. `None` if no budget has this byte.
    #[must_use]
    pub fn from_parts(name: u8, id: u64, end: u32) -> Option<Self> {
        let name = BudgetName::all().nth(name.into())?;
        Some(Self { name, id, end: CalendarHour(end) })
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{
        BudgetName, BudgetOwner, BudgetPeriod, BudgetWindows, CalendarHour, CalendarOffset, PeriodCaps,
        WindowCaps, WindowKey,
    };
    use crate::money::Money;
    use crate::time::UtcTime;
    use crate::vocabulary::Tier;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use std::time::Duration;

    const UTC: CalendarOffset = CalendarOffset { minutes: 0 };
    const JAPAN: CalendarOffset = CalendarOffset { minutes: 540 };

    fn window(period: BudgetPeriod, offset: CalendarOffset, at: UtcTime) -> (UtcTime, UtcTime) {
        let window = period.window(offset.hour(at));
        (offset.start(window.start), offset.start(window.end))
    }

    #[test]
    fn windows_of_a_leap_day() {
        let noon = UtcTime::from_civil(2028, 2, 29) + Duration::from_secs(12 * 3_600);
        let date = UtcTime::from_civil;
        let of = |period| window(period, UTC, noon);
        assert_eq!(of(BudgetPeriod::Hour), (noon, noon + Duration::from_secs(3_600)));
        assert_eq!(of(BudgetPeriod::Day), (date(2028, 2, 29), date(2028, 3, 1)));
        // 29 February 2028 is a Tuesday.
        assert_eq!(of(BudgetPeriod::Week), (date(2028, 2, 28), date(2028, 3, 6)));
        assert_eq!(of(BudgetPeriod::Month), (date(2028, 2, 1), date(2028, 3, 1)));
        assert_eq!(of(BudgetPeriod::Quarter), (date(2028, 1, 1), date(2028, 4, 1)));
        let new_year = date(2026, 12, 31);
        assert_eq!(window(BudgetPeriod::Month, UTC, new_year), (date(2026, 12, 1), date(2027, 1, 1)));
        assert_eq!(window(BudgetPeriod::Quarter, UTC, new_year), (date(2026, 10, 1), date(2027, 1, 1)));
    }

    #[test]
    fn a_day_in_japan_begins_nine_hours_earlier() {
        let at = UtcTime::from_civil(2026, 11, 30) + Duration::from_secs(15 * 3_600);
        let (start, end) = window(BudgetPeriod::Month, JAPAN, at);
        assert_eq!(start, at, "1 December, 00:00 in Japan");
        assert_eq!(end, UtcTime::from_civil(2026, 12, 31) + Duration::from_secs(15 * 3_600));
        let before = UtcTime::from_nanos(at.as_nanos() - 1);
        assert_eq!(window(BudgetPeriod::Month, JAPAN, before).1, at);
    }

    #[test]
    fn the_windows_of_a_request_are_those_that_have_a_cap() {
        let month = PeriodCaps::from_iter([(BudgetPeriod::Month, Money::from_dollars(50))]);
        let caps = WindowCaps { offset: UTC, team: 9, caps: [month, month, PeriodCaps::NONE] };
        let at = UtcTime::from_civil(2026, 11, 18);
        let keys: Vec<WindowKey> = caps.windows(at).keys(7, Tier::Prime).collect();
        let end = CalendarHour(u32::try_from(UtcTime::from_civil(2026, 12, 1).day()).unwrap() * 24);
        let name = |owner| BudgetName { owner, period: BudgetPeriod::Month };
        assert_eq!(
            keys,
            [
                WindowKey { name: name(BudgetOwner::Key), id: 7, end },
                WindowKey { name: name(BudgetOwner::Team), id: 9, end }
            ]
        );
        assert!(WindowCaps::default().windows(at).is_empty());
        let of_tier = WindowCaps { caps: [PeriodCaps::NONE, PeriodCaps::NONE, month], ..caps };
        assert_eq!(
            of_tier.windows(at).to_parts().2,
            0,
            "the team does not matter without a budget of its own"
        );
    }

    proptest! {
        #[test]
        fn every_hour_is_in_exactly_one_window_and_windows_follow_each_other(
            hour in 0_u32..580 * 8_766, period in 0_usize..5,
        ) {
            let period = BudgetPeriod::ALL[period];
            let window = period.window(CalendarHour(hour));
            prop_assert!(window.contains(&CalendarHour(hour)));
            for other in [window.start, CalendarHour(window.end.0 - 1)] {
                prop_assert_eq!(period.window(other), window.clone());
            }
            prop_assert_eq!(period.window(window.end).start, window.end);
        }

        #[test]
        fn an_hour_contains_the_time_it_was_derived_from(seconds in 100_000_u64..4_000_000_000, quarter in -48_i32..57) {
            let offset = CalendarOffset { minutes: quarter * 15 };
            let at = UtcTime::from_nanos(seconds * 1_000_000_000);
            let hour = offset.hour(at);
            let next = CalendarHour(hour.0 + 1);
            prop_assert!(offset.start(hour) <= at && at < offset.start(next));
        }

        #[test]
        fn windows_survive_storage(set in any::<u16>(), hour in any::<u32>(), team in any::<u64>(), byte in any::<u8>()) {
            if let Some(windows) = BudgetWindows::from_parts(set, hour, team) {
                prop_assert_eq!(windows.to_parts(), (set, hour, team));
                for key in windows.keys(1, Tier::Guest) {
                    prop_assert_eq!(WindowKey::from_parts(key.name_byte(), key.id, key.end.0), Some(key));
                }
            }
            prop_assert_eq!(WindowKey::from_parts(byte, 1, 1).is_some(), byte < 15);
        }
    }
}
