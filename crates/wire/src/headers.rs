//! The headers that client libraries read: when to come back, and what a request is called.

use std::time::Duration;

/// A vendor's way of speaking, as far as headers differ by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI chat completions.
    OpenAi,
    /// Amazon Bedrock runtime.
    Bedrock,
}

impl Dialect {
    /// The header in which this dialect's client libraries look for the request's id.
    #[must_use]
    pub const fn request_id_header(self) -> &'static str {
        match self {
            Self::Anthropic => "request-id",
            Self::OpenAi => "x-request-id",
            Self::Bedrock => "x-amzn-RequestId",
        }
    }
}

/// What a caller whose request was refused is told about coming back.
///
/// ```
/// use seawall_wire::{Dialect, RetryAdvice};
/// use std::time::Duration;
///
/// let advice = RetryAdvice { wait: Some(Duration::from_millis(1_500)), should_retry: None };
/// let headers: Vec<_> = advice.headers(Dialect::OpenAi).collect();
/// assert_eq!(headers, [("retry-after", "2".to_owned()), ("retry-after-ms", "1500".to_owned())]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryAdvice {
    /// How long to wait first.
    pub wait: Option<Duration>,
    /// Whether to come back at all; nothing leaves it to the library's own rules. Libraries sleep for as long as they
    /// are told, so a wait that a short sleep does not cover belongs together with `Some(false)`.
    pub should_retry: Option<bool>,
}

impl RetryAdvice {
    /// The headers that say so to this dialect's client libraries. Waits are rounded up, so that nobody comes too early.
    pub fn headers(self, dialect: Dialect) -> impl Iterator<Item = (&'static str, String)> {
        let millis = self.wait.map(|wait| wait.as_nanos().div_ceil(1_000_000));
        let told = |name, millis: u128| (name, millis.to_string());
        let wait = millis.into_iter().flat_map(move |millis| {
            let common = [told("retry-after", millis.div_ceil(1_000)), told("retry-after-ms", millis)];
            // These libraries read nothing else, and read it in milliseconds.
            let own = (dialect == Dialect::Bedrock).then(|| told("x-amz-retry-after", millis));
            common.into_iter().chain(own)
        });
        wait.chain(self.should_retry.map(|should| ("x-should-retry", should.to_string())))
    }
}

/// When the vendor says to try again. `header` is asked by lower-case name.
///
/// Of several headers the exact ones come first: those in milliseconds, then the one in seconds. What is not a plain
/// number of at least 0, such as a date, is ignored.
pub fn retry_hint<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<Duration> {
    let in_units_of = |name: &str, unit: f64| {
        let number = plain_number(header(name)?)?;
        Duration::try_from_secs_f64(number * unit).ok()
    };
    in_units_of("retry-after-ms", 0.001)
        .or_else(|| in_units_of("x-amz-retry-after", 0.001))
        .or_else(|| in_units_of("retry-after", 1.0))
}

/// A number of digits and at most one point. Signs, exponents and words are no times to wait.
fn plain_number(text: &str) -> Option<f64> {
    let text = text.trim();
    let is_plain = text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::{Dialect, RetryAdvice, retry_hint};
    use std::time::Duration;

    fn told(advice: RetryAdvice, dialect: Dialect) -> Vec<String> {
        advice.headers(dialect).map(|(name, value)| format!("{name}: {value}")).collect()
    }

    #[test]
    fn each_library_is_told_in_the_headers_it_reads() {
        let advice = RetryAdvice { wait: Some(Duration::from_micros(2_000_001)), should_retry: Some(true) };
        let common = ["retry-after: 3", "retry-after-ms: 2001", "x-should-retry: true"];
        assert_eq!(told(advice, Dialect::Anthropic), common);
        assert_eq!(told(advice, Dialect::OpenAi), common);
        let own =
            ["retry-after: 3", "retry-after-ms: 2001", "x-amz-retry-after: 2001", "x-should-retry: true"];
        assert_eq!(told(advice, Dialect::Bedrock), own);
        let never = RetryAdvice { wait: None, should_retry: Some(false) };
        assert_eq!(told(never, Dialect::Bedrock), ["x-should-retry: false"]);
        assert_eq!(told(RetryAdvice::default(), Dialect::Bedrock), [""; 0]);
        let at_once = RetryAdvice { wait: Some(Duration::ZERO), should_retry: None };
        assert_eq!(told(at_once, Dialect::OpenAi), ["retry-after: 0", "retry-after-ms: 0"]);
    }

    #[test]
    fn every_dialect_has_its_own_name_for_the_request() {
        let names = [Dialect::Anthropic, Dialect::OpenAi, Dialect::Bedrock].map(Dialect::request_id_header);
        assert_eq!(names, ["request-id", "x-request-id", "x-amzn-RequestId"]);
    }

    #[test]
    fn the_exact_hint_comes_first() {
        let all = [("retry-after-ms", "250"), ("x-amz-retry-after", "300"), ("retry-after", "2")];
        for (from, millis) in [(0, 250), (1, 300), (2, 2_000)] {
            let header =
                |name: &str| all[from..].iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
            assert_eq!(retry_hint(header), Some(Duration::from_millis(millis)));
        }
    }
}
