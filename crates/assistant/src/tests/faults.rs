//! Streams that fail, and guardrails that do.

use super::{DEFAULTS, Played, answered, frames, play, request_for, script, uninspected};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::Index;
use seawall_core::failure::FailureKind;
use seawall_model::engine::Fault;
use seawall_pipeline::dialect::{DialectId, DialectStream, DialectStreamEnd, UnstreamedAnswer};
use seawall_pipeline::guardrail::{AnswerInspector, DenyList, Guardrail as _, InspectionDecision};
use seawall_wire::chat::StreamEvent;
use seawall_wire::chat_face::InterruptReason;

fn reason(played: &Played) -> Option<&'static str> {
    played.interruption.map(|interruption| InterruptReason::of_failure(interruption.kind).name())
}

#[test]
fn a_stream_that_is_cut_at_any_byte_is_never_reported_as_done() {
    for target in DialectId::ALL {
        let joined = answered(&request_for(true, Some(3)), target).concat();
        let whole = play(target, uninspected(), [&joined[..]]).text;
        let mut complete = 0;
        for length in 0..joined.len() {
            for size in [1, joined.len()] {
                let played = play(target, uninspected(), joined[..length].chunks(size));
                assert!(whole.starts_with(&played.text), "{target:?} {length}");
                if played.is_done() {
                    // Converse reports usage after the end of the answer.
                    assert_eq!((target, &played.text), (DialectId::BEDROCK_CONVERSE, &whole));
                    assert_eq!(played.stream.final_usage(), None);
                    complete += 1;
                } else {
                    assert_eq!(played.outcome, Ok(DialectStreamEnd::Interrupted), "{target:?} {length}");
                    assert_eq!(reason(&played), Some("stream_interrupted"));
                    assert!(!played.events.contains(&StreamEvent::Finished));
                }
            }
        }
        assert_eq!(complete, if target == DialectId::BEDROCK_CONVERSE { 2 } else { 0 });
    }
}

#[test]
fn a_targets_failure_is_an_interruption() {
    for target in DialectId::ALL {
        for (fault, kind, name) in [
            (Fault::Error { after: 2 }, FailureKind::Overloaded, "overloaded"),
            (Fault::Malformed { after: 2 }, FailureKind::Unrecognised, "stream_interrupted"),
        ] {
            let joined = frames(&script(&request_for(true, None), target, Some(fault))).concat();
            for size in [1, joined.len()] {
                let played = play(target, uninspected(), joined.chunks(size));
                assert_eq!(reason(&played), Some(name));
                assert_eq!(played.outcome.map_err(|failure| failure.kind), Err(kind), "{target:?}");
            }
        }
    }
    let chunk = |text: &str, more: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"role\":\"model\",\"parts\":[{{\"text\":\"{text}\"}}]}}{more}}}],\
             \"responseId\":\"r\",\"modelVersion\":\"m\"}}\n\n"
        )
    };
    let bytes = [chunk("one", ""), chunk("", r#","finishReason":"MALFORMED_FUNCTION_CALL""#)].concat();
    let played = play(DialectId::GEMINI, uninspected(), [bytes.as_bytes()]);
    assert_eq!(played.outcome.map_err(|failure| failure.kind), Err(FailureKind::ModelFault));
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
            assert!(alone.is_done());
            continue;
        }
        assert_eq!((played.is_done(), &played.text), (true, &alone.text), "{target:?}");
        let twice = play(target, uninspected(), [&joined.repeat(2)[..]]);
        assert!(!twice.is_done() || twice.text == alone.text, "{target:?} {}", twice.text);
    }
}

#[test]
fn nothing_follows_an_interruption() {
    for target in DialectId::ALL {
        let request = request_for(true, None);
        let joined = answered(&request, target).concat();
        let (half, rest) = joined.split_at(joined.len() / 2);
        let mut stream = DialectStream::new(&request, target, &DEFAULTS);
        let mut sent = 0;
        stream.feed(&Bytes::copy_from_slice(half), &mut |_| sent += 1, &mut |_| ()).unwrap();
        assert!(sent > 0 && stream.interrupt(FailureKind::TimedOut, "late").is_some());
        let more =
            stream.feed(&Bytes::copy_from_slice(rest), &mut |_| panic!("more"), &mut |_| panic!("more"));
        assert_eq!(more.unwrap_err().kind, FailureKind::TimedOut);
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
fn an_inspector_that_fails_blocks_the_rest() {
    for target in DialectId::ALL {
        let frames = answered(&request_for(true, None), target);
        for pieces in [0, 1, 3, u32::MAX] {
            let inspector = Box::new(Failing(pieces, 0));
            let played = play(target, inspector, frames.iter().map(|frame| &frame[..]));
            assert_eq!(
                (played.blocked_by.as_deref(), pieces == 0),
                (Some("failed"), played.text.is_empty()),
                "{target:?} {pieces}"
            );
            assert!(!played.is_done());
        }
    }
}

#[test]
fn a_match_at_the_end_of_the_text_is_decided_at_the_end() {
    for target in DialectId::ALL {
        let bytes = answered(&request_for(true, None), target).concat();
        let text = play(target, uninspected(), [&bytes[..]]).text;
        let last: String = text.chars().skip(text.chars().count() - 3).collect();
        let longer = DenyList::new(&[format!("{last}!!")]).unwrap();
        let played = play(target, longer.inspect_answer(), [&bytes[..]]);
        assert_eq!((played.is_done(), &played.text), (true, &text));
        let played = play(target, Box::new(Failing(u32::MAX, 0)), [&bytes[..]]);
        assert_eq!((played.is_done(), played.blocked_by.as_deref()), (false, Some("failed")));
    }
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
        // That it has exactly one end is checked during playback.
        let played = play(target, uninspected(), bytes.chunks(size));
        prop_assert_eq!(played.is_done(), played.interruption.is_none());
    }

    #[test]
    fn any_bytes_of_a_target_are_no_complete_answer(
        target in 0..DialectId::ALL.len(), pieces in vec(vec(any::<u8>(), 0..40), 0..6),
    ) {
        let target = DialectId::ALL[target];
        let played = play(target, uninspected(), pieces.iter().map(|piece| &piece[..]));
        prop_assert!(!played.is_done());
        let whole = Bytes::from(pieces.concat());
        prop_assert!(UnstreamedAnswer::read(&request_for(false, None), target, whole, None, &DEFAULTS).is_err());
    }
}
