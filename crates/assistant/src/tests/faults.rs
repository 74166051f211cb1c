//! The chat face with faulty target streams.

use super::chat::{listen, play, request_for, uninspected};
use super::{DEFAULTS, answered, frames, script};
use crate::dialect::{DialectStream, DialectStreamEnd, UnstreamedAnswer};
use crate::guardrail::{AnswerInspector, DenyList, Guardrail as _, InspectionDecision};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, proptest};
use proptest::sample::Index;
use seawall_core::failure::FailureKind;
use seawall_model::engine::Fault;
use seawall_wire::chat::StreamEvent;
use seawall_wire::dialect::DialectId;
use serde_json::json;
use std::time::Duration;

#[test]
fn a_stream_that_is_cut_at_any_byte_is_never_reported_as_done() {
    for target in DialectId::ALL {
        let joined = answered(&request_for(true, Some(3)), target).concat();
        let whole = play(target, uninspected(), [&joined[..]]).parsed.text;
        let mut complete = 0;
        for length in 0..joined.len() {
            for size in [1, joined.len()] {
                let played = play(target, uninspected(), joined[..length].chunks(size));
                assert!(whole.starts_with(&played.parsed.text), "{target:?} {length}");
                if played.outcome == Ok(DialectStreamEnd::Complete) {
                    // Converse reports usage after the end of the answer.
                    assert_eq!((target, &played.parsed.text), (DialectId::BEDROCK_CONVERSE, &whole));
                    assert_eq!(played.stream.final_usage(), None);
                    complete += 1;
                } else {
                    assert_eq!(played.outcome, Ok(DialectStreamEnd::Interrupted), "{target:?} {length}");
                    let interrupted = played.parsed.interrupted.unwrap();
                    let delivered = played.parsed.text.chars().count();
                    let expected = json!({"reason": "stream_interrupted", "message": "cut", "delivered": delivered,
                        "retry_after": 2});
                    assert_eq!(interrupted, expected);
                    assert!(!played.events.contains(&StreamEvent::Finished));
                }
            }
        }
        assert_eq!(complete, if target == DialectId::BEDROCK_CONVERSE { 2 } else { 0 });
    }
}

#[test]
fn a_targets_failure_is_reported_by_the_pipeline_with_its_own_message() {
    for target in DialectId::ALL {
        for (fault, kind, reason) in [
            (Fault::Error { after: 2 }, FailureKind::Overloaded, "overloaded"),
            (Fault::Malformed { after: 2 }, FailureKind::Unrecognised, "stream_interrupted"),
        ] {
            let frames = frames(&script(&request_for(true, None), target, Some(fault)));
            let joined = frames.concat();
            for size in [1, joined.len()] {
                let played = play(target, uninspected(), joined.chunks(size));
                assert_eq!(played.outcome.map_err(|failure| failure.kind), Err(kind), "{target:?}");
                let interrupted = played.parsed.interrupted.unwrap();
                assert_eq!((&interrupted["reason"], &interrupted["message"]), (&json!(reason), &json!("no")));
                assert_eq!(interrupted.get("retry_after"), None);
            }
        }
    }
}

#[test]
fn data_after_a_complete_answer_is_ignored() {
    for target in DialectId::ALL {
        let joined = answered(&request_for(true, None), target).concat();
        let alone = play(target, uninspected(), [&joined[..]]);
        let played = play(target, uninspected(), [&joined[..], b"data: garbage\n\n", &joined[..]]);
        if target == DialectId::GEMINI {
            // Its streams have no end marker, so more may belong to the answer.
            assert_eq!(played.outcome.map_err(|failure| failure.kind), Err(FailureKind::Unrecognised));
            assert!(alone.outcome == Ok(DialectStreamEnd::Complete) && played.parsed.done.is_none());
            continue;
        }
        assert_eq!(
            (played.outcome, &played.parsed),
            (Ok(DialectStreamEnd::Complete), &alone.parsed),
            "{target:?}"
        );
        let twice = play(target, uninspected(), [&joined.repeat(2)[..]]);
        assert!(twice.parsed.done.is_none() || twice.parsed == alone.parsed, "{target:?} {:?}", twice.parsed);
    }
}

#[test]
fn an_interruption_is_sent_once_and_nothing_follows() {
    for target in DialectId::ALL {
        let request = request_for(true, None);
        let joined = answered(&request, target).concat();
        let (half, rest) = joined.split_at(joined.len() / 2);
        let mut stream = DialectStream::new(&request, target, &DEFAULTS);
        let mut sent = Vec::new();
        stream
            .feed(&Bytes::copy_from_slice(half), &mut |bytes| sent.extend_from_slice(&bytes), &mut |_| ())
            .unwrap();
        let wait = Some(Duration::from_secs(3));
        sent.extend_from_slice(&stream.interrupt_until(FailureKind::TimedOut, "遅い", wait));
        let more =
            stream.feed(&Bytes::copy_from_slice(rest), &mut |_| panic!("more"), &mut |_| panic!("more"));
        assert_eq!(more.unwrap_err().kind, FailureKind::TimedOut);
        let parsed = listen(&sent);
        let interrupted = parsed.interrupted.unwrap();
        assert!(!parsed.text.is_empty());
        assert_eq!((&interrupted["reason"], &interrupted["message"]), (&json!("timed_out"), &json!("遅い")));
        assert_eq!(interrupted["retry_after"], 3);
    }
}

/// Releases everything until it fails.
struct Failing(u32, u64);

impl AnswerInspector for Failing {
    fn take(&mut self, piece: &str) -> InspectionDecision {
        self.1 += piece.len() as u64;
        match self.0.checked_sub(1) {
            Some(left) => {
                self.0 = left;
                InspectionDecision::Release(self.1)
            }
            None => InspectionDecision::Failed,
        }
    }

    fn end(&mut self) -> InspectionDecision {
        InspectionDecision::Failed
    }
}

#[test]
fn a_watch_that_fails_ends_the_stream() {
    for target in DialectId::ALL {
        let frames = answered(&request_for(true, None), target);
        for pieces in [0, 1, 3, u32::MAX] {
            let inspector = Box::new(Failing(pieces, 0));
            let played = play(target, inspector, frames.iter().map(|frame| &frame[..]));
            let at_end = target == DialectId::GEMINI && pieces == u32::MAX;
            let expected =
                if at_end { Ok(DialectStreamEnd::Interrupted) } else { Err(FailureKind::Filtered) };
            assert_eq!(played.outcome.map_err(|failure| failure.kind), expected, "{target:?} {pieces}");
            assert_eq!(
                (played.stream.blocked_by(), pieces == 0),
                (Some("failed"), played.parsed.text.is_empty())
            );
            assert_eq!(played.parsed.interrupted.unwrap()["reason"], "blocked");
        }
    }
}

/// An answer's stream without the usage that one dialect reports after the end.
fn without_usage() -> Vec<u8> {
    let target = DialectId::BEDROCK_CONVERSE;
    let joined = answered(&request_for(true, None), target).concat();
    let is_complete = |length: &usize| {
        play(target, uninspected(), [&joined[..*length]]).outcome == Ok(DialectStreamEnd::Complete)
    };
    let length = (0..joined.len()).rev().find(is_complete).unwrap();
    joined[..length].to_vec()
}

#[test]
fn a_match_at_the_end_of_the_text_is_decided_at_the_end() {
    let (target, bytes) = (DialectId::BEDROCK_CONVERSE, without_usage());
    let text = play(target, uninspected(), [&bytes[..]]).parsed.text;
    let last: String = text.chars().skip(text.chars().count() - 3).collect();
    let longer = DenyList::new(&[format!("{last}!!")]).unwrap();
    let played = play(target, longer.inspect_answer(), [&bytes[..]]);
    assert_eq!((played.outcome, &played.parsed.text), (Ok(DialectStreamEnd::Complete), &text));
    assert_eq!(played.taken, text);
    let played = play(target, Box::new(Failing(u32::MAX, 0)), [&bytes[..]]);
    assert_eq!(
        (played.outcome, played.stream.blocked_by()),
        (Ok(DialectStreamEnd::Interrupted), Some("failed"))
    );
    assert!(!played.events.contains(&StreamEvent::Finished));
    assert_eq!(played.parsed.interrupted.unwrap()["reason"], "blocked");
}

proptest! {
    #[test]
    fn a_stream_that_was_changed_on_its_way_is_done_or_interrupted(
        target in 0..DialectId::ALL.len(), size in 1_usize..400,
        flips in vec((any::<Index>(), any::<u8>()), 0..3),
        cut in proptest::option::of((any::<Index>(), 0_usize..300)),
    ) {
        let target = DialectId::ALL[target];
        let mut bytes = answered(&request_for(true, Some(12)), target).concat();
        for (at, byte) in &flips {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        if let Some((at, length)) = cut {
            let start = at.index(bytes.len());
            bytes.drain(start..bytes.len().min(start + length));
        }
        // The properties are checked during playback.
        let played = play(target, uninspected(), bytes.chunks(size));
        prop_assert!(played.taken == played.parsed.text);
    }

    #[test]
    fn any_bytes_of_a_target_are_no_complete_answer(
        target in 0..DialectId::ALL.len(), pieces in vec(vec(any::<u8>(), 0..40), 0..6),
    ) {
        let target = DialectId::ALL[target];
        let played = play(target, uninspected(), pieces.iter().map(|piece| &piece[..]));
        prop_assert!(played.parsed.done.is_none());
        let whole = Bytes::from(pieces.concat());
        prop_assert!(UnstreamedAnswer::read(&request_for(false, None), target, whole, None, &DEFAULTS).is_err());
    }
}
