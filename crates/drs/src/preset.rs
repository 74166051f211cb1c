//! The settings of a guard, and presets by the names of the vendor's SDKs.

use seawall_core::retry::{BackoffOptions, Jitter, RetryLimits, RetryOptions, RetryPolicy};
use seawall_core::setting::SettingError;
use seawall_core::waiting::WaitingSettings;
use std::str::FromStr;
use std::time::Duration;

/// How long a call waits for its rate token.
pub const TOKEN_TIMEOUT: Duration = Duration::from_secs(30);

/// Rate, retries and pacing of a guard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardSettings {
    /// The rate and capacity of the bucket: ten calls per second, at most twenty at once.
    pub rate: WaitingSettings,
    /// The retry policy.
    pub retry: RetryPolicy,
    /// How long a call waits for its rate token.
    pub token_timeout: Duration,
    /// Whether a throttled client also slows down by itself.
    pub adaptive: bool,
}

impl GuardSettings {
    /// The settings of this preset.
    pub fn preset(preset: RetryPreset) -> Result<Self, SettingError> {
        Ok(Self {
            rate: WaitingSettings::recovery_api(),
            retry: preset.options().check()?,
            token_timeout: TOKEN_TIMEOUT,
            adaptive: preset == RetryPreset::Adaptive,
        })
    }
}

impl Default for GuardSettings {
    /// Five retries of any retryable failure, 1 s doubling up to 60 s, times a factor between 0.5 and 1.5.
    #[expect(clippy::expect_used, reason = "a constant policy, which a test checks")]
    fn default() -> Self {
        Self::preset(RetryPreset::Background).expect("the background policy is valid")
    }
}

/// Retry policies by name. All classify errors in the same way; they differ in attempts and backoff.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryPreset {
    /// Ours, for work without a waiting user: 6 attempts, 1 s doubling up to 60 s, times 0.5 to 1.5.
    #[default]
    Background,
    /// The SDKs' `standard` mode: 3 attempts, up to 1 s doubling up to 20 s, full jitter.
    Standard,
    /// The SDKs' `adaptive` mode: as `standard`, and a throttled client slows down by itself.
    Adaptive,
    /// The SDKs' `legacy` mode: 5 attempts, up to 1 s doubling up to 20 s, full jitter.
    Legacy,
}

impl RetryPreset {
    /// Every preset.
    pub const ALL: [Self; 4] = [Self::Background, Self::Standard, Self::Adaptive, Self::Legacy];

    /// The name.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Background => "background",
            Self::Standard => "standard",
            Self::Adaptive => "adaptive",
            Self::Legacy => "legacy",
        }
    }

    /// The attempts of a call, the first one included.
    #[must_use]
    pub const fn max_attempts(self) -> u32 {
        match self {
            Self::Background => 6,
            Self::Standard | Self::Adaptive => 3,
            Self::Legacy => 5,
        }
    }

    /// The retry options of this preset.
    #[must_use]
    pub fn options(self) -> RetryOptions {
        if self == Self::Background {
            return RetryOptions::background();
        }
        let backoff = BackoffOptions {
            base_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(20),
            jitter: Jitter::Full,
        };
        retry_options(self.max_attempts() - 1, backoff)
    }
}

/// Retry options with the same number of retries for every kind of retryable failure.
#[must_use]
pub fn retry_options(max_retries: u32, backoff: BackoffOptions) -> RetryOptions {
    let limits = RetryLimits {
        throttled: max_retries,
        timed_out: max_retries,
        transient: max_retries,
        quota_exhausted: max_retries,
    };
    RetryOptions { backoff, max_retries, limits, ..RetryOptions::background() }
}

impl FromStr for RetryPreset {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        Self::ALL.into_iter().find(|preset| preset.label() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::label).join(", ");
            SettingError::new("retry preset", format!("{text:?} is not one of {names}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{GuardSettings, RetryPreset};

    #[test]
    fn every_preset_is_valid_and_is_found_by_its_name() {
        for preset in RetryPreset::ALL {
            assert!(GuardSettings::preset(preset).is_ok());
            assert_eq!(preset.label().parse(), Ok(preset));
        }
        assert_eq!(GuardSettings::default(), GuardSettings::preset(RetryPreset::Background).unwrap());
        let error = "turbo".parse::<RetryPreset>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "retry preset: \"turbo\" is not one of background, standard, adaptive, legacy"
        );
    }

    #[test]
    fn the_attempts_are_those_of_the_modes_table() {
        let attempts = RetryPreset::ALL.map(RetryPreset::max_attempts);
        assert_eq!(attempts, [6, 3, 3, 5]);
        assert!(GuardSettings::preset(RetryPreset::Adaptive).unwrap().adaptive);
        assert!(!GuardSettings::preset(RetryPreset::Standard).unwrap().adaptive);
    }
}
