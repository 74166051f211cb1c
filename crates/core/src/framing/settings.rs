//! What a framer is built from.

use super::escape::WIDEST;
use super::lossy::Decoder;
use crate::setting::{SettingError, at_least_one, ordered, positive};
use std::time::Duration;

/// No stream may hold more memory than this, whatever it is set to.
pub(super) const MOST_MEMORY: usize = 256 * 1_024;
/// What a kept frame costs beside its text.
pub(super) const MARK_BYTES: usize = 32;
/// Room in the buffer for text that is forgotten and not yet overwritten.
const SLACK: usize = 16 * 1_024;
/// The quotes around the text of a frame.
const QUOTES: usize = 2;
/// The least room for text in a frame.
const LEAST_TEXT: usize = 64;

/// Settings as somebody wrote them; [`FramingOptions::check`] makes them usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramingOptions {
    /// Text waits at most this long for company, once the first has gone out.
    pub flush_after: Duration,
    /// So much text does not wait at all.
    pub flush_bytes: usize,
    /// A frame is at most this long, as it is sent.
    pub frame_bytes: usize,
    /// The most that everything around the text of a frame takes: names, ids, index, braces; not the quotes of
    /// the text itself.
    pub envelope_bytes: usize,
    /// A client that hears nothing for this long gets a heartbeat.
    pub heartbeat_every: Duration,
    /// A stream lasts at most this long.
    pub total: Duration,
    /// A model that has begun may be silent for this long.
    pub upstream_gap: Duration,
    /// An answer has at most this many tokens.
    pub output_tokens: u64,
    /// A frame that could not be sent is offered again after this.
    pub send_again_after: Duration,
    /// More sends than this may not fail in a row.
    pub send_failures: u32,
    /// With more unsent bytes than this no more is read from the model.
    pub pause_above: usize,
    /// With so few unsent bytes reading goes on.
    pub resume_at: usize,
    /// The most unsent bytes. What is above `pause_above` is for a delta that was read before the pause.
    pub pending_bytes: usize,
    /// The most that is kept of frames that were sent, in bytes.
    pub keep_bytes: usize,
    /// How long they are kept after the end.
    pub keep_for: Duration,
}

impl Default for FramingOptions {
    fn default() -> Self {
        Self {
            flush_after: Duration::from_millis(100),
            flush_bytes: 4_096,
            frame_bytes: 32_768,
            envelope_bytes: 512,
            heartbeat_every: Duration::from_secs(5),
            total: Duration::from_secs(120),
            upstream_gap: Duration::from_secs(10),
            output_tokens: 1_024,
            send_again_after: Duration::from_millis(500),
            send_failures: 10,
            pause_above: 32 * 1_024,
            resume_at: 16 * 1_024,
            pending_bytes: 64 * 1_024,
            keep_bytes: 128 * 1_024,
            keep_for: Duration::from_secs(120),
        }
    }
}

/// Checked settings of a framer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramingSettings {
    options: FramingOptions,
}

impl FramingOptions {
    /// Refuses settings under which text would stand still, memory would have no bound, or limits would never act.
    pub fn check(self) -> Result<FramingSettings, SettingError> {
        positive("flush_after", self.flush_after)?;
        at_least_one("flush_bytes", self.flush_bytes as u64)?;
        positive("heartbeat_every", self.heartbeat_every)?;
        positive("total", self.total)?;
        positive("upstream_gap", self.upstream_gap)?;
        ordered(("upstream_gap", self.upstream_gap), ("total", self.total))?;
        at_least_one("output_tokens", self.output_tokens)?;
        positive("send_again_after", self.send_again_after)?;
        let settings = FramingSettings { options: self };
        let options = &settings.options;
        if settings.text_room() < LEAST_TEXT {
            let problem = format!(
                "{} leaves less than {LEAST_TEXT} bytes for text beside an envelope of {}",
                options.frame_bytes, options.envelope_bytes
            );
            return Err(SettingError::new("frame_bytes", problem));
        }
        not_above(("resume_at", options.resume_at), ("pause_above", options.pause_above))?;
        // Room for at least a character and what may be held of another.
        let least_pending = options.pause_above.saturating_add(2 * Decoder::MOST_HELD + WIDEST);
        if options.pending_bytes < least_pending {
            let problem = format!("must be at least {least_pending}, above where reading pauses");
            return Err(SettingError::new("pending_bytes", problem));
        }
        if settings.most_memory() > MOST_MEMORY {
            let problem = format!(
                "with pending_bytes it may come to {} of {MOST_MEMORY} bytes",
                settings.most_memory()
            );
            return Err(SettingError::new("keep_bytes", problem));
        }
        Ok(settings)
    }
}

impl FramingSettings {
    /// The settings as they were written.
    #[must_use]
    pub const fn options(&self) -> &FramingOptions {
        &self.options
    }

    /// The most bytes one stream allocates for its text and frames.
    #[must_use]
    pub fn most_memory(&self) -> usize {
        // The least a frame can cost is its mark and one byte; the list of ends grows by doubling.
        let frames = self.options.keep_bytes / (MARK_BYTES + 1) + 2;
        let ends = frames.next_power_of_two().max(4).saturating_mul(size_of::<usize>());
        self.most_text().saturating_add(ends)
    }

    /// The most bytes the buffer for text holds.
    pub(super) fn most_text(&self) -> usize {
        self.options.keep_bytes.saturating_add(self.options.pending_bytes).saturating_add(SLACK)
    }

    /// The escaped bytes of text that fit into a frame.
    pub(super) fn text_room(&self) -> usize {
        self.options.frame_bytes.saturating_sub(self.options.envelope_bytes).saturating_sub(QUOTES)
    }
}

impl Default for FramingSettings {
    /// The documented numbers, which a test checks.
    fn default() -> Self {
        Self { options: FramingOptions::default() }
    }
}

fn not_above(lower: (&'static str, usize), upper: (&'static str, usize)) -> Result<(), SettingError> {
    if lower.1 > upper.1 {
        let problem = format!("{} is more than {} ({})", lower.1, upper.0, upper.1);
        return Err(SettingError::new(lower.0, problem));
    }
    Ok(())
}
