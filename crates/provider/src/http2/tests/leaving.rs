//! Peers that go away, refuse or reset, and which connection carries the next request.

use super::{IDLE, Server, accept, ask, beside, chunk, connect, ok, pool};
use crate::http1::tests::support::{HandTimer, SECOND};
use crate::http1::{BodyFailure, SendFailure, Timer as _};
use crate::http2::pool::Http2Pool;
use bytes::Bytes;
use h2::Reason;
use std::time::Duration;

/// Runs all tasks that are ready, on both sides.
async fn settle(server: &mut Server) {
    for _ in 0..20 {
        beside(server, tokio::task::yield_now()).await;
    }
}

/// Makes one successful request.
async fn warm(server: &mut Server, pool: &Http2Pool<HandTimer>, timer: &HandTimer) {
    let lease = pool.take(timer.monotonic()).unwrap();
    let serve = async {
        let (_, mut answering) = accept(server).await;
        answering.send_response(ok(), true).unwrap();
        settle(server).await;
    };
    let ((), response) = tokio::join!(serve, ask(lease, Bytes::new(), true));
    let mut response = response.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(chunk(&mut response).await.is_none());
}

async fn failed(
    server: &mut Server,
    reason: Option<Reason>,
    lease: super::StreamLease<HandTimer>,
    is_pooled: bool,
) -> SendFailure {
    let serve = async {
        let (_, mut answering) = accept(server).await;
        match reason {
            Some(reason) => answering.send_reset(reason),
            None => server.abrupt_shutdown(Reason::NO_ERROR),
        }
        settle(server).await;
        answering
    };
    let (_held, outcome) = tokio::join!(serve, ask(lease, Bytes::from_static(b"{}"), is_pooled));
    outcome.map(|_| ()).unwrap_err()
}

#[tokio::test]
async fn a_stream_that_is_refused_says_so_and_others_are_taken() {
    let timer = HandTimer::default();
    let pool = pool(&timer, 10);
    let (mut server, lease) = connect(&pool, &h2::server::Builder::new()).await;
    let failure = failed(&mut server, Some(Reason::REFUSED_STREAM), lease, false).await;
    assert!(matches!(failure, SendFailure::RefusedStream), "{failure:?}");
    warm(&mut server, &pool, &timer).await;
}

#[tokio::test]
async fn a_stream_that_is_reset_was_perhaps_looked_at() {
    let timer = HandTimer::default();
    let pool = pool(&timer, 10);
    let (mut server, lease) = connect(&pool, &h2::server::Builder::new()).await;
    let failure = failed(&mut server, Some(Reason::INTERNAL_ERROR), lease, false).await;
    assert!(matches!(failure, SendFailure::ClosedBeforeHead { response_began: false, .. }), "{failure:?}");
    assert!(failure.request_began());
}

#[tokio::test]
async fn a_stream_that_is_reset_in_the_middle_broke_off() {
    let timer = HandTimer::default();
    let pool = pool(&timer, 10);
    let (mut server, lease) = connect(&pool, &h2::server::Builder::new()).await;
    let serve = async {
        let (_, mut answering) = accept(&mut server).await;
        let mut answer = answering.send_response(ok(), false).unwrap();
        answer.send_data(Bytes::from_static(b"half"), false).unwrap();
        settle(&mut server).await;
        answer.send_reset(Reason::INTERNAL_ERROR);
        settle(&mut server).await;
    };
    let client = async {
        let mut response =
            ask(lease, Bytes::new(), false).await.unwrap_or_else(|failure| panic!("{failure}"));
        (chunk(&mut response).await, chunk(&mut response).await, chunk(&mut response).await)
    };
    let ((), chunks) = tokio::join!(serve, client);
    let half = Some(Ok(Bytes::from_static(b"half")));
    assert_eq!(chunks, (half, Some(Err(BodyFailure::ClosedEarly)), None));
}

#[tokio::test]
async fn a_peer_that_leaves_ends_what_it_has_and_gets_nothing_more() {
    let timer = HandTimer::default();
    let pool = pool(&timer, 10);
    let (mut server, lease) = connect(&pool, &h2::server::Builder::new()).await;
    let serve = async {
        let (_, mut answering) = accept(&mut server).await;
        let mut answer = answering.send_response(ok(), false).unwrap();
        server.graceful_shutdown();
        settle(&mut server).await;
        let next = pool.take(timer.monotonic()).unwrap();
        let next = beside(&mut server, ask(next, Bytes::from_static(b"{}"), true)).await;
        answer.send_data(Bytes::from_static(b"all"), true).unwrap();
        settle(&mut server).await;
        next.map(|_| ()).unwrap_err()
    };
    let client = async {
        let mut response =
            ask(lease, Bytes::new(), false).await.unwrap_or_else(|failure| panic!("{failure}"));
        (chunk(&mut response).await, chunk(&mut response).await)
    };
    let (failure, chunks) = tokio::join!(serve, client);
    assert_eq!(chunks, (Some(Ok(Bytes::from_static(b"all"))), None));
    // It was returned unsent, and goes over another connection.
    assert!(matches!(failure, SendFailure::StaleConnection), "{failure:?}");
    assert!(pool.take(timer.monotonic()).is_none());
    assert_eq!(pool.open_connections(), 0);
}

#[tokio::test]
async fn a_line_that_ends_soon_after_sending_was_idle_too_long_but_not_later() {
    for (wait, is_pooled, is_stale) in [
        (SECOND, true, true),
        (SECOND + Duration::from_nanos(1), true, false),
        // A new connection was never idle.
        (Duration::ZERO, false, false),
    ] {
        let timer = HandTimer::default();
        let pool = pool(&timer, 10);
        let (mut server, lease) = connect(&pool, &h2::server::Builder::new()).await;
        drop(lease);
        warm(&mut server, &pool, &timer).await;
        let lease = pool.take(timer.monotonic()).unwrap();
        let serve = async {
            let held = accept(&mut server).await;
            timer.advance(wait);
            drop(held);
            drop(server);
        };
        let ((), outcome) = tokio::join!(serve, ask(lease, Bytes::from_static(b"{}"), is_pooled));
        let failure = outcome.map(|_| ()).unwrap_err();
        assert_eq!(matches!(failure, SendFailure::StaleConnection), is_stale, "{failure:?}");
        assert!(pool.take(timer.monotonic()).is_none());
    }
}

#[tokio::test]
async fn a_connection_that_was_idle_too_long_is_not_used() {
    let timer = HandTimer::default();
    let pool = pool(&timer, 10);
    let (_server, mut lease) = connect(&pool, &h2::server::Builder::new()).await;
    timer.advance(IDLE * 2);
    // While a stream is open, the connection is not idle.
    assert!(pool.take(timer.monotonic()).is_some());
    lease.mark_ended();
    drop(lease);
    timer.advance(IDLE - Duration::from_nanos(1));
    assert!(pool.take(timer.monotonic()).is_some());
    timer.advance(IDLE);
    assert!(pool.take(timer.monotonic()).is_none());
    assert_eq!(pool.open_connections(), 0);
}

#[tokio::test]
async fn streams_are_limited_by_us_and_by_the_peer() {
    for (ours, theirs, most) in [(3, 100, 3), (100, 2, 2), (0, 100, 1)] {
        let timer = HandTimer::default();
        let pool = pool(&timer, ours);
        let mut peer = h2::server::Builder::new();
        peer.max_concurrent_streams(theirs);
        let (mut server, lease) = connect(&pool, &peer).await;
        settle(&mut server).await;
        let mut leases = vec![lease];
        while let Some(lease) = pool.take(timer.monotonic()) {
            leases.push(lease);
            assert!(leases.len() <= most, "no limit");
        }
        assert_eq!(leases.len(), most);
        leases.pop();
        assert!(pool.take(timer.monotonic()).is_some());
    }
}

#[tokio::test]
async fn a_line_over_which_nothing_came_when_a_request_was_given_up_is_not_used() {
    let two = SECOND * 2;
    for (silence, sign_of_life, is_used) in [
        (two, false, false),
        (two - Duration::from_nanos(1), false, true),
        // Another response, or just an acknowledgement, shows that the connection is alive.
        (two, true, true),
    ] {
        let timer = HandTimer::default();
        let pool = pool(&timer, 10);
        let (mut server, lease) = connect(&pool, &h2::server::Builder::new()).await;
        drop(lease);
        timer.advance(SECOND);
        warm(&mut server, &pool, &timer).await;
        let lease = pool.take(timer.monotonic()).unwrap();
        let serve = async {
            let held = accept(&mut server).await;
            settle(&mut server).await;
            timer.advance(silence);
            if sign_of_life {
                server.ping_pong().unwrap().send_ping(h2::Ping::opaque()).unwrap();
                settle(&mut server).await;
            }
            held
        };
        tokio::select! {
            _ = ask(lease, Bytes::from_static(b"{}"), true) => panic!("it answered"),
            _held = serve => {}
        }
        assert_eq!(pool.take(timer.monotonic()).is_some(), is_used, "{silence:?} {sign_of_life}");
    }
}

#[tokio::test]
async fn a_request_that_meets_a_leaving_peer_was_not_looked_at() {
    let timer = HandTimer::default();
    let pool = pool(&timer, 10);
    let (mut server, lease) = connect(&pool, &h2::server::Builder::new()).await;
    drop(lease);
    warm(&mut server, &pool, &timer).await;
    let lease = pool.take(timer.monotonic()).unwrap();
    // Goes away before it has read the request, which is on its way.
    server.abrupt_shutdown(Reason::NO_ERROR);
    let client = ask(lease, Bytes::from_static(b"{}"), true);
    let outcome = beside(&mut server, client).await;
    let failure = outcome.map(|_| ()).unwrap_err();
    assert!(matches!(failure, SendFailure::StaleConnection), "{failure:?}");
}
