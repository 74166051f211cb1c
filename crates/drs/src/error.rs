//! What a vendor's error says, and how a guarded call fails.

use seawall_core::failure::{ErrorTable, Failure, FailureKind};
use seawall_core::retry::StopReason;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// What an error of an API tells about the call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorDescription {
    /// The HTTP status, if there was a response.
    pub status: Option<u16>,
    /// The vendor's error code, such as `ThrottlingException`.
    pub code: Option<String>,
    /// The vendor's message.
    pub message: String,
    /// The server's `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The kind of a failure without a response: no connection, a time-out, a response that cannot be read.
    pub transport: Option<FailureKind>,
}

impl ErrorDescription {
    /// The code, or a word for a failure without one.
    #[must_use]
    pub fn code_or_kind(&self, failure: &Failure) -> String {
        self.code.clone().unwrap_or_else(|| failure.kind.label().to_owned())
    }

    /// The failure as the retry machine sees it, by this vendor's table.
    #[must_use]
    pub fn failure(&self, table: &ErrorTable) -> Failure {
        let failure = match self.transport {
            Some(kind) => Failure::of(kind),
            None => table.classify(self.status.unwrap_or(0), self.code.as_deref()),
        };
        Failure { retry_after: self.retry_after, ..failure }
    }
}

/// An error that an API call can end with. Implemented for every error of the AWS SDK.
pub trait ApiError: Error + Send + Sync + 'static {
    /// What the error says.
    fn describe(&self) -> ErrorDescription;
}

/// Every attempt failed.
#[derive(Debug)]
pub struct RetryExhausted<E> {
    /// The error of the last attempt.
    pub last_error: E,
    /// The attempts made, the first one included.
    pub attempts: u32,
    /// The total backoff between them.
    pub waited: Duration,
    /// Why there was no further attempt: all used, or no time left before the deadline.
    pub stopped: StopReason,
}

impl<E: ApiError> fmt::Display for RetryExhausted<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = if self.stopped == StopReason::NoTime { ", as the deadline allows no more" } else { "" };
        write!(formatter, "failed after {}{why}: {}", attempts(self.attempts), describe(&self.last_error))
    }
}

impl<E: ApiError> Error for RetryExhausted<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.last_error)
    }
}

/// How a guarded call fails.
#[derive(Debug)]
pub enum GuardError<E> {
    /// No rate token was free in time, so the API was not called again.
    RateLimited {
        /// How long the caller was willing to wait for the token.
        timeout: Duration,
        /// The attempts that had been made before.
        attempts: u32,
        /// The error of the last of them.
        last_error: Option<E>,
    },
    /// Every attempt failed with an error that is worth a retry.
    Exhausted(RetryExhausted<E>),
    /// The call must not be repeated, and the vendor may or may not have executed it.
    MayHaveExecuted {
        /// The error.
        error: E,
        /// The attempts made.
        attempts: u32,
    },
    /// The vendor refused the call, and a retry cannot help.
    Refused {
        /// The error.
        error: E,
        /// The attempts made.
        attempts: u32,
    },
}

impl<E> GuardError<E> {
    /// The vendor's error, if any attempt was made.
    pub const fn api_error(&self) -> Option<&E> {
        match self {
            Self::RateLimited { last_error, .. } => last_error.as_ref(),
            Self::Exhausted(exhausted) => Some(&exhausted.last_error),
            Self::MayHaveExecuted { error, .. } | Self::Refused { error, .. } => Some(error),
        }
    }

    /// The attempts made.
    pub const fn attempts(&self) -> u32 {
        match self {
            Self::RateLimited { attempts, .. }
            | Self::MayHaveExecuted { attempts, .. }
            | Self::Refused { attempts, .. } => *attempts,
            Self::Exhausted(exhausted) => exhausted.attempts,
        }
    }

    /// The same with another error inside.
    pub fn map<F>(self, convert: impl FnOnce(E) -> F) -> GuardError<F> {
        match self {
            Self::RateLimited { timeout, attempts, last_error } => {
                GuardError::RateLimited { timeout, attempts, last_error: last_error.map(convert) }
            }
            Self::Exhausted(RetryExhausted { last_error, attempts, waited, stopped }) => {
                let last_error = convert(last_error);
                GuardError::Exhausted(RetryExhausted { last_error, attempts, waited, stopped })
            }
            Self::MayHaveExecuted { error, attempts } => {
                GuardError::MayHaveExecuted { error: convert(error), attempts }
            }
            Self::Refused { error, attempts } => GuardError::Refused { error: convert(error), attempts },
        }
    }
}

impl<E: ApiError> fmt::Display for GuardError<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RateLimited { timeout, attempts: 0, .. } => {
                write!(formatter, "no rate token within {timeout:?}; the API was not called")
            }
            Self::RateLimited { timeout, attempts: made, .. } => write!(
                formatter,
                "no rate token within {timeout:?} for another attempt; {} failed before",
                attempts(*made)
            ),
            Self::Exhausted(exhausted) => exhausted.fmt(formatter),
            Self::MayHaveExecuted { error, .. } => write!(
                formatter,
                "{}; the call may have been executed and is not repeated: look for its job first",
                describe(error)
            ),
            Self::Refused { error, .. } => formatter.write_str(&describe(error)),
        }
    }
}

impl<E: ApiError> Error for GuardError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.api_error().map(|error| error as &(dyn Error + 'static))
    }
}

fn attempts(number: u32) -> String {
    if number == 1 { "1 attempt".to_owned() } else { format!("{number} attempts") }
}

/// The code and the message, or the error's own text.
pub(crate) fn describe(error: &impl ApiError) -> String {
    let description = error.describe();
    match description.code {
        Some(code) if description.message.is_empty() => code,
        Some(code) => format!("{code}: {}", description.message),
        None if description.message.is_empty() => error.to_string(),
        None => description.message,
    }
}
