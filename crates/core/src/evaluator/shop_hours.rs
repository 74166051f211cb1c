//! The hours of the day that mean something to a plan.

use crate::hours::{OffPeak, Schedule};
use crate::router::Router;
use crate::setting::SettingError;

/// What the evening and the night mean. Each has settings of its own; here they meet.
///
/// At any moment at most one of them holds. Hours that overlap are refused, by the names of both: in the evening people
/// buy and at night few do, so that a minute which is said to be both was written by mistake.
///
/// ```
/// use seawall_core::evaluator::ShopHours;
/// use seawall_core::hours::{HoursOptions, OffPeakOptions};
/// use seawall_core::router::RouterOptions;
///
/// let router = RouterOptions { evening_peak: HoursOptions::japan(18, 24) }.check().unwrap();
/// let night = OffPeakOptions::default().check().unwrap();
/// assert_eq!(
///     ShopHours::new(router, night).unwrap_err().to_string(),
///     "schedule: off_peak (23:00-08:00 UTC+09:00) overlaps evening_peak (18:00-24:00 UTC+09:00)"
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShopHours {
    router: Router,
    off_peak: OffPeak,
}

impl ShopHours {
    /// Refuses an evening peak and a night that share a minute.
    pub fn new(router: Router, off_peak: OffPeak) -> Result<Self, SettingError> {
        Schedule::new(vec![
            ("evening_peak".to_owned(), *router.evening_peak()),
            ("off_peak".to_owned(), *off_peak.hours()),
        ])?;
        Ok(Self { router, off_peak })
    }

    /// Who is worth what.
    #[must_use]
    pub const fn router(&self) -> &Router {
        &self.router
    }

    /// What the night means.
    #[must_use]
    pub const fn off_peak(&self) -> &OffPeak {
        &self.off_peak
    }
}
