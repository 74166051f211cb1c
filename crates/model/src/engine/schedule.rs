//! The fault schedule: selects the fault for a request, if any.

use super::ModelRequest;
use super::chance::Dice;
use super::fault::{Fault, FaultRule, Frequency};
use super::profile::Profile;
use super::tool::is_callable;
use seawall_core::setting::{Ratio, SettingError};
use seawall_wire::chat::ChatRequest;
use std::num::NonZeroU32;
use std::ops::Range;
use std::time::Duration;

fn contains(body: &[u8], text: &[u8]) -> bool {
    text.is_empty() || body.windows(text.len()).any(|window| window == text)
}

/// Validated rules, in order of precedence.
#[derive(Clone, Debug)]
pub(super) struct FaultSchedule {
    rules: Vec<CheckedRule>,
}

/// A validated rule.
#[derive(Clone, Debug)]
pub(super) struct CheckedRule {
    pub(super) name: Box<str>,
    dice: Dice,
    during: Range<Duration>,
    bursts: Option<(Duration, Duration)>,
    model: Option<&'static str>,
    contains: Option<Box<[u8]>>,
    selection: Selection,
    pub(super) fault: Fault,
}

#[derive(Clone, Copy, Debug)]
enum Selection {
    Every(NonZeroU32),
    /// A random share that changes from the first to the second value, in millionths.
    Random(u32, u32),
}

impl FaultSchedule {
    pub(super) fn new(seed: u64, rules: Vec<FaultRule>) -> Result<Self, SettingError> {
        let checked = (0..).zip(rules).map(|(index, rule)| CheckedRule::new(seed, index, rule));
        Ok(Self { rules: checked.collect::<Result<_, _>>()? })
    }

    /// The first rule that applies.
    pub(super) fn rule_for(
        &self,
        incoming: &ModelRequest<'_>,
        profile: &Profile,
        request: &ChatRequest,
    ) -> Option<&CheckedRule> {
        self.rules.iter().find(|rule| rule.applies(incoming, profile, request))
    }
}

impl CheckedRule {
    fn new(seed: u64, index: u64, rule: FaultRule) -> Result<Self, SettingError> {
        if rule.from >= rule.to {
            let problem = format!("{:?} must be before to ({:?})", rule.from, rule.to);
            return Err(SettingError::new("faults.from", problem));
        }
        if let Some((repeat, lasts)) = rule.bursts
            && (lasts.is_zero() || lasts > repeat)
        {
            let problem = format!("{lasts:?} must be longer than 0s and at most repeat ({repeat:?})");
            return Err(SettingError::new("faults.lasts", problem));
        }
        check(&rule.fault)?;
        let profile = rule.model.map(|name| {
            let unknown = || SettingError::new("faults.model", format!("unknown model {name:?}"));
            Profile::named(&name).ok_or_else(unknown)
        });
        let selection = match rule.frequency {
            Frequency::Every(every) => Selection::Every(
                NonZeroU32::new(every)
                    .ok_or_else(|| SettingError::new("faults.every", "must be at least 1"))?,
            ),
            Frequency::Percent(percent) => {
                let selection = Ratio::percent("faults.percent", percent)?.millionths();
                Selection::Random(selection, selection)
            }
            Frequency::Ramp(from, to) => Selection::Random(
                Ratio::percent("faults.percent", from)?.millionths(),
                Ratio::percent("faults.percent_to", to)?.millionths(),
            ),
        };
        Ok(Self {
            name: rule.name.unwrap_or_else(|| rule.fault.kind().to_owned()).into(),
            dice: rule.seed.map_or_else(|| Dice::new(seed).with_number(index), Dice::new),
            during: rule.from..rule.to,
            bursts: rule.bursts,
            model: profile.transpose()?.map(|profile| profile.name),
            contains: rule.contains.map(|text| text.into_bytes().into()),
            selection,
            fault: rule.fault,
        })
    }

    /// The random draws of this request.
    pub(super) const fn dice_for(&self, incoming: &ModelRequest<'_>) -> Dice {
        self.dice.with_number(incoming.schedule_number)
    }

    fn applies(&self, incoming: &ModelRequest<'_>, profile: &Profile, request: &ChatRequest) -> bool {
        self.during.contains(&incoming.at)
            && self.is_in_burst(incoming.at)
            && self.model.is_none_or(|model| model == profile.name)
            && self.contains.as_deref().is_none_or(|text| contains(incoming.body, text))
            && self.selects(incoming)
            && match &self.fault {
                Fault::Capacity { in_flight, .. } => incoming.in_flight > *in_flight,
                Fault::Quota { per_minute } => incoming.requests_this_minute > *per_minute,
                Fault::ToolCall { tool, .. } => is_callable(request, tool),
                _ => true,
            }
    }

    fn is_in_burst(&self, at: Duration) -> bool {
        let since = at.saturating_sub(self.during.start).as_nanos();
        self.bursts.is_none_or(|(repeat, lasts)| since % repeat.as_nanos().max(1) < lasts.as_nanos())
    }

    fn selects(&self, incoming: &ModelRequest<'_>) -> bool {
        match self.selection {
            Selection::Every(every) => incoming.schedule_number.is_multiple_of(u64::from(every.get())),
            Selection::Random(from, to) => {
                let draw = self.dice_for(incoming).roll().below(1_000_000);
                draw < self.interpolate(from, to, incoming.at)
            }
        }
    }

    /// The share at a point in time, interpolated linearly over the rule's active period.
    fn interpolate(&self, from: u32, to: u32, at: Duration) -> u64 {
        let period = self.during.end.saturating_sub(self.during.start).as_nanos().max(1);
        let elapsed = at.saturating_sub(self.during.start).as_nanos().min(period);
        let sum = u128::from(from) * (period - elapsed) + u128::from(to) * elapsed;
        u64::try_from(sum / period).unwrap_or(u64::MAX)
    }
}

fn check(fault: &Fault) -> Result<(), SettingError> {
    match fault {
        Fault::Status { status, .. } if !(400..=599).contains(status) => {
            Err(SettingError::new("faults.status", format!("{status} must be between 400 and 599")))
        }
        Fault::Endless { every } | Fault::Drip { every } | Fault::Thinking { every: Some(every), .. }
            if every.is_zero() =>
        {
            Err(SettingError::new("faults.every", "must be longer than 0s"))
        }
        Fault::Latency { median, p99 } if median.is_zero() || p99 < median => {
            let problem =
                format!("{p99:?} must be at least the median ({median:?}), which must be longer than 0s");
            Err(SettingError::new("faults.p99", problem))
        }
        Fault::Cut { after, after_bytes, after_tokens, .. }
            if [after.is_some(), after_bytes.is_some(), after_tokens.is_some()]
                .into_iter()
                .filter(|is| *is)
                .count()
                != 1 =>
        {
            Err(SettingError::new(
                "faults.cut",
                "exactly one of after, after_bytes and after_tokens is required",
            ))
        }
        _ => Ok(()),
    }
}
