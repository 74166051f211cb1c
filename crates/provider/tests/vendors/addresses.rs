//! DNS results, and failures to connect.

use crate::support::{LIMITS, around, ask, beside, options, refusal, run, target, target_around};
use seawall_core::failure::{Failure, FailureKind, Retryability};
use seawall_model::engine::Pace;
use seawall_provider::connect::{Resolve, ResolveFuture};
use seawall_provider::{ClientOptions, ClientRuntime, Target};
use seawall_wire::dialect::DialectId;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

const MESSAGES: DialectId = DialectId::ANTHROPIC_MESSAGES;

/// Resolves every name to these addresses; without any, the name does not exist.
struct Book {
    addresses: Vec<SocketAddr>,
    asked: AtomicUsize,
}

impl Resolve for Book {
    fn resolve(&self, host: &str, _: u16) -> ResolveFuture {
        assert_eq!(host, "model.example.com");
        self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = self.addresses.clone();
        Box::pin(
            async move { if answer.is_empty() { Err(io::Error::other("no such name")) } else { Ok(answer) } },
        )
    }
}

fn book(addresses: &[SocketAddr]) -> Arc<Book> {
    Arc::new(Book { addresses: addresses.to_vec(), asked: AtomicUsize::new(0) })
}

fn by_name(book: &Arc<Book>, limit: Duration) -> Box<dyn Target> {
    let around = ClientRuntime { resolver: Arc::clone(book) as Arc<dyn Resolve>, ..around() };
    let mut options = ClientOptions { limits: LIMITS, ..ClientOptions::new("http://model.example.com") };
    options.limits.connect_timeout = limit;
    target_around(MESSAGES, options, &around)
}

/// A port without a listener.
async fn closed() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap()
}

/// A port at which connections are dropped, as long as the returned values are kept.
async fn black_hole() -> (SocketAddr, (TcpListener, [TcpStream; 2])) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let waiting = [TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()];
    (address, (listener, waiting))
}

fn assert_unreachable(failure: Failure) {
    assert_eq!((failure.kind, failure.not_executed), (FailureKind::Unreachable, true));
    assert_eq!(failure.retryability, Retryability::SameTarget);
}

#[test]
fn a_name_that_nobody_knows_is_unreachable() {
    run(async {
        let book = book(&[]);
        let target = by_name(&book, LIMITS.connect_timeout);
        for asked in 1..=2 {
            assert_unreachable(refusal(target.as_ref(), false).await);
            assert_eq!(book.asked.load(Ordering::Relaxed), asked);
        }
    });
}

#[test]
fn a_port_at_which_nobody_listens_is_unreachable() {
    run(async {
        assert_unreachable(refusal(target(MESSAGES, options(closed().await)).as_ref(), false).await);
    });
}

#[test]
fn a_server_that_swallows_connections_is_given_up_in_time() {
    run(async {
        let (address, _held) = black_hole().await;
        let mut options = options(address);
        options.limits.connect_timeout = Duration::from_millis(100);
        let failure = refusal(target(MESSAGES, options).as_ref(), false).await;
        assert_eq!((failure.kind, failure.not_executed), (FailureKind::StartTimeout, true));
    });
}

#[test]
fn the_addresses_of_a_name_are_tried_in_turn() {
    beside(Pace::Instant, vec![], async |address, _| {
        let (hole, _held) = black_hole().await;
        let book = book(&[closed().await, hole, address]);
        let target = by_name(&book, Duration::from_millis(900));
        assert!(ask(target.as_ref(), false).await.unwrap().1.is_ok());
        // An address that failed is not tried first the next time; otherwise this would exceed its timeout.
        let mut calls = Vec::new();
        for _ in 0..3 {
            // Streams that are not read to their end, so that each has its own connection.
            calls.push(
                target.call(crate::support::question(MESSAGES, true)).await.unwrap_or_else(|_| panic!()),
            );
        }
        assert_eq!(book.asked.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn no_name_leads_to_a_metadata_service() {
    run(async {
        let metadata = SocketAddr::from(([169, 254, 169, 254], 80));
        let mapped = "[::ffff:169.254.169.254]:80".parse().unwrap();
        let target = by_name(&book(&[metadata, mapped]), LIMITS.connect_timeout);
        assert_unreachable(refusal(target.as_ref(), false).await);
    });
    // Only the permitted address beside it is used.
    beside(Pace::Instant, vec![], async |address, _| {
        let metadata = SocketAddr::from(([169, 254, 169, 254], address.port()));
        let target = by_name(&book(&[metadata, address]), Duration::from_millis(200));
        assert!(ask(target.as_ref(), false).await.unwrap().1.is_ok());
    });
}

#[test]
fn an_address_in_a_strange_spelling_is_looked_at_after_it_was_read() {
    // The system resolver parses a bare number as an address.
    run(async {
        let options = ClientOptions { limits: LIMITS, ..ClientOptions::new("http://2852039166") };
        let failure = refusal(target(MESSAGES, options).as_ref(), false).await;
        assert_unreachable(failure);
    });
}

#[test]
fn the_system_knows_this_machine_by_name() {
    beside(Pace::Instant, vec![], async |address, _| {
        let url = format!("http://localhost:{}", address.port());
        let target = target(MESSAGES, ClientOptions { limits: LIMITS, ..ClientOptions::new(url) });
        assert!(ask(target.as_ref(), false).await.unwrap().1.is_ok());
    });
}
