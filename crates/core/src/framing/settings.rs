//! Settings of the framer and their validation.

use super::escape::WIDEST;
use super::utf8::Utf8Decoder;
use crate::setting::{SettingError, at_least_one, ordered, positive};
use std::time::Duration;

/// Upper bound of the memory of a stream, whatever the settings.
pub(super) const MAX_MEMORY: usize = 256 * 1_024;
/// Overhead of a kept frame besides its text.
pub(super) const MARK_BYTES: usize = 32;
/// Room in the buffer for dropped text that has not been compacted yet.
const SLACK: usize = 16 * 1_024;
/// The quotes around the text of a frame.
const QUOTES: usize = 2;
/// Minimum room for text in a frame.
const MIN_TEXT: usize = 64;

/// Framer settings before validation; see [`FramingOptions::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramingOptions {
    /// Maximum time that text is batched, after the first text.
    pub flush_interval: Duration,
    /// Amount of text that is sent without further batching.
    pub flush_bytes: usize,
    /// Maximum size of an encoded frame.
    pub max_frame_bytes: usize,
    /// Maximum size of everything around the text of a frame: names, ids, index, braces; without the quotes of the
    /// text itself.
    pub envelope_bytes: usize,
    /// Idle time towards the client after which a heartbeat is sent.
    pub heartbeat_interval: Duration,
    /// Maximum duration of a stream.
    pub max_duration: Duration,
    /// Idle timeout of a model that has begun.
    pub idle_timeout: Duration,
    /// Maximum number of output tokens.
    pub max_output_tokens: u64,
    /// Delay before a failed send is retried.
    pub send_retry_delay: Duration,
    /// Maximum number of consecutive failed sends.
    pub max_send_failures: u32,
    /// Unsent bytes above which reading from the model pauses (high-water mark).
    pub high_watermark: usize,
    /// Unsent bytes at which reading resumes (low-water mark).
    pub low_watermark: usize,
    /// Maximum number of unsent bytes. The part above `high_watermark` is for a delta that was read before the pause.
    pub max_pending_bytes: usize,
    /// Maximum size of sent frames kept for replay, in bytes.
    pub replay_bytes: usize,
    /// How long they are kept after the end.
    pub replay_for: Duration,
}

impl Default for FramingOptions {
    fn default() -> Self {
        Self {
            flush_interval: Duration::from_millis(100),
            flush_bytes: 4_096,
            max_frame_bytes: 32_768,
            envelope_bytes: 512,
            heartbeat_interval: Duration::from_secs(5),
            max_duration: Duration::from_secs(120),
            idle_timeout: Duration::from_secs(10),
            max_output_tokens: 1_024,
            send_retry_delay: Duration::from_millis(500),
            max_send_failures: 10,
            high_watermark: 32 * 1_024,
            low_watermark: 16 * 1_024,
            max_pending_bytes: 64 * 1_024,
            replay_bytes: 128 * 1_024,
            replay_for: Duration::from_secs(120),
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
        positive("flush_interval", self.flush_interval)?;
        at_least_one("flush_bytes", self.flush_bytes as u64)?;
        positive("heartbeat_interval", self.heartbeat_interval)?;
        positive("max_duration", self.max_duration)?;
        positive("idle_timeout", self.idle_timeout)?;
        ordered(("idle_timeout", self.idle_timeout), ("max_duration", self.max_duration))?;
        at_least_one("max_output_tokens", self.max_output_tokens)?;
        positive("send_retry_delay", self.send_retry_delay)?;
        let settings = FramingSettings { options: self };
        let options = &settings.options;
        if settings.text_room() < MIN_TEXT {
            let problem = format!(
                "{} leaves less than {MIN_TEXT} bytes for text besides an envelope of {}",
                options.max_frame_bytes, options.envelope_bytes
            );
            return Err(SettingError::new("max_frame_bytes", problem));
        }
        not_above(("low_watermark", options.low_watermark), ("high_watermark", options.high_watermark))?;
        // Room for at least one character and for a held part of another.
        let min_pending = options.high_watermark.saturating_add(2 * Utf8Decoder::MAX_HELD + WIDEST);
        if options.max_pending_bytes < min_pending {
            let problem = format!(
                "must be at least {min_pending}, which is high_watermark plus room for one character"
            );
            return Err(SettingError::new("max_pending_bytes", problem));
        }
        if settings.max_memory() > MAX_MEMORY {
            let problem = format!(
                "with max_pending_bytes a stream may use {} of {MAX_MEMORY} bytes",
                settings.max_memory()
            );
            return Err(SettingError::new("replay_bytes", problem));
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
    pub fn max_memory(&self) -> usize {
        // A frame costs at least its offset and one byte; the list of offsets grows by doubling.
        let frames = self.options.replay_bytes / (MARK_BYTES + 1) + 2;
        let ends = frames.next_power_of_two().max(4).saturating_mul(size_of::<usize>());
        self.max_text().saturating_add(ends)
    }

    /// Maximum size of the text buffer in bytes.
    pub(super) fn max_text(&self) -> usize {
        self.options.replay_bytes.saturating_add(self.options.max_pending_bytes).saturating_add(SLACK)
    }

    /// Escaped bytes of text that fit into a frame.
    pub(super) fn text_room(&self) -> usize {
        self.options.max_frame_bytes.saturating_sub(self.options.envelope_bytes).saturating_sub(QUOTES)
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
