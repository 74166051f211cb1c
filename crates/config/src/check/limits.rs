//! Checks of rate limits and concurrency shares.

use super::Checker;
use crate::field::KeyOrigins;
use crate::kind::{RatePeriod, RateValue};
use crate::problem::{Problem, ProblemCode};
use crate::raw;
use crate::settings::{LimitSettings, RouteSettings};
use crate::source::Located;
use seawall_core::in_flight::SlotShares;
use seawall_core::quota::{
    CalendarPeriod, Quota, QuotaGroup, QuotaUnit, RetryAfterPolicy, check_request_groups,
};
use seawall_core::setting::{Ratio, SettingError};
use seawall_core::untracked::{InputFeature, UntrackedRules};
use std::collections::BTreeMap;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

impl Checker<'_> {
    /// The limit of a rate whose period must be this one.
    fn check_rate(
        &mut self,
        section: &dyn KeyOrigins,
        key: &str,
        rate: &Located<RateValue>,
        per: RatePeriod,
    ) -> u32 {
        if rate.value.per != per {
            let message = format!(
                "{}.{key}: {} is a rate per {}, but this limit is per {per}",
                section.path(),
                rate.value,
                rate.value.per
            );
            let problem = Problem::error(ProblemCode::WrongPeriod, message, rate.origin);
            let right = RateValue { limit: rate.value.limit, per };
            self.add(problem.help(format!("write \"{right}\", or the limit that you want per {per}")));
        }
        rate.value.limit
    }

    /// A quota that `core` accepted, or `None` after a problem was reported at one of these keys.
    fn check_quota(
        &mut self,
        section: &dyn KeyOrigins,
        (limit, burst): (&str, &str),
        quota: Result<Quota, SettingError>,
    ) -> Option<Quota> {
        let error = match quota {
            Ok(quota) => return Some(quota),
            Err(error) => error,
        };
        let key = if error.setting() == "burst" { burst } else { limit };
        let origin = section.origin_of(key).unwrap_or_else(|| section.origin());
        let message = format!("{}.{key}: {}", section.path(), error.problem());
        self.add(Problem::error(ProblemCode::InvalidValue, message, origin));
        None
    }

    fn group(&mut self, section: &dyn KeyOrigins, name: &str, quotas: Vec<Quota>) -> Option<QuotaGroup> {
        let group = QuotaGroup::new(name, quotas);
        self.checked(&[section], group)
    }

    /// A smooth rate per second with a burst.
    fn rate_group(
        &mut self,
        section: &dyn KeyOrigins,
        (name, burst_key): (&str, &str),
        rate: &Located<RateValue>,
        burst: u32,
    ) -> Option<QuotaGroup> {
        let limit = self.check_rate(section, name, rate, RatePeriod::Second);
        let quota = Quota::rate(name, QuotaUnit::Request, limit, SECOND, burst);
        let quota = self.check_quota(section, (name, burst_key), quota)?;
        self.group(section, name, vec![quota])
    }
}

/// The limits of one caller of a tier, each multiplied by a factor. The inner `None` is a tier without limits, the outer
/// one a problem that was reported.
fn tier(
    name: &str,
    tier: &raw::TierLimitsSection,
    factor: u32,
    checker: &mut Checker<'_>,
) -> Option<Option<QuotaGroup>> {
    let times = |limit: u32| limit.saturating_mul(factor);
    let mut quotas = Vec::new();
    if let Some(minute) = &tier.minute {
        let limit = times(checker.check_rate(tier, "minute", minute, RatePeriod::Minute));
        let quota = Quota::sliding("minute", QuotaUnit::Request, limit, MINUTE, times(tier.burst.value));
        quotas.push(checker.check_quota(tier, ("minute", "burst"), quota));
    }
    if let Some(hour) = &tier.hour {
        let limit = times(checker.check_rate(tier, "hour", hour, RatePeriod::Hour));
        let quota = Quota::sliding("hour", QuotaUnit::Request, limit, HOUR, 0);
        quotas.push(checker.check_quota(tier, ("hour", "hour"), quota));
    }
    if let Some(day) = &tier.day {
        let limit = times(checker.check_rate(tier, "day", day, RatePeriod::Day));
        let quota = Quota::calendar("day", QuotaUnit::Request, limit, CalendarPeriod::Day);
        quotas.push(checker.check_quota(tier, ("day", "day"), quota));
    }
    let quotas = quotas.into_iter().collect::<Option<Vec<Quota>>>()?;
    if quotas.is_empty() {
        return Some(None);
    }
    checker.group(tier, name, quotas).map(Some)
}

fn global(global: &raw::GlobalLimitsSection, checker: &mut Checker<'_>) -> Option<QuotaGroup> {
    let minute = checker.check_rate(global, "minute", &global.minute, RatePeriod::Minute);
    let second = checker.check_rate(global, "second", &global.second, RatePeriod::Second);
    let month = checker.check_rate(global, "month", &global.month, RatePeriod::Month);
    let minute = Quota::sliding("minute", QuotaUnit::Request, minute, MINUTE, 0);
    let second = Quota::rate("second", QuotaUnit::Request, second, SECOND, global.second_burst.value);
    let month = Quota::calendar("month", QuotaUnit::Request, month, CalendarPeriod::Month);
    let quotas = [
        checker.check_quota(global, ("minute", "minute"), minute),
        checker.check_quota(global, ("second", "second_burst"), second),
        checker.check_quota(global, ("month", "month"), month),
    ];
    let quotas = quotas.into_iter().collect::<Option<Vec<Quota>>>()?;
    checker.group(global, "global", quotas)
}

pub(super) fn limits(limits: &raw::LimitsSection, checker: &mut Checker<'_>) -> Option<LimitSettings> {
    let raw::LimitsSection {
        tiers,
        edge,
        guests_by_address,
        concurrency,
        retry_after,
        untracked_input: untracked,
        ..
    } = limits;
    let prime = tier("prime", &tiers.prime, 1, checker);
    let standard = tier("standard", &tiers.standard, 1, checker);
    let guest = tier("guest", &tiers.guest, 1, checker);
    let all_callers = global(&limits.global, checker);
    let account = checker.rate_group(edge, ("account", "account"), &edge.account, edge.account.value.limit);
    let stage = checker.rate_group(edge, ("stage", "stage_burst"), &edge.stage, edge.stage_burst.value);
    let connect =
        checker.rate_group(edge, ("connect", "connect_burst"), &edge.connect, edge.connect_burst.value);
    let message =
        checker.rate_group(edge, ("message", "message_burst"), &edge.message, edge.message_burst.value);
    let factor = &guests_by_address.factor;
    if factor.value == 0 {
        checker.report_invalid(guests_by_address, "factor", factor, "must be at least 1");
    }
    let by_address = tier("guests_by_address", &tiers.guest, factor.value.max(1), checker);
    let prefix = &guests_by_address.ipv6_prefix;
    let bits = u8::try_from(prefix.value).ok().filter(|bits| (16..=128).contains(bits));
    if bits.is_none() {
        checker.report_invalid(guests_by_address, "ipv6_prefix", prefix, "must be between 16 and 128 bits");
    }
    let concurrency = slot_shares(concurrency, checker);
    Some(LimitSettings {
        tiers: [prime?, standard?, guest?],
        global: all_callers?,
        account: account?,
        stage: stage?,
        connect: connect?,
        message: message?,
        guests_by_address: by_address?,
        ipv6_prefix: bits?,
        concurrency: concurrency?,
        retry_after: RetryAfterPolicy {
            min: retry_after.min.value,
            jitter: retry_after.jitter.value,
            no_retry_above: retry_after.no_retry_above.value,
        },
        untracked_input: UntrackedRules::new(InputFeature::ALL.map(|feature| match feature {
            InputFeature::Image => untracked.image.value,
            InputFeature::Document => untracked.document.value,
            InputFeature::PreviousResponse => untracked.previous_response.value,
            InputFeature::CachedContext => untracked.cached_context.value,
            InputFeature::ServerTool => untracked.server_tool.value,
        })),
    })
}

/// Reports limits of which more can apply to one request than a decision supports.
pub(super) fn request_groups(
    limits: &LimitSettings,
    routes: &BTreeMap<String, RouteSettings>,
    section: &raw::LimitsSection,
    checker: &mut Checker<'_>,
) {
    let route = routes.values().find_map(|route| route.quotas.as_ref());
    for tier in &limits.tiers {
        let groups = tier.iter().chain([&limits.global]).chain(&limits.guests_by_address).chain(route);
        checker.checked(&[section], check_request_groups(groups));
    }
}

/// The shares of a target's concurrency.
fn slot_shares(shares: &raw::ConcurrencySection, checker: &mut Checker<'_>) -> Option<SlotShares> {
    let mut share =
        |key, percent: &Located<f64>| checker.checked(&[shares], Ratio::percent(key, percent.value));
    let per_caller = share("per_caller", &shares.per_caller);
    let per_address = share("per_address", &shares.per_address);
    let guests = share("guests", &shares.guests);
    // A reservation of zero is allowed and means none; any other share must not be zero.
    let reserved =
        if shares.reserved.value > 0.0 { share("reserved", &shares.reserved).map(Some) } else { Some(None) };
    Some(SlotShares {
        per_caller: per_caller?,
        per_address: per_address?,
        guests: guests?,
        reserved: reserved?,
    })
}

/// The limits of a route, if it has any.
pub(super) fn route_quotas(
    name: &str,
    route: &raw::RouteSection,
    checker: &mut Checker<'_>,
) -> Option<QuotaGroup> {
    let quota_of = |key: &'static str, unit, rate: &Located<RateValue>| {
        let RateValue { limit, per } = rate.value;
        match per {
            RatePeriod::Second => Quota::rate(key, unit, limit, SECOND, limit),
            RatePeriod::Minute => Quota::sliding(key, unit, limit, MINUTE, 0),
            RatePeriod::Hour => Quota::sliding(key, unit, limit, HOUR, 0),
            RatePeriod::Day => Quota::calendar(key, unit, limit, CalendarPeriod::Day),
            RatePeriod::Month => Quota::calendar(key, unit, limit, CalendarPeriod::Month),
        }
    };
    let mut quotas = Vec::new();
    for (key, unit, rate) in
        [("requests", QuotaUnit::Request, &route.requests), ("tokens", QuotaUnit::Token, &route.tokens)]
    {
        if let Some(rate) = rate {
            quotas.extend(checker.check_quota(route, (key, key), quota_of(key, unit, rate)));
        }
    }
    if quotas.is_empty() { None } else { checker.group(route, name, quotas) }
}
