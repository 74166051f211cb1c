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
    assert_eq!(options.flush_after, Duration::from_millis(100));
    assert_eq!((options.flush_bytes, options.frame_bytes, options.envelope_bytes), (4_096, 32_768, 512));
    assert_eq!(options.heartbeat_every, Duration::from_secs(5));
    assert_eq!((options.total, options.upstream_gap), (Duration::from_secs(120), Duration::from_secs(10)));
    assert_eq!(options.output_tokens, 1_024);
    assert_eq!((options.send_again_after, options.send_failures), (Duration::from_millis(500), 10));
    assert_eq!((options.resume_at, options.pause_above, options.pending_bytes), (16_384, 32_768, 65_536));
    assert_eq!((options.keep_bytes, options.keep_for), (131_072, Duration::from_secs(120)));
    let settings = options.check().unwrap();
    assert_eq!(settings, FramingSettings::default());
    // 128 KiB kept, 64 unsent, 16 of slack, 32 of offsets.
    assert_eq!(settings.most_memory(), 240 * 1_024);
    assert_eq!(settings.most_text(), 208 * 1_024);
    assert_eq!(settings.text_room(), 32_768 - 512 - 2);
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    let none = Duration::ZERO;
    assert_eq!(refusal(|options| options.flush_after = none), "flush_after: must be longer than 0s");
    assert_eq!(refusal(|options| options.flush_bytes = 0), "flush_bytes: must be at least 1");
    assert_eq!(refusal(|options| options.heartbeat_every = none), "heartbeat_every: must be longer than 0s");
    assert_eq!(refusal(|options| options.total = none), "total: must be longer than 0s");
    assert_eq!(refusal(|options| options.upstream_gap = none), "upstream_gap: must be longer than 0s");
    assert_eq!(
        refusal(|options| options.upstream_gap = Duration::from_secs(121)),
        "upstream_gap: 121s is longer than total (120s)"
    );
    assert_eq!(refusal(|options| options.output_tokens = 0), "output_tokens: must be at least 1");
    assert_eq!(
        refusal(|options| options.send_again_after = none),
        "send_again_after: must be longer than 0s"
    );
    assert_eq!(
        refusal(|options| options.frame_bytes = 577),
        "frame_bytes: 577 leaves less than 64 bytes for text beside an envelope of 512"
    );
    assert_eq!(
        refusal(|options| options.resume_at = 32_769),
        "resume_at: 32769 is more than pause_above (32768)"
    );
    assert_eq!(
        refusal(|options| options.pending_bytes = 32_781),
        "pending_bytes: must be at least 32782, above where reading pauses"
    );
    assert_eq!(
        refusal(|options| options.keep_bytes = 160 * 1_024),
        "keep_bytes: with pending_bytes it may come to 311296 of 262144 bytes"
    );
    assert!(refusal(|options| options.keep_bytes = usize::MAX).starts_with("keep_bytes: "));
}

#[test]
fn settings_at_the_edge_are_accepted() {
    let options = FramingOptions {
        frame_bytes: 578,
        resume_at: 32_768,
        pending_bytes: 32_782,
        upstream_gap: Duration::from_secs(120),
        send_failures: 0,
        keep_bytes: 0,
        keep_for: Duration::ZERO,
        ..FramingOptions::default()
    };
    assert!(options.check().is_ok());
    let largest =
        FramingOptions { pending_bytes: 80 * 1_024, keep_bytes: 128 * 1_024, ..FramingOptions::default() };
    assert_eq!(largest.clone().check().unwrap().most_memory(), 256 * 1_024);
    assert!(FramingOptions { pending_bytes: largest.pending_bytes + 1, ..largest }.check().is_err());
}
