//! The terms of an API key: budgets, rate limits, tags and models, in the notation of settings and commands.

use crate::kind::{RatePeriod, RateValue, parse_period_amount, parse_rate};
use seawall_core::budget::{BudgetPeriod, PeriodCaps};
use seawall_core::money::Money;
use seawall_core::quota::{CalendarPeriod, Quota, QuotaGroup, QuotaUnit};
use seawall_core::setting::SettingError;
use seawall_core::time::UtcTime;
use std::time::Duration;

/// Maximum length of the name of a team, of a tag's name, and of its value, in bytes.
const MAX_LABEL_BYTES: usize = 64;
/// Maximum number of tags of a key, and of patterns of models.
const MAX_TERMS: usize = 32;

/// The terms of an API key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyTerms {
    /// The team that the key belongs to.
    pub team: Option<String>,
    /// Names with values, sorted by name, each name once.
    pub tags: Vec<(String, String)>,
    /// When the key expires.
    pub expires: Option<UtcTime>,
    /// Budgets by calendar window.
    pub budgets: PeriodCaps,
    /// Rate limits in their shortest notation, sorted.
    pub limits: Vec<String>,
    /// Patterns of the models and routes that may be used; all if there are none.
    pub models: Vec<String>,
}

/// Text that is not a valid term.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TermError(String);

fn error(message: impl Into<String>) -> TermError {
    TermError(message.into())
}

/// Checks the name of a team.
pub fn check_team(team: &str) -> Result<(), TermError> {
    check_label("team", team)
}

fn check_label(what: &str, label: &str) -> Result<(), TermError> {
    if label.is_empty() || label.len() > MAX_LABEL_BYTES || label.trim() != label {
        return Err(error(format!(
            "{what} {label:?} must have 1 to {MAX_LABEL_BYTES} bytes, without spaces around it"
        )));
    }
    if label.chars().any(char::is_control) {
        return Err(error(format!("{what} {label:?} contains control characters")));
    }
    Ok(())
}

/// Parses tags of the form `name=value`.
pub fn parse_tags<'a>(tags: impl IntoIterator<Item = &'a str>) -> Result<Vec<(String, String)>, TermError> {
    let mut parsed: Vec<(String, String)> = Vec::new();
    for tag in tags {
        let (name, value) =
            tag.split_once('=').ok_or_else(|| error(format!("tag {tag:?} must have the form name=value")))?;
        check_label("the name of tag", name)?;
        check_label("the value of tag", value)?;
        if parsed.iter().any(|(other, _)| other == name) {
            return Err(error(format!("tag {name:?} is given twice")));
        }
        parsed.push((name.to_owned(), value.to_owned()));
    }
    if parsed.len() > MAX_TERMS {
        return Err(error(format!("{} tags are too many: at most {MAX_TERMS}", parsed.len())));
    }
    parsed.sort_unstable();
    Ok(parsed)
}

/// Parses budgets such as `$50/month`, at most one per period.
pub fn parse_budgets<'a>(budgets: impl IntoIterator<Item = &'a str>) -> Result<PeriodCaps, TermError> {
    let parse = |text: &str| {
        parse_period_amount(text).ok_or_else(|| {
            error(format!(
                "budget {text:?} must be an amount per hour, day, week, month or quarter, such as $50/month"
            ))
        })
    };
    let budgets: Result<Vec<_>, _> = budgets.into_iter().map(parse).collect();
    collect_budgets(budgets?)
}

/// Collects budgets, at most one per period and none of zero.
pub(crate) fn collect_budgets(
    budgets: impl IntoIterator<Item = (BudgetPeriod, Money)>,
) -> Result<PeriodCaps, TermError> {
    let mut caps = PeriodCaps::NONE;
    for (period, cap) in budgets {
        if cap == Money::ZERO {
            return Err(error(format!("the budget per {period} must be more than $0")));
        }
        if caps.set(period, cap).is_some() {
            return Err(error(format!("two budgets per {period}: remove one")));
        }
    }
    Ok(caps)
}

/// Parses rate limits such as `60/min`, at most one per period. Returns them in their shortest notation, sorted.
pub fn parse_limits<'a>(limits: impl IntoIterator<Item = &'a str>) -> Result<Vec<String>, TermError> {
    let parse = |text: &str| {
        parse_rate(text).ok_or_else(|| {
            error(format!(
                "limit {text:?} must be a number of requests per s, min, h, day or month, such as 60/min"
            ))
        })
    };
    let limits: Result<Vec<RateValue>, _> = limits.into_iter().map(parse).collect();
    let mut limits = limits?;
    limits.sort_unstable_by_key(|limit| limit.per);
    for pair in limits.windows(2) {
        if pair[0].per == pair[1].per {
            return Err(error(format!("two limits per {}: remove one", pair[0].per)));
        }
    }
    if let Some(zero) = limits.iter().find(|limit| limit.limit == 0) {
        return Err(error(format!("the limit per {} must be at least 1", zero.per)));
    }
    Ok(limits.iter().map(|limit| format!("{}/{}", limit.limit, limit.per)).collect())
}

/// Checks patterns of models and routes.
pub fn parse_models<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Vec<String>, TermError> {
    let mut models: Vec<String> = Vec::new();
    for pattern in patterns.into_iter().flat_map(|list| list.split(',')).map(str::trim) {
        if pattern.is_empty() || pattern.len() > 256 || pattern.chars().any(char::is_control) {
            return Err(error(format!("model pattern {pattern:?} must have 1 to 256 printable characters")));
        }
        models.push(pattern.to_owned());
    }
    if models.len() > MAX_TERMS {
        return Err(error(format!("{} model patterns are too many: at most {MAX_TERMS}", models.len())));
    }
    Ok(models)
}

/// The group of limits of this name, for limits as [`parse_limits`] returns them.
pub fn limit_group<'a>(
    name: &str,
    limits: impl IntoIterator<Item = &'a str>,
) -> Result<QuotaGroup, SettingError> {
    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(3_600);
    let quota = |text: &str| {
        let invalid = || SettingError::new("limits", format!("{text} is not a rate"));
        let RateValue { limit, per } = parse_rate(text).ok_or_else(invalid)?;
        let unit = QuotaUnit::Request;
        match per {
            RatePeriod::Second => Quota::rate("second", unit, limit, Duration::from_secs(1), limit),
            RatePeriod::Minute => Quota::sliding("minute", unit, limit, MINUTE, 0),
            RatePeriod::Hour => Quota::sliding("hour", unit, limit, HOUR, 0),
            RatePeriod::Day => Quota::calendar("day", unit, limit, CalendarPeriod::Day),
            RatePeriod::Month => Quota::calendar("month", unit, limit, CalendarPeriod::Month),
        }
    };
    let quotas: Result<Vec<Quota>, SettingError> = limits.into_iter().map(quota).collect();
    QuotaGroup::new(name, quotas?)
}

#[cfg(test)]
mod tests {
    use super::{check_team, limit_group, parse_budgets, parse_limits, parse_models, parse_tags};
    use seawall_core::budget::BudgetPeriod;
    use seawall_core::money::Money;

    fn problem<T: std::fmt::Debug>(result: Result<T, super::TermError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn terms_are_read_in_the_notation_of_settings() {
        let budgets = parse_budgets(["$50/month", "$1,000/quarter", "2.5/h", "$20/week"]).unwrap();
        let found: Vec<_> = budgets.iter().map(|(period, cap)| (period.name(), cap.to_string())).collect();
        let expected = [("hour", "$2.50"), ("week", "$20.00"), ("month", "$50.00"), ("quarter", "$1000.00")];
        assert_eq!(found, expected.map(|(period, cap)| (period, cap.to_owned())));
        assert_eq!(budgets.get(BudgetPeriod::Week), Some(Money::from_dollars(20)));
        assert_eq!(parse_limits(["1,000/h", "60/minute"]).unwrap(), ["60/min", "1000/h"]);
        assert_eq!(parse_models(["claude-*,gpt-5", "x"]).unwrap(), ["claude-*", "gpt-5", "x"]);
        let tags = parse_tags(["env=prod", "cost=漫画=1"]).unwrap();
        assert_eq!(tags, [("cost".to_owned(), "漫画=1".to_owned()), ("env".to_owned(), "prod".to_owned())]);
        assert!(check_team("web").is_ok());
        assert_eq!(limit_group("g", ["60/min", "1000/h"]).unwrap().quotas().len(), 2);
    }

    #[test]
    fn nonsense_is_refused_with_what_is_wrong() {
        assert!(problem(parse_budgets(["$50/year"])).contains("such as $50/month"));
        assert_eq!(problem(parse_budgets(["$5/day", "$6/d"])), "two budgets per day: remove one");
        assert_eq!(problem(parse_budgets(["$0/day"])), "the budget per day must be more than $0");
        assert!(problem(parse_limits(["60"])).contains("such as 60/min"));
        assert_eq!(problem(parse_limits(["60/min", "61/m"])), "two limits per min: remove one");
        assert_eq!(problem(parse_limits(["0/h"])), "the limit per h must be at least 1");
        assert!(problem(parse_tags(["env"])).contains("name=value"));
        assert!(problem(parse_tags(["a=1", "a=2"])).contains("twice"));
        assert!(problem(parse_tags(["a= 1"])).contains("spaces"));
        assert!(problem(parse_models(["a,,b"])).contains("1 to 256"));
        assert!(problem(check_team("a\u{7}")).contains("control"));
    }
}
