//! Names and descriptions of limits in rejections, logs and metrics.

use seawall_core::quota::{CalendarPeriod, Quota, QuotaKind, QuotaUnit};
use seawall_core::vocabulary::Tier;
use std::fmt;
use std::sync::Arc;

/// Whose requests a limit counts together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitScope {
    /// The requests of one caller; all callers of the tier have the same limit.
    Caller(Tier),
    /// All requests.
    Global,
    /// The requests of all guests of one network.
    Network,
    /// All requests to a route.
    Route(Arc<str>),
    /// The requests of one API key.
    Key,
}

impl LimitScope {
    /// All labels of scopes in logs and metrics.
    pub const LABELS: [&'static str; 5] = ["caller", "global", "network", "route", "key"];

    /// The label in logs and metrics.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Caller(_) => "caller",
            Self::Global => "global",
            Self::Network => "network",
            Self::Route(_) => "route",
            Self::Key => "key",
        }
    }
}

impl fmt::Display for LimitScope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caller(tier) => write!(formatter, "per caller, tier {}", tier.name()),
            Self::Global => formatter.write_str("all callers together"),
            Self::Network => formatter.write_str("all guests of one network"),
            Self::Route(route) => write!(formatter, "route {route}"),
            Self::Key => formatter.write_str("this API key"),
        }
    }
}

/// A limit's name, allowance and scope. Displayed as `30 requests per minute (per caller, tier standard)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitDescription {
    /// The name in headers, logs and metrics, such as `minute`.
    pub name: Arc<str>,
    /// Whose requests the limit counts together.
    pub scope: LimitScope,
    /// The allowance, such as `30 requests per minute`.
    pub allowance: Box<str>,
    /// The allowance as an item of a `RateLimit-Policy` header.
    pub policy: Arc<str>,
}

impl LimitDescription {
    /// Describes a quota in this scope.
    #[must_use]
    pub fn new(quota: &Quota, scope: LimitScope) -> Self {
        let (max, seconds) = allowance(quota);
        let unit = match (quota.unit(), max) {
            (QuotaUnit::Request, 1) => "request",
            (QuotaUnit::Request, _) => "requests",
            (QuotaUnit::Token, 1) => "token",
            (QuotaUnit::Token, _) => "tokens",
        };
        let period = match (quota.kind(), seconds) {
            (QuotaKind::Calendar { period: CalendarPeriod::Day, .. }, _) => "day".to_owned(),
            (QuotaKind::Calendar { period: CalendarPeriod::Month, .. }, _) => "month".to_owned(),
            (_, 1) => "second".to_owned(),
            (_, 60) => "minute".to_owned(),
            (_, 3_600) => "hour".to_owned(),
            (_, seconds) => format!("{seconds} seconds"),
        };
        Self {
            name: quota.name().into(),
            scope,
            allowance: format!("{max} {unit} per {period}").into(),
            policy: policy_item(quota).into(),
        }
    }

    /// A limit of which only the name is known.
    #[must_use]
    pub fn unknown(name: &str) -> Self {
        Self { name: name.into(), scope: LimitScope::Global, allowance: name.into(), policy: "".into() }
    }
}

impl fmt::Display for LimitDescription {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.allowance, self.scope)
    }
}

/// In seconds.
const DAY: u64 = 86_400;

/// The number of units that a limit allows, and its period in seconds.
fn allowance(quota: &Quota) -> (u32, u64) {
    match quota.kind() {
        // A full burst is available again after the time it takes to refill the bucket.
        QuotaKind::Rate { unit, burst } => (burst, unit.saturating_mul(burst).as_secs().max(1)),
        QuotaKind::Sliding { slice, limit } => (limit, slice.saturating_mul(60).as_secs()),
        QuotaKind::Calendar { period: CalendarPeriod::Day, limit } => (limit, DAY),
        QuotaKind::Calendar { period: CalendarPeriod::Month, limit } => (limit, 30 * DAY),
    }
}

/// Formats a limit as an item of a `RateLimit-Policy` header.
pub(crate) fn policy_item(quota: &Quota) -> String {
    let (max, seconds) = allowance(quota);
    format!("\"{}\";q={max};w={seconds}", quota.name())
}

#[cfg(test)]
mod tests {
    use super::{LimitDescription, LimitScope};
    use seawall_core::quota::{CalendarPeriod, Quota, QuotaUnit};
    use seawall_core::vocabulary::Tier;
    use std::time::Duration;

    #[test]
    fn a_limit_is_described_by_its_allowance_and_scope() {
        let second = Duration::from_secs(1);
        let minute = Quota::sliding("minute", QuotaUnit::Request, 30, second * 60, 5).unwrap();
        let hour = Quota::sliding("tokens", QuotaUnit::Token, 1, second * 3_600, 0).unwrap();
        let day = Quota::calendar("day", QuotaUnit::Request, 50_000, CalendarPeriod::Day).unwrap();
        let rate = Quota::rate("second", QuotaUnit::Request, 5, second, 5).unwrap();
        let shown = |quota, scope| LimitDescription::new(quota, scope).to_string();
        assert_eq!(
            shown(&minute, LimitScope::Caller(Tier::Standard)),
            "35 requests per minute (per caller, tier standard)"
        );
        assert_eq!(shown(&hour, LimitScope::Route("manga".into())), "1 token per hour (route manga)");
        assert_eq!(shown(&day, LimitScope::Network), "50000 requests per day (all guests of one network)");
        assert_eq!(shown(&rate, LimitScope::Global), "5 requests per second (all callers together)");
        let named = LimitDescription::new(&minute, LimitScope::Global);
        assert_eq!((&*named.name, &*named.policy), ("minute", "\"minute\";q=35;w=60"));
    }
}
