//! Reads values of the metrics page.

/// An amount in billionths of its unit, such as nano-dollars of a metric in dollars: exact, unlike a float.
///
/// ```
/// use seawall_testkit::parse_billionths;
///
/// assert_eq!(parse_billionths("1.5"), Some(1_500_000_000));
/// assert_eq!(parse_billionths("0.000000007"), Some(7));
/// assert_eq!(parse_billionths("1.0000000001"), None);
/// ```
#[must_use]
pub fn parse_billionths(text: &str) -> Option<u64> {
    let (whole, digits) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if digits.len() > 9 || !is_number(whole) || !is_number(digits) {
        return None;
    }
    let billionths: u64 = format!("{digits:0<9}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(billionths)
}
