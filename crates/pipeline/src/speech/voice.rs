//! Converts a target's bytes to a face's.

use super::chat_voice::ChatVoice;
use super::held::Held;
use super::translation::Translation;
use super::watch::{Unreadable, Watch, frame_end};
use super::{Occasion, SpokenRequest};
use bytes::{Bytes, BytesMut};
use seawall_provider::TargetDialect;
use seawall_wire::bedrock::{FrameLimits, InvokeToSse, SseToInvoke};
use seawall_wire::chat::Usage;
use seawall_wire::openai::UsageFilter;
use seawall_wire::sse::SseLimits;
use std::time::Duration;

/// Maximum size of an incomplete event. The largest event or frame has 4 MiB; its name and line prefixes come on top.
const MOST_HELD: usize = 5 << 20;

/// The conversion from a target's bytes to a face's.
#[derive(Debug)]
pub(super) enum Voice {
    /// Same dialect: bytes are forwarded unchanged.
    Same(Held),
    /// Same dialect, for a caller that did not ask for usage.
    WithoutUsage(UsageFilter),
    /// Anthropic's events, wrapped into frames.
    Framed(Box<SseToInvoke>),
    /// Anthropic's events, unwrapped from frames.
    Unframed(InvokeToSse),
    /// The chat protocol.
    Chat(Box<ChatVoice>),
    /// Everything else.
    Translated(Box<Translation>),
}

impl Voice {
    pub(super) fn new(request: &SpokenRequest, target: TargetDialect, occasion: &Occasion<'_>) -> Self {
        let events = SseLimits::default();
        let Some(face) = request.face().dialect() else {
            return Self::Chat(Box::new(ChatVoice::new(target, request.model(), occasion)));
        };
        match (face, target) {
            (TargetDialect::OpenAiChat, TargetDialect::OpenAiChat) if !request.wants_usage() => {
                Self::WithoutUsage(UsageFilter::new(MOST_HELD))
            }
            _ if face == target => Self::Same(Held::default()),
            (TargetDialect::BedrockInvoke, TargetDialect::AnthropicMessages) => {
                Self::Framed(Box::new(SseToInvoke::new(events)))
            }
            (TargetDialect::AnthropicMessages, TargetDialect::BedrockInvoke) => {
                Self::Unframed(InvokeToSse::new(FrameLimits::default()))
            }
            _ => {
                let (model, wants_usage) = (request.model(), request.wants_usage());
                Self::Translated(Box::new(Translation::new(face, target, model, wants_usage, occasion)))
            }
        }
    }

    /// Appends the translation of a frame. Unchanged bytes are forwarded by [`pass_on`](Self::pass_on).
    pub(super) fn translate(
        &mut self,
        frame: &Bytes,
        took: Duration,
        out: &mut BytesMut,
    ) -> Result<(), Unreadable> {
        match self {
            Self::Same(_) | Self::WithoutUsage(_) => Ok(()),
            Self::Framed(frames) => frames.feed(frame, took, out).map_err(|_| Unreadable),
            Self::Unframed(events) => events.feed(frame, out).map_err(|_| Unreadable),
            Self::Chat(chat) => chat.hear(frame),
            Self::Translated(translation) => translation.feed(frame, took, out),
        }
    }

    /// Forwards unchanged bytes, and text that the guardrail has released. The frame must have been watched before.
    pub(super) fn pass_on(
        &mut self,
        frame: &Bytes,
        watch: &Watch,
        into: &mut impl FnMut(Bytes),
    ) -> Result<(), Unreadable> {
        match self {
            Self::Same(held) => {
                let whole = watch.whole_length(held.pending(), frame);
                held.pass_on(frame, whole, MOST_HELD, into).map_err(|_| Unreadable)
            }
            Self::WithoutUsage(filter) => filter.feed(frame, into).map_err(|_| Unreadable),
            Self::Chat(chat) => {
                chat.tell(into);
                Ok(())
            }
            Self::Framed(_) | Self::Unframed(_) | Self::Translated(_) => Ok(()),
        }
    }

    /// Whether the caller has also received a failure that the target reported. Without translation it was forwarded
    /// with everything else.
    pub(super) const fn told_failure(&self) -> bool {
        match self {
            Self::Translated(translation) => translation.told_failure(),
            // The pipeline reports it, with the number of characters delivered.
            Self::Chat(_) => false,
            Self::Same(_) | Self::WithoutUsage(_) | Self::Framed(_) | Self::Unframed(_) => true,
        }
    }

    /// Appends what was held back until the end of the stream.
    pub(super) fn end(&mut self, took: Duration, out: &mut BytesMut) {
        if let Self::Translated(translation) = self {
            translation.end(took, out);
        }
    }

    /// Appends a regular end at the output limit, as the vendor would. `last` is the last frame. The chat face's final
    /// event is sent by the pipeline.
    pub(super) fn end_at_limit(
        &mut self,
        watch: &Watch,
        last: &[u8],
        usage: Usage,
        took: Duration,
        out: &mut BytesMut,
    ) {
        match self {
            Self::Same(_) => watch.write_end(out, last, usage, true, took),
            Self::WithoutUsage(_) => watch.write_end(out, last, usage, false, took),
            Self::Framed(frames) => {
                let mut events = BytesMut::new();
                watch.write_events_end(&mut events, usage);
                frame_end(frames, &events, took, out);
            }
            Self::Unframed(_) => watch.write_events_end(out, usage),
            Self::Chat(_) => {}
            Self::Translated(translation) => translation.end_at_limit(usage, took, out),
        }
    }

    /// Ends the guardrail's check of a complete answer. Returns whether it blocks.
    pub(super) fn blocks_end(&mut self) -> bool {
        match self {
            Self::Chat(chat) => {
                chat.judge_end();
                chat.blocked_by().is_some()
            }
            Self::Same(_)
            | Self::WithoutUsage(_)
            | Self::Framed(_)
            | Self::Unframed(_)
            | Self::Translated(_) => false,
        }
    }

    /// The chat conversion, if the caller uses the chat face.
    pub(super) const fn chat(&self) -> Option<&ChatVoice> {
        match self {
            Self::Chat(chat) => Some(chat),
            _ => None,
        }
    }

    pub(super) const fn chat_mut(&mut self) -> Option<&mut ChatVoice> {
        match self {
            Self::Chat(chat) => Some(chat),
            _ => None,
        }
    }
}
