use crate::framing::{FramingOptions, FramingSettings};
use std::time::Duration;

fn refusal(change: impl FnOnce(&mut FramingOptions)) -> String {
    let mut options = FramingOptions::default();
    change(&mut options);
    options.check().unwrap_err().to_string()
}

#[test]
fn the_defaults_are_the_documented_numbers() {
    let options = FramingOptions::default();
    assert_eq!(options.flush_interval, Duration::from_millis(100));
    assert_eq!((options.flush_bytes, options.max_frame_bytes, options.envelope_bytes), (4_096, 32_768, 512));
    assert_eq!(options.heartbeat_interval, Duration::from_secs(5));
    assert_eq!(
        (options.max_duration, options.idle_timeout),
        (Duration::from_secs(120), Duration::from_secs(10))
    );
    assert_eq!(options.max_output_tokens, 1_024);
    assert_eq!((options.send_retry_delay, options.max_send_failures), (Duration::from_millis(500), 10));
    assert_eq!(
        (options.low_watermark, options.high_watermark, options.max_pending_bytes),
        (16_384, 32_768, 65_536)
    );
    assert_eq!((options.replay_bytes, options.replay_for), (131_072, Duration::from_secs(120)));
    let settings = options.check().unwrap();
    assert_eq!(settings, FramingSettings::default());
    // 128 KiB kept, 64 unsent, 16 of slack, 32 of offsets.
    assert_eq!(settings.max_memory(), 240 * 1_024);
    assert_eq!(settings.max_text(), 208 * 1_024);
    assert_eq!(settings.text_room(), 32_768 - 512 - 2);
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    let none = Duration::ZERO;
    assert_eq!(refusal(|options| options.flush_interval = none), "flush_interval: must be longer than 0s");
    assert_eq!(refusal(|options| options.flush_bytes = 0), "flush_bytes: must be at least 1");
    assert_eq!(
        refusal(|options| options.heartbeat_interval = none),
        "heartbeat_interval: must be longer than 0s"
    );
    assert_eq!(refusal(|options| options.max_duration = none), "max_duration: must be longer than 0s");
    assert_eq!(refusal(|options| options.idle_timeout = none), "idle_timeout: must be longer than 0s");
    assert_eq!(
        refusal(|options| options.idle_timeout = Duration::from_secs(121)),
        "idle_timeout: 121s is longer than max_duration (120s)"
    );
    assert_eq!(refusal(|options| options.max_output_tokens = 0), "max_output_tokens: must be at least 1");
    assert_eq!(
        refusal(|options| options.send_retry_delay = none),
        "send_retry_delay: must be longer than 0s"
    );
    assert_eq!(
        refusal(|options| options.max_frame_bytes = 577),
        "max_frame_bytes: 577 leaves less than 64 bytes for text besides an envelope of 512"
    );
    assert_eq!(
        refusal(|options| options.low_watermark = 32_769),
        "low_watermark: 32769 is more than high_watermark (32768)"
    );
    assert_eq!(
        refusal(|options| options.max_pending_bytes = 32_781),
        "max_pending_bytes: must be at least 32782, which is high_watermark plus room for one character"
    );
    assert_eq!(
        refusal(|options| options.replay_bytes = 160 * 1_024),
        "replay_bytes: with max_pending_bytes a stream may use 311296 of 262144 bytes"
    );
    assert!(refusal(|options| options.replay_bytes = usize::MAX).starts_with("replay_bytes: "));
}

#[test]
fn settings_at_the_edge_are_accepted() {
    let options = FramingOptions {
        max_frame_bytes: 578,
        low_watermark: 32_768,
        max_pending_bytes: 32_782,
        idle_timeout: Duration::from_secs(120),
        max_send_failures: 0,
        replay_bytes: 0,
        replay_for: Duration::ZERO,
        ..FramingOptions::default()
    };
    assert!(options.check().is_ok());
    let largest = FramingOptions {
        max_pending_bytes: 80 * 1_024,
        replay_bytes: 128 * 1_024,
        ..FramingOptions::default()
    };
    assert_eq!(largest.clone().check().unwrap().max_memory(), 256 * 1_024);
    assert!(FramingOptions { max_pending_bytes: largest.max_pending_bytes + 1, ..largest }.check().is_err());
}
