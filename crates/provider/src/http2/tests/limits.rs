//! Timeouts and sizes.

use super::{accept, ask, beside, chunk, connect, ok, pool};
use crate::http1::tests::support::{HandTimer, LIMITS, SECOND};
use crate::http1::{BodyFailure, HEAD_LIMIT, HeadError, SendFailure, Timer as _};
use bytes::Bytes;
use seawall_core::time::Timestamp;
use std::time::Duration;

const INSTANT: Duration = Duration::from_nanos(1);

#[tokio::test]
async fn a_peer_that_does_not_take_the_request_is_not_waited_for() {
    let timer = HandTimer::default();
    let pool = pool(&timer, 10);
    let (mut server, lease) = connect(&pool, &h2::server::Builder::new()).await;
    // Four times the initial flow-control window.
    let body = Bytes::from(vec![b'q'; 256 << 10]);
    let patience = async {
        let held = accept(&mut server).await;
        beside(&mut server, timer.advance_when_awaited(LIMITS.write_timeout - INSTANT)).await;
        beside(&mut server, timer.advance_when_awaited(INSTANT)).await;
        held
    };
    let (_held, outcome) = tokio::join!(patience, ask(lease, body, false));
    let failure = outcome.map(|_| ()).unwrap_err();
    assert!(matches!(failure, SendFailure::WriteTimedOut { began: true }), "{failure:?}");
    // The connection is retired.
    assert!(pool.take(timer.monotonic()).is_none());
}

#[tokio::test]
async fn the_time_for_a_head_begins_when_the_request_was_taken() {
    let timer = HandTimer::default();
    let pool = pool(&timer, 10);
    let (mut server, lease) = connect(&pool, &h2::server::Builder::new()).await;
    let body = Bytes::from(vec![b'q'; 256 << 10]);
    let patience = async {
        let (request, answering) = accept(&mut server).await;
        beside(&mut server, timer.advance_when_awaited(SECOND * 7)).await;
        let mut asked = request.into_body();
        beside(&mut server, async {
            let mut length = 0;
            while let Some(piece) = asked.data().await {
                let piece = piece.unwrap();
                length += piece.len();
                asked.flow_control().release_capacity(piece.len()).unwrap();
            }
            assert_eq!(length, 256 << 10);
        })
        .await;
        beside(&mut server, timer.advance_when_awaited(LIMITS.head_timeout - INSTANT)).await;
        assert_eq!(timer.monotonic(), Timestamp::ZERO + SECOND * 7 + LIMITS.head_timeout - INSTANT);
        beside(&mut server, timer.advance_when_awaited(INSTANT)).await;
        answering
    };
    let (_held, outcome) = tokio::join!(patience, ask(lease, body, false));
    let failure = outcome.map(|_| ()).unwrap_err();
    assert!(matches!(failure, SendFailure::HeadTimedOut { response_began: false }), "{failure:?}");
    assert!(pool.take(timer.monotonic()).is_none());
}

#[tokio::test]
async fn a_body_that_stands_still_is_not_waited_for() {
    let timer = HandTimer::default();
    let pool = pool(&timer, 10);
    let (mut server, lease) = connect(&pool, &h2::server::Builder::new()).await;
    let serve = async {
        let (_, mut answering) = accept(&mut server).await;
        let mut answer = answering.send_response(ok(), false).unwrap();
        for _ in 0..2 {
            beside(&mut server, timer.advance_when_awaited(LIMITS.idle_timeout - INSTANT)).await;
            answer.send_data(Bytes::from_static(b"a"), false).unwrap();
            for _ in 0..20 {
                beside(&mut server, tokio::task::yield_now()).await;
            }
        }
        beside(&mut server, timer.advance_when_awaited(LIMITS.idle_timeout)).await;
        answer
    };
    let client = async {
        let mut response =
            ask(lease, Bytes::new(), false).await.unwrap_or_else(|failure| panic!("{failure}"));
        let mut chunks = 0;
        loop {
            match chunk(&mut response).await.unwrap() {
                Ok(_) => chunks += 1,
                Err(failure) => break (chunks, failure, chunk(&mut response).await),
            }
        }
    };
    let (_held, outcome) = tokio::join!(serve, client);
    assert_eq!(outcome, (2, BodyFailure::TimedOut, None));
    assert!(pool.take(timer.monotonic()).is_none());
}

#[tokio::test]
async fn a_body_larger_than_its_limit_is_cut_off() {
    let most = usize::try_from(LIMITS.max_body_bytes).unwrap();
    for (told, sent, expected) in [
        (None, most, Ok(most)),
        (None, most + 1, Err(BodyFailure::TooLarge)),
        (Some(most), most, Ok(most)),
        // Known before any of it arrived.
        (Some(most + 1), 0, Err(BodyFailure::TooLarge)),
    ] {
        let timer = HandTimer::default();
        let pool = pool(&timer, 10);
        let (mut server, lease) = connect(&pool, &h2::server::Builder::new()).await;
        let serve = async {
            let (_, mut answering) = accept(&mut server).await;
            let mut head = ok();
            if let Some(told) = told {
                head.headers_mut().insert("content-length", told.into());
            }
            let mut answer = answering.send_response(head, false).unwrap();
            answer.send_data(Bytes::from(vec![b'a'; sent]), told.is_none_or(|told| told == sent)).unwrap();
            beside(&mut server, std::future::pending::<()>()).await;
        };
        let client = async {
            let mut response =
                ask(lease, Bytes::new(), false).await.unwrap_or_else(|failure| panic!("{failure}"));
            let mut length = 0;
            while let Some(piece) = chunk(&mut response).await {
                length += piece?.len();
            }
            Ok(length)
        };
        let outcome = tokio::select! {
            outcome = client => outcome,
            () = serve => unreachable!(),
        };
        assert_eq!(outcome, expected);
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_is_not_taken() {
    // A header counts as its name, its value and 32 bytes; here that is 996.
    assert_eq!(HEAD_LIMIT / 996, 65);
    for (count, is_fine) in [(65, true), (66, false)] {
        let timer = HandTimer::default();
        let pool = pool(&timer, 10);
        let (mut server, lease) = connect(&pool, &h2::server::Builder::new()).await;
        let serve = async {
            let (_, mut answering) = accept(&mut server).await;
            let mut head = ok();
            for number in 0..count {
                let name: http::HeaderName = format!("x-{number:02}").parse().unwrap();
                head.headers_mut().insert(name, "x".repeat(960).parse().unwrap());
            }
            let _ = answering.send_response(head, true);
            beside(&mut server, std::future::pending::<()>()).await;
        };
        let outcome = tokio::select! {
            outcome = ask(lease, Bytes::new(), false) => outcome.map(|_| ()),
            () = serve => unreachable!(),
        };
        if is_fine {
            assert!(outcome.is_ok(), "{outcome:?}");
        } else {
            assert!(matches!(outcome, Err(SendFailure::BadHead(HeadError::NotHttp2))), "{outcome:?}");
        }
    }
}
