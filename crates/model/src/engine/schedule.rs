//! The fault schedule: selects the fault for a request, if any.

use super::Ask;
use super::chance::Dice;
use super::fault::{Fault, FaultRule, Frequency};
use super::profile::Profile;
use seawall_core::setting::{Ratio, SettingError};
use std::num::NonZeroU32;
use std::ops::Range;
use std::time::Duration;

fn contains(body: &[u8], text: &[u8]) -> bool {
    text.is_empty() || body.windows(text.len()).any(|window| window == text)
}

/// Validated rules, in order of precedence.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    rules: Vec<Rule>,
}

/// A validated rule.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) name: Box<str>,
    dice: Dice,
    during: Range<Duration>,
    bursts: Option<(Duration, Duration)>,
    model: Option<&'static str>,
    contains: Option<Box<[u8]>>,
    share: Share,
    pub(super) fault: Fault,
}

#[derive(Clone, Copy, Debug)]
enum Share {
    Every(NonZeroU32),
    /// A random share that changes from the first to the second value, in millionths.
    ByLot(u32, u32),
}

impl Schedule {
    pub(super) fn new(seed: u64, rules: Vec<FaultRule>) -> Result<Self, SettingError> {
        let checked = (0..).zip(rules).map(|(place, rule)| Rule::new(seed, place, rule));
        Ok(Self { rules: checked.collect::<Result<_, _>>()? })
    }

    /// The first rule that applies.
    pub(super) fn rule_for(&self, ask: &Ask<'_>, profile: &Profile) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.applies(ask, profile))
    }
}

impl Rule {
    fn new(seed: u64, place: u64, rule: FaultRule) -> Result<Self, SettingError> {
        if rule.from >= rule.to {
            let problem = format!("{:?} is not before to ({:?})", rule.from, rule.to);
            return Err(SettingError::new("faults.from", problem));
        }
        if let Some((repeat, lasts)) = rule.bursts
            && (lasts.is_zero() || lasts > repeat)
        {
            let problem = format!("{lasts:?} is not longer than 0s and at most repeat ({repeat:?})");
            return Err(SettingError::new("faults.lasts", problem));
        }
        check(&rule.fault)?;
        let profile = rule.model.map(|name| {
            let unknown = || SettingError::new("faults.model", format!("{name:?} is not simulated here"));
            Profile::named(&name).ok_or_else(unknown)
        });
        let share = match rule.frequency {
            Frequency::Every(every) => Share::Every(
                NonZeroU32::new(every)
                    .ok_or_else(|| SettingError::new("faults.every", "must be at least 1"))?,
            ),
            Frequency::Percent(percent) => {
                let share = Ratio::percent("faults.percent", percent)?.millionths();
                Share::ByLot(share, share)
            }
            Frequency::Changing(from, to) => Share::ByLot(
                Ratio::percent("faults.percent", from)?.millionths(),
                Ratio::percent("faults.percent_to", to)?.millionths(),
            ),
        };
        Ok(Self {
            name: rule.name.unwrap_or_else(|| rule.fault.kind().to_owned()).into(),
            dice: rule.seed.map_or_else(|| Dice::new(seed).with_number(place), Dice::new),
            during: rule.from..rule.to,
            bursts: rule.bursts,
            model: profile.transpose()?.map(|profile| profile.name),
            contains: rule.contains.map(|text| text.into_bytes().into()),
            share,
            fault: rule.fault,
        })
    }

    /// The random draws of this request.
    pub(super) const fn dice_for(&self, ask: &Ask<'_>) -> Dice {
        self.dice.with_number(ask.place)
    }

    fn applies(&self, ask: &Ask<'_>, profile: &Profile) -> bool {
        self.during.contains(&ask.at)
            && self.is_in_burst(ask.at)
            && self.model.is_none_or(|model| model == profile.name)
            && self.contains.as_deref().is_none_or(|text| contains(ask.body, text))
            && self.is_chosen(ask)
            && match self.fault {
                Fault::Capacity { in_flight, .. } => ask.in_flight > in_flight,
                Fault::Quota { per_minute } => ask.this_minute > per_minute,
                _ => true,
            }
    }

    fn is_in_burst(&self, at: Duration) -> bool {
        let since = at.saturating_sub(self.during.start).as_nanos();
        self.bursts.is_none_or(|(repeat, lasts)| since % repeat.as_nanos().max(1) < lasts.as_nanos())
    }

    fn is_chosen(&self, ask: &Ask<'_>) -> bool {
        match self.share {
            Share::Every(every) => ask.place.is_multiple_of(u64::from(every.get())),
            Share::ByLot(from, to) => {
                let lot = self.dice_for(ask).roll().below(1_000_000);
                lot < self.between(from, to, ask.at)
            }
        }
    }

    /// The share at a point in time, interpolated linearly over the rule's active period.
    fn between(&self, from: u32, to: u32, at: Duration) -> u64 {
        let whole = self.during.end.saturating_sub(self.during.start).as_nanos().max(1);
        let gone = at.saturating_sub(self.during.start).as_nanos().min(whole);
        let sum = u128::from(from) * (whole - gone) + u128::from(to) * gone;
        u64::try_from(sum / whole).unwrap_or(u64::MAX)
    }
}

fn check(fault: &Fault) -> Result<(), SettingError> {
    match fault {
        Fault::Status { status, .. } if !(400..=599).contains(status) => {
            Err(SettingError::new("faults.status", format!("{status} is not between 400 and 599")))
        }
        Fault::Endless { every } | Fault::Drip { every } | Fault::Thinking { every: Some(every), .. }
            if every.is_zero() =>
        {
            Err(SettingError::new("faults.every", "must be longer than 0s"))
        }
        Fault::Latency { median, p99 } if median.is_zero() || p99 < median => {
            let problem = format!("{p99:?} is not at least the median ({median:?}), which is longer than 0s");
            Err(SettingError::new("faults.p99", problem))
        }
        Fault::Cut { after, after_bytes, after_tokens, .. }
            if [after.is_some(), after_bytes.is_some(), after_tokens.is_some()]
                .into_iter()
                .filter(|is| *is)
                .count()
                != 1 =>
        {
            Err(SettingError::new("faults.cut", "needs one of after, after_bytes and after_tokens"))
        }
        _ => Ok(()),
    }
}
