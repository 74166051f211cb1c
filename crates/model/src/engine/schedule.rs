//! Which fault, if any, a request meets.

use super::Ask;
use super::chance::Dice;
use super::fault::{Fault, FaultRule, Frequency};
use super::profile::Profile;
use seawall_core::setting::{Ratio, SettingError};
use std::num::NonZeroU32;
use std::ops::Range;
use std::time::Duration;

/// Rules that make sense, in their order.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    seed: u64,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    during: Range<Duration>,
    model: Option<&'static str>,
    share: Share,
    fault: Fault,
}

#[derive(Clone, Copy, Debug)]
enum Share {
    Every(NonZeroU32),
    ByLot(Ratio),
}

impl Schedule {
    pub(super) fn new(seed: u64, rules: Vec<FaultRule>) -> Result<Self, SettingError> {
        Ok(Self { seed, rules: rules.into_iter().map(Rule::try_from).collect::<Result<_, _>>()? })
    }

    pub(super) fn fault_for(&self, ask: &Ask<'_>, profile: &Profile) -> Option<&Fault> {
        let is_hit = |(place, rule): &(u64, &Rule)| {
            rule.during.contains(&ask.at)
                && rule.model.is_none_or(|model| model == profile.name)
                && rule.share.contains(ask.number, || Dice::new(self.seed).with_number(*place))
        };
        (0..).zip(&self.rules).find(is_hit).map(|(_, rule)| &rule.fault)
    }
}

impl Share {
    fn contains(self, number: u64, dice: impl FnOnce() -> Dice) -> bool {
        match self {
            Self::Every(every) => number.is_multiple_of(u64::from(every.get())),
            Self::ByLot(ratio) => {
                let lot = dice().with_number(number).roll().below(1_000_000);
                lot < u64::from(ratio.millionths())
            }
        }
    }
}

impl TryFrom<FaultRule> for Rule {
    type Error = SettingError;

    fn try_from(rule: FaultRule) -> Result<Self, SettingError> {
        if rule.from >= rule.to {
            let problem = format!("{:?} is not before to ({:?})", rule.from, rule.to);
            return Err(SettingError::new("faults.from", problem));
        }
        let profile = rule.model.map(|name| {
            let unknown = || SettingError::new("faults.model", format!("{name:?} is not simulated here"));
            Profile::named(&name).ok_or_else(unknown)
        });
        let share = match rule.frequency {
            Frequency::Every(every) => Share::Every(
                NonZeroU32::new(every)
                    .ok_or_else(|| SettingError::new("faults.every", "must be at least 1"))?,
            ),
            Frequency::Percent(percent) => Share::ByLot(Ratio::percent("faults.percent", percent)?),
        };
        if let Fault::Status { status, .. } = rule.fault
            && !(400..=599).contains(&status)
        {
            return Err(SettingError::new("faults.status", format!("{status} is not between 400 and 599")));
        }
        let model = profile.transpose()?.map(|profile| profile.name);
        Ok(Self { during: rule.from..rule.to, model, share, fault: rule.fault })
    }
}
