//! The evening peak and the off-peak hours, checked against each other.

use crate::hours::{DailySchedule, OffPeak};
use crate::router::Router;
use crate::setting::SettingError;

/// The evening peak and the off-peak hours. Each has its own settings; overlaps are checked here.
///
/// At any moment at most one of them applies. Overlapping hours are rejected with the names of both: the evening is
/// when people buy and the night is when few do, so that a minute in both is a mistake in the settings.
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
    /// Fails if the evening peak and the off-peak hours share a minute.
    pub fn new(router: Router, off_peak: OffPeak) -> Result<Self, SettingError> {
        DailySchedule::new(vec![
            ("evening_peak".to_owned(), *router.evening_peak()),
            ("off_peak".to_owned(), *off_peak.hours()),
        ])?;
        Ok(Self { router, off_peak })
    }

    /// The router, which holds the evening peak.
    #[must_use]
    pub const fn router(&self) -> &Router {
        &self.router
    }

    /// The off-peak policy.
    #[must_use]
    pub const fn off_peak(&self) -> &OffPeak {
        &self.off_peak
    }
}
