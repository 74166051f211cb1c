//! Requests that are answered, one way or another.

use crate::shop::{PRIME, Seen, Shop, body};
use crate::target::{ScriptedReply, ScriptedTarget, pieces, whole};
use seawall_core::failure::FailureKind;
use seawall_core::money::Money;
use seawall_core::time::Timestamp;
use seawall_pipeline::{RequestInterruption, RequestOutcome};
use seawall_sim::World;
use std::sync::Arc;
use std::time::Duration;

fn shop(
    strong: &[ScriptedReply],
    then: ScriptedReply,
    fast: ScriptedReply,
) -> (Shop, Arc<ScriptedTarget>, Arc<ScriptedTarget>) {
    let world = World::new(3);
    let strong = ScriptedTarget::new(&world, strong, then);
    let fast = ScriptedTarget::new(&world, &[], fast);
    (
        Shop::new(
            &world,
            Arc::<ScriptedTarget>::clone(&strong),
            Arc::<ScriptedTarget>::clone(&fast),
            Money::from_dollars(1_000),
        ),
        strong,
        fast,
    )
}

/// 20 input and 8 output tokens on the strong model.
const EXACT: Money = Money::from_nanos(20 * 3_000 + 8 * 15_000);

#[test]
fn a_whole_answer_passes_byte_for_byte_and_costs_what_the_vendor_says() {
    let (shop, strong, fast) = shop(&[], ScriptedReply::Answer, ScriptedReply::Answer);
    assert_eq!(shop.ask_and_wait(PRIME, &body(false)), Seen::Unstreamed(whole()));
    let sent = strong.call_log.lock().unwrap().calls[0].1.clone();
    assert_eq!(sent, body(false).replace("manga", "strong-model"));
    assert_eq!(fast.calls(), 0);
    let ledger = shop.day();
    assert_eq!((ledger.posted, ledger.held, shop.ledger.open_reservations()), (EXACT, Money::ZERO, 0));
    let records = shop.records();
    assert_eq!(records.len(), 1);
    assert_eq!(
        (&records[0].outcome, records[0].attempts, records[0].cost),
        (&RequestOutcome::Answered, 1, EXACT)
    );
    assert_eq!((records[0].target.as_deref(), records[0].usage.output), (Some("strong"), 8));
    assert_eq!(records[0].first_content, Some(Duration::from_millis(300)));
}

#[test]
fn a_stream_passes_byte_for_byte_and_is_settled_at_its_end() {
    let (shop, _, _) = shop(&[], ScriptedReply::Answer, ScriptedReply::Answer);
    assert_eq!(shop.ask_and_wait(PRIME, &body(true)), Seen::Stream(pieces()));
    assert_eq!((shop.day().posted, shop.ledger.open_reservations()), (EXACT, 0));
    let record = &shop.records()[0];
    assert_eq!((&record.outcome, record.cost), (&RequestOutcome::Answered, EXACT));
    // The first event has no content; the second came 50 ms after it.
    assert_eq!(record.first_content, Some(Duration::from_millis(350)));
    assert_eq!(record.ended, Timestamp::ZERO + Duration::from_millis(450));
}

#[test]
fn a_whole_stream_whose_connection_does_not_end_is_answered_all_the_same() {
    let (shop, strong, _) =
        shop(&[ScriptedReply::StallAfter(pieces().len())], ScriptedReply::Answer, ScriptedReply::Answer);
    assert_eq!(shop.ask_and_wait(PRIME, &body(true)), Seen::Stream(pieces()));
    let record = &shop.records()[0];
    assert_eq!((&record.outcome, record.cost), (&RequestOutcome::Answered, EXACT));
    assert_eq!(record.ended, Timestamp::ZERO + Duration::from_millis(450));
    assert_eq!((strong.call_log.lock().unwrap().streams_dropped, shop.ledger.open_reservations()), (1, 0));
}

#[test]
fn throttled_twice_it_is_answered_by_the_third_attempt() {
    let (shop, strong, fast) = shop(
        &[ScriptedReply::Status(429), ScriptedReply::Status(529)],
        ScriptedReply::Answer,
        ScriptedReply::Answer,
    );
    assert_eq!(shop.ask_and_wait(PRIME, &body(true)), Seen::Stream(pieces()));
    assert_eq!((strong.calls(), fast.calls()), (3, 0));
    assert_eq!(shop.records()[0].attempts, 3);
    // A call that the vendor answered with an error costs nothing.
    assert_eq!(shop.day().posted, EXACT);
    assert_eq!(shop.pipeline.retry_counters().snapshot().retries, 2);
}

#[test]
fn a_target_that_is_down_is_left_alone_and_the_next_one_answers() {
    let (shop, strong, fast) = shop(&[], ScriptedReply::Status(503), ScriptedReply::Answer);
    for _ in 0..20 {
        assert_eq!(shop.ask_and_wait(PRIME, &body(false)), Seen::Unstreamed(whole()));
    }
    // Five failures open its breaker.
    assert_eq!((strong.calls(), fast.calls()), (5, 20));
    assert!(shop.records().iter().all(|record| record.target.as_deref() == Some("fast")));
}

#[test]
fn a_target_that_hangs_is_cut_and_the_next_one_answers() {
    let (shop, _, fast) = shop(&[], ScriptedReply::Hang, ScriptedReply::Answer);
    assert_eq!(shop.ask_and_wait(PRIME, &body(true)), Seen::Stream(pieces()));
    let called_at = fast.call_log.lock().unwrap().calls[0].0;
    // Where another target is available, the attempt is cut after five seconds without a byte.
    assert_eq!(called_at, Timestamp::ZERO + Duration::from_secs(5));
    let record = &shop.records()[0];
    assert_eq!(record.attempts, 2);
    // The cost of the cut attempt is unknown; at most its input.
    assert!(
        record.cost > Money::ZERO && shop.day().posted == record.cost && shop.ledger.open_reservations() == 0
    );
}

#[test]
fn cut_before_any_content_it_is_replaced_and_the_caller_sees_one_answer() {
    for reply in [ScriptedReply::CutAfter(0), ScriptedReply::CutAfter(1)] {
        let (shop, strong, _) = shop(&[reply], ScriptedReply::Answer, ScriptedReply::Answer);
        assert_eq!(shop.ask_and_wait(PRIME, &body(true)), Seen::Stream(pieces()));
        assert_eq!((strong.calls(), shop.records()[0].attempts), (2, 2));
    }
}

#[test]
fn broken_off_after_content_it_ends_with_an_error_and_never_with_a_second_answer() {
    for (reply, whole_pieces, kind) in [
        (ScriptedReply::CutAfter(2), 2, FailureKind::StreamInterrupted),
        (ScriptedReply::CutInside(2), 2, FailureKind::StreamInterrupted),
        (ScriptedReply::NonsenseAfter(2), 2, FailureKind::Unrecognised),
        (ScriptedReply::StallAfter(3), 3, FailureKind::TimedOut),
    ] {
        let (shop, strong, fast) = shop(&[reply], ScriptedReply::Answer, ScriptedReply::Answer);
        let Seen::Stream(chunks) = shop.ask_and_wait(PRIME, &body(true)) else { panic!("not a stream") };
        let (last, before) = chunks.split_last().unwrap();
        assert_eq!(before, &pieces()[..whole_pieces], "{reply:?}");
        assert!(last.starts_with(b"event: error\n"), "{last:?}");
        assert_eq!((strong.calls(), fast.calls()), (1, 0));
        let record = &shop.records()[0];
        assert_eq!(record.outcome, RequestOutcome::Interrupted(RequestInterruption::Failed(kind)));
        assert!(
            record.cost > Money::ZERO
                && shop.day().posted == record.cost
                && shop.ledger.open_reservations() == 0
        );
    }
}

#[test]
fn a_caller_that_disconnects_before_any_content_is_settled_and_recorded() {
    for stream in [true, false] {
        let (shop, strong, _) =
            shop(&[ScriptedReply::Status(429)], ScriptedReply::Answer, ScriptedReply::Answer);
        shop.ask_for(Duration::from_millis(500), PRIME, &body(stream));
        shop.world.run();
        assert_eq!(strong.calls(), 2, "thrown away in the middle of the second attempt");
        let records = shop.records();
        assert_eq!(records.len(), 1);
        assert_eq!((&records[0].outcome, records[0].attempts), (&RequestOutcome::Abandoned, 2));
        assert!(records[0].cost > Money::ZERO);
        assert_eq!((shop.day().posted, shop.ledger.open_reservations()), (records[0].cost, 0));
    }
}

#[test]
fn a_caller_that_disconnects_closes_the_upstream_response_and_pays_for_what_was_delivered() {
    let (shop, strong, _) = shop(&[], ScriptedReply::Answer, ScriptedReply::Answer);
    let seen = shop.ask(PRIME, &body(true), Some(2));
    shop.world.run();
    assert!(matches!(seen.lock().unwrap().as_ref(), Some(Seen::Stream(chunks)) if chunks.len() == 2));
    assert_eq!(strong.call_log.lock().unwrap().streams_dropped, 1);
    let record = &shop.records()[0];
    assert_eq!(record.outcome, RequestOutcome::Abandoned);
    assert!(record.cost >= EXACT, "{}", record.cost);
    assert_eq!(
        (shop.day().posted, shop.day().held, shop.ledger.open_reservations()),
        (record.cost, Money::ZERO, 0)
    );
    // The abandoned permit did not count for or against the target, and its concurrency slot is free.
    assert_eq!(shop.ask_and_wait(PRIME, &body(false)), Seen::Unstreamed(whole()));
}
