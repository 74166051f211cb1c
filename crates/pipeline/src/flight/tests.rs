use super::{FlightBoard, Joined};
use crate::hand::Hand;
use seawall_core::cache_policy::{CacheKey, FlightKey, FlightOptions, KeyParts, Question};
use seawall_core::deadline::Deadline;
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::{Grade, Intent};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

fn key() -> FlightKey {
    let parts = KeyParts { route: "chat", locale: "ja", prompt_version: "1", catalogue_version: "1" };
    let question = Question { intent: Intent::Faq, text: "送料は?", history: "", uses_account: false };
    FlightKey { key: CacheKey::of(&question, "", &parts).unwrap(), grade: Grade::Strong }
}

type Joining<'a> = Pin<Box<dyn Future<Output = Joined<Hand>> + Send + 'a>>;

fn look(joining: &mut Joining<'_>) -> Option<Joined<Hand>> {
    match joining.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(joined) => Some(joined),
        Poll::Pending => None,
    }
}

/// Races the leader's action against the first waiter's cancellation.
fn race(leader: impl Fn(Joined<Hand>) + Send + Copy, ended: impl Fn(Option<Joined<Hand>>)) {
    let (hand, key) = (Hand::default(), key());
    let deadline = Deadline::after(Timestamp::ZERO, Duration::from_secs(60));
    for round in 0..2_000_u32 {
        let board = Arc::new(FlightBoard::new(FlightOptions::default().check().unwrap()));
        let joins = || -> Joining<'_> { Box::pin(board.join(&hand, &key, deadline)) };
        let (mut leads, mut leaver, mut stays) = (joins(), joins(), joins());
        let lead = look(&mut leads).unwrap();
        assert!(look(&mut leaver).is_none() && look(&mut stays).is_none());
        assert_eq!(board.size(), (1, 2));
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
        assert_eq!((board.size(), board.table().waiters.len()), ((0, 0), 0), "round {round}");
    }
}

#[test]
fn a_lead_always_passes_on_to_somebody_who_still_waits() {
    race(drop, |ended| assert!(matches!(ended, Some(Joined::Lead(_)))));
}

#[test]
fn an_answer_reaches_who_still_waits() {
    let answers = |joined| {
        let Joined::Lead(lead) = joined else { panic!("the first leads") };
        lead.answered(&"三百円です。".into());
    };
    race(answers, |ended| assert!(matches!(ended, Some(Joined::Answer(_)))));
}
