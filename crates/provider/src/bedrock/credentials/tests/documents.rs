//! Credential documents.

use crate::bedrock::credentials::document::{parse_json, parse_time, parse_xml};
use proptest::prelude::{prop_assert_eq, proptest};
use std::time::{Duration, SystemTime};

fn seconds(text: &str) -> Option<u64> {
    parse_time(text).map(|time| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs())
}

#[test]
fn dates_are_read_to_the_second() {
    for (text, expected) in [
        ("1970-01-01T00:00:00Z", Some(0)),
        ("2026-07-01T12:34:56Z", Some(1_782_909_296)),
        ("2026-07-01T12:34:56.789Z", Some(1_782_909_296)),
        (" 2026-07-01T12:34:56+00:00 ", Some(1_782_909_296)),
        ("2026-12-31T23:59:59Z", Some(1_798_761_599)),
        ("2026-12-31T23:59:60Z", Some(1_798_761_600)),
        ("2026-07-01T12:34:56", None),
        ("2026-07-01T12:34:56+09:00", None),
        ("2026-07-01 12:34:56Z", None),
        ("1969-12-31T00:00:00Z", None),
        ("2026-13-01T00:00:00Z", None),
        ("2026-00-01T00:00:00Z", None),
        ("2026-07-32T00:00:00Z", None),
        ("2026-07-00T00:00:00Z", None),
        ("2026-07-01T24:00:00Z", None),
        ("2026-07-01T00:60:00Z", None),
        ("2026-07-01T00:00:61Z", None),
        ("2026-07-01T00:00Z", None),
        ("2026-07-01T00:00:00:00Z", None),
        ("2026-07-+1T00:00:00Z", None),
        ("20260-07-01T00:00:00Z", None),
        ("", None),
    ] {
        assert_eq!(seconds(text), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn a_date_that_was_written_is_read(days in 0_u64..100_000, second in 0_u64..86_400) {
        let (year, month, day) = seawall_core::time::UtcTime::start_of_day(days).civil();
        let (hour, minute, last) = (second / 3_600, second / 60 % 60, second % 60);
        let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{last:02}Z");
        prop_assert_eq!(seconds(&text), Some(days * 86_400 + second));
    }

    #[test]
    fn nothing_that_a_server_says_breaks_the_readers(text in "\\PC{0,60}") {
        let _ = (parse_time(&text), parse_json(text.as_bytes(), "test"), parse_xml(text.as_bytes(), "test"));
    }
}

fn error_text(error: impl std::fmt::Debug) -> String {
    format!("{error:?}")
}

#[test]
fn keys_in_json_need_their_parts_and_a_success() {
    let keys = br#"{"Code":"Success","AccessKeyId":"id","SecretAccessKey":"hush","Token":"t",
                    "Expiration":"2026-07-01T12:34:56Z"}"#;
    let keys = parse_json(keys, "test").unwrap();
    assert_eq!(
        (keys.access_key_id(), keys.secret_access_key(), keys.session_token()),
        ("id", "hush", Some("t"))
    );
    let end = SystemTime::UNIX_EPOCH + Duration::from_secs(1_782_909_296);
    assert_eq!(keys.expiry(), Some(end));
    for (body, problem) in [
        ("no", "not valid JSON"),
        ("{}", "no AccessKeyId"),
        (r#"{"AccessKeyId":"id"}"#, "no SecretAccessKey"),
        (r#"{"AccessKeyId":"","SecretAccessKey":"hush"}"#, "no AccessKeyId"),
        (r#"{"Code":"AssumeRoleUnauthorizedAccess","AccessKeyId":"id"}"#, "AssumeRoleUnauthorizedAccess"),
        (r#"{"AccessKeyId":"id","SecretAccessKey":"hush","Expiration":"soon"}"#, "invalid expiration"),
    ] {
        let error = error_text(parse_json(body.as_bytes(), "test").unwrap_err());
        assert!(error.contains(problem) && !error.contains("hush"), "{body}: {error}");
    }
}

#[test]
fn keys_in_xml_are_plain_text_once_read() {
    let keys = b"<R><SourceIdentity>x</SourceIdentity><Credentials>\n <AccessKeyId>id</AccessKeyId>
        <SecretAccessKey>a&amp;lt;b/+</SecretAccessKey><SessionToken>t==</SessionToken>
        <Expiration>2026-07-01T12:34:56Z</Expiration></Credentials></R>";
    let keys = parse_xml(keys, "test").unwrap();
    let parts = (keys.access_key_id(), keys.secret_access_key(), keys.session_token());
    assert_eq!(parts, ("id", "a&lt;b/+", Some("t==")));
    assert!(keys.expiry().is_some());
    let outside = b"<AccessKeyId>id</AccessKeyId><SecretAccessKey>hush</SecretAccessKey>";
    assert!(error_text(parse_xml(outside, "test").unwrap_err()).contains("no AccessKeyId"));
}
