//! Tests of single rules about frames, reports and endings.

use super::{Client, Seen, at, framer, framer_with};
use crate::failure::{Failure, FailureKind};
use crate::framing::{
    FramerPollDecision, FramingEnding, FramingFinishReason, FramingStats, Interruption, InterruptionCode,
    PushDecision, SendFailureDecision, StreamState, UpstreamDecision,
};
use std::time::Duration;

#[test]
fn text_is_batched_for_100_ms_or_4_kib() {
    let (mut framer, mut client) = (framer(), Client::default());
    framer.push("first", at(0));
    client.drain(&mut framer, at(0));
    framer.push("a", at(50));
    framer.push("b", at(149));
    client.drain(&mut framer, at(149));
    assert_eq!(client.seen.len(), 1);
    client.drain(&mut framer, at(150));
    framer.push(&"x".repeat(4_095), at(151));
    client.drain(&mut framer, at(151));
    assert_eq!(client.seen.len(), 2);
    framer.push("x", at(152));
    client.drain(&mut framer, at(152));
    assert_eq!(client.seen[1], (at(150), Seen::Text(1, "ab".to_owned())));
    assert_eq!(client.seen[2], (at(152), Seen::Text(2, "x".repeat(4_096))));
}

#[test]
fn one_frame_is_in_flight_and_the_next_takes_the_buffered_text() {
    let (mut framer, mut client) = (framer(), Client::default());
    framer.push("a", at(0));
    let (send_id, seen) = client.take(&mut framer, at(0)).unwrap();
    client.keep(seen, at(0));
    framer.push("b", at(0));
    framer.push("c", at(500));
    assert_eq!(framer.next_frame(at(500)), None);
    assert_eq!(framer.poll(at(500)), FramerPollDecision::Wait { until: Some(at(10_500)) });
    assert!(framer.report_sent(send_id, at(600)));
    assert_eq!(framer.poll(at(600)), FramerPollDecision::Send);
    client.drain(&mut framer, at(600));
    assert_eq!(client.seen[1], (at(600), Seen::Text(1, "bc".to_owned())));
}

#[test]
fn a_report_with_an_old_send_id_changes_nothing() {
    let (mut framer, mut client) = (framer(), Client::default());
    framer.push("a", at(0));
    let (old, seen) = client.take(&mut framer, at(0)).unwrap();
    client.keep(seen, at(0));
    assert!(framer.report_sent(old, at(0)));
    assert!(!framer.report_sent(old, at(0)));
    framer.push("b", at(0));
    let (new, _) = client.take(&mut framer, at(100)).unwrap();
    assert!(!framer.report_sent(old, at(100)));
    assert_eq!(framer.report_send_failure(old, at(100)), SendFailureDecision::Ignored);
    assert_eq!(framer.stats().failed_sends, 0);
    assert!(framer.report_sent(new, at(100)));
}

#[test]
fn a_heartbeat_that_fails_counts_and_gives_way_to_text() {
    let (mut framer, mut client) = (framer(), Client::default());
    let (send_id, seen) = client.take(&mut framer, at(5_000)).unwrap();
    assert_eq!(seen, Seen::Heartbeat);
    assert!(matches!(framer.report_send_failure(send_id, at(5_000)), SendFailureDecision::Retry { .. }));
    assert_eq!(framer.next_deadline(), Some(at(5_500)));
    framer.push("text", at(5_100));
    client.drain(&mut framer, at(5_499));
    assert!(client.seen.is_empty());
    client.drain(&mut framer, at(5_500));
    assert_eq!(client.seen, [(at(5_500), Seen::Text(0, "text".to_owned()))]);
    assert_eq!((framer.stats().failed_sends, framer.stats().heartbeats), (1, 0));
    assert_eq!(framer.stats().time_to_first_text, Some(Duration::from_millis(5_500)));
    assert_eq!(framer.next_deadline(), Some(at(10_500)));
}

#[test]
fn a_stream_without_failures_allowed_is_cancelled_by_the_first() {
    let mut framer = framer_with(|options| options.max_send_failures = 0);
    framer.push("a", at(0));
    let send_id = framer.next_frame(at(0)).unwrap().send_id;
    assert_eq!(framer.report_send_failure(send_id, at(0)), SendFailureDecision::Cancelled);
}

#[test]
fn every_finish_reason_is_sent_once_after_the_text() {
    for reason in FramingFinishReason::ALL {
        let (mut framer, mut client) = (framer(), Client::default());
        framer.push("a", at(0));
        client.drain(&mut framer, at(0));
        framer.push("b", at(1));
        assert!(framer.finish(reason, at(2)));
        let cancelled = reason == FramingFinishReason::Cancelled;
        let (now, then) = if cancelled {
            (StreamState::Cancelled, StreamState::Cancelled)
        } else {
            (StreamState::Completing, StreamState::Completed)
        };
        assert_eq!(framer.state(), now);
        for other in FramingFinishReason::ALL {
            assert!(!framer.finish(other, at(3)));
        }
        assert_eq!(framer.push("c", at(3)), PushDecision::Ended);
        assert_eq!(framer.push_bytes(b"c", at(3)), PushDecision::Ended);
        client.drain(&mut framer, at(3));
        assert_eq!((client.text(), framer.state()), ("ab".to_owned(), then));
        assert_eq!(client.ending(), Some((FramingEnding::Finished(reason), Some(1))));
        assert_eq!(framer.poll(at(4)), FramerPollDecision::Finished { replay_until: at(120_002) });
        assert_eq!(framer.stats().deltas_in, 2);
    }
}

#[test]
fn an_interruption_without_text_is_not_partial() {
    let (mut framer, mut client) = (framer(), Client::default());
    framer.push("", at(0));
    assert_eq!((framer.state(), framer.has_begun()), (StreamState::Initializing, false));
    let mut failure = Failure::of(FailureKind::Throttled);
    failure.retryability = crate::failure::Retryability::Never;
    assert!(framer.interrupt(&failure, at(1)));
    client.drain(&mut framer, at(1));
    let code = InterruptionCode::UpstreamFailed(FailureKind::Throttled);
    let interruption = Interruption { code, retryable: false, partial: false };
    assert_eq!(client.ending(), Some((FramingEnding::Interrupted(interruption), None)));
}

#[test]
fn an_interruption_after_half_a_character_is_partial() {
    let (mut framer, mut client) = (framer(), Client::default());
    framer.push_bytes(&[0xE6], at(0));
    framer.interrupt(&Failure::of(FailureKind::Unauthorized), at(1));
    client.drain(&mut framer, at(1));
    let Some((FramingEnding::Interrupted(interruption), Some(0))) = client.ending() else { panic!() };
    assert!(interruption.partial && interruption.retryable);
}

#[test]
fn another_model_may_answer_until_the_first_frame_is_taken() {
    let (mut framer, mut client) = (framer(), Client::default());
    framer.push("never seen", at(0));
    framer.push_bytes(&[0xE6], at(0));
    framer.count_tokens(1_000, at(0));
    assert_eq!(framer.state(), StreamState::Streaming);
    assert!(framer.restart(at(1)));
    assert_eq!((framer.state(), framer.pending_bytes()), (StreamState::Initializing, 0));
    // The silence of the first model does not count against the second.
    assert_eq!(framer.next_deadline(), Some(at(5_000)));
    framer.poll(at(11_000));
    assert_eq!(framer.ending(), None);
    framer.push("seen", at(11_000));
    framer.count_tokens(1_000, at(11_000));
    client.drain(&mut framer, at(11_000));
    assert!(!framer.restart(at(11_000)));
    assert!(client.text() == "seen" && framer.has_begun() && framer.ending().is_none());
    framer.finish(FramingFinishReason::Stop, at(11_001));
    assert!(!framer.restart(at(11_002)));
}

#[test]
fn starting_over_ends_a_pause_and_not_an_ended_stream() {
    let mut framer = framer();
    framer.push(&"x".repeat(40_000), at(0));
    assert_eq!(framer.upstream(), UpstreamDecision::Pause);
    assert!(framer.restart(at(7)));
    assert_eq!(framer.upstream(), UpstreamDecision::Read);
    assert_eq!(framer.stats().pause_time, Duration::from_millis(7));
    framer.finish(FramingFinishReason::Shutdown, at(8));
    assert!(!framer.restart(at(8)));
}

#[test]
fn a_client_that_is_gone_cancels_at_once() {
    let (mut framer, mut client) = (framer(), Client::default());
    framer.push("a", at(0));
    client.drain(&mut framer, at(0));
    framer.push("b", at(1));
    framer.cancel(at(2));
    assert_eq!((framer.state(), framer.upstream()), (StreamState::Cancelled, UpstreamDecision::Close));
    assert_eq!(framer.poll(at(200)), FramerPollDecision::Finished { replay_until: at(120_002) });
    assert_eq!(framer.next_deadline(), Some(at(120_002)));
    // The one ending stands, even if it was never delivered.
    let (mut framer, _) = (super::framer(), ());
    framer.push("a", at(0));
    framer.finish(FramingFinishReason::Stop, at(1));
    framer.cancel(at(2));
    assert_eq!(framer.ending(), Some(FramingEnding::Finished(FramingFinishReason::Stop)));
    assert_eq!(framer.state(), StreamState::Cancelled);
}

#[test]
fn buffers_do_not_grow_once_the_stream_is_under_way() {
    let (mut framer, mut client) = (
        framer_with(|options| {
            options.max_output_tokens = u64::MAX;
            options.max_duration = Duration::from_secs(100_000);
        }),
        Client::default(),
    );
    let mut round = |framer: &mut super::Framer, from: u64| {
        for delta in 0..20_000 {
            let now = at((from + delta) * 16);
            framer.push("漫", now);
            client.drain(framer, now);
            client.seen.clear();
        }
        framer.memory()
    };
    // The first rounds fill the kept frames; after that nothing is allocated any more.
    let settled = round(&mut framer, 0).max(round(&mut framer, 20_000)).max(round(&mut framer, 40_000));
    for later in 3..6 {
        assert_eq!(round(&mut framer, later * 20_000), settled);
    }
}

#[test]
fn figures_are_what_happened() {
    let (mut framer, mut client) = (framer(), Client::default());
    assert_eq!(framer.stats(), FramingStats::default());
    assert!(framer.stats().tokens_per_second().abs() < 1e-9);
    assert!(framer.stats().aggregation().abs() < 1e-9);
    framer.push("漫", at(400));
    framer.count_tokens(10, at(400));
    client.drain(&mut framer, at(500));
    for _ in 0..5 {
        framer.push("x", at(600));
    }
    client.drain(&mut framer, at(700));
    framer.count_tokens(90, at(700));
    framer.finish(FramingFinishReason::Stop, at(1_000));
    client.drain(&mut framer, at(9_000));
    let stats = framer.stats();
    let expected = FramingStats {
        time_to_first_text: Some(Duration::from_millis(500)),
        total: Duration::from_secs(1),
        tokens: 100,
        deltas_in: 6,
        frames_out: 2,
        bytes_out: 8,
        ..FramingStats::default()
    };
    assert_eq!(stats, expected);
    assert!((stats.tokens_per_second() - 200.0).abs() < 1e-9);
    assert!((stats.aggregation() - 3.0).abs() < 1e-9);
}

#[test]
fn a_clock_that_goes_back_stands_still() {
    let (mut framer, mut client) = (framer(), Client::default());
    framer.push("a", at(5_000));
    client.drain(&mut framer, at(1));
    framer.push("b", at(0));
    client.drain(&mut framer, at(4_000));
    assert_eq!(client.text(), "a");
    assert_eq!(framer.next_deadline(), Some(at(5_100)));
    client.drain(&mut framer, at(5_100));
    assert_eq!(client.text(), "ab");
    assert_eq!(framer.stats().time_to_first_text, Some(Duration::from_secs(5)));
}
