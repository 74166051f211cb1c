//! Tests of clients that resume.

use super::{Client, Seen, at, check_memory, framer, framer_with, is_text, push_all};
use crate::framing::{
    Framer, FramerPollDecision, FramingEnding, FramingFinishReason, ResumeDecision, SendFailureDecision,
    StreamState,
};
use crate::time::Timestamp;

/// Frames 0 to 4 delivered, 5 being sent, text for another behind it.
fn at_frame_five() -> (Framer, Client, crate::framing::SendId) {
    let (mut framer, mut client) = (framer(), Client::default());
    for frame in 0..5_u64 {
        framer.push(&frame.to_string(), at(frame * 100));
        client.drain(&mut framer, at(frame * 100 + 100));
    }
    framer.push("5", at(500));
    let (send_id, _) = client.take(&mut framer, at(600)).unwrap();
    framer.push("6", at(600));
    assert_eq!(client.last, Some(4));
    (framer, client, send_id)
}

#[test]
fn a_reconnecting_client_gets_the_rest_once() {
    let (mut framer, mut client, send_id) = at_frame_five();
    framer.cancel(at(650));
    assert!(!framer.report_sent(send_id, at(650)));
    assert_eq!(framer.report_send_failure(send_id, at(650)), SendFailureDecision::Ignored);
    assert_eq!(framer.resume(Some(4), at(60_000)), ResumeDecision::Resumed { frames: 1 });
    client.drain(&mut framer, at(60_000));
    assert_eq!(client.text(), "0123456");
    assert_eq!(client.ending(), Some((FramingEnding::Finished(FramingFinishReason::Cancelled), Some(6))));
    assert_eq!(framer.poll(at(60_000)), FramerPollDecision::Finished { replay_until: at(120_650) });
    let stats = framer.stats();
    assert_eq!((stats.reconnections, stats.frames_replayed, stats.frames_out), (1, 0, 7));
}

#[test]
fn a_stream_goes_on_where_the_client_comes_back() {
    let (mut framer, mut client, _) = at_frame_five();
    framer.detach(at(650));
    framer.push("7", at(700));
    assert_eq!(framer.resume(Some(4), at(800)), ResumeDecision::Resumed { frames: 1 });
    client.drain(&mut framer, at(800));
    framer.push("8", at(850));
    client.drain_until(&mut framer, at(850), at(950));
    let texts: Vec<(Timestamp, Seen)> = client.seen[5..].to_vec();
    let text = |index, text: &str| Seen::Text(index, text.to_owned());
    assert_eq!(texts, [(at(800), text(5, "5")), (at(800), text(6, "67")), (at(950), text(7, "8"))]);
    assert_eq!(framer.state(), StreamState::Streaming);
}

#[test]
fn frames_that_were_lost_on_the_way_are_sent_again() {
    let (mut framer, _, send_id) = at_frame_five();
    for (last_index, frames) in [(None, 6), (Some(0), 6), (Some(3), 3)] {
        let mut client = Client { last: last_index, ..Client::default() };
        assert_eq!(framer.resume(last_index, at(700)), ResumeDecision::Resumed { frames });
        assert!(!framer.report_sent(send_id, at(700)));
        client.drain(&mut framer, at(700));
        let from = last_index.map_or(0, |last| last + 1);
        let expected: String = (from..7).map(|index| index.to_string()).collect();
        assert_eq!(client.text(), expected);
    }
    let stats = framer.stats();
    // Frames 5 and 6 were new the first time; each counts as delivered once.
    assert_eq!((stats.frames_out, stats.bytes_out, stats.reconnections), (7, 7, 3));
    assert_eq!(stats.frames_replayed, 5 + 6 + 3);
}

#[test]
fn a_frame_that_came_without_a_report_is_not_sent_again() {
    let (mut framer, mut client, send_id) = at_frame_five();
    assert_eq!(framer.pending_bytes(), 2);
    assert_eq!(framer.resume(Some(5), at(650)), ResumeDecision::Resumed { frames: 0 });
    assert_eq!(framer.pending_bytes(), 1);
    assert!(!framer.report_sent(send_id, at(650)));
    client.last = Some(5);
    client.drain_until(&mut framer, at(650), at(700));
    assert_eq!(client.seen.last(), Some(&(at(700), Seen::Text(6, "6".to_owned()))));
    assert_eq!(framer.stats().frames_out, 7);
}

#[test]
fn resuming_after_an_unsent_index_is_refused() {
    let (mut framer, _, send_id) = at_frame_five();
    for last_index in [6, 7, u64::MAX] {
        assert_eq!(framer.resume(Some(last_index), at(650)), ResumeDecision::NotSentYet { next_index: 6 });
    }
    // A refusal changes nothing: the send in progress can still be acknowledged.
    assert!(framer.report_sent(send_id, at(650)));
    assert_eq!(framer.stats().reconnections, 0);
}

#[test]
fn frames_that_had_to_make_room_are_gone() {
    let mut framer = framer_with(|options| options.replay_bytes = 10_000);
    let mut client = Client::default();
    push_all(&mut framer, &mut client, &"x".repeat(3_968), at(0));
    client.drain(&mut framer, at(0));
    for round in 1..4 {
        framer.push(&"x".repeat(3_968), at(round * 100));
        client.drain_until(&mut framer, at(round * 100), at(round * 100 + 100));
    }
    // Each costs 4,000 with its overhead, so that two fit.
    assert_eq!(client.last, Some(3));
    assert_eq!(framer.resume(None, at(900)), ResumeDecision::Gone { first_kept: Some(2) });
    assert_eq!(framer.resume(Some(0), at(900)), ResumeDecision::Gone { first_kept: Some(2) });
    assert_eq!(framer.resume(Some(1), at(900)), ResumeDecision::Resumed { frames: 2 });
    for (replay_bytes, first_kept) in [(12_000, 1), (11_999, 2), (3_999, 4), (0, 4)] {
        let mut framer = framer_with(|options| options.replay_bytes = replay_bytes);
        for round in 0..4 {
            framer.push(&"x".repeat(3_968), at(round * 100));
            Client { last: round.checked_sub(1), ..Client::default() }
                .drain(&mut framer, at(round * 100 + 100));
        }
        assert_eq!(framer.resume(None, at(900)), ResumeDecision::Gone { first_kept: Some(first_kept) });
    }
}

#[test]
fn coming_back_is_possible_until_two_minutes_after_the_end() {
    let (mut framer, mut client, send_id) = at_frame_five();
    assert_eq!(framer.resume(Some(9), at(600)), ResumeDecision::NotSentYet { next_index: 6 });
    assert!(framer.report_sent(send_id, at(700)));
    client.last = Some(5);
    framer.finish(FramingFinishReason::Stop, at(1_000));
    client.drain(&mut framer, at(1_000));
    assert_eq!(framer.state(), StreamState::Completed);
    let mut again = Client { last: Some(2), ..Client::default() };
    assert_eq!(framer.resume(Some(2), at(120_999)), ResumeDecision::Resumed { frames: 4 });
    assert_eq!(framer.state(), StreamState::Completed);
    again.drain(&mut framer, at(120_999));
    assert_eq!(again.text(), "3456");
    assert_eq!(again.ending(), Some((FramingEnding::Finished(FramingFinishReason::Stop), Some(6))));
    assert_eq!(framer.resume(Some(2), at(121_000)), ResumeDecision::Gone { first_kept: None });
}

#[test]
fn a_replay_under_way_at_the_last_moment_is_finished_and_not_begun_again() {
    let (mut framer, _, _) = at_frame_five();
    framer.finish(FramingFinishReason::Stop, at(1_000));
    let mut client = Client::default();
    assert_eq!(framer.resume(None, at(120_999)), ResumeDecision::Resumed { frames: 6 });
    let (send_id, seen) = client.take(&mut framer, at(120_999)).unwrap();
    client.keep(seen, at(120_999));
    assert_eq!(framer.resume(None, at(122_000)), ResumeDecision::Gone { first_kept: None });
    assert!(framer.report_sent(send_id, at(122_000)));
    client.drain(&mut framer, at(122_000));
    assert_eq!((client.text(), client.ended), ("0123456".to_owned(), true));
    assert_eq!(framer.poll(at(122_000)), FramerPollDecision::Expired);
}

#[test]
fn a_client_that_failed_too_often_may_come_back_and_fail_as_often_again() {
    let (mut framer, mut client, mut send_id) = at_frame_five();
    let mut now = 600;
    for _ in 0..10 {
        assert!(matches!(framer.report_send_failure(send_id, at(now)), SendFailureDecision::Retry { .. }));
        now += 500;
        send_id = client.take(&mut framer, at(now)).unwrap().0;
    }
    assert_eq!(framer.report_send_failure(send_id, at(now)), SendFailureDecision::Cancelled);
    assert_eq!(framer.resume(Some(4), at(now)), ResumeDecision::Resumed { frames: 1 });
    // At once, without the retry delay of the old connection.
    send_id = client.take(&mut framer, at(now)).unwrap().0;
    for _ in 0..10 {
        assert!(matches!(framer.report_send_failure(send_id, at(now)), SendFailureDecision::Retry { .. }));
        now += 500;
        send_id = client.take(&mut framer, at(now)).unwrap().0;
    }
    assert_eq!(framer.report_send_failure(send_id, at(now)), SendFailureDecision::Cancelled);
    assert_eq!(framer.stats().failed_sends, 22);
}

#[test]
fn heartbeats_begin_anew_with_the_connection() {
    let (mut framer, mut client, _) = at_frame_five();
    framer.resume(Some(5), at(650));
    client.last = Some(5);
    client.drain(&mut framer, at(700));
    framer.detach(at(800));
    framer.push("", at(9_000));
    framer.resume(Some(6), at(9_000));
    client.drain_until(&mut framer, at(9_000), at(14_000));
    assert_eq!(client.seen.last(), Some(&(at(14_000), Seen::Heartbeat)));
    assert_eq!(client.times(|seen| !is_text(seen)).len(), 1);
}

#[test]
fn a_long_stream_with_many_returns_stays_within_the_memory() {
    let (mut framer, mut client) = (
        framer_with(|options| options.max_duration = std::time::Duration::from_secs(9_999)),
        Client::default(),
    );
    let mut expected = String::new();
    for round in 0..600_u64 {
        let text = format!("{round}漫").repeat(200 + usize::try_from(round % 7).unwrap() * 100);
        push_all(&mut framer, &mut client, &text, at(round * 100));
        expected.push_str(&text);
        client.drain(&mut framer, at(round * 100 + 99));
        if round % 5 == 4 && client.last > Some(3) {
            let back = client.last.unwrap() - 3;
            let mut again = Client { last: Some(back), ..Client::default() };
            assert_eq!(
                framer.resume(Some(back), at(round * 100 + 99)),
                ResumeDecision::Resumed { frames: 3 }
            );
            again.drain(&mut framer, at(round * 100 + 99));
            let tail: String = client
                .seen
                .iter()
                .rev()
                .take(3)
                .rev()
                .map(|(_, seen)| match seen {
                    Seen::Text(_, text) => text.as_str(),
                    _ => "",
                })
                .collect();
            assert_eq!(again.text(), tail);
        }
        check_memory(&framer);
    }
    framer.finish(FramingFinishReason::Stop, at(60_000));
    client.drain(&mut framer, at(60_000));
    assert_eq!(client.text(), expected);
}
