//! Parses credential documents.

use super::provider_error;
use aws_credential_types::Credentials;
use aws_credential_types::provider::Result as Provided;
use seawall_core::time::UtcTime;
use serde_json::Value;
use std::time::{Duration, SystemTime};

/// Credentials as written by the instance and container endpoints, in JSON.
pub(super) fn parse_json(body: &[u8], source: &'static str) -> Provided {
    let fields: Value = serde_json::from_slice(body)
        .map_err(|_| provider_error(format!("{source}: the response is not valid JSON")))?;
    if let Some(code) = fields["Code"].as_str().filter(|code| *code != "Success") {
        return Err(provider_error(format!("{source}: {code}")));
    }
    read_credentials(|name| fields[name].as_str().map(str::to_owned), ["Token", "Expiration"], source)
}

/// Credentials as written by STS, in XML.
pub(super) fn parse_xml(body: &[u8], source: &'static str) -> Provided {
    let text = String::from_utf8_lossy(body);
    let inside = element(&text, "Credentials").unwrap_or_default();
    read_credentials(|name| element(inside, name).map(unescape), ["SessionToken", "Expiration"], source)
}

fn read_credentials(
    field: impl Fn(&str) -> Option<String>,
    [token, end]: [&str; 2],
    source: &'static str,
) -> Provided {
    let need = |name: &str| {
        let value = field(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| provider_error(format!("{source}: the response has no {name}")))
    };
    let end = field(end).map(|end| {
        parse_time(&end).ok_or_else(|| provider_error(format!("{source}: invalid expiration: {end}")))
    });
    let (id, secret) = (need("AccessKeyId")?, need("SecretAccessKey")?);
    Ok(Credentials::new(id, secret, field(token), end.transpose()?, source))
}

/// The content of the first element with this name.
pub(super) fn element<'x>(xml: &'x str, name: &str) -> Option<&'x str> {
    let (_, behind) = xml.split_once(&format!("<{name}>"))?;
    behind.split_once(&format!("</{name}>")).map(|(inside, _)| inside.trim())
}

/// Unescapes XML text.
fn unescape(text: &str) -> String {
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    entities.iter().fold(text.to_owned(), |text, (written, meant)| text.replace(written, meant))
}

/// Parses a date such as `2026-07-01T12:00:00Z`; fractions of a second are ignored.
pub(super) fn parse_time(text: &str) -> Option<SystemTime> {
    let (date, time) = text.trim().split_once('T')?;
    let time = time.strip_suffix('Z').or_else(|| time.strip_suffix("+00:00"))?;
    let time = time.split_once('.').map_or(time, |(whole, _)| whole);
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let is_date = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let day = UtcTime::from_civil(i64::from(year), month, day);
    let seconds = u64::from(hour * 3_600 + minute * 60 + second);
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(day.as_nanos()) + Duration::from_secs(seconds))
}

fn numbers(text: &str, between: char) -> Option<[u32; 3]> {
    let mut parts = text.split(between).map(|part| {
        let is_number = !part.is_empty() && part.len() <= 4 && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse().ok().filter(|_| is_number)
    });
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}
