//! Streams without end, and slow readers.

use crate::shop::{Encoded, GUEST, Numbers, PRIME, Seen, Shop, body, callers, inbound, question};
use crate::target::{ScriptedReply, ScriptedTarget, pieces};
use bytes::Bytes;
use seawall_core::failure::Failure;
use seawall_core::money::Money;
use seawall_core::time::Timestamp;
use seawall_pipeline::{AttemptOutcomeKind, ReplyContent, RequestInterruption, RequestOutcome, Tier};
use seawall_provider::{Call, CallFuture, ChunkStream, Target, UpstreamResponse};
use seawall_sim::World;
use seawall_wire::dialect::DialectId;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// More chunks than a caller should ever receive; then the stream ends, so that the test does, too.
const MAX_CHUNKS: usize = 200_000;
const MEGABYTE: usize = 1 << 20;

/// A target that always has another chunk ready.
struct Flood {
    opening: Vec<Bytes>,
    then: Bytes,
    chunks_read: Arc<AtomicUsize>,
}

impl Flood {
    fn new(opening: &[Bytes], then: Bytes) -> Arc<Self> {
        Arc::new(Self { opening: opening.to_vec(), then, chunks_read: Arc::default() })
    }

    fn chunks_read(&self) -> usize {
        self.chunks_read.load(Ordering::Relaxed)
    }
}

impl Target for Flood {
    fn dialect(&self) -> DialectId {
        DialectId::ANTHROPIC_MESSAGES
    }

    fn call(&self, _: Call) -> CallFuture<'_> {
        let opening = self.opening.iter().cloned().collect();
        let chunks =
            FloodChunks { opening, then: self.then.clone(), chunks_read: Arc::clone(&self.chunks_read) };
        Box::pin(async move { Ok(UpstreamResponse::Stream(Box::new(chunks))) })
    }
}

struct FloodChunks {
    opening: VecDeque<Bytes>,
    then: Bytes,
    chunks_read: Arc<AtomicUsize>,
}

impl ChunkStream for FloodChunks {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        let chunks_read = self.chunks_read.fetch_add(1, Ordering::Relaxed);
        let next = self.opening.pop_front().unwrap_or_else(|| self.then.clone());
        Poll::Ready((chunks_read < MAX_CHUNKS).then_some(Ok(next)))
    }
}

fn shop(flood: &Arc<Flood>) -> (Shop, Arc<ScriptedTarget>) {
    let world = World::new(23);
    world.run_until(Timestamp::ZERO + Duration::from_secs(3 * 3_600));
    let fast = ScriptedTarget::new(&world, &[], ScriptedReply::Answer);
    let models = [
        ("strong-model", 3_000_000_000, Arc::<Flood>::clone(flood) as Arc<_>),
        ("fast-model", 1_000_000_000, Arc::<ScriptedTarget>::clone(&fast) as Arc<_>),
    ];
    let known = callers(&[(PRIME, Tier::Prime), (GUEST, Tier::Guest)]);
    (Shop::with_options(&world, known, models, &Numbers::default()), fast)
}

fn ping(padding: usize) -> Bytes {
    format!(": {}\n\nevent: ping\ndata: {{\"type\":\"ping\"}}\n\n", " ".repeat(padding)).into()
}

fn text(length: usize) -> Bytes {
    let text = "x".repeat(length);
    let delta = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""#;
    format!("event: content_block_delta\ndata: {delta}{text}\"}}}}\n\n").into()
}

fn settled(shop: &Shop) {
    assert_eq!((shop.ledger.open_reservations(), shop.day().held), (0, Money::ZERO));
    assert_eq!(shop.day().posted, shop.records().iter().map(|record| record.cost).sum());
}

#[test]
fn frames_before_the_first_content_are_buffered_up_to_a_limit_and_then_another_target_answers() {
    for padding in [0, 64 << 10] {
        let flood = Flood::new(&pieces()[..1], ping(padding));
        let (shop, fast) = shop(&flood);
        assert_eq!(shop.ask_and_wait(PRIME, &body(true)), Seen::Stream(pieces()), "{padding}");
        assert!(
            flood.chunks_read() * ping(padding).len() < 2 * MEGABYTE,
            "{} of {padding}",
            flood.chunks_read()
        );
        assert!(fast.calls() >= 1);
        settled(&shop);
    }
}

#[test]
fn empty_frames_count_as_well() {
    let flood = Flood::new(&[], Bytes::new());
    let (shop, _) = shop(&flood);
    assert_eq!(shop.ask_and_wait(PRIME, &body(true)), Seen::Stream(pieces()));
    assert!(flood.chunks_read() < MAX_CHUNKS / 2, "{}", flood.chunks_read());
    settled(&shop);
}

#[test]
fn an_endless_chat_answer_is_stopped_by_its_budget() {
    let flood = Flood::new(&pieces()[..2], text(64 << 10));
    let (shop, fast) = shop(&flood);
    let seen = shop.ask_as(question(1, PRIME, r#"{"message":"おすすめは？"}"#));
    shop.world.run();
    let Some(Seen::Unstreamed(answer)) = seen.lock().unwrap().take() else { panic!("no answer") };
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((answer["target"].as_str(), answer["finish"].as_str()), (Some("strong"), Some("budget")));
    assert_eq!(fast.calls(), 0);
    assert!(flood.chunks_read() * (64 << 10) < 2 * MEGABYTE, "{}", flood.chunks_read());
    settled(&shop);
}

/// Reads one chunk per interval, until the end or until this many were read.
fn read_slowly(shop: &Shop, every: Duration, max_chunks: usize) -> Arc<AtomicUsize> {
    let read = Arc::new(AtomicUsize::new(0));
    let (pipeline, world, count) = (Arc::clone(&shop.pipeline), shop.world.clone(), Arc::clone(&read));
    shop.world.spawn(async move {
        let reply = pipeline.serve(inbound(1, PRIME, &body(true))).await;
        let ReplyContent::Stream(stream) = reply.content else { panic!("no stream") };
        let mut stream = Encoded::new(stream);
        while count.load(Ordering::Relaxed) < max_chunks && stream.chunk().await.is_some() {
            count.fetch_add(1, Ordering::Relaxed);
            world.sleep(every).await;
        }
    });
    shop.world.run();
    read
}

#[test]
fn a_stream_that_always_has_more_ends_at_its_deadline() {
    let flood = Flood::new(&pieces()[..2], text(1));
    let (shop, _) = shop(&flood);
    // The deadline is ten minutes; a few chunks may pass before it is checked.
    let read = read_slowly(&shop, Duration::from_secs(5), 500);
    let read = read.load(Ordering::Relaxed);
    assert!((110..=140).contains(&read), "{read}");
    let record = shop.records().pop().unwrap();
    assert_eq!(record.outcome, RequestOutcome::Interrupted(RequestInterruption::Deadline));
    settled(&shop);
}

type Unread = Arc<Mutex<Option<Encoded>>>;

/// A deployment with one concurrency slot per model, and a stream of which this many chunks were read.
fn left_unread(world: &World, strong: Arc<dyn Target>, chunks: usize) -> (Shop, Unread) {
    let fast = ScriptedTarget::new(world, &[], ScriptedReply::Status(503));
    let models =
        [("strong-model", 3_000_000_000, strong), ("fast-model", 1_000_000_000, fast as Arc<dyn Target>)];
    let numbers = Numbers { concurrency: 1, ..Numbers::default() };
    let shop =
        Shop::with_options(world, callers(&[(PRIME, Tier::Prime), (GUEST, Tier::Guest)]), models, &numbers);
    let held_stream = Arc::new(Mutex::new(None));
    let (pipeline, stream_slot) = (Arc::clone(&shop.pipeline), Arc::clone(&held_stream));
    shop.world.spawn(async move {
        let reply = pipeline.serve(inbound(1, PRIME, &body(true))).await;
        let ReplyContent::Stream(stream) = reply.content else { panic!("no stream") };
        let mut stream = Encoded::new(stream);
        for _ in 0..chunks {
            assert!(stream.chunk().await.is_some());
        }
        *stream_slot.lock().unwrap() = Some(stream);
    });
    shop.world.run_until(shop.world.now() + Duration::from_secs(5));
    (shop, held_stream)
}

#[test]
fn an_unread_stream_releases_its_resources_at_its_deadline_and_ends_with_an_error() {
    let flood = Flood::new(&pieces()[..2], text(1));
    let (shop, held_stream) = left_unread(&World::new(31), Arc::<Flood>::clone(&flood) as Arc<_>, 1);
    let mut stream = held_stream.lock().unwrap().take().unwrap();
    stream.stream.check_deadline();
    assert_eq!(shop.ledger.open_reservations(), 1, "its time has not come");
    shop.world.run_until(Timestamp::ZERO + Duration::from_secs(599));
    stream.stream.check_deadline();
    assert_eq!(shop.ledger.open_reservations(), 1);
    shop.world.run_until(Timestamp::ZERO + Duration::from_secs(600));
    stream.stream.check_deadline();
    assert_eq!((shop.ledger.open_reservations(), shop.day().held), (0, Money::ZERO));
    let chunks_read = flood.chunks_read();
    let seen = shop.ask(GUEST, &body(true), Some(1));
    shop.world.run();
    assert!(seen.lock().unwrap().is_some(), "the place is free again");
    assert!(flood.chunks_read() > chunks_read);
    // A caller that continues to read receives the error.
    let mut received = Vec::new();
    while let Poll::Ready(Some(chunk)) = stream.poll_chunk(&mut Context::from_waker(Waker::noop())) {
        received.extend_from_slice(&chunk);
    }
    let received = String::from_utf8(received).unwrap();
    assert!(received.contains("event: error") && !received.contains("message_stop"), "{received}");
    drop(stream);
    let outcomes: Vec<_> = shop.records().into_iter().map(|record| record.outcome).collect();
    assert!(outcomes.contains(&RequestOutcome::Interrupted(RequestInterruption::Deadline)), "{outcomes:?}");
    let endings: Vec<_> = shop.attempts().into_iter().map(|(_, _, outcome, ..)| outcome).collect();
    assert_eq!(
        endings,
        [AttemptOutcomeKind::Abandoned; 2],
        "nobody who does not read can have a target left alone"
    );
}

#[test]
fn a_complete_answer_holds_no_slot_however_slowly_it_is_read() {
    let world = World::new(31);
    // All four chunks were read, but not the end of the stream.
    let (shop, held_stream) = left_unread(&world, ScriptedTarget::new(&world, &[], ScriptedReply::Answer), 4);
    assert!(held_stream.lock().unwrap().is_some());
    assert!(matches!(shop.ask_and_wait(GUEST, &body(false)), Seen::Unstreamed(_)));
}

#[test]
fn a_stream_ended_by_shutdown_reports_it_without_blaming_the_target() {
    let flood = Flood::new(&pieces()[..2], text(1));
    let (shop, held_stream) = left_unread(&World::new(31), Arc::<Flood>::clone(&flood) as Arc<_>, 1);
    let mut stream = held_stream.lock().unwrap().take().unwrap();
    stream.stream.end_for_shutdown();
    assert_eq!((shop.ledger.open_reservations(), shop.day().held), (0, Money::ZERO));
    let chunks_read = flood.chunks_read();
    let mut received = Vec::new();
    while let Poll::Ready(Some(chunk)) = stream.poll_chunk(&mut Context::from_waker(Waker::noop())) {
        received.extend_from_slice(&chunk);
    }
    let received = String::from_utf8(received).unwrap();
    assert!(received.contains("event: error") && received.contains("shutting down"), "{received}");
    drop(stream);
    assert_eq!((flood.chunks_read(), shop.attempts()[0].2), (chunks_read, AttemptOutcomeKind::Abandoned));
}
