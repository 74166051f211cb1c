//! How the bytes of a target become those of a face.

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

/// The most bytes of an event that are held back until its end. The largest event or frame that is read has 4 MiB; its
/// name and the marks of its lines come on top.
const MOST_HELD: usize = 5 << 20;

/// The way from a target's bytes to a face's.
#[derive(Debug)]
pub(super) enum Voice {
    /// The same dialect: bytes are handed on as they came.
    Same(Held),
    /// The same, for a caller who did not ask for usage.
    WithoutUsage(UsageFilter),
    /// Anthropic's events, put into frames.
    Framed(Box<SseToInvoke>),
    /// Anthropic's events, taken out of frames.
    Unframed(InvokeToSse),
    /// Our own words.
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

    /// Appends what a frame says in other words. What is handed on as it came is left to [`pass_on`](Self::pass_on).
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

    /// Hands on what needs no other words, and what a guardrail has released. The frame was watched before.
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

    /// Whether a failure that the target has told is told to the caller too. What is not translated was handed on with
    /// everything else.
    pub(super) const fn told_failure(&self) -> bool {
        match self {
            Self::Translated(translation) => translation.told_failure(),
            // Whoever gives up tells it, with what was delivered.
            Self::Chat(_) => false,
            Self::Same(_) | Self::WithoutUsage(_) | Self::Framed(_) | Self::Unframed(_) => true,
        }
    }

    /// Appends what was held back until the bytes ended.
    pub(super) fn end(&mut self, took: Duration, out: &mut BytesMut) {
        if let Self::Translated(translation) = self {
            translation.end(took, out);
        }
    }

    /// Appends what ends the answer here, as its vendor would at a limit of output. `last` is the frame that came last. Our
    /// own words are told by whoever stops it.
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

    /// The answer is complete. Whether a guardrail finds otherwise.
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

    /// Our own words, where the caller gets these.
    pub(super) const fn chat(&self) -> Option<&ChatVoice> {
        match self {
            Self::Chat(chat) => Some(chat),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub(super) const fn chat_mut(&mut self) -> Option<&mut ChatVoice> {
        match self {
            Self::Chat(chat) => Some(chat),
            _ => None,
        }
    }
}
