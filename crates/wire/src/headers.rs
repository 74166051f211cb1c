//! Headers that client libraries read for retries.

use std::time::Duration;

/// Retry advice for a caller whose request was rejected.
///
/// ```
/// use seawall_wire::RetryAdvice;
/// use std::time::Duration;
///
/// let advice = RetryAdvice { wait: Some(Duration::from_millis(1_500)), should_retry: None };
/// let headers: Vec<_> = advice.headers(None).collect();
/// assert_eq!(headers, [("retry-after", "2".to_owned()), ("retry-after-ms", "1500".to_owned())]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryAdvice {
    /// How long to wait before the next attempt.
    pub wait: Option<Duration>,
    /// Whether to retry at all; `None` leaves it to the client library's own rules. Client libraries sleep for as long
    /// as the header says, so a long wait should be combined with `Some(false)`.
    pub should_retry: Option<bool>,
}

impl RetryAdvice {
    /// The response headers that express the advice. Waits are rounded up, so that no client retries too early. `own` is
    /// the header, in milliseconds, of client libraries that read no other.
    pub fn headers(self, own: Option<&'static str>) -> impl Iterator<Item = (&'static str, String)> {
        let millis = self.wait.map(|wait| wait.as_nanos().div_ceil(1_000_000));
        let pair = |name, millis: u128| (name, millis.to_string());
        let wait = millis.into_iter().flat_map(move |millis| {
            let common = [pair("retry-after", millis.div_ceil(1_000)), pair("retry-after-ms", millis)];
            common.into_iter().chain(own.map(|name| pair(name, millis)))
        });
        wait.chain(self.should_retry.map(|should| ("x-should-retry", should.to_string())))
    }
}

/// The delay that the vendor's response headers ask for. `header` looks up a value by lower-case name.
///
/// Headers in milliseconds take precedence over `retry-after` in seconds, because they are more precise. A value that
/// is not a plain non-negative number, such as a date, is ignored.
pub fn read_retry_after<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<Duration> {
    let in_units_of = |name: &str, unit: f64| {
        let number = plain_number(header(name)?)?;
        Duration::try_from_secs_f64(number * unit).ok()
    };
    in_units_of("retry-after-ms", 0.001)
        .or_else(|| in_units_of("x-amz-retry-after", 0.001))
        .or_else(|| in_units_of("retry-after", 1.0))
}

/// Parses digits with at most one decimal point. Signs, exponents and names such as `inf` are rejected.
fn plain_number(text: &str) -> Option<f64> {
    let text = text.trim();
    let is_plain = text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::{RetryAdvice, read_retry_after};
    use std::time::Duration;

    const OWN: Option<&str> = Some("x-amz-retry-after");

    fn pair(advice: RetryAdvice, own: Option<&'static str>) -> Vec<String> {
        advice.headers(own).map(|(name, value)| format!("{name}: {value}")).collect()
    }

    #[test]
    fn retry_advice_is_sent_in_the_headers_that_each_library_reads() {
        let advice = RetryAdvice { wait: Some(Duration::from_micros(2_000_001)), should_retry: Some(true) };
        let common = ["retry-after: 3", "retry-after-ms: 2001", "x-should-retry: true"];
        assert_eq!(pair(advice, None), common);
        let own =
            ["retry-after: 3", "retry-after-ms: 2001", "x-amz-retry-after: 2001", "x-should-retry: true"];
        assert_eq!(pair(advice, OWN), own);
        let never = RetryAdvice { wait: None, should_retry: Some(false) };
        assert_eq!(pair(never, OWN), ["x-should-retry: false"]);
        assert_eq!(pair(RetryAdvice::default(), OWN), [""; 0]);
        let at_once = RetryAdvice { wait: Some(Duration::ZERO), should_retry: None };
        assert_eq!(pair(at_once, None), ["retry-after: 0", "retry-after-ms: 0"]);
    }

    #[test]
    fn the_exact_hint_comes_first() {
        let all = [("retry-after-ms", "250"), ("x-amz-retry-after", "300"), ("retry-after", "2")];
        for (from, millis) in [(0, 250), (1, 300), (2, 2_000)] {
            let header =
                |name: &str| all[from..].iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
            assert_eq!(read_retry_after(header), Some(Duration::from_millis(millis)));
        }
    }
}
