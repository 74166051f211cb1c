//! Nested timeouts, validated at load time.

use std::ops::Deref;
use std::time::Duration;

/// Why the timeouts are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeLimitError {
    /// A timeout of zero.
    #[error("{limit} must be longer than 0s")]
    Zero {
        /// Name of the timeout.
        limit: &'static str,
    },
    /// A timeout that is not shorter than the one that contains it.
    #[error("{child} ({child_limit:?}) must be shorter than {parent} ({parent_limit:?}), which contains it")]
    Nested {
        /// Name of the timeout that is too long.
        child: &'static str,
        /// Its value.
        child_limit: Duration,
        /// Name of the timeout that contains it.
        parent: &'static str,
        /// The value of that one.
        parent_limit: Duration,
    },
}

/// The timeouts of a request before validation, outermost first.
///
/// [`TimeLimitOptions::check`] rejects a child that is not shorter than its parent: otherwise the parent fires first,
/// the child's own clean-up never runs, and the cause is not reported.
///
/// ```
/// use seawall_core::deadline::TimeLimitOptions;
/// use std::time::Duration;
///
/// let wrong = TimeLimitOptions { attempt: Duration::from_secs(31), ..TimeLimitOptions::default() };
/// let errors = wrong.check().unwrap_err();
/// assert_eq!(
///     errors[0].to_string(),
///     "attempt (31s) must be shorter than worker (27s), which contains it",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeLimitOptions {
    /// A whole API request with all its attempts, streamed or not.
    pub api: Duration,
    /// The timeout of the proxy or load balancer in front of us.
    pub edge: Duration,
    /// A chat message with an unstreamed response.
    pub request: Duration,
    /// Processing of that message.
    pub worker: Duration,
    /// One attempt on one target.
    pub attempt: Duration,
    /// Connecting to the target.
    pub connect: Duration,
    /// A streamed chat response, until its end.
    pub stream: Duration,
    /// The longest pause within a stream (idle timeout).
    pub stream_idle: Duration,
    /// The first content of a stream.
    pub first_content: Duration,
}

impl Default for TimeLimitOptions {
    fn default() -> Self {
        Self {
            api: Duration::from_secs(600),
            edge: Duration::from_secs(29),
            request: Duration::from_secs(28),
            worker: Duration::from_secs(27),
            attempt: Duration::from_secs(25),
            connect: Duration::from_secs(5),
            stream: Duration::from_secs(120),
            stream_idle: Duration::from_secs(10),
            first_content: Duration::from_secs(3),
        }
    }
}

/// Validated [`TimeLimitOptions`]: each timeout is shorter than the one that contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeLimits(TimeLimitOptions);

impl Deref for TimeLimits {
    type Target = TimeLimitOptions;

    fn deref(&self) -> &TimeLimitOptions {
        &self.0
    }
}

impl TimeLimitOptions {
    /// Validates the nesting. Returns all errors, not only the first.
    pub fn check(self) -> Result<TimeLimits, Vec<TimeLimitError>> {
        let nested = [
            (("request", self.request), ("edge", self.edge)),
            (("worker", self.worker), ("request", self.request)),
            (("attempt", self.attempt), ("worker", self.worker)),
            (("connect", self.connect), ("attempt", self.attempt)),
            (("connect", self.connect), ("api", self.api)),
            (("stream_idle", self.stream_idle), ("stream", self.stream)),
            (("stream_idle", self.stream_idle), ("api", self.api)),
            (("first_content", self.first_content), ("stream", self.stream)),
        ];
        // A parent is longer than its child, so that only the innermost ones need this check.
        let innermost = [
            ("connect", self.connect),
            ("stream_idle", self.stream_idle),
            ("first_content", self.first_content),
        ];
        let zero = innermost.into_iter().filter(|(_, time)| time.is_zero());
        let zero = zero.map(|(limit, _)| TimeLimitError::Zero { limit });
        let too_long = nested.into_iter().filter(|((_, child), (_, parent))| child >= parent);
        let too_long = too_long.map(|((child, child_limit), (parent, parent_limit))| {
            TimeLimitError::Nested { child, child_limit, parent, parent_limit }
        });
        let errors: Vec<TimeLimitError> = zero.chain(too_long).collect();
        if errors.is_empty() { Ok(TimeLimits(self)) } else { Err(errors) }
    }
}

#[cfg(test)]
mod tests {
    use super::TimeLimitOptions;
    use crate::invariant::child_shorter_than_parent;
    use std::time::Duration;

    #[test]
    fn the_defaults_stand_inside_one_another() {
        let limits = TimeLimitOptions::default().check().unwrap();
        assert_eq!(
            [limits.connect, limits.attempt, limits.worker, limits.request, limits.edge]
                .map(|limit| limit.as_secs()),
            [5, 25, 27, 28, 29]
        );
        assert_eq!(
            [limits.first_content, limits.stream_idle, limits.stream].map(|limit| limit.as_secs()),
            [3, 10, 120]
        );
    }

    #[test]
    fn a_child_as_long_as_its_parent_is_refused_and_all_such_pairs_are_named() {
        let second = Duration::from_secs(1);
        let wrong = TimeLimitOptions {
            attempt: second * 27,
            connect: second * 30,
            stream: second * 10,
            ..TimeLimitOptions::default()
        };
        let errors: Vec<String> = wrong.check().unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "attempt (27s) must be shorter than worker (27s), which contains it",
                "connect (30s) must be shorter than attempt (27s), which contains it",
                "stream_idle (10s) must be shorter than stream (10s), which contains it",
            ]
        );
    }

    #[test]
    fn valid_time_limits_are_nested() {
        let limits = TimeLimitOptions::default().check().unwrap();
        for (child, parent) in [
            (limits.connect, limits.attempt),
            (limits.attempt, limits.worker),
            (limits.worker, limits.request),
            (limits.request, limits.edge),
            (limits.stream_idle, limits.stream),
            (limits.first_content, limits.stream),
        ] {
            assert_eq!(child_shorter_than_parent(child, parent), Ok(()));
        }
    }

    #[test]
    fn checked_options_are_unchanged() {
        let options = TimeLimitOptions { connect: Duration::from_millis(7), ..TimeLimitOptions::default() };
        assert_eq!(*options.clone().check().unwrap(), options);
    }

    #[test]
    fn a_limit_of_nothing_is_refused() {
        let nothing = TimeLimitOptions {
            connect: Duration::ZERO,
            stream_idle: Duration::ZERO,
            first_content: Duration::ZERO,
            ..TimeLimitOptions::default()
        };
        let errors: Vec<String> = nothing.check().unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            ["connect", "stream_idle", "first_content"]
                .map(|limit| format!("{limit} must be longer than 0s"))
        );
    }

    #[test]
    fn each_pair_is_checked() {
        let just_too_long = |change: fn(&mut TimeLimitOptions)| {
            let mut limits = TimeLimitOptions::default();
            change(&mut limits);
            limits.check().unwrap_err().len()
        };
        assert_eq!(just_too_long(|limits| limits.request = limits.edge), 1);
        assert_eq!(just_too_long(|limits| limits.worker = limits.request), 1);
        assert_eq!(just_too_long(|limits| limits.attempt = limits.worker), 1);
        assert_eq!(just_too_long(|limits| limits.connect = limits.attempt), 1);
        assert_eq!(just_too_long(|limits| limits.stream_idle = limits.stream), 1);
        assert_eq!(just_too_long(|limits| limits.first_content = limits.stream), 1);
    }
}
