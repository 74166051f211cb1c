//! Tests of the documented numbers, on realistic streams.

use super::{Client, Seen, at, check_memory, framer, framer_with, is_text, push_all};
use crate::failure::{Failure, FailureKind};
use crate::framing::{
    FramingEnding, FramingFinishReason, Interruption, InterruptionCode, PushDecision, SendFailureDecision,
    StreamState, UpstreamDecision,
};
use crate::time::Timestamp;
use std::time::Duration;

#[test]
fn sixty_deltas_a_second_make_at_most_eleven_frames_a_second() {
    let (mut framer, mut client) = (framer(), Client::default());
    let mut expected = String::new();
    for delta in 0..2_000_u64 {
        let now = Timestamp::from_nanos(delta * 1_000_000_000 / 60);
        client.drain_until(&mut framer, client.seen.last().map_or(at(0), |(when, _)| *when), now);
        let character = char::from(b'a' + u8::try_from(delta % 26).unwrap()).to_string();
        assert_eq!(framer.push(&character, now), PushDecision::Accepted);
        expected.push_str(&character);
        client.drain(&mut framer, now);
    }
    let end = Timestamp::from_nanos(2_000 * 1_000_000_000 / 60);
    framer.finish(FramingFinishReason::Stop, end);
    client.drain(&mut framer, end);
    assert_eq!(client.text(), expected);
    let times = client.times(is_text);
    assert_eq!(times[0], at(0));
    for (first, later) in times.iter().zip(times.iter().skip(11)) {
        assert!(*later - *first >= Duration::from_secs(1), "twelve frames from {first} to {later}");
    }
    // No byte waited longer than allowed: a frame every six deltas.
    assert_eq!(times.len(), 335);
    let stats = framer.stats();
    assert_eq!((stats.deltas_in, stats.frames_out, stats.bytes_out), (2_000, 335, 2_000));
    assert!((stats.aggregation() - 5.97).abs() < 0.01);
}

#[test]
fn one_delta_and_silence_is_text_at_once_then_heartbeats() {
    let (mut framer, mut client) = (framer(), Client::default());
    framer.push("Hello", at(300));
    client.drain_until(&mut framer, at(300), at(10_299));
    assert_eq!(client.seen, [(at(300), Seen::Text(0, "Hello".to_owned())), (at(5_300), Seen::Heartbeat)]);
    // The second heartbeat would be due exactly when the idle timeout expires.
    framer.push("", at(10_299));
    client.drain_until(&mut framer, at(10_299), at(15_300));
    assert_eq!(client.times(|seen| *seen == Seen::Heartbeat), [at(5_300), at(10_300), at(15_300)]);
    assert_eq!(framer.stats().heartbeats, 3);
}

#[test]
fn a_long_text_of_any_kind_comes_whole_in_frames_that_fit() {
    let family = "👩‍👩‍👧‍👦";
    for (piece, count) in [
        ("漫", 40_000),
        ("\"", 40_000),
        ("\n", 40_000),
        ("\u{1}", 40_000),
        (family, 2_600),
        ("\\漫\"", 20_000),
    ] {
        let (mut framer, mut client) = (framer(), Client::default());
        let text = piece.repeat(count);
        let pushes = push_all(&mut framer, &mut client, &text, at(0));
        // After each step at most the batched text is left, so that a push takes at least 60 kB.
        assert!(pushes <= text.len() / 60_000 + 1, "{piece:?} took {pushes}");
        framer.finish(FramingFinishReason::Stop, at(0));
        client.drain(&mut framer, at(0));
        assert_eq!(client.text(), text);
        assert!(client.ended);
        if piece == family {
            let whole = |seen: &Seen| matches!(seen, Seen::Text(_, text) if text.len() % family.len() == 0);
            assert_eq!(client.times(whole), client.times(is_text));
        }
    }
}

#[test]
fn a_megabyte_in_one_delta_is_taken_in_steps_within_the_memory() {
    let (mut framer, mut client) = (framer(), Client::default());
    let text = "漫画\n".repeat(150_000);
    assert_eq!(framer.push(&text, at(0)), PushDecision::PartiallyAccepted { bytes: 65_530 });
    assert_eq!((framer.pending_bytes(), framer.state()), (65_530, StreamState::Paused));
    assert_eq!(framer.push(&text[65_530..], at(0)), PushDecision::PartiallyAccepted { bytes: 0 });
    client.drain(&mut framer, at(0));
    push_all(&mut framer, &mut client, &text[65_530..], at(0));
    framer.finish(FramingFinishReason::Stop, at(0));
    client.drain(&mut framer, at(0));
    assert_eq!(client.text(), text);
    check_memory(&framer);
}

#[test]
fn three_failed_sends_lose_and_repeat_nothing() {
    let (mut framer, mut client) = (framer(), Client::default());
    framer.push("one", at(0));
    client.drain(&mut framer, at(0));
    framer.push("two", at(0));
    let mut now = at(100);
    for failure in 0..3 {
        let (send_id, seen) = client.take(&mut framer, now).unwrap();
        assert_eq!(seen, Seen::Text(1, "two".to_owned()));
        let again = now + Duration::from_millis(500);
        assert_eq!(framer.report_send_failure(send_id, now), SendFailureDecision::Retry { at: again });
        // Text that arrives meanwhile goes into the next frame.
        framer.push(["a", "b", "c"][failure], now);
        assert_eq!(framer.next_frame(again - Duration::from_nanos(1)), None);
        assert_eq!(framer.next_deadline(), Some(again));
        now = again;
    }
    client.drain(&mut framer, now);
    let texts: Vec<&Seen> = client.seen.iter().map(|(_, seen)| seen).collect();
    let text = |index, text: &str| Seen::Text(index, text.to_owned());
    assert_eq!(texts, [&text(0, "one"), &text(1, "two"), &text(2, "abc")]);
    assert_eq!(framer.stats().failed_sends, 3);
}

#[test]
fn the_eleventh_failure_in_a_row_cancels_and_closes_upstream() {
    let (mut framer, mut client) = (framer(), Client::default());
    framer.push("text", at(0));
    for failure in 0..11_u64 {
        let now = at(failure * 500);
        let (send_id, _) = client.take(&mut framer, now).unwrap();
        assert_eq!(framer.upstream(), UpstreamDecision::Read);
        let expected = if failure < 10 {
            SendFailureDecision::Retry { at: at(failure * 500 + 500) }
        } else {
            SendFailureDecision::Cancelled
        };
        assert_eq!(framer.report_send_failure(send_id, now), expected);
    }
    assert_eq!((framer.state(), framer.upstream()), (StreamState::Cancelled, UpstreamDecision::Close));
    assert_eq!(framer.ending(), Some(FramingEnding::Finished(FramingFinishReason::Cancelled)));
    assert_eq!(framer.next_frame(at(6_000)), None);
    assert_eq!(framer.push("more", at(6_000)), PushDecision::Ended);
}

#[test]
fn ten_failures_and_a_success_count_from_the_beginning() {
    let (mut framer, mut client) = (framer(), Client::default());
    framer.push("text", at(0));
    for round in 0..3_u64 {
        for failure in 0..10_u64 {
            let now = at(round * 6_000 + failure * 500);
            let (send_id, _) = client.take(&mut framer, now).unwrap();
            assert!(matches!(framer.report_send_failure(send_id, now), SendFailureDecision::Retry { .. }));
        }
        client.drain(&mut framer, at(round * 6_000 + 5_000));
        framer.push("more", at(round * 6_000 + 5_900));
    }
    assert_eq!(framer.state(), StreamState::Streaming);
}

#[test]
fn a_reader_that_stalls_pauses_the_model_within_the_memory() {
    let (mut framer, mut client) = (framer(), Client::default());
    framer.push("first", at(0));
    let (send_id, seen) = client.take(&mut framer, at(0)).unwrap();
    client.keep(seen, at(0));
    let (mut pushed, mut now) = ("first".to_owned(), at(0));
    while framer.wants_input() {
        now = now + Duration::from_millis(1);
        assert_eq!(framer.push("0123456789abcdef", now), PushDecision::Accepted);
        pushed.push_str("0123456789abcdef");
        check_memory(&framer);
    }
    // The frame being sent counts as well.
    assert_eq!(framer.pending_bytes(), 5 + 2_048 * 16);
    assert_eq!((framer.state(), framer.upstream()), (StreamState::Paused, UpstreamDecision::Pause));
    assert_eq!(framer.stats().pauses, 1);
    let stalled = now + Duration::from_secs(15);
    framer.poll(stalled);
    assert_eq!(framer.state(), StreamState::Paused, "silence is ours while we do not read");
    assert_eq!(framer.stats().pause_time, Duration::from_secs(15));
    assert!(framer.report_sent(send_id, stalled));
    assert_eq!(framer.state(), StreamState::Paused);
    client.drain(&mut framer, stalled);
    assert_eq!(framer.state(), StreamState::Streaming);
    assert_eq!(client.text(), pushed);
    client.drain_until(&mut framer, stalled, stalled + Duration::from_millis(9_999));
    assert_eq!(framer.ending(), None);
    framer.poll(stalled + Duration::from_secs(10));
    assert!(matches!(framer.ending(), Some(FramingEnding::Interrupted(_))));
    assert_eq!(framer.stats().pause_time, Duration::from_secs(15));
}

#[test]
fn reading_pauses_above_one_limit_and_goes_on_at_the_other() {
    for (low_watermark, frames) in [(16_384, 17), (16_769, 16), (16_768, 17)] {
        let mut client = Client::default();
        let mut framer = framer_with(|options| {
            options.max_frame_bytes = 512 + 2 + 1_000;
            options.low_watermark = low_watermark;
        });
        framer.push(&"x".repeat(32_768), at(0));
        assert!(framer.wants_input());
        framer.push("x", at(0));
        for sent in 0..frames {
            assert_eq!(framer.pending_bytes(), 32_769 - sent * 1_000);
            assert!(!framer.wants_input(), "{low_watermark}: {sent}");
            let (send_id, seen) = client.take(&mut framer, at(0)).unwrap();
            client.keep(seen, at(0));
            framer.report_sent(send_id, at(0));
        }
        assert!(framer.wants_input(), "{low_watermark}");
    }
}

#[test]
fn a_stream_of_two_minutes_ends_as_a_timeout_after_its_text() {
    let (mut framer, mut client) = (framer(), Client::default());
    let mut now = at(0);
    for second in 0..121_u64 {
        client.drain_until(&mut framer, now, at(second * 1_000));
        now = at(second * 1_000);
        let decision = framer.push("x", now);
        assert_eq!(decision, if second < 120 { PushDecision::Accepted } else { PushDecision::Ended });
        if second == 119 {
            now = at(119_999);
            framer.push("tail", now);
        }
    }
    client.drain(&mut framer, at(120_000));
    assert_eq!(client.text(), format!("{}tail", "x".repeat(120)));
    let (ending, last_index) = client.ending().unwrap();
    assert_eq!(ending, FramingEnding::Finished(FramingFinishReason::Timeout));
    assert_eq!(client.times(|seen| matches!(seen, Seen::Ending(..))), [at(120_000)]);
    assert_eq!(last_index, Some(client.times(is_text).len() as u64 - 1));
    assert_eq!((framer.state(), framer.stats().total), (StreamState::Completed, Duration::from_secs(120)));
}

#[test]
fn the_thousand_and_twenty_fourth_token_is_the_last() {
    let (mut framer, mut client) = (framer(), Client::default());
    framer.push("many words", at(0));
    framer.count_tokens(1_023, at(0));
    assert_eq!(framer.upstream(), UpstreamDecision::Read);
    client.drain(&mut framer, at(0));
    framer.push(" and one", at(1));
    framer.count_tokens(1, at(1));
    assert_eq!((framer.upstream(), framer.state()), (UpstreamDecision::Close, StreamState::Completing));
    framer.count_tokens(50, at(2));
    client.drain(&mut framer, at(2));
    assert_eq!(client.text(), "many words and one");
    assert_eq!(client.ending(), Some((FramingEnding::Finished(FramingFinishReason::Budget), Some(1))));
    assert_eq!(framer.stats().tokens, 1_024);
    assert_eq!(framer.state(), StreamState::Completed);
}

#[test]
fn a_failure_after_three_frames_is_partial_and_names_the_last() {
    let (mut framer, mut client) = (framer(), Client::default());
    for (index, text) in ["one ", "two ", "three"].iter().enumerate() {
        framer.push(text, at(index as u64 * 100));
        if index < 2 {
            client.drain(&mut framer, at(index as u64 * 100 + 100));
        }
    }
    assert!(framer.has_begun());
    let failure = Failure::of(FailureKind::StreamInterrupted);
    assert!(framer.interrupt(&failure, at(250)));
    assert!(!framer.interrupt(&failure, at(250)));
    assert!(!framer.finish(FramingFinishReason::Stop, at(250)));
    assert_eq!(framer.state(), StreamState::Completing);
    client.drain(&mut framer, at(250));
    let code = InterruptionCode::UpstreamFailed(FailureKind::StreamInterrupted);
    let interruption = Interruption { code, retryable: true, partial: true };
    assert_eq!(client.ending(), Some((FramingEnding::Interrupted(interruption), Some(2))));
    assert_eq!(client.text(), "one two three");
    assert_eq!((framer.state(), code.name()), (StreamState::Error, "stream_interrupted"));
}
