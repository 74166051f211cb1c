//! Property tests over generated streams.

use super::stream::{frames_of, read, started, watch};
use super::{cut, event};
use crate::bedrock::{ConverseChatReader, FrameLimits, StreamEnding};
use crate::chat::{ChatEvent, FinishReason, Usage};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;
use seawall_core::failure::BEDROCK;

fn any_piece() -> impl Strategy<Value = Vec<ChatEvent>> {
    let usage = any::<[u32; 4]>().prop_map(|[a, b, c, d]| ChatEvent::Usage(usage_of([a, b, c, d])));
    let call =
        (any::<String>(), any::<String>(), vec(any::<String>(), 0..3)).prop_map(|(id, name, inputs)| {
            let start = ChatEvent::ToolCallStarted { id, name };
            std::iter::once(start).chain(inputs.into_iter().map(ChatEvent::ToolInput)).collect()
        });
    prop_oneof![
        any::<String>().prop_map(|text| vec![ChatEvent::Text(text)]),
        call,
        usage.prop_map(|usage| vec![usage]),
    ]
}

fn usage_of([a, b, c, d]: [u32; 4]) -> Usage {
    Usage {
        input: a.into(),
        cache_read: b.into(),
        cache_write: c.into(),
        output: d.into(),
        ..Usage::default()
    }
}

fn any_end() -> impl Strategy<Value = ChatEvent> {
    let reasons = [
        FinishReason::EndTurn,
        FinishReason::MaxTokens,
        FinishReason::StopSequence,
        FinishReason::ToolUse,
        FinishReason::Refusal,
        FinishReason::ContextWindowExceeded,
    ];
    let names = [
        "throttlingException",
        "validationException",
        "internalServerException",
        "modelStreamErrorException",
        "serviceUnavailableException",
    ];
    let failed = (select(names.to_vec()), any::<String>()).prop_map(|(name, message)| ChatEvent::Failed {
        failure: BEDROCK.classify(200, Some(name)),
        message,
    });
    prop_oneof![select(reasons.to_vec()).prop_map(ChatEvent::Finished), failed]
}

/// What this dialect can express of a stream: only the last usage, right before the end.
fn tellable(events: &[ChatEvent]) -> Vec<ChatEvent> {
    let is_usage = |event: &&ChatEvent| matches!(event, ChatEvent::Usage(_));
    let usage = events.iter().rfind(is_usage).cloned().unwrap_or(ChatEvent::Usage(Usage::default()));
    let mut told: Vec<_> = events.iter().filter(|event| !is_usage(event)).cloned().collect();
    if matches!(told.last(), Some(ChatEvent::Finished(_))) {
        told.insert(told.len() - 1, usage);
    }
    told
}

proptest! {
    #[test]
    fn any_stream_survives_any_split(
        pieces in vec(any_piece(), 0..6),
        end in any_end(),
        places in vec(any::<usize>(), 0..12),
    ) {
        let events: Vec<_> = std::iter::once(started()).chain(pieces.into_iter().flatten()).chain([end]).collect();
        let bytes = frames_of(&events);
        let (told, ending) = read(cut(&bytes, &places));
        let is_finished = matches!(events.last(), Some(ChatEvent::Finished(_)));
        prop_assert_eq!(ending == StreamEnding::Complete, is_finished);
        prop_assert_eq!(told, tellable(&events));
        prop_assert_eq!(watch(cut(&bytes, &places)).0, watch([&bytes[..]]).0);
    }

    #[test]
    fn arbitrary_frames_never_panic(
        frames in vec((select(vec!["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"]), ".{0,40}"), 0..5),
        tail in vec(any::<u8>(), 0..30),
    ) {
        let mut bytes: Vec<u8> = frames.iter().flat_map(|(name, payload)| event(name, payload)).collect();
        bytes.extend_from_slice(&tail);
        let mut reader = ConverseChatReader::new(FrameLimits::default(), "", "");
        let _ = reader.feed(&bytes, |_| ());
        prop_assert!(reader.finish(|_| ()) == StreamEnding::Interrupted);
    }
}
