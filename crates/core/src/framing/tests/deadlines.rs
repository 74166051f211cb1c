//! Tests of everything that is due by time alone.

use super::{Client, Seen, at, framer, framer_with};
use crate::framing::{
    FramerPollDecision, FramingEnding, FramingFinishReason, Interruption, InterruptionCode, PushDecision,
    StreamState,
};
use crate::time::Timestamp;
use std::time::Duration;

const SILENT: InterruptionCode = InterruptionCode::UpstreamSilent;

#[test]
fn a_model_that_has_begun_may_be_silent_for_ten_seconds() {
    let (mut framer, mut client) = (framer(), Client::default());
    framer.push("a", at(1_000));
    client.drain(&mut framer, at(1_000));
    framer.push("b", at(1_050));
    client.drain_until(&mut framer, at(1_050), at(11_049));
    assert_eq!(framer.ending(), None);
    client.drain_until(&mut framer, at(11_049), at(11_050));
    let interruption = Interruption { code: SILENT, retryable: true, partial: true };
    assert_eq!(
        client.seen.last(),
        Some(&(at(11_050), Seen::Ending(FramingEnding::Interrupted(interruption), Some(1))))
    );
    assert_eq!((framer.state(), SILENT.name()), (StreamState::Error, "upstream_silent"));
}

#[test]
fn a_model_that_has_not_begun_is_waited_for_with_heartbeats_until_the_end() {
    let (mut framer, mut client) = (framer(), Client::default());
    client.drain_until(&mut framer, at(0), at(119_999));
    let heartbeats: Vec<Timestamp> = (1..24).map(|beat| at(beat * 5_000)).collect();
    assert_eq!(client.times(|seen| *seen == Seen::Heartbeat), heartbeats);
    assert_eq!(framer.state(), StreamState::Initializing);
    client.drain_until(&mut framer, at(119_999), at(400_000));
    assert_eq!(client.seen.len(), 24);
    assert_eq!(client.ending(), Some((FramingEnding::Finished(FramingFinishReason::Timeout), None)));
    assert_eq!(client.seen[23].0, at(120_000));
}

#[test]
fn an_empty_delta_before_any_text_does_not_start_the_idle_timeout() {
    let (mut framer, mut client) = (framer(), Client::default());
    framer.push("", at(0));
    framer.push_bytes(b"", at(1_000));
    client.drain_until(&mut framer, at(1_000), at(12_000));
    assert_eq!((framer.ending(), framer.stats().deltas_in), (None, 2));
    // The first byte of a character starts the idle timeout.
    framer.push_bytes(&"漫".as_bytes()[..1], at(12_000));
    client.drain_until(&mut framer, at(12_000), at(21_999));
    assert_eq!(framer.ending(), None);
    client.drain_until(&mut framer, at(21_999), at(22_000));
    let interruption = Interruption { code: SILENT, retryable: true, partial: true };
    assert_eq!(framer.ending(), Some(FramingEnding::Interrupted(interruption)));
    // After text, a sign of life restarts it.
    let mut alive = super::framer();
    alive.push("a", at(0));
    alive.push("", at(6_000));
    alive.poll(at(15_999));
    assert_eq!(alive.ending(), None);
    alive.poll(at(16_000));
    assert!(alive.ending().is_some());
}

#[test]
fn a_heartbeat_that_is_due_with_the_interruption_goes_out_before_it() {
    // The send at five seconds may have taken up to a tenth of a second, but not more.
    for (took, beats) in [(0, 2), (100, 2), (101, 1)] {
        let (mut framer, mut client) = (framer(), Client::default());
        framer.push("a", at(0));
        client.drain(&mut framer, at(0));
        let (send_id, seen) = client.take(&mut framer, at(5_000)).unwrap();
        assert_eq!(seen, Seen::Heartbeat);
        assert!(framer.report_sent(send_id, at(5_000 + took)));
        client.keep(seen, at(5_000 + took));
        client.drain_until(&mut framer, at(5_000 + took), at(20_000));
        let heartbeats = client.times(|seen| *seen == Seen::Heartbeat);
        assert_eq!(heartbeats, [at(5_000 + took), at(10_000)][..beats]);
        let last = client.seen.last().unwrap();
        assert!(
            last.0 == at(10_000) && matches!(last.1, Seen::Ending(FramingEnding::Interrupted(_), Some(0)))
        );
        assert_eq!(framer.stats().heartbeats, beats as u64);
    }
}

#[test]
fn a_heartbeat_before_the_interruption_is_sent_once_to_an_attached_client() {
    let silent = || {
        let (mut framer, mut client) = (framer(), Client::default());
        framer.push("a", at(0));
        client.drain_until(&mut framer, at(0), at(9_999));
        (framer, client)
    };
    let (mut framer, mut client) = silent();
    let (send_id, seen) = client.take(&mut framer, at(10_000)).unwrap();
    assert_eq!(seen, Seen::Heartbeat);
    framer.report_send_failure(send_id, at(10_000));
    assert!(matches!(client.take(&mut framer, at(10_500)).unwrap().1, Seen::Ending(..)));
    // A client that resumes receives the ending at once.
    let (mut framer, _) = silent();
    framer.poll(at(10_000));
    framer.resume(Some(0), at(10_001));
    let mut back = Client { last: Some(0), ..Client::default() };
    assert!(matches!(back.take(&mut framer, at(10_001)).unwrap().1, Seen::Ending(..)));
    // Unsent text needs no heartbeat before it.
    let (mut framer, mut client) = silent();
    framer.push_bytes(&"漫".as_bytes()[..1], at(9_999));
    client.drain_until(&mut framer, at(9_999), at(14_999));
    client.drain_until(&mut framer, at(19_999), at(19_999));
    let kinds: Vec<_> = client.seen.iter().rev().take(2).map(|(_, seen)| seen).collect();
    assert!(matches!(kinds[..], [Seen::Ending(..), Seen::Text(1, _)]), "{kinds:?}");
}

#[test]
fn a_late_look_finds_what_came_first() {
    for (last_delta, silent) in [(109_999, true), (110_000, false), (115_000, false)] {
        let mut framer = framer();
        for delta in (0..=last_delta).rev().step_by(9_000).collect::<Vec<_>>().into_iter().rev() {
            assert_eq!(framer.push("x", at(delta)), PushDecision::Accepted);
        }
        framer.poll(at(500_000));
        let was_silent = matches!(framer.ending(), Some(FramingEnding::Interrupted(_)));
        assert_eq!(was_silent, silent, "{last_delta}");
    }
}

#[test]
fn a_push_that_comes_too_late_is_not_taken() {
    let mut framer = framer();
    framer.push("a", at(0));
    assert_eq!(framer.push("b", at(10_000)), PushDecision::Ended);
    assert_eq!(framer.pending_bytes(), 1);
    assert!(matches!(framer.ending(), Some(FramingEnding::Interrupted(_))));
    assert!(!framer.finish(FramingFinishReason::Stop, at(10_000)));
}

#[test]
fn frames_are_forgotten_two_minutes_after_the_end() {
    let (mut framer, mut client) = (framer(), Client::default());
    framer.push("a", at(0));
    framer.finish(FramingFinishReason::Stop, at(1_000));
    client.drain(&mut framer, at(2_000));
    assert_eq!(framer.next_deadline(), Some(at(121_000)));
    assert_eq!(framer.poll(at(120_999)), FramerPollDecision::Finished { replay_until: at(121_000) });
    assert!(framer.memory() > 0);
    assert_eq!(framer.poll(at(121_000)), FramerPollDecision::Expired);
    assert_eq!((framer.memory(), framer.pending_bytes()), (0, 0));
    assert_eq!((framer.next_deadline(), framer.state()), (None, StreamState::Completed));
    assert!(framer.has_begun());
}

#[test]
fn a_client_that_is_being_served_keeps_its_frames_over_the_time() {
    let mut framer = framer_with(|options| options.replay_for = Duration::from_millis(10));
    let mut client = Client::default();
    framer.push("a", at(0));
    let (send_id, seen) = client.take(&mut framer, at(0)).unwrap();
    client.keep(seen, at(0));
    framer.push("b", at(1));
    framer.finish(FramingFinishReason::Stop, at(2));
    assert_eq!(framer.poll(at(50)), FramerPollDecision::Wait { until: None });
    assert_eq!(framer.next_deadline(), None);
    assert!(framer.report_sent(send_id, at(50)));
    assert_eq!(framer.poll(at(50)), FramerPollDecision::Send);
    client.drain(&mut framer, at(50));
    assert_eq!((client.text(), client.ended), ("ab".to_owned(), true));
    // Once the client is served, the frames are dropped at once.
    assert_eq!((framer.memory(), framer.poll(at(50))), (0, FramerPollDecision::Expired));

    for leave in [crate::framing::Framer::cancel, crate::framing::Framer::detach] {
        let mut framer = framer_with(|options| options.replay_for = Duration::from_millis(10));
        framer.push("a", at(0));
        framer.finish(FramingFinishReason::Stop, at(0));
        framer.poll(at(11));
        assert!(framer.memory() > 0);
        leave(&mut framer, at(12));
        assert_eq!(framer.memory(), 0);
    }
}

#[test]
fn nothing_is_sent_to_a_detached_client() {
    let mut framer = framer();
    framer.push("a", at(0));
    framer.detach(at(1));
    assert_eq!(framer.next_frame(at(6_000)), None);
    assert_eq!(framer.poll(at(6_000)), FramerPollDecision::Wait { until: Some(at(10_000)) });
    assert_eq!((framer.state(), framer.wants_input()), (StreamState::Streaming, true));
    framer.push(&"x".repeat(32_768), at(6_000));
    assert_eq!(framer.state(), StreamState::Paused);
    assert_eq!(framer.poll(at(50_000)), FramerPollDecision::Wait { until: Some(at(120_000)) });
    assert_eq!(framer.poll(at(120_000)), FramerPollDecision::Finished { replay_until: at(240_000) });
    assert_eq!(framer.state(), StreamState::Cancelled);
}
