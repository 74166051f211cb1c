//! Differential tests of the frame parser against the vendor's own implementation.

use super::written;
use crate::bedrock::{FrameKind, FrameLimits, FrameReader, write_event_frame, write_exception_frame};
use aws_smithy_eventstream::frame::{read_message_from, write_message_to};
use aws_smithy_types::DateTime;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use aws_smithy_types::str_bytes::StrBytes;
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

/// The content of a frame, independent of the parser.
#[derive(Debug, PartialEq)]
struct Present {
    kind: &'static str,
    name: String,
    message: String,
    content_type: String,
    payload: Vec<u8>,
}

fn by_ours(bytes: &[u8]) -> Option<Present> {
    let mut told = None;
    let mut reader = FrameReader::new(FrameLimits::default());
    let outcome = reader.feed(bytes, |frame| {
        let (kind, name, message) = match frame.kind {
            FrameKind::Event(name) => ("event", name, ""),
            FrameKind::Exception(name) => ("exception", name, ""),
            FrameKind::Error { code, message } => ("error", code, message),
        };
        told = Some(Present {
            kind,
            name: name.to_owned(),
            message: message.to_owned(),
            content_type: frame.content_type.to_owned(),
            payload: frame.payload.to_vec(),
        });
    });
    outcome.ok().and(told)
}

fn by_the_vendor(bytes: &[u8]) -> Option<Present> {
    let message = read_message_from(bytes).ok()?;
    let header = |name: &str| {
        let found = message.headers().iter().find(|header| header.name().as_str() == name)?;
        found.value().as_string().ok().map(|text| text.as_str().to_owned())
    };
    let (kind, name, words) = match header(":message-type")?.as_str() {
        "event" => ("event", header(":event-type")?, None),
        "exception" => ("exception", header(":exception-type")?, None),
        "error" => ("error", header(":error-code")?, header(":error-message")),
        _ => return None,
    };
    Some(Present {
        kind,
        name,
        message: words.unwrap_or_default(),
        content_type: header(":content-type").unwrap_or_default(),
        payload: message.payload().to_vec(),
    })
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(":message-type".to_owned()),
        Just(":event-type".to_owned()),
        Just(":exception-type".to_owned()),
        Just(":error-code".to_owned()),
        Just(":error-message".to_owned()),
        Just(":content-type".to_owned()),
        "[a-zé:-]{0,9}",
    ]
}

fn value() -> impl Strategy<Value = HeaderValue> {
    let text = prop_oneof!["event", "exception", "error", "[ -~é]{0,12}"];
    prop_oneof![
        8 => text.prop_map(|text| HeaderValue::String(StrBytes::from(text))),
        1 => any::<bool>().prop_map(HeaderValue::Bool),
        1 => any::<i8>().prop_map(HeaderValue::Byte),
        1 => any::<i16>().prop_map(HeaderValue::Int16),
        1 => any::<i32>().prop_map(HeaderValue::Int32),
        1 => any::<i64>().prop_map(HeaderValue::Int64),
        1 => vec(any::<u8>(), 0..300).prop_map(|bytes| HeaderValue::ByteArray(bytes.into())),
        1 => (0_i64..1 << 40).prop_map(|at| HeaderValue::Timestamp(DateTime::from_millis(at))),
        1 => any::<u128>().prop_map(HeaderValue::Uuid),
    ]
}

fn message(headers: Vec<(String, HeaderValue)>, payload: Vec<u8>) -> Vec<u8> {
    let headers = headers.into_iter().map(|(name, value)| Header::new(name, value)).collect();
    let mut out = Vec::new();
    write_message_to(&Message::new_from_parts(headers, Bytes::from(payload)), &mut out).unwrap();
    out
}

/// A frame with correct checksums around arbitrary bytes.
fn framed(claimed: u32, inside: &[u8]) -> Vec<u8> {
    let size = u32::try_from(inside.len() + 16).unwrap();
    let mut bytes = [size.to_be_bytes(), claimed.to_be_bytes()].concat();
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes.extend_from_slice(inside);
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes
}

proptest! {
    #[test]
    fn any_frame_is_read_as_by_the_vendors_own_code(
        first in vec((name(), value()), 0..3),
        kind in prop_oneof!["event", "exception", "error"],
        more in vec((name(), value()), 0..8),
        payload in vec(any::<u8>(), 0..300),
    ) {
        let kind = (":message-type".to_owned(), HeaderValue::String(StrBytes::from(kind)));
        let bytes = message(first.into_iter().chain([kind]).chain(more).collect(), payload);
        prop_assert_eq!(by_ours(&bytes), by_the_vendor(&bytes));
    }

    /// Truncated, overlong, untyped or non-UTF-8 headers under correct checksums.
    #[test]
    fn headers_that_were_spoilt_are_refused_where_the_vendors_own_code_refuses_them(
        headers in vec((name(), value()), 0..5),
        payload in vec(any::<u8>(), 0..20),
        spoilt in vec((any::<proptest::sample::Index>(), any::<u8>()), 0..2),
        off in prop_oneof![4 => Just(0_i64), 1 => -40..40_i64],
    ) {
        let kind = [(":event-type", "e"), (":message-type", "event")];
        let kind = kind.map(|(name, value)| (name.to_owned(), HeaderValue::String(StrBytes::from(value))));
        let whole = message(kind.into_iter().chain(headers).collect(), payload);
        let claimed = u32::from_be_bytes(whole[4..8].try_into().unwrap());
        let mut inside = whole[12..whole.len() - 4].to_vec();
        for (at, byte) in spoilt {
            let at = at.index(inside.len());
            inside[at] = byte;
        }
        let claimed = u32::try_from((i64::from(claimed) + off).max(0)).unwrap();
        let bytes = framed(claimed, &inside);
        prop_assert_eq!(by_ours(&bytes), by_the_vendor(&bytes));
    }

    #[test]
    fn frames_are_written_as_the_vendors_own_code_writes_them(payload in vec(any::<u8>(), 0..300)) {
        let text = |name: &str, value: &str| (name.to_owned(), HeaderValue::String(StrBytes::from(value.to_owned())));
        let around = |name_header, name, kind| {
            vec![text(name_header, name), text(":content-type", "application/json"), text(":message-type", kind)]
        };
        prop_assert_eq!(
            written(|out| write_event_frame(out, "metadata", &payload)),
            message(around(":event-type", "metadata", "event"), payload.clone())
        );
        prop_assert_eq!(
            written(|out| write_exception_frame(out, "throttlingException", &payload)),
            message(around(":exception-type", "throttlingException", "exception"), payload)
        );
    }
}
