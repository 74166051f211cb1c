//! Property test of a limiter whose limits change, against a reference model that keeps every event.

use super::super::{
    CalendarPeriod, Quota, QuotaDecision, QuotaGroup, QuotaReservation, QuotaUnit, QuotaUnits, RateLimiter,
    ScopeError,
};
use super::{MINUTE, at, group, remaining, scope, sliding};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use proptest::test_runner::TestCaseError;
use std::time::Duration;

const KEYS: u64 = 3;
/// Rates drain in nanoseconds; otherwise a unit with another emission interval would have to be rounded.
const NANOS: u64 = 1_000_000;

/// The kind of a limit in the model.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Sliding {
        slice: u64,
    },
    Day,
    /// The emission interval in milliseconds, and the period in which the rate is configured.
    Rate {
        unit: u64,
        per: u64,
    },
}

/// An event under a limit of the model. Times are in milliseconds.
#[derive(Clone, Copy, Debug)]
enum Event {
    Took {
        when: u64,
        key: u64,
        units: u32,
        serial: u64,
    },
    /// For a rate: the backlog is reduced by this many nanoseconds.
    Relieved {
        key: u64,
        owed: u64,
    },
    /// For a rate: the emission interval changes.
    Rescaled {
        when: u64,
        from: u64,
        to: u64,
    },
}

#[derive(Clone, Debug)]
struct Window {
    name: &'static str,
    kind: Kind,
    capacity: u32,
    unit: QuotaUnit,
    events: Vec<Event>,
}

impl Window {
    /// The nanosecond at which a rate has drained completely, computed from the beginning of time.
    fn worked_off(&self, key: u64) -> u64 {
        let Kind::Rate { .. } = self.kind else { return 0 };
        let mut unit = self.first_unit();
        let mut backlog = 0;
        for event in &self.events {
            match *event {
                Event::Took { when, key: whose, units, .. } if whose == key => {
                    backlog = (when * NANOS).max(backlog) + u64::from(units) * unit * NANOS;
                }
                Event::Relieved { key: whose, owed } if whose == key => backlog -= owed,
                Event::Rescaled { when, from, to } => {
                    unit = to;
                    backlog = rescaled(backlog, when * NANOS, (from, to));
                }
                Event::Took { .. } | Event::Relieved { .. } => {}
            }
        }
        backlog
    }

    fn first_unit(&self) -> u64 {
        let first = self.events.iter().find_map(|event| match event {
            Event::Rescaled { from, .. } => Some(*from),
            Event::Took { .. } | Event::Relieved { .. } => None,
        });
        first.unwrap_or(self.unit_time())
    }

    fn unit_time(&self) -> u64 {
        if let Kind::Rate { unit, .. } = self.kind { unit } else { 0 }
    }

    /// Units in use; a partly drained unit counts as one.
    fn used(&self, key: u64, now: u64) -> u32 {
        let is_live = |when: u64| match self.kind {
            Kind::Sliding { slice } => when / slice + 61 > now / slice,
            Kind::Day => when / 86_400_000 == now / 86_400_000,
            Kind::Rate { .. } => false,
        };
        if let Kind::Rate { unit, .. } = self.kind {
            return u32::try_from(self.worked_off(key).saturating_sub(now * NANOS).div_ceil(unit * NANOS))
                .unwrap();
        }
        let units = |event: &Event| match *event {
            Event::Took { when, key: whose, units, .. } if whose == key && is_live(when) => units,
            Event::Took { .. } | Event::Relieved { .. } | Event::Rescaled { .. } => 0,
        };
        self.events.iter().map(units).sum()
    }

    fn take(&mut self, when: u64, key: u64, units: u32, serial: u64) {
        if units > 0 {
            self.events.push(Event::Took { when, key, units, serial });
        }
    }

    fn units(&self, cost: QuotaUnits) -> u32 {
        match self.unit {
            QuotaUnit::Request => cost.requests,
            QuotaUnit::Token => cost.tokens,
        }
    }

    /// The limit that replaces this one, with the counts it carries over.
    fn become_other(&self, other: &Self, now: u64) -> Self {
        let is_kept = match (self.kind, other.kind) {
            (Kind::Rate { per, .. }, Kind::Rate { per: other, .. }) => per == other,
            (before, after) => before == after,
        };
        let mut next = other.clone();
        if is_kept {
            next.events = self.events.clone();
            if self.unit_time() != other.unit_time() {
                next.events.push(Event::Rescaled {
                    when: now,
                    from: self.unit_time(),
                    to: other.unit_time(),
                });
            }
        } else {
            for key in 0..KEYS {
                // No longer attributable to a reservation.
                next.take(now, key, self.used(key, now), u64::MAX);
            }
        }
        next
    }

    /// Settles the reservation `serial`, whether or not this limit still knows its events.
    fn settle(&mut self, serial: u64, key: u64, (reserved, actual): (u32, u32), now: u64) {
        let refund = reserved.saturating_sub(actual);
        if let Kind::Rate { .. } = self.kind {
            self.relieve(serial, key, refund, now);
        } else {
            for event in &mut self.events {
                if let Event::Took { units, serial: of, .. } = event
                    && *of == serial
                {
                    *units -= refund;
                }
            }
        }
        // Debt of a calendar day belongs to the day of the reservation, if that is known.
        let of_day = self.events.iter().find_map(|event| match event {
            Event::Took { when, serial: of, .. } if *of == serial && self.kind == Kind::Day => Some(*when),
            _ => None,
        });
        self.take(of_day.unwrap_or(now), key, actual.saturating_sub(reserved), u64::MAX);
    }

    /// Refunds to a rate what cannot have drained yet, were it the first to drain.
    fn relieve(&mut self, serial: u64, key: u64, refund: u32, now: u64) {
        let mut unit = self.first_unit();
        let mut done = None;
        for event in &self.events {
            match *event {
                Event::Took { when, units, serial: of, .. } if of == serial => {
                    done = Some(when * NANOS + u64::from(units) * unit * NANOS);
                }
                Event::Rescaled { when, from, to } => {
                    unit = to;
                    done = done.map(|done| rescaled(done, when * NANOS, (from, to)));
                }
                Event::Took { .. } | Event::Relieved { .. } => {}
            }
        }
        let owed = done.map_or(0, |done| done.saturating_sub(now * NANOS));
        let owed = owed.min(u64::from(refund) * unit * NANOS).min(self.worked_off(key));
        self.events.push(Event::Relieved { key, owed });
    }
}

/// The time at which units drain if the emission interval changes at `when`.
fn rescaled(moment: u64, when: u64, (from, to): (u64, u64)) -> u64 {
    if moment > when { when + (moment - when) * to / from } else { moment }
}

/// The possible limits of one group; each has a name, and some are left out.
fn choices(name: usize) -> Vec<Option<(Quota, Window)>> {
    let minute = |slice| Kind::Sliding { slice };
    let window = |name, kind, capacity, unit| Window { name, kind, capacity, unit, events: Vec::new() };
    let limit = |name, kind, capacity: u32, unit| {
        let millis = Duration::from_millis;
        let quota = match kind {
            Kind::Sliding { slice } => Quota::sliding(name, unit, capacity, millis(slice * 60), 0),
            Kind::Day => Quota::calendar(name, unit, capacity, CalendarPeriod::Day),
            Kind::Rate { unit: each, per } => {
                Quota::rate(name, unit, u32::try_from(per / each).unwrap(), millis(per), capacity)
            }
        };
        Some((quota.unwrap(), window(name, kind, capacity, unit)))
    };
    // Intervals that divide one another, so that milliseconds are exact.
    let rate = |unit, per| Kind::Rate { unit, per };
    match name {
        0 => vec![
            limit("first", minute(1_000), 8, QuotaUnit::Request),
            limit("first", minute(1_000), 5, QuotaUnit::Request),
            limit("first", minute(2_000), 9, QuotaUnit::Request),
            limit("first", Kind::Day, 20, QuotaUnit::Request),
            limit("first", rate(16_384, 65_536), 6, QuotaUnit::Request),
            limit("first", rate(4_096, 65_536), 9, QuotaUnit::Request),
            limit("first", rate(8_192, 32_768), 9, QuotaUnit::Request),
            None,
        ],
        1 => vec![
            limit("tokens", minute(60_000), 200, QuotaUnit::Token),
            limit("tokens", minute(60_000), 100, QuotaUnit::Token),
            limit("tokens", Kind::Day, 300, QuotaUnit::Token),
            limit("tokens", rate(1_024, 65_536), 150, QuotaUnit::Token),
            limit("tokens", rate(4_096, 65_536), 100, QuotaUnit::Token),
        ],
        _ => {
            vec![
                limit("day", Kind::Day, 30, QuotaUnit::Request),
                limit("day", Kind::Day, 40, QuotaUnit::Request),
                None,
            ]
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Reserve { key: u64, requests: u32, tokens: u32 },
    Settle { which: usize, requests: u32, tokens: u32 },
    Change { picks: [usize; 3], turned: bool, second: bool },
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    let change = ([0_usize..8, 0..5, 0..3], any::<bool>(), 0..4)
        .prop_map(|(picks, turned, second)| Step::Change { picks, turned, second: second > 0 });
    prop_oneof![
        4 => (0_u64..8_000).prop_map(Step::Wait),
        1 => (0_u64..9_000_000).prop_map(Step::Wait),
        12 => (0..KEYS, 0_u32..3, 0_u32..40)
            .prop_map(|(key, requests, tokens)| Step::Reserve { key, requests, tokens }),
        3 => (0_usize..100, 0_u32..4, 0_u32..60)
            .prop_map(|(which, requests, tokens)| Step::Settle { which, requests, tokens }),
        2 => change,
        1 => Just(Step::Sweep),
    ]
}

/// An unsettled reservation: the request that made it, and what it charged.
struct Held {
    reservation: QuotaReservation,
    serial: u64,
    key: u64,
    cost: QuotaUnits,
    with_second: bool,
}

struct Trial {
    limiter: RateLimiter,
    windows: Vec<Window>,
    /// The global group, which is removed and added again.
    second: Option<Window>,
    held: Vec<Held>,
    now: u64,
    serial: u64,
}

fn all_of(limit: u32) -> (QuotaGroup, Window) {
    let window = Window {
        name: "all",
        kind: Kind::Sliding { slice: 1_000 },
        capacity: limit,
        unit: QuotaUnit::Request,
        events: vec![],
    };
    (group("second", vec![sliding("all", limit, MINUTE, 0)]), window)
}

impl Trial {
    fn new() -> Self {
        let (quotas, windows) = chosen([0, 0, 0], false);
        let (all, second) = all_of(14);
        let limiter = RateLimiter::new(vec![group("caller", quotas), all], 5).unwrap();
        Self { limiter, windows, second: Some(second), held: Vec::new(), now: 0, serial: 0 }
    }

    fn change_limits(&mut self, picks: [usize; 3], turned: bool, with_second: bool) {
        let (quotas, windows) = chosen(picks, turned);
        let mut groups = vec![group("caller", quotas)];
        let before = std::mem::take(&mut self.windows);
        let former = |name| before.iter().find(|before| before.name == name);
        let next = |window: Window| match former(window.name) {
            Some(before) => before.become_other(&window, self.now),
            None => window,
        };
        self.windows = windows.into_iter().map(next).collect();
        self.second = with_second.then(|| {
            let (all, window) = all_of(if turned { 14 } else { 10 });
            groups.insert(0, all);
            self.second.as_ref().map_or(window.clone(), |before| before.become_other(&window, self.now))
        });
        self.limiter.change_limits(groups, at(self.now)).unwrap();
    }

    fn reserve(&mut self, key: u64, cost: QuotaUnits) -> Result<(), TestCaseError> {
        let mut scopes = vec![scope(&self.limiter, "caller", key)];
        if self.second.is_some() {
            scopes.push(scope(&self.limiter, "second", 0));
        }
        let now = self.now;
        let own = self.windows.iter().map(|window| (window, key));
        let fits = own.chain(self.second.iter().map(|window| (window, 0))).all(|(window, key)| {
            let units = window.units(cost);
            let full = u64::from(window.capacity) * window.unit_time() * NANOS;
            match window.kind {
                _ if units == 0 => true,
                // Exact: here a partly drained unit counts as the part that is left.
                Kind::Rate { unit, .. } => {
                    window.worked_off(key).saturating_sub(now * NANOS) + u64::from(units) * unit * NANOS
                        <= full
                }
                Kind::Sliding { .. } | Kind::Day => window.used(key, now) + units <= window.capacity,
            }
        });
        let decision = self.limiter.reserve(&scopes, cost, at(now)).unwrap();
        prop_assert_eq!(matches!(decision, QuotaDecision::Granted { .. }), fits, "{:?}", decision);
        if let QuotaDecision::Granted { reservation, .. } = decision {
            let serial = self.serial;
            self.serial += 1;
            for window in &mut self.windows {
                window.take(now, key, window.units(cost), serial);
            }
            if let Some(window) = &mut self.second {
                window.take(now, 0, window.units(cost), serial);
            }
            self.held.push(Held { reservation, serial, key, cost, with_second: self.second.is_some() });
        }
        Ok(())
    }

    fn settle(&mut self, which: usize, actual: QuotaUnits) {
        let Held { reservation, serial, key, cost, with_second } =
            self.held.swap_remove(which % self.held.len());
        self.limiter.settle(reservation, actual, at(self.now));
        for window in &mut self.windows {
            window.settle(serial, key, (window.units(cost), window.units(actual)), self.now);
        }
        if let Some(window) = self.second.as_mut().filter(|_| with_second) {
            window.settle(serial, 0, (window.units(cost), window.units(actual)), self.now);
        }
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        let left = |window: &Window, key| window.capacity.saturating_sub(window.used(key, self.now));
        for key in 0..KEYS {
            let expected: Vec<u32> = self.windows.iter().map(|window| left(window, key)).collect();
            prop_assert_eq!(
                remaining(&self.limiter, &[scope(&self.limiter, "caller", key)], at(self.now)),
                expected
            );
        }
        match &self.second {
            Some(window) => {
                let scopes = [scope(&self.limiter, "second", 0)];
                prop_assert_eq!(remaining(&self.limiter, &scopes, at(self.now)), [left(window, 0)]);
            }
            None => prop_assert_eq!(self.limiter.group("second"), None),
        }
        Ok(())
    }
}

fn chosen(picks: [usize; 3], turned: bool) -> (Vec<Quota>, Vec<Window>) {
    let limits = picks.into_iter().enumerate().filter_map(|(name, pick)| choices(name).swap_remove(pick));
    let mut limits: Vec<_> = limits.collect();
    if turned {
        limits.reverse();
    }
    limits.into_iter().unzip()
}

proptest! {
    #[test]
    fn a_limiter_whose_limits_change_matches_the_reference_model(steps in vec(step(), 1..150)) {
        let mut trial = Trial::new();
        let second = trial.limiter.group("second").unwrap();
        for step in steps {
            match step {
                Step::Wait(millis) => trial.now += millis,
                Step::Sweep => {
                    for shard in 0..64 {
                        trial.limiter.sweep(shard, at(trial.now));
                    }
                }
                Step::Change { picks, turned, second } => trial.change_limits(picks, turned, second),
                Step::Reserve { key, requests, tokens } => trial.reserve(key, QuotaUnits { requests, tokens })?,
                Step::Settle { which, requests, tokens } if !trial.held.is_empty() => {
                    trial.settle(which, QuotaUnits { requests, tokens });
                }
                Step::Settle { .. } => {}
            }
            trial.compare()?;
            if trial.second.is_none() {
                let removed = super::QuotaScope { group: second, key: super::QuotaKey(0) };
                let refused = trial.limiter.reserve(&[removed], QuotaUnits::REQUEST, at(trial.now));
                prop_assert_eq!(refused, Err(ScopeError::Unknown(second)));
            }
        }
    }
}
