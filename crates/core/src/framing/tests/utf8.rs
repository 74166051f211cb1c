use super::escape::awkward_text;
use super::{Client, at, framer, framer_with};
use crate::framing::utf8::Utf8Decoder;
use crate::framing::{FramingFinishReason, PushDecision};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::{Just, Strategy};

/// Bytes that are nearly UTF-8.
fn nearly_text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        awkward_text().prop_map(String::into_bytes),
        vec(any::<u8>(), 0..6),
        vec(
            prop_oneof![
                Just(0xF0_u8),
                Just(0x9F),
                Just(0x91),
                Just(0xE0),
                Just(0xED),
                Just(0xA0),
                Just(0x80)
            ],
            0..8
        ),
    ];
    vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

#[test]
fn a_character_in_pieces_is_one_character() {
    let mut framer = framer();
    for byte in "漫👍".bytes() {
        assert_eq!(framer.push_bytes(&[byte], at(0)), PushDecision::Accepted);
    }
    let mut client = Client::default();
    client.drain(&mut framer, at(0));
    assert_eq!(client.text(), "漫👍");
}

#[test]
fn half_a_character_is_no_text_until_the_end_comes() {
    let mut framer = framer();
    framer.push_bytes(&[0xE6, 0xBC], at(0));
    let mut client = Client::default();
    client.drain(&mut framer, at(0));
    assert!(client.seen.is_empty());
    assert!(!framer.has_begun());
    framer.finish(FramingFinishReason::UpstreamEnded, at(1));
    client.drain(&mut framer, at(1));
    assert_eq!(client.text(), "\u{FFFD}");
}

#[test]
fn text_after_half_a_character_does_not_complete_it() {
    let mut framer = framer();
    framer.push_bytes(&[0xE6, 0xBC], at(0));
    framer.push("", at(0));
    assert_eq!(framer.pending_bytes(), 0);
    framer.push("x", at(0));
    let mut client = Client::default();
    client.drain(&mut framer, at(0));
    assert_eq!(client.text(), "\u{FFFD}x");
}

#[test]
fn a_replacement_is_made_only_where_it_has_room() {
    let mut text = String::new();
    let mut decoder = Utf8Decoder::default();
    assert_eq!(decoder.decode(&[0xFF, b'a'], 2, |piece| text.push_str(piece)), 0);
    assert_eq!(decoder.decode(&[0xFF, b'a'], 3, |piece| text.push_str(piece)), 1);
    assert_eq!(decoder.decode("漫".as_bytes(), 2, |piece| text.push_str(piece)), 0);
    assert_eq!(decoder.decode("漫a".as_bytes(), 3, |piece| text.push_str(piece)), 3);
    assert_eq!(text, "\u{FFFD}漫");
    assert!(!decoder.is_holding());
}

proptest! {
    #[test]
    fn any_split_of_any_bytes_reads_as_the_whole_does(
        bytes in nearly_text(),
        cuts in vec(0_usize..12, 0..40),
    ) {
        let mut framer = framer();
        let mut client = Client::default();
        let mut rest = bytes.as_slice();
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            prop_assert_eq!(framer.push_bytes(piece, at(0)), PushDecision::Accepted);
            rest = after;
        }
        prop_assert_eq!(framer.push_bytes(rest, at(0)), PushDecision::Accepted);
        framer.finish(FramingFinishReason::Stop, at(0));
        client.drain(&mut framer, at(0));
        prop_assert_eq!(client.text(), String::from_utf8_lossy(&bytes).into_owned());
    }

    /// With hardly any room a delta is accepted in steps, and no byte is lost or repeated.
    #[test]
    fn bytes_taken_in_part_lose_nothing(bytes in nearly_text(), cuts in vec(1_usize..40, 1..20)) {
        let mut framer = framer_with(|options| {
            options.low_watermark = 0;
            options.high_watermark = 0;
            options.max_pending_bytes = 16;
        });
        let mut client = Client::default();
        let mut rest = bytes.as_slice();
        let mut cuts = cuts.into_iter().cycle();
        while !rest.is_empty() {
            let piece = &rest[..rest.len().min(cuts.next().unwrap())];
            let used = match framer.push_bytes(piece, at(0)) {
                PushDecision::Accepted => piece.len(),
                PushDecision::PartiallyAccepted { bytes } => bytes,
                PushDecision::Ended => unreachable!(),
            };
            prop_assert!(framer.pending_bytes() <= 16);
            prop_assert!(used > 0);
            rest = &rest[used..];
            // Drains everything at once, whatever the time: a client that is always ready.
            client.drain_until(&mut framer, at(0), at(0));
            let hurry = framer.pending_bytes();
            if hurry > 0 {
                let later = framer.next_deadline().unwrap();
                client.drain(&mut framer, later);
            }
        }
        let end = client.seen.last().map_or(at(0), |(when, _)| *when);
        framer.finish(FramingFinishReason::Stop, end);
        client.drain(&mut framer, end);
        prop_assert_eq!(client.text(), String::from_utf8_lossy(&bytes).into_owned());
    }
}
