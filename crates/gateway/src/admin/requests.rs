//! Decision records: why each request was answered, degraded or rejected.

use super::AdminState;
use super::query::{AdminQuery, sanitized};
use super::response::{AdminError, AdminResponse};
use super::routes::AdminRequest;
use crate::log::MAX_SHOWN;
use crate::records::{QueryError, RecordCursor, RecordFilter, RecordPage};
use seawall_config::parse_duration;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::Rung;
use seawall_pipeline::Runtime as _;
use seawall_wire::bedrock::decode_path;
use serde_json::json;
use std::time::Duration;

/// The default number of requests shown.
const DEFAULT_SHOWN: usize = 50;
/// The outcomes of requests.
const OUTCOMES: &[&str] = &["answered", "degraded", "interrupted", "abandoned", "rejected"];

/// The record of one request.
pub(super) async fn find(admin: &AdminState, request: AdminRequest) -> Result<AdminResponse, AdminError> {
    let id = parse_id(&request.id).ok_or_else(|| {
        let problem = "must be req_ and 16 hexadecimal digits, as in the header x-request-id of the response";
        AdminError::InvalidParameter(format!("{}: {problem}", sanitized(&request.id)))
    })?;
    let authenticator = admin.status.authenticator.load_full();
    let pseudonym = |caller| authenticator.pseudonyms().encode(caller);
    let record = admin.status.records.find(id, pseudonym).await.map_err(query_error)?;
    record.map(AdminResponse::Json).ok_or_else(|| {
        let id = &request.id;
        let kept = match admin.status.records.source() {
            "memory" => "only the newest 1000 requests are kept, because there is no data directory",
            _ => {
                "it never arrived here, its record has expired (telemetry.records), or it was not kept: ordinary answers \
                 above telemetry.records.max_rate, and a caller's rejections beyond ten a minute, have no record"
            }
        };
        AdminError::UnknownRequest(format!("no record of {id}: {kept}"))
    })
}

/// A page of records.
pub(super) async fn list(admin: &AdminState, request: AdminRequest) -> Result<AdminResponse, AdminError> {
    let query = &request.query;
    let now = admin.status.runtime.now().utc;
    let limit = query.limit(DEFAULT_SHOWN, MAX_SHOWN)?;
    let filter = RecordFilter {
        caller: query.caller()?.map(|caller| format!("{caller:016x}")),
        key: text(query, "key")?,
        outcomes: query.list("outcome", OUTCOMES)?,
        target: text(query, "target")?,
        rung: query.list("rung", &Rung::ALL.map(Rung::name))?.into_iter().next(),
        since: moment(query, "since", now)?,
        until: moment(query, "until", now)?,
    };
    let cursor = query.get("after").map(|text| {
        let problem = || {
            AdminError::InvalidParameter(
                "after: must be `oldest`, or `next` or `follow` of a listing".to_owned(),
            )
        };
        RecordCursor::parse(text).ok_or_else(problem)
    });
    let cursor = cursor.transpose()?;
    let authenticator = admin.status.authenticator.load_full();
    let pseudonym = |caller| authenticator.pseudonyms().encode(caller);
    let listed = admin.status.records.list(filter, cursor, limit, pseudonym).await;
    let RecordPage { records, next, follow, has_gap } = listed.map_err(query_error)?;
    Ok(AdminResponse::Json(json!({
        "requests": records,
        "next": next.map(|next| next.to_string()),
        "follow": follow.to_string(),
        "gap": has_gap,
        "source": admin.status.records.source(),
    })))
}

fn query_error(error: QueryError) -> AdminError {
    match error {
        QueryError::Busy => AdminError::Busy("too many queries for records are in progress; retry in 1 s"),
        QueryError::Stopped => AdminError::Busy("the gateway is shutting down"),
    }
}

/// The number of a request ID as it is written in responses and logs.
fn parse_id(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("req_")?;
    let is_hex = digits.len() == 16 && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    u64::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

/// A name from the settings, which may need escapes.
fn text(query: &AdminQuery, name: &str) -> Result<Option<String>, AdminError> {
    let Some(text) = query.get(name) else { return Ok(None) };
    let decoded = decode_path(text).and_then(|bytes| String::from_utf8(bytes).ok());
    let problem = || AdminError::InvalidParameter(format!("{name}: invalid percent-encoding"));
    decoded.map(Some).ok_or_else(problem)
}

/// A moment: RFC 3339 in UTC, or how long ago.
fn moment(query: &AdminQuery, name: &str, now: UtcTime) -> Result<Option<UtcTime>, AdminError> {
    let Some(text) = query.get(name) else { return Ok(None) };
    let ago = |ago: Duration| {
        let ago = u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX);
        UtcTime::from_nanos(now.as_nanos().saturating_sub(ago))
    };
    let moment = parse_duration(text).map(ago).or_else(|| parse_utc(text));
    let problem = || {
        let message =
            format!("{name}: must be a time such as 2026-11-16T13:09:41Z, or a duration such as 15m");
        AdminError::InvalidParameter(message)
    };
    moment.map(Some).ok_or_else(problem)
}

/// A time by RFC 3339 in UTC, with or without fractions of a second.
fn parse_utc(text: &str) -> Option<UtcTime> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let number = |text: &str, length: usize| -> Option<u64> {
        (text.len() == length && text.bytes().all(|digit| digit.is_ascii_digit()))
            .then(|| text.parse().ok())?
    };
    let mut date = date.splitn(3, '-');
    let (year, month, day) = (number(date.next()?, 4)?, number(date.next()?, 2)?, number(date.next()?, 2)?);
    let mut time = time.splitn(3, ':');
    let (hour, minute, second) =
        (number(time.next()?, 2)?, number(time.next()?, 2)?, number(time.next()?, 2)?);
    let is_fraction = !fraction.is_empty() && fraction.len() <= 9;
    let fraction = number(&format!("{fraction:0<9}"), 9).filter(|_| is_fraction)?;
    if !(1970..=2500).contains(&year)
        || !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || hour > 23
        || minute > 59
        || second > 60
    {
        return None;
    }
    let (month, day) = (u32::try_from(month).ok()?, u32::try_from(day).ok()?);
    let midnight = UtcTime::from_civil(i64::try_from(year).ok()?, month, day);
    Some(midnight + Duration::from_secs(hour * 3_600 + minute * 60 + second) + Duration::from_nanos(fraction))
}

#[cfg(test)]
mod tests {
    use super::{parse_id, parse_utc};
    use crate::log::Rfc3339;
    use proptest::prelude::{any, proptest};

    #[test]
    fn an_id_is_read_exactly_as_responses_have_it() {
        assert_eq!(parse_id("req_00000000000000ff"), Some(255));
        for wrong in
            ["", "req_", "req_ff", "00000000000000ff", "req_00000000000000FF", "req_00000000000000ff0"]
        {
            assert_eq!(parse_id(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_read_as_the_log_writes_them() {
        for (text, expected) in [
            ("2026-11-16T13:09:41Z", Some("2026-11-16T13:09:41.000Z")),
            ("2026-11-16T13:09:41.2Z", Some("2026-11-16T13:09:41.200Z")),
            ("1970-01-01T00:00:00Z", Some("1970-01-01T00:00:00.000Z")),
            ("2026-11-16T13:09:41", None),
            ("2026-11-16 13:09:41Z", None),
            ("2026-13-16T13:09:41Z", None),
            ("2026-11-16T24:09:41Z", None),
            ("2026-11-16T13:09Z", None),
            ("2026-11-16T13:09:41.Z", None),
        ] {
            assert_eq!(parse_utc(text).map(|time| Rfc3339(time).to_string()).as_deref(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_readers(text in any::<String>()) {
            let _ = (parse_id(&text), parse_utc(&text));
        }
    }
}
