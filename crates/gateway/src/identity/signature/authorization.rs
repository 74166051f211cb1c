//! Parses the `authorization` header: access key id, scope, signed headers and signature.

use super::{DATE, SERVICE, SignatureRefusal};
use hyper::header::HeaderMap;
use seawall_core::time::UtcTime;
use std::time::Duration;

/// The parsed header. Nothing in it is verified yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Authorization<'a> {
    pub(super) id: &'a str,
    pub(super) day: &'a str,
    pub(super) region: &'a str,
    pub(super) signed_headers: &'a str,
    pub(super) signature: &'a str,
}

impl<'a> Authorization<'a> {
    /// Parses the header. Clients differ in blanks and order; each part must occur exactly once.
    pub(super) fn parse(text: &'a str) -> Result<Self, SignatureRefusal> {
        let (mut credential, mut signed_headers, mut signature) = (None, None, None);
        for part in text.split(',') {
            let (name, value) = part.trim_matches(' ').split_once('=').ok_or(SignatureRefusal::Malformed)?;
            let field = match name {
                "Credential" => &mut credential,
                "SignedHeaders" => &mut signed_headers,
                "Signature" => &mut signature,
                _ => return Err(SignatureRefusal::Malformed),
            };
            if field.replace(value).is_some() {
                return Err(SignatureRefusal::Malformed);
            }
        }
        let (Some(credential), Some(signed_headers), Some(signature)) =
            (credential, signed_headers, signature)
        else {
            return Err(SignatureRefusal::Malformed);
        };
        let mut parts = credential.split('/');
        let mut next = || parts.next().ok_or(SignatureRefusal::Scope);
        let (id, day, region, service, end) = (next()?, next()?, next()?, next()?, next()?);
        if parts.next().is_some() || service != SERVICE || end != "aws4_request" || !is_region(region) {
            return Err(SignatureRefusal::Scope);
        }
        Ok(Self { id, day, region, signed_headers, signature })
    }
}

/// Any region is accepted: it is an input of the signature and has no other use here.
fn is_region(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&text.len()) && text.bytes().all(is_allowed)
}

/// The date of a request, as text and as a time.
pub(super) fn signing_time(headers: &HeaderMap) -> Result<(&str, UtcTime), SignatureRefusal> {
    let unreadable = SignatureRefusal::DateMalformed;
    let mut dates = headers.get_all(DATE).iter();
    let (Some(date), None) = (dates.next(), dates.next()) else { return Err(unreadable) };
    let date = date.to_str().map_err(|_| unreadable)?;
    Ok((date, parse_time(date).ok_or(unreadable)?))
}

/// Parses the format `20261115T120000Z` only.
fn parse_time(text: &str) -> Option<UtcTime> {
    let signs = text.as_bytes();
    if signs.len() != 16 || signs[8] != b'T' || signs[15] != b'Z' {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<u32> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let (year, month, day) = (i64::from(number(0, 4)?), number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    let midnight = UtcTime::from_civil(year, month, day);
    // An invalid date would be normalised to another one.
    if midnight.civil() != (year, month, day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(midnight + Duration::from_secs(u64::from((hour * 60 + minute) * 60 + second)))
}

#[cfg(test)]
mod tests {
    use super::{Authorization, SignatureRefusal, parse_time};
    use proptest::prelude::{prop_assert_eq, proptest};
    use seawall_core::time::UtcTime;
    use std::time::Duration;

    const CREDENTIAL: &str = "Credential=ID/20261115/eu-west-1/bedrock/aws4_request";

    #[test]
    fn blanks_and_order_do_not_matter() {
        let expected = Authorization {
            id: "ID",
            day: "20261115",
            region: "eu-west-1",
            signed_headers: "host;x-amz-date",
            signature: "00",
        };
        for text in [
            format!("{CREDENTIAL}, SignedHeaders=host;x-amz-date, Signature=00"),
            format!("{CREDENTIAL},SignedHeaders=host;x-amz-date,Signature=00"),
            format!("Signature=00,  {CREDENTIAL} ,SignedHeaders=host;x-amz-date"),
        ] {
            assert_eq!(Authorization::parse(&text), Ok(expected));
        }
    }

    #[test]
    fn a_part_too_few_or_too_many_is_refused() {
        for text in [
            String::new(),
            "Credential".to_owned(),
            format!("{CREDENTIAL}, Signature=00"),
            format!("{CREDENTIAL}, SignedHeaders=host"),
            "SignedHeaders=host, Signature=00".to_owned(),
            format!("{CREDENTIAL}, SignedHeaders=host, Signature=00, Signature=00"),
            format!("{CREDENTIAL}, SignedHeaders=host, Signature=00, Other=1"),
            format!("{CREDENTIAL}, SignedHeaders=host, Signature=00,"),
            format!("{CREDENTIAL}, signedheaders=host, Signature=00"),
        ] {
            assert_eq!(Authorization::parse(&text), Err(SignatureRefusal::Malformed), "{text}");
        }
    }

    #[test]
    fn another_scope_is_refused() {
        let long = "r".repeat(33);
        for scope in [
            "ID",
            "ID/20261115/eu-west-1/bedrock",
            "ID/20261115/eu-west-1/bedrock/aws4_request/x",
            "ID/20261115/eu-west-1/s3/aws4_request",
            "ID/20261115/eu-west-1/bedrock/aws5_request",
            "ID/20261115//bedrock/aws4_request",
            "ID/20261115/EU/bedrock/aws4_request",
            &format!("ID/20261115/{long}/bedrock/aws4_request"),
        ] {
            let text = format!("Credential={scope}, SignedHeaders=host, Signature=00");
            assert_eq!(Authorization::parse(&text), Err(SignatureRefusal::Scope), "{scope}");
        }
        let longest =
            format!("Credential=ID/1/{}/bedrock/aws4_request,SignedHeaders=,Signature=", &long[1..]);
        assert!(Authorization::parse(&longest).is_ok());
    }

    #[test]
    fn a_date_is_read_in_one_spelling() {
        let noon = UtcTime::from_civil(2024, 2, 29) + Duration::from_secs(43_200 + 34 * 60 + 56);
        assert_eq!(parse_time("20240229T123456Z"), Some(noon));
        assert_eq!(parse_time("19700101T000000Z"), Some(UtcTime::from_nanos(0)));
        assert_eq!(
            parse_time("20240229T235959Z"),
            Some(UtcTime::from_civil(2024, 2, 29) + Duration::from_secs(86_399))
        );
        for wrong in [
            "",
            "20240229T123456",
            "20240229T123456z",
            "20240229 123456Z",
            "20240229T123456ZZ",
            "2024-02-29T12:34:56Z",
            "20230229T123456Z",
            "20241301T000000Z",
            "20240001T000000Z",
            "20240100T000000Z",
            "20240132T000000Z",
            "20240101T240000Z",
            "20240101T006000Z",
            "20240101T000060Z",
            "19691231T235959Z",
            "+0240101T000000Z",
            "20240101T+00000Z",
            "2024010\u{661}T00000Z",
        ] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text: String) {
            prop_assert_eq!(parse_time(&text), None);
            prop_assert_eq!(Authorization::parse(&text), Err(SignatureRefusal::Malformed));
        }
    }
}
