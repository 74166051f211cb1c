//! The charge for answers that were not read to their end, or whose end never arrived.

use crate::shop::{GUEST, Numbers, PRIME, Seen, Shop, body, callers, inbound};
use crate::target::{ScriptedReply, ScriptedTarget, pieces};
use bytes::Bytes;
use seawall_core::failure::Failure;
use seawall_core::money::{Money, Price};
use seawall_core::retry::HedgeOptions;
use seawall_core::tokens::OutputLimit;
use seawall_pipeline::{Rejection, ReplyContent, RequestOutcome, Tier};
use seawall_provider::{Call, CallFuture, ChunkStream, Target, UpstreamResponse};
use seawall_sim::World;
use seawall_wire::dialect::DialectId;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

struct Stand {
    shop: Shop,
    strong: Arc<ScriptedTarget>,
}

impl std::ops::Deref for Stand {
    type Target = Shop;

    fn deref(&self) -> &Shop {
        &self.shop
    }
}

fn shop(reply: ScriptedReply, numbers: &Numbers) -> Stand {
    let world = World::new(29);
    let (strong, fast) = (
        ScriptedTarget::new(&world, &[], reply),
        ScriptedTarget::new(&world, &[], ScriptedReply::Status(503)),
    );
    let models = [
        ("strong-model", 3_000_000_000, Arc::<ScriptedTarget>::clone(&strong) as Arc<_>),
        ("fast-model", 1_000_000_000, fast as Arc<_>),
    ];
    let known = callers(&[(PRIME, Tier::Prime), (GUEST, Tier::Guest)]);
    Stand { shop: Shop::with_options(&world, known, models, numbers), strong }
}

/// The upper bounds of a question's tokens and of its answer's tokens.
fn max_tokens(stream: bool) -> (u32, u32) {
    let bytes = body(stream).replace("manga", "strong-model").len();
    (u32::try_from(bytes).unwrap() + 300, 100)
}

fn max_cost(stream: bool) -> Money {
    let (input, output) = max_tokens(stream);
    let (of_input, of_output) = (Money::from_nanos(3_000_000_000), Money::from_nanos(15_000_000_000));
    let reserved = OutputLimit::new(output.into()).reserved();
    Price::per_million(of_input, of_output).max_cost(input.into(), reserved)
}

#[test]
fn an_abandoned_answer_counts_its_tokens() {
    // A disconnected caller is charged the input that the vendor reported at the beginning, and the upper bound of the
    // output.
    let (input, output) = max_tokens(true);
    let used = 20 + u32::try_from(OutputLimit::new(output.into()).reserved()).unwrap();
    // The caller's name for the model is shorter than the target's.
    let shorter = u32::try_from("strong-model".len() - "manga".len()).unwrap();
    let room = 2 * used + input - shorter + output - 1;
    let numbers = Numbers { tokens: Some(room), ..Numbers::default() };
    let shop = shop(ScriptedReply::Answer, &numbers);
    for _ in 0..2 {
        // All chunks but the last, which reports the usage.
        shop.ask(PRIME, &body(true), Some(3));
        shop.world.run();
    }
    let third = shop.ask_and_wait(PRIME, &body(true));
    assert!(
        matches!(&third, Seen::Rejected(Rejection::RateLimited { limit, .. }) if &*limit.name == "tokens"),
        "{third:?}"
    );
}

#[test]
fn a_complete_answer_is_settled_by_the_vendors_report_and_the_rest_is_released() {
    let (input, output) = max_tokens(false);
    let numbers = Numbers { tokens: Some(input + output + 3 * 28), ..Numbers::default() };
    let shop = shop(ScriptedReply::Answer, &numbers);
    for question in 0..5 {
        let seen = shop.ask_and_wait(PRIME, &body(false));
        assert_eq!(matches!(seen, Seen::Unstreamed(_)), question < 4, "{question}: {seen:?}");
    }
}

#[test]
fn a_non_streamed_answer_that_never_arrived_is_charged_at_its_upper_bound() {
    // The caller disconnected: the model may have generated everything by then.
    let left = shop(ScriptedReply::Hang, &Numbers::default());
    left.ask_for(Duration::from_millis(100), PRIME, &body(false));
    left.world.run();
    assert_eq!((left.day().posted, left.day().held), (max_cost(false), Money::ZERO));
    assert_eq!(left.attempts()[0].3.output, OutputLimit::new(100).reserved());

    // We cut the attempt.
    let timed_out = shop(ScriptedReply::Hang, &Numbers::default());
    timed_out.ask_and_wait(PRIME, &body(false));
    let strong: Vec<_> = timed_out.attempts().into_iter().filter(|(target, ..)| target == "strong").collect();
    assert!(!strong.is_empty());
    for (.., cost) in strong {
        assert_eq!(cost, max_cost(false));
    }
    assert_eq!(timed_out.day().posted, timed_out.records().iter().map(|record| record.cost).sum());
}

#[test]
fn a_hedge_that_has_failed_is_settled_at_once_and_not_when_the_other_ends() {
    let hedge = HedgeOptions { enabled: true, percent: 50.0, min_delay: Duration::from_millis(100) };
    let shop = shop(ScriptedReply::Answer, &Numbers { hedge, ..Numbers::default() });
    for _ in 0..40 {
        shop.ask_and_wait(PRIME, &body(true));
    }
    // The strong model hangs from here on, and the fast one refuses.
    shop.strong.then(ScriptedReply::Hang);
    let before = shop.day().posted;
    shop.ask_for(Duration::from_secs(2), PRIME, &body(true));
    shop.world.run_until(shop.world.now() + Duration::from_secs(1));
    assert_eq!(shop.ledger.open_reservations(), 1, "only the one that is under way is held");
    let fast =
        |shop: &Shop| shop.attempts().into_iter().filter(|(target, ..)| target == "fast").collect::<Vec<_>>();
    assert_eq!(fast(&shop).len(), 1);
    shop.world.run();
    assert!(matches!(fast(&shop)[0].2, seawall_pipeline::AttemptOutcomeKind::Failed(_)), "{:?}", fast(&shop));
    assert_eq!(fast(&shop)[0].4, Money::ZERO, "it refused the call, so nothing is charged");
    assert!(shop.day().posted > before);
}

#[test]
fn a_request_cut_by_shutdown_is_recorded_once_and_settled() {
    for (reply, concurrency) in [(ScriptedReply::Hang, 10), (ScriptedReply::Hang, 1)] {
        let shop = shop(reply, &Numbers { concurrency, ..Numbers::default() });
        let results = Arc::new(Mutex::new(Vec::new()));
        for id in 0..2 {
            let (pipeline, world, results) =
                (Arc::clone(&shop.pipeline), shop.world.clone(), Arc::clone(&results));
            shop.world.spawn(async move {
                let cut = world.sleep(Duration::from_millis(100));
                let reply = pipeline.serve_until(inbound(id, PRIME, &body(false)), cut).await;
                results
                    .lock()
                    .unwrap()
                    .push(matches!(reply.content, ReplyContent::Rejected(Rejection::ShuttingDown)));
            });
        }
        shop.world.run();
        assert_eq!(*results.lock().unwrap(), [true, true]);
        let outcomes: Vec<_> = shop.records().into_iter().map(|record| record.outcome).collect();
        assert_eq!(
            outcomes,
            [RequestOutcome::Rejected("shutting_down"), RequestOutcome::Rejected("shutting_down")]
        );
        assert_eq!((shop.ledger.open_reservations(), shop.day().held), (0, Money::ZERO));
        assert_eq!(shop.day().posted, shop.records().iter().map(|record| record.cost).sum());
        assert_eq!(shop.attempts().len(), if concurrency == 1 { 1 } else { 2 });
    }
}

/// A target that answers with status 200 and an empty body.
struct Empty;

impl Target for Empty {
    fn dialect(&self) -> DialectId {
        DialectId::ANTHROPIC_MESSAGES
    }

    fn call(&self, call: Call) -> CallFuture<'_> {
        Box::pin(async move {
            Ok(if call.stream {
                UpstreamResponse::Stream(Box::new(NoFrames) as Box<dyn ChunkStream>)
            } else {
                UpstreamResponse::Unstreamed { body: Bytes::new(), report: None }
            })
        })
    }
}

struct NoFrames;

impl ChunkStream for NoFrames {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        Poll::Ready(None)
    }
}

#[test]
fn an_answer_without_a_byte_costs_no_output() {
    for stream in [false, true] {
        let world = World::new(37);
        let fast = ScriptedTarget::new(&world, &[], ScriptedReply::Answer);
        let shop = Shop::new(&world, Arc::new(Empty), fast, Money::from_dollars(1_000));
        shop.ask_and_wait(PRIME, &body(stream));
        let strong: Vec<_> = shop.attempts().into_iter().filter(|(target, ..)| target == "strong").collect();
        assert!(!strong.is_empty());
        assert!(strong.iter().all(|(.., usage, _)| usage.output == 0), "{strong:?}");
    }
}

/// A target with a bug: it panics.
struct Mistaken {
    /// Whether it panics only in the stream, after the first content.
    in_stream: bool,
}

struct MistakenChunks(VecDeque<Bytes>);

impl ChunkStream for MistakenChunks {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        Poll::Ready(Some(Ok(self.0.pop_front().expect("a mistake"))))
    }
}

impl Target for Mistaken {
    fn dialect(&self) -> DialectId {
        DialectId::ANTHROPIC_MESSAGES
    }

    fn call(&self, _: Call) -> CallFuture<'_> {
        Box::pin(async {
            assert!(self.in_stream, "a mistake");
            let chunks = MistakenChunks(pieces().into_iter().take(2).collect());
            Ok(UpstreamResponse::Stream(Box::new(chunks) as Box<dyn ChunkStream>))
        })
    }
}

#[test]
fn a_panic_settles_what_was_under_way() {
    for in_stream in [false, true] {
        let world = World::new(37);
        let fast = ScriptedTarget::new(&world, &[], ScriptedReply::Answer);
        let shop = Shop::new(&world, Arc::new(Mistaken { in_stream }), fast, Money::from_dollars(1_000));
        shop.ask(PRIME, &body(true), None);
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| shop.world.run()));
        assert!(ran.is_err());
        assert_eq!((shop.ledger.open_reservations(), shop.day().held), (0, Money::ZERO));
        let outcomes: Vec<_> = shop.records().into_iter().map(|record| record.outcome).collect();
        assert_eq!(outcomes, [RequestOutcome::Abandoned]);
        assert_eq!((shop.attempts().len(), shop.day().posted), (1, shop.records()[0].cost));
        assert!(shop.day().posted > Money::ZERO, "nobody can say what it has cost");
    }
}
