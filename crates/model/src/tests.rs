//! Tests of one model with concurrent callers, on a manual clock.

use crate::call_log::CallEnd;
use crate::engine::{Engine, Fault, FaultRule, ModelCall, ModelOptions, Pace};
use crate::playback::Playback;
use crate::shared::SharedModel;
use bytes::Bytes;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::runtime::Timer;
use seawall_core::time::Timestamp;
use seawall_wire::dialect::DialectId;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A manual clock.
#[derive(Clone, Default)]
struct SetTimer(Arc<AtomicU64>);

struct Wait(SetTimer, Timestamp);

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0.monotonic() >= self.1 { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Timer for SetTimer {
    fn monotonic(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, moment: Timestamp) -> impl Future<Output = ()> + Send + 'static {
        Wait(self.clone(), moment)
    }
}

impl SetTimer {
    fn pass(&self, time: Duration) {
        self.0.fetch_add(u64::try_from(time.as_nanos()).unwrap(), Ordering::Relaxed);
    }
}

fn model(pace: Pace, faults: Vec<Fault>) -> (SharedModel<SetTimer>, SetTimer) {
    let faults = faults.into_iter().map(FaultRule::always).collect();
    let engine = Engine::new(ModelOptions { seed: 1, faults, pace }).unwrap();
    let timer = SetTimer::default();
    (SharedModel::new(engine, timer.clone()), timer)
}

fn question(stream: bool) -> Vec<u8> {
    format!(
        r#"{{"model":"haiku","max_tokens":9,"stream":{stream},"messages":[{{"role":"user","content":"hi"}}]}}"#
    )
    .into_bytes()
}

fn head(play: &mut Playback<SetTimer>) -> Poll<Option<u16>> {
    let mut head = pin!(play.head());
    head.as_mut().poll(&mut Context::from_waker(Waker::noop())).map(|head| head.map(|head| head.status))
}

fn chunk(play: &mut Playback<SetTimer>) -> Poll<Option<Result<Bytes, Failure>>> {
    play.poll_chunk(&mut Context::from_waker(Waker::noop()))
}

fn ends(model: &SharedModel<SetTimer>) -> Vec<CallEnd> {
    model.meter().calls().iter().map(|call| call.end).collect()
}

/// Numbers and log entries are assigned together, whichever thread comes first.
#[test]
fn calls_of_many_threads_are_all_listed_in_order_and_ended() {
    let (model, _) = model(Pace::Instant, vec![]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..250 {
                    let mut play =
                        model.call(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES), &question(false));
                    assert_eq!(head(&mut play), Poll::Ready(Some(200)));
                    assert!(matches!(chunk(&mut play), Poll::Ready(Some(Ok(_)))));
                }
            });
        }
    });
    let calls = model.meter().calls();
    assert!(calls.iter().zip(0_u64..).all(|(call, number)| call.number == number) && calls.len() == 1_000);
    assert!(calls.iter().all(|call| call.end == CallEnd::Complete && call.model == Some("haiku")));
    assert_eq!(model.meter().bill().line("haiku").answers, 1_000);
}

#[test]
fn a_piece_is_there_when_it_is_due_and_is_billed_then() {
    let (model, timer) = model(Pace::Real, vec![]);
    let mut play = model.call(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES), &question(true));
    // The haiku model's first token takes 250 ms, followed by 120 tokens per second.
    timer.pass(Duration::from_nanos(249_999_999));
    assert!(head(&mut play).is_ready());
    let mut early = Vec::new();
    while let Poll::Ready(Some(chunk)) = chunk(&mut play) {
        early.extend_from_slice(&chunk.unwrap());
    }
    assert!(!String::from_utf8_lossy(&early).contains("text_delta"));
    timer.pass(Duration::from_nanos(1));
    let Poll::Ready(Some(Ok(first))) = chunk(&mut play) else { panic!("it is due") };
    assert!(String::from_utf8_lossy(&first).contains("text_delta"));
    let mut billed = Vec::new();
    loop {
        match chunk(&mut play) {
            Poll::Ready(Some(chunk)) => drop(chunk.unwrap()),
            Poll::Ready(None) => break,
            Poll::Pending => {
                billed.push(model.meter().bill().line("haiku").output_tokens);
                assert_eq!(ends(&model), [CallEnd::Open]);
                timer.pass(Duration::from_nanos(1_000_000_000 / 120));
            }
        }
    }
    assert!(billed.is_sorted() && billed.len() >= 7, "{billed:?}");
    assert_eq!(
        (model.meter().bill().line("haiku").output_tokens, ends(&model)),
        (9, vec![CallEnd::Complete])
    );
    // Polling again after the end counts nothing twice.
    assert_eq!(chunk(&mut play), Poll::Ready(None));
    assert_eq!(model.meter().bill().line("haiku").answers, 1);
}

#[test]
fn a_caller_that_disconnects_pays_for_what_was_delivered() {
    let (model, timer) = model(Pace::Real, vec![]);
    let mut whole = model.call(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES), &question(false));
    assert!(head(&mut whole).is_pending());
    drop(whole);
    assert_eq!((model.meter().bill().nano_dollars(), ends(&model)), (0, vec![CallEnd::CallerGone]));
    let mut stream = model.call(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES), &question(true));
    timer.pass(Duration::from_millis(280));
    while chunk(&mut stream).is_ready() {}
    drop(stream);
    let line = model.meter().bill().line("haiku");
    assert!((1..9).contains(&line.output_tokens) && line.input_tokens > 0, "{line:?}");
    assert_eq!((line.requests, line.answers, ends(&model)), (2, 0, vec![CallEnd::CallerGone; 2]));
}

#[test]
fn a_broken_connection_is_an_error_and_a_hanging_model_never_ends() {
    let (broken, _) = model(Pace::Instant, vec![Fault::Reset]);
    let mut play = broken.call(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES), &question(true));
    assert_eq!((head(&mut play), ends(&broken)), (Poll::Ready(None), vec![CallEnd::Broken]));

    let after_tokens = Some(3);
    let cut = Fault::Cut { after: None, after_bytes: None, after_tokens, reset: false };
    let (cut, _) = model(Pace::Instant, vec![cut]);
    let mut play = cut.call(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES), &question(true));
    let failure = loop {
        match chunk(&mut play) {
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(Some(Err(failure))) => break failure,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((failure.kind, ends(&cut)), (FailureKind::StreamInterrupted, vec![CallEnd::Broken]));
    let delivered = cut.meter().bill().line("haiku").output_tokens;
    assert!((3..9).contains(&delivered), "{delivered}");

    let (silent, timer) = model(Pace::Instant, vec![Fault::Hang { after: 0 }]);
    let mut play = silent.call(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES), &question(true));
    assert!(head(&mut play).is_pending());
    timer.pass(Duration::from_secs(3_600));
    assert!(head(&mut play).is_pending() && ends(&silent) == [CallEnd::Open]);

    let every = Duration::from_millis(5);
    let (endless, timer) = model(Pace::Instant, vec![Fault::Endless { every }]);
    let mut play = endless.call(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES), &question(true));
    while chunk(&mut play).is_ready() {}
    let before = endless.meter().bill().line("haiku").output_tokens;
    timer.pass(every - Duration::from_nanos(1));
    assert!(chunk(&mut play).is_pending());
    timer.pass(Duration::from_nanos(1));
    assert!(chunk(&mut play).is_ready() && chunk(&mut play).is_pending());
    assert_eq!(endless.meter().bill().line("haiku").output_tokens, before + 1);
}

#[test]
fn a_refusal_is_no_answer_and_costs_nothing() {
    let status = Fault::Status { status: 503, error: None, retry_after: None };
    let (model, _) = model(Pace::Instant, vec![status]);
    let mut play = model.call(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES), &question(false));
    assert_eq!(head(&mut play), Poll::Ready(Some(503)));
    assert!(matches!(chunk(&mut play), Poll::Ready(Some(Ok(_)))));
    assert_eq!(chunk(&mut play), Poll::Ready(None));
    let line = model.meter().bill().line("haiku");
    assert_eq!((line.requests, line.answers, line.nano_dollars), (1, 0, 0));
    assert_eq!(ends(&model), [CallEnd::Complete]);
}

#[test]
fn other_faults_are_timed_and_counted_from_when_they_are_set() {
    let (model, timer) = model(Pace::Instant, vec![]);
    drop(model.call(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES), &question(false)));
    timer.pass(Duration::from_secs(100));
    let rules = br#"[{"fault":{"kind":"status","status":500},"to":"10s","every":2}]"#;
    assert_eq!(model.set_faults(rules), Ok(1));
    assert!(model.set_faults(b"[{}]").is_err());
    let status = || head(&mut model.call(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES), &question(false)));
    assert_eq!([status(), status()], [Poll::Ready(Some(500)), Poll::Ready(Some(200))]);
    timer.pass(Duration::from_secs(10));
    assert_eq!([status(), status()], [Poll::Ready(Some(200)); 2]);
    assert_eq!(model.meter().calls().len(), 5);
    model.meter().reset();
    assert!(model.meter().calls().is_empty() && model.meter().bill().nano_dollars() == 0);
}
