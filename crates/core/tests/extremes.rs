//! Numbers at the ends of their ranges, which the modules' own models leave out: nothing panics, wraps or gets lost.
#![cfg(not(loom))]

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use seawall_core::framing::{FrameContent, Framer, FramingOptions, PushDecision};
use seawall_core::history::{HistoryDecision, HistoryInput, HistoryTurn, Role, trim};
use seawall_core::queue::{AcceptedGrades, EnterDecision, QueueOptions, QueueOwner, QueueRequest, WaitQueue};
use seawall_core::time::Timestamp;
use seawall_core::tokens::{Calibration, OverheadOptions, RequestCounts, TextCounts, estimate};
use seawall_core::vocabulary::{Grade, Priority};
use std::time::Duration;

fn edge() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(u64::MAX - 1), 0..100_u64, any::<u64>()]
}

#[test]
fn counts_that_are_full_stay_full() {
    let mut counts = TextCounts::of("漫画 please 😀 {\"a\":1} https://x.y/ ㌖");
    for _ in 0..70 {
        counts = counts + counts;
    }
    let request = RequestCounts {
        system: counts,
        history: counts,
        retrieval: counts,
        message: counts,
        messages: u64::MAX,
    };
    let overhead = OverheadOptions { request: u64::MAX, message: u64::MAX, reserve: u64::MAX };
    for model in ["claude", "gpt-4o", "gpt-4", "x"] {
        assert_eq!(estimate(model, &request, overhead, &Calibration::default()).upper, u64::MAX);
    }
}

proptest! {
    #[test]
    fn what_is_left_of_a_conversation_adds_up_exactly(
        turns in vec((any::<bool>(), edge()), 0..12),
        chunks in vec(edge(), 0..6),
        (system, overhead, message) in (edge(), edge(), edge()),
        limit in edge().prop_map(|limit| limit.min(u64::MAX - 1)),
    ) {
        let role = |is_user| if is_user { Role::User } else { Role::Assistant };
        let turns: Vec<_> =
            turns.into_iter().map(|(is_user, tokens)| HistoryTurn { role: role(is_user), tokens }).collect();
        let conversation = HistoryInput { system, overhead, turns: &turns, chunks: &chunks, message };
        if let HistoryDecision::Send(kept) = trim(&conversation, limit) {
            let turns = turns[kept.turns.clone()].iter().map(|turn| turn.tokens);
            let parts = [system, overhead, message].into_iter().chain(turns);
            let exact: u128 = parts.chain(chunks[..kept.chunks].iter().copied()).map(u128::from).sum();
            prop_assert!(exact <= u128::from(limit), "{} above {}", exact, limit);
            prop_assert_eq!(exact, u128::from(kept.tokens));
        }
    }

    #[test]
    fn every_queue_entry_leaves_exactly_once(
        ttl in edge(),
        quantum in edge(),
        steps in vec((0..6_u8, edge(), edge(), 0..5_usize, 0..3_usize, 0..4_u64), 0..60),
    ) {
        let options = QueueOptions {
            capacity: 3,
            ttl: Duration::from_nanos(ttl.max(1)),
            quantum: quantum.max(1),
            ..QueueOptions::default()
        };
        let mut queue = WaitQueue::new(options.check().unwrap());
        let (mut entered, mut left) = (0_u64, 0_u64);
        let mut tickets = vec![];
        for (what, now, value, class, grades, session) in steps {
            let now = Timestamp::from_nanos(now);
            match what {
                0..=2 => {
                    let request = QueueRequest {
                        priority: Priority::ALL[class],
                        session,
                        owner: QueueOwner::Caller(session % 2),
                        grades: [AcceptedGrades::Fast, AcceptedGrades::Strong, AcceptedGrades::Either][grades],
                        cost: value,
                        deadline: Timestamp::from_nanos(value),
                    };
                    if let EnterDecision::Queued { ticket, evicted, .. } = queue.enter(&request, now) {
                        entered += 1;
                        left += u64::from(evicted.is_some());
                        tickets.push(ticket);
                    }
                }
                3 => left += u64::from(queue.next(Grade::ALL[class % 2], now).is_some()),
                4 => left += u64::from(queue.pop_expired(now).is_some()),
                _ => {
                    let cancelled = tickets.last().and_then(|ticket| queue.cancel(*ticket, now));
                    left += u64::from(cancelled.is_some());
                }
            }
            let _any = queue.stats(now);
        }
        while queue.pop_expired(Timestamp::NEVER).is_some() {
            left += 1;
        }
        prop_assert_eq!(entered, left);
    }

    /// The modules' own model pushes text; here the bytes are any, and frames fail.
    #[test]
    fn any_bytes_come_out_as_the_text_they_read_as(
        steps in vec((0..7_u8, 0..400_u64, vec(any::<u8>(), 0..90)), 0..80),
        max_frame_bytes in 70..140_usize,
        replay_bytes in 0..300_usize,
    ) {
        let options = FramingOptions {
            max_frame_bytes,
            envelope_bytes: 4,
            high_watermark: 100,
            low_watermark: 50,
            max_pending_bytes: 150,
            replay_bytes,
            flush_bytes: 40,
            ..FramingOptions::default()
        };
        let mut framer = Framer::new(options.check().unwrap(), Timestamp::ZERO);
        let (mut pushed, mut delivered, mut rest) = (vec![], String::new(), vec![]);
        let (mut now, mut next) = (Timestamp::ZERO, 0);
        for (what, passed, bytes) in steps {
            now = now + Duration::from_millis(passed);
            match what {
                0..=2 => {
                    let bytes = if rest.is_empty() { bytes } else { std::mem::take(&mut rest) };
                    let accepted = match framer.push_bytes(&bytes, now) {
                        PushDecision::Accepted => bytes.len(),
                        PushDecision::PartiallyAccepted { bytes } => bytes,
                        PushDecision::Ended => 0,
                    };
                    pushed.extend_from_slice(&bytes[..accepted]);
                    rest = bytes[accepted..].to_vec();
                }
                3..=5 => {
                    let Some(frame) = framer.next_frame(now) else { continue };
                    let send_id = frame.send_id;
                    let text = match frame.content {
                        FrameContent::Text { index, text } => Some((index, text.to_owned())),
                        _ => None,
                    };
                    if let Some((_, text)) = &text {
                        prop_assert!(serde_json::to_string(text).unwrap().len() + 4 <= max_frame_bytes);
                    }
                    if what == 5 {
                        let _any = framer.report_send_failure(send_id, now);
                    } else {
                        prop_assert!(framer.report_sent(send_id, now));
                        if let Some((index, text)) = text {
                            prop_assert_eq!(index, next);
                            next += 1;
                            delivered.push_str(&text);
                        }
                    }
                }
                _ => {
                    let _any = framer.poll(now);
                }
            }
            prop_assert!(framer.memory() <= framer.settings().max_memory());
        }
        pushed.extend_from_slice(&rest);
        let whole = String::from_utf8_lossy(&pushed).into_owned();
        // An answer that broke off inside a character ends with a replacement.
        let delivered = if framer.ending().is_some() { delivered.trim_end_matches('\u{FFFD}') } else { &delivered };
        prop_assert!(whole.starts_with(delivered), "{:?} {:?}", whole, delivered);
    }
}
