//! The measured signals and their valid ranges.

use crate::time::Timestamp;
use std::fmt;

/// Upper bound of a time to first text, in milliseconds (ten minutes); a higher value comes from a broken clock.
const MAX_FIRST_TEXT_MILLIS: f64 = 600_000.0;

/// A signal with a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LadderSignal {
    /// p99 of the time to first text, in milliseconds.
    FirstText,
    /// Attempts that failed by a fault of the vendor and were not throttled, in percent.
    Errors,
    /// Attempts that were throttled, in percent.
    Throttles,
    /// Utilisation of our own CPUs, all of them together, in percent.
    Cpu,
}

impl LadderSignal {
    /// Every signal, in a fixed order.
    pub const ALL: [Self; 4] = [Self::FirstText, Self::Errors, Self::Throttles, Self::Cpu];

    /// The name in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FirstText => "first_text",
            Self::Errors => "errors",
            Self::Throttles => "throttles",
            Self::Cpu => "cpu",
        }
    }

    /// The index in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    const fn max(self) -> f64 {
        match self {
            Self::FirstText => MAX_FIRST_TEXT_MILLIS,
            Self::Errors | Self::Throttles | Self::Cpu => 100.0,
        }
    }
}

impl fmt::Display for LadderSignal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Why a reading was rejected.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ReadingError {
    /// Out of range: not a number, negative, or above the maximum.
    #[error("{signal}: {value} is not between 0 and {max}")]
    OutOfRange {
        /// The signal that was read.
        signal: LadderSignal,
        /// The rejected value.
        value: f64,
        /// The maximum of this signal.
        max: f64,
    },
    /// A newer reading exists.
    #[error("{signal}: a newer reading exists")]
    Outdated {
        /// The signal that was read.
        signal: LadderSignal,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) value: f64,
    pub(super) at: Timestamp,
}

impl Reading {
    pub(super) fn new(signal: LadderSignal, value: f64, at: Timestamp) -> Result<Self, ReadingError> {
        let max = signal.max();
        if (0.0..=max).contains(&value) {
            Ok(Self { value, at })
        } else {
            Err(ReadingError::OutOfRange { signal, value, max })
        }
    }
}
