//! Settings of the framer and their validation.

use super::escape::WIDEST;
use super::lossy::Decoder;
use crate::setting::{SettingError, at_least_one, ordered, positive};
use std::time::Duration;

/// Upper bound of the memory of a stream, whatever the settings.
pub(super) const MOST_MEMORY: usize = 256 * 1_024;
/// Overhead of a kept frame besides its text.
pub(super) const MARK_BYTES: usize = 32;
/// Room in the buffer for dropped text that has not been compacted yet.
const SLACK: usize = 16 * 1_024;
/// The quotes around the text of a frame.
const QUOTES: usize = 2;
/// Minimum room for text in a frame.
const LEAST_TEXT: usize = 64;

/// Framer settings before validation; see [`FramingOptions::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramingOptions {
    /// Maximum time that text is batched, after the first text.
    pub flush_after: Duration,
    /// Amount of text that is sent without further batching.
    pub flush_bytes: usize,
    /// Maximum size of an encoded frame.
    pub frame_bytes: usize,
    /// Maximum size of everything around the text of a frame: names, ids, index, braces; without the quotes of the
    /// text itself.
    pub envelope_bytes: usize,
    /// Idle time towards the client after which a heartbeat is sent.
    pub heartbeat_every: Duration,
    /// Maximum duration of a stream.
    pub total: Duration,
    /// Idle timeout of a model that has begun.
    pub upstream_gap: Duration,
    /// Maximum number of output tokens.
    pub output_tokens: u64,
    /// Delay before a failed send is retried.
    pub send_again_after: Duration,
    /// Maximum number of consecutive failed sends.
    pub send_failures: u32,
    /// Unsent bytes above which reading from the model pauses (high-water mark).
    pub pause_above: usize,
    /// Unsent bytes at which reading resumes (low-water mark).
    pub resume_at: usize,
    /// Maximum number of unsent bytes. The part above `pause_above` is for a delta that was read before the pause.
    pub pending_bytes: usize,
    /// Maximum size of sent frames kept for replay, in bytes.
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

/// Validated [`FramingOptions`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramingSettings {
    options: FramingOptions,
}

impl FramingOptions {
    /// Fails on settings with which a stream would stall, memory would be unbounded, or limits would never apply.
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
        // Room for at least one character and for a held part of another.
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
    /// The settings before validation.
    #[must_use]
    pub const fn options(&self) -> &FramingOptions {
        &self.options
    }

    /// Maximum number of bytes that one stream allocates for text and frames.
    #[must_use]
    pub fn most_memory(&self) -> usize {
        // A frame costs at least its offset and one byte; the list of offsets grows by doubling.
        let frames = self.options.keep_bytes / (MARK_BYTES + 1) + 2;
        let ends = frames.next_power_of_two().max(4).saturating_mul(size_of::<usize>());
        self.most_text().saturating_add(ends)
    }

    /// Maximum size of the text buffer in bytes.
    pub(super) fn most_text(&self) -> usize {
        self.options.keep_bytes.saturating_add(self.options.pending_bytes).saturating_add(SLACK)
    }

    /// Escaped bytes of text that fit into a frame.
    pub(super) fn text_room(&self) -> usize {
        self.options.frame_bytes.saturating_sub(self.options.envelope_bytes).saturating_sub(QUOTES)
    }
}

impl Default for FramingSettings {
    /// The documented defaults, which a test checks.
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
