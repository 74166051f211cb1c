//! The chat face with faulty target streams.

use super::chat::{asked, listen, play, unwatched};
use super::{OCCASION, answered, frames, script};
use crate::guardrail::{AnswerWatch, DenyList, Guardrail as _, WatchDecision};
use crate::speech::{Ending, SpokenStream, WholeAnswer};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, proptest};
use proptest::sample::Index;
use seawall_core::failure::FailureKind;
use seawall_model::engine::Fault;
use seawall_provider::TargetDialect;
use seawall_wire::chat::StreamEvent;
use serde_json::json;
use std::time::Duration;

#[test]
fn a_stream_that_is_cut_at_any_byte_is_never_told_as_done() {
    for target in TargetDialect::ALL {
        let joined = answered(&asked(true, Some(3)), target).concat();
        let whole = play(target, unwatched(), [&joined[..]]).heard.text;
        let mut complete = 0;
        for length in 0..joined.len() {
            for size in [1, joined.len()] {
                let played = play(target, unwatched(), joined[..length].chunks(size));
                assert!(whole.starts_with(&played.heard.text), "{target:?} {length}");
                if played.outcome == Ok(Ending::Complete) {
                    // Converse reports usage after the end of the answer.
                    assert_eq!((target, &played.heard.text), (TargetDialect::BedrockConverse, &whole));
                    assert_eq!(played.stream.final_usage(), None);
                    complete += 1;
                } else {
                    assert_eq!(played.outcome, Ok(Ending::Cut), "{target:?} {length}");
                    let interrupted = played.heard.interrupted.unwrap();
                    let delivered = played.heard.text.chars().count();
                    let expected = json!({"reason": "broke_off", "message": "cut", "delivered": delivered,
                        "retry_after": 2});
                    assert_eq!(interrupted, expected);
                    assert!(!played.events.contains(&StreamEvent::Finished));
                }
            }
        }
        assert_eq!(complete, if target == TargetDialect::BedrockConverse { 2 } else { 0 });
    }
}

#[test]
fn what_a_target_says_of_its_failure_is_told_by_the_path_in_our_words() {
    for target in TargetDialect::ALL {
        for (fault, kind, reason) in [
            (Fault::Error { after: 2 }, FailureKind::Overloaded, "overloaded"),
            (Fault::Malformed { after: 2 }, FailureKind::Unrecognised, "broke_off"),
        ] {
            let frames = frames(&script(&asked(true, None), target, Some(fault)));
            let joined = frames.concat();
            for size in [1, joined.len()] {
                let played = play(target, unwatched(), joined.chunks(size));
                assert_eq!(played.outcome.map_err(|failure| failure.kind), Err(kind), "{target:?}");
                let interrupted = played.heard.interrupted.unwrap();
                assert_eq!((&interrupted["reason"], &interrupted["message"]), (&json!(reason), &json!("no")));
                assert_eq!(interrupted.get("retry_after"), None);
            }
        }
    }
}

#[test]
fn what_comes_behind_a_complete_answer_is_nobodys_business() {
    for target in TargetDialect::ALL {
        let joined = answered(&asked(true, None), target).concat();
        let alone = play(target, unwatched(), [&joined[..]]);
        let played = play(target, unwatched(), [&joined[..], b"data: garbage\n\n", &joined[..]]);
        assert_eq!((played.outcome, &played.heard), (Ok(Ending::Complete), &alone.heard), "{target:?}");
        let twice = play(target, unwatched(), [&joined.repeat(2)[..]]);
        assert!(twice.heard.done.is_none() || twice.heard == alone.heard, "{target:?} {:?}", twice.heard);
    }
}

#[test]
fn whoever_gives_up_says_so_once_and_nothing_comes_behind() {
    for target in TargetDialect::ALL {
        let request = asked(true, None);
        let joined = answered(&request, target).concat();
        let (half, rest) = joined.split_at(joined.len() / 2);
        let mut stream = SpokenStream::new(&request, target, &OCCASION);
        let mut sent = Vec::new();
        stream
            .feed(&Bytes::copy_from_slice(half), &mut |bytes| sent.extend_from_slice(&bytes), &mut |_| ())
            .unwrap();
        let wait = Some(Duration::from_secs(3));
        sent.extend_from_slice(&stream.interrupt_until(FailureKind::TimedOut, "遅い", wait));
        let more =
            stream.feed(&Bytes::copy_from_slice(rest), &mut |_| panic!("more"), &mut |_| panic!("more"));
        assert_eq!(more.unwrap_err().kind, FailureKind::TimedOut);
        let heard = listen(&sent);
        let interrupted = heard.interrupted.unwrap();
        assert!(!heard.text.is_empty());
        assert_eq!((&interrupted["reason"], &interrupted["message"]), (&json!("timed_out"), &json!("遅い")));
        assert_eq!(interrupted["retry_after"], 3);
    }
}

/// Releases everything until it fails.
struct Failing(u32, u64);

impl AnswerWatch for Failing {
    fn take(&mut self, piece: &str) -> WatchDecision {
        self.1 += piece.len() as u64;
        match self.0.checked_sub(1) {
            Some(left) => {
                self.0 = left;
                WatchDecision::Release(self.1)
            }
            None => WatchDecision::Failed,
        }
    }

    fn end(&mut self) -> WatchDecision {
        WatchDecision::Failed
    }
}

#[test]
fn a_watch_that_fails_ends_the_stream() {
    for target in TargetDialect::ALL {
        let frames = answered(&asked(true, None), target);
        for pieces in [0, 1, 3, u32::MAX] {
            let watch = Box::new(Failing(pieces, 0));
            let played = play(target, watch, frames.iter().map(|frame| &frame[..]));
            assert_eq!(played.outcome.map_err(|failure| failure.kind), Err(FailureKind::Filtered));
            assert_eq!(
                (played.stream.blocked_by(), pieces == 0),
                (Some("failed"), played.heard.text.is_empty())
            );
            assert_eq!(played.heard.interrupted.unwrap()["reason"], "blocked");
        }
    }
}

/// An answer's stream without the usage that one dialect reports after the end.
fn without_usage() -> Vec<u8> {
    let target = TargetDialect::BedrockConverse;
    let joined = answered(&asked(true, None), target).concat();
    let is_complete =
        |length: &usize| play(target, unwatched(), [&joined[..*length]]).outcome == Ok(Ending::Complete);
    let length = (0..joined.len()).rev().find(is_complete).unwrap();
    joined[..length].to_vec()
}

#[test]
fn what_is_decided_only_when_the_bytes_end_is_decided_then() {
    let (target, bytes) = (TargetDialect::BedrockConverse, without_usage());
    let text = play(target, unwatched(), [&bytes[..]]).heard.text;
    let last: String = text.chars().skip(text.chars().count() - 3).collect();
    let longer = DenyList::new(&[format!("{last}!!")]).unwrap();
    let played = play(target, longer.watch(), [&bytes[..]]);
    assert_eq!((played.outcome, &played.heard.text), (Ok(Ending::Complete), &text));
    assert_eq!(played.taken, text);
    let played = play(target, Box::new(Failing(u32::MAX, 0)), [&bytes[..]]);
    assert_eq!((played.outcome, played.stream.blocked_by()), (Ok(Ending::Cut), Some("failed")));
    assert!(!played.events.contains(&StreamEvent::Finished));
    assert_eq!(played.heard.interrupted.unwrap()["reason"], "blocked");
}

proptest! {
    #[test]
    fn a_stream_that_was_changed_on_its_way_is_done_or_interrupted(
        target in 0_usize..4, size in 1_usize..400,
        flips in vec((any::<Index>(), any::<u8>()), 0..3),
        cut in proptest::option::of((any::<Index>(), 0_usize..300)),
    ) {
        let target = TargetDialect::ALL[target];
        let mut bytes = answered(&asked(true, Some(12)), target).concat();
        for (at, byte) in &flips {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        if let Some((at, length)) = cut {
            let start = at.index(bytes.len());
            bytes.drain(start..bytes.len().min(start + length));
        }
        // The properties are checked during playback.
        let played = play(target, unwatched(), bytes.chunks(size));
        prop_assert!(played.taken == played.heard.text);
    }

    #[test]
    fn any_bytes_of_a_target_are_no_complete_answer(
        target in 0_usize..4, pieces in vec(vec(any::<u8>(), 0..40), 0..6),
    ) {
        let target = TargetDialect::ALL[target];
        let played = play(target, unwatched(), pieces.iter().map(|piece| &piece[..]));
        prop_assert!(played.heard.done.is_none());
        let whole = Bytes::from(pieces.concat());
        prop_assert!(WholeAnswer::read(&asked(false, None), target, whole, None, &OCCASION).is_err());
    }
}
