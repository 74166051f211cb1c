//! Replaces usage figures in answers.

use super::super::call::ModelCall;
use bytes::{Bytes, BytesMut};
use seawall_wire::bedrock::{
    FrameKind, FrameLimits, FrameReader, InvokeEvent, InvokeReader, write_chunk, write_event_frame,
};
use seawall_wire::dialect::DialectId;

/// The output token count, and the total that includes it, in every dialect.
pub(super) const OUTPUT_KEYS: [&str; 7] = [
    "output_tokens",
    "completion_tokens",
    "outputTokens",
    "candidatesTokenCount",
    "total_tokens",
    "totalTokens",
    "totalTokenCount",
];
/// All token counts.
pub(super) const USAGE_KEYS: [&str; 13] = [
    "input_tokens",
    "output_tokens",
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "inputTokens",
    "outputTokens",
    "totalTokens",
    "inputTokenCount",
    "outputTokenCount",
    "promptTokenCount",
    "candidatesTokenCount",
    "totalTokenCount",
];
/// The event types of a ConverseStream.
const EVENTS: [&str; 6] =
    ["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"];

/// Replaces the values of these keys in JSON written by this crate.
pub(super) fn with_figures(json: &[u8], keys: &[&str], figure: &str) -> String {
    let mut text = String::from_utf8_lossy(json).into_owned();
    for key in keys.iter().map(|key| format!("\"{key}\":")) {
        let mut from = 0;
        while let Some(start) = text[from..].find(&key).map(|start| from + start + key.len()) {
            let length = text[start..].bytes().take_while(u8::is_ascii_digit).count();
            text.replace_range(start..start + length, figure);
            from = start;
        }
    }
    text
}

/// Replaces all token counts in complete Bedrock frames.
pub(super) fn garble_frames(frames: &Bytes, call: &ModelCall, figure: &str) -> Bytes {
    let mut out = BytesMut::new();
    let is_invoke = call.dialect == DialectId::BEDROCK_INVOKE;
    // The frames were just written, so they can be parsed.
    let read = if is_invoke {
        let mut reader = InvokeReader::new(FrameLimits::default());
        let read = reader.feed(frames, |event| {
            if let InvokeEvent::Message { json, .. } = event {
                write_chunk(&mut out, with_figures(json, &USAGE_KEYS, figure).as_bytes());
            }
        });
        read.is_ok()
    } else {
        let mut reader = FrameReader::new(FrameLimits::default());
        let read = reader.feed(frames, |frame| {
            let FrameKind::Event(name) = frame.kind else { return };
            if let Some(name) = EVENTS.into_iter().find(|known| *known == name) {
                write_event_frame(&mut out, name, with_figures(frame.payload, &USAGE_KEYS, figure));
            }
        });
        read.is_ok()
    };
    debug_assert!(read, "frames written by this crate cannot be parsed");
    out.freeze()
}
