//! No input makes a reader panic, and chunk boundaries do not change the result.

use crate::strategies::cut;
use crate::streams::{read_anthropic, read_openai};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;
use seawall_wire::sse::SseLimits;
use seawall_wire::{RequestLimits, anthropic, openai, read_retry_after};

/// Fragments of JSON and of streams, valid and broken.
#[rustfmt::skip]
const RUBBLE: &[&str] = &[
    "{", "}", "[", "]", ",", ":", "\"", "\\", "\\ud800", "null", "true", "1e400", "-1", "\n", "\n\n", "\r\n\r\n", "data: ",
    "data: [DONE]\n\n", "event: message_start\n", "event: content_block_start\n", "event: content_block_delta\n",
    "event: message_delta\n", "event: message_stop\n", "event: error\n", "\"role\":\"user\"", "\"content\":", "\"type\":\"text\"",
    "\"messages\":[", "\"model\":\"m\"", "\"choices\":[", "\"delta\":{", "\"tool_calls\":[", "\"usage\":", "\"index\":0",
    "{\"choices\":[],\"usage\":{}}", "\"error\":", "\"stream_options\":", "\u{FEFF}", "漫",
];

const REQUESTS: [&str; 2] =
    [include_str!("../golden/anthropic/chat_request.json"), include_str!("../golden/openai/request.json")];
const ANSWERS: [&str; 2] =
    [include_str!("../golden/anthropic/chat_answer.json"), include_str!("../golden/openai/answer.json")];
const STREAMS: [&str; 2] =
    [include_str!("../golden/anthropic/chat_stream.txt"), include_str!("../golden/openai/stream.txt")];

/// Arbitrary bytes, fragments, or a valid input with a few bytes changed.
fn bytes(good: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let damaged = (select(good), vec((any::<usize>(), any::<u8>()), 0..4)).prop_map(|(good, changes)| {
        let mut bytes = good.as_bytes().to_vec();
        for (place, byte) in changes {
            let at = place % bytes.len();
            bytes[at] = byte;
        }
        bytes
    });
    let rubble = vec(select(RUBBLE), 0..24).prop_map(|pieces| pieces.concat().into_bytes());
    prop_oneof![vec(any::<u8>(), 0..64), rubble, damaged]
}

fn filtered<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let mut filter = openai::UsageFilter::new(1 << 20);
    let mut passed = Vec::new();
    for piece in pieces {
        filter.feed(&Bytes::copy_from_slice(piece), |bytes| passed.extend_from_slice(&bytes)).ok()?;
    }
    passed.extend_from_slice(&filter.finish());
    Some(passed)
}

proptest! {
    #[test]
    fn any_bytes_are_a_request_or_an_error(bytes in bytes(&REQUESTS)) {
        let limits = RequestLimits::default();
        let _ = anthropic::read_request(&bytes, &limits);
        let _ = anthropic::read_chat_request(&bytes, &limits);
        let _ = anthropic::read_count_request(&bytes, &limits);
        let _ = openai::read_chat_request(&bytes, &limits);
        if let Ok(head) = openai::read_request(&bytes, &limits) {
            let body = Bytes::from(bytes);
            let sent = openai::for_upstream(&body, &head, "other");
            let again = openai::read_request(&sent, &limits).unwrap();
            prop_assert_eq!((again.model.as_str(), again.turns), ("other", head.turns));
            prop_assert_eq!(again.include_usage, again.stream);
        }
    }

    #[test]
    fn any_bytes_are_an_answer_or_an_error(bytes in bytes(&ANSWERS), status: u16, hint: String) {
        let _ = anthropic::read_answer(&bytes);
        let _ = anthropic::read_chat_answer(&bytes);
        let _ = openai::read_answer(&bytes);
        let _ = openai::read_chat_answer(&bytes);
        let _ = anthropic::read_error(status, |_| Some(&hint), &bytes);
        let _ = openai::read_error(status, |_| Some(&hint), &bytes);
        let _ = read_retry_after(|_| Some(&hint));
    }

    #[test]
    fn any_bytes_are_a_stream_or_an_error_however_they_are_split(
        bytes in bytes(&STREAMS),
        places in vec(any::<usize>(), 0..6),
    ) {
        let whole = read_anthropic([&bytes[..]]);
        prop_assert_eq!(&read_anthropic(bytes.chunks(1)), &whole);
        prop_assert_eq!(&read_anthropic(cut(&bytes, &places)), &whole);
        let whole = read_openai([&bytes[..]]);
        prop_assert_eq!(&read_openai(bytes.chunks(1)), &whole);
        prop_assert_eq!(&read_openai(cut(&bytes, &places)), &whole);
        let mut lean = openai::OpenAiStream::new(SseLimits::default());
        let _ = lean.feed(&bytes, |_| ());
    }

    #[test]
    fn the_filter_means_the_same_however_the_stream_is_split(
        bytes in bytes(&STREAMS),
        places in vec(any::<usize>(), 0..6),
    ) {
        let events = |bytes: Option<Vec<u8>>| read_openai([&bytes.unwrap()[..]]);
        let whole = events(filtered([&bytes[..]]));
        prop_assert_eq!(&events(filtered(bytes.chunks(1))), &whole);
        prop_assert_eq!(&events(filtered(cut(&bytes, &places))), &whole);
    }
}
