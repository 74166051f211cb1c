use super::{AnswerSingleFlight, FlightRole};
use seawall_core::cache_policy::{CacheKey, KeyParts, Question, SingleFlightKey, SingleFlightOptions};
use seawall_core::deadline::Deadline;
use seawall_core::manual_clock::ManualClock;
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Grade;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

fn key() -> SingleFlightKey {
    let parts = KeyParts { route: "chat", locale: "ja", prompt_version: "1", catalogue_version: "1" };
    let question =
        Question {
            intent: "faq", is_context_free: true, text: "送料は?", history: "", uses_account: false
        };
    SingleFlightKey { key: CacheKey::of(&question, "", &parts).unwrap(), grade: Grade::Strong }
}

type Joining<'a> = Pin<Box<dyn Future<Output = FlightRole<ManualClock>> + Send + 'a>>;

fn look(joining: &mut Joining<'_>) -> Option<FlightRole<ManualClock>> {
    match joining.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(joined) => Some(joined),
        Poll::Pending => None,
    }
}

/// Races the leader's action against the first waiter's cancellation.
fn race(
    leader: impl Fn(FlightRole<ManualClock>) + Send + Copy,
    ended: impl Fn(Option<FlightRole<ManualClock>>),
) {
    let (clock, key) = (ManualClock::default(), key());
    let deadline = Deadline::after(Timestamp::ZERO, Duration::from_secs(60));
    for round in 0..2_000_u32 {
        let single_flight =
            Arc::new(AnswerSingleFlight::new(SingleFlightOptions::default().check().unwrap()));
        let joins = || -> Joining<'_> { Box::pin(single_flight.join(&clock, &key, deadline)) };
        let (mut leads, mut leaver, mut stays) = (joins(), joins(), joins());
        let lead = look(&mut leads).unwrap();
        assert!(look(&mut leaver).is_none() && look(&mut stays).is_none());
        assert_eq!(single_flight.size(), (1, 2));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for _ in 0..round % 64 {
                    std::hint::spin_loop();
                }
                drop(leaver);
            });
            scope.spawn(move || leader(lead));
        });
        ended(look(&mut stays));
        drop(stays);
        assert_eq!((single_flight.size(), single_flight.state().waiters.len()), ((0, 0), 0), "round {round}");
    }
}

#[test]
fn the_lead_always_passes_to_a_remaining_waiter() {
    race(drop, |ended| assert!(matches!(ended, Some(FlightRole::Lead(_)))));
}

#[test]
fn an_answer_reaches_the_remaining_waiters() {
    let answers = |joined| {
        let FlightRole::Lead(lead) = joined else { panic!("the first leads") };
        lead.answered(&"三百円です。".into());
    };
    race(answers, |ended| assert!(matches!(ended, Some(FlightRole::Answer(_)))));
}
