//! DNS results provided by the test, at times set by the test.

use super::{AddressPolicy, DnsCache, Resolve, ResolveFuture, ResolvedAddress};
use seawall_core::time::Timestamp;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const INSTANT: Duration = Duration::from_nanos(1);

/// Returns the configured result, and counts lookups.
#[derive(Default)]
struct Book(Mutex<(Vec<SocketAddr>, usize)>);

impl Book {
    fn says(&self, ends: &[u8]) {
        self.0.lock().unwrap().0 = ends.iter().map(|end| address(*end)).collect();
    }

    fn asked(&self) -> usize {
        self.0.lock().unwrap().1
    }
}

impl Resolve for Book {
    fn resolve(&self, host: &str, port: u16) -> ResolveFuture {
        assert_eq!((host, port), ("model", 80));
        let mut book = self.0.lock().unwrap();
        book.1 += 1;
        let answer = book.0.clone();
        let answer = if answer.is_empty() { Err(io::Error::other("no such name")) } else { Ok(answer) };
        Box::pin(std::future::ready(answer))
    }
}

fn address(end: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, end], 80))
}

fn at(seconds: u32) -> Timestamp {
    Timestamp::ZERO + SECOND * seconds
}

fn ends(addresses: &[ResolvedAddress]) -> Vec<u8> {
    let end = |place: &ResolvedAddress| match place.address {
        SocketAddr::V4(address) => address.ip().octets()[3],
        SocketAddr::V6(_) => 0,
    };
    addresses.iter().map(end).collect()
}

fn names() -> (DnsCache, Arc<Book>) {
    let book = Arc::new(Book::default());
    (DnsCache::new("model", 80, Arc::clone(&book) as Arc<dyn Resolve>, AddressPolicy::DenyMetadata), book)
}

/// The cached addresses at this time, after background tasks have run.
async fn known(names: &DnsCache, now: Timestamp) -> Vec<ResolvedAddress> {
    names.refresh_if_due(now);
    tokio::task::yield_now().await;
    names.addresses(now).await.unwrap()
}

#[tokio::test]
async fn an_answer_is_renewed_in_the_background_once_it_is_thirty_seconds_old() {
    let (names, book) = names();
    book.says(&[1, 2]);
    assert_eq!(ends(&names.addresses(at(100)).await.unwrap()), [1, 2]);
    book.says(&[3]);
    assert_eq!(ends(&known(&names, at(130) - INSTANT).await), [1, 2]);
    assert_eq!(book.asked(), 1);
    // The call that triggers the refresh does not wait for it.
    assert_eq!(ends(&names.addresses(at(130)).await.unwrap()), [1, 2]);
    tokio::task::yield_now().await;
    assert_eq!((ends(&names.addresses(at(130)).await.unwrap()), book.asked()), (vec![3], 2));
    known(&names, at(160) - INSTANT).await;
    assert_eq!(book.asked(), 2);
    known(&names, at(160)).await;
    assert_eq!(book.asked(), 3);
}

#[tokio::test]
async fn while_a_name_cannot_be_looked_up_the_last_answer_stays() {
    let (names, book) = names();
    assert!(names.addresses(at(0)).await.is_err());
    assert!(names.addresses(at(0)).await.is_err());
    assert_eq!(book.asked(), 2);
    book.says(&[1]);
    assert_eq!(ends(&names.addresses(at(0)).await.unwrap()), [1]);
    book.says(&[]);
    assert_eq!(ends(&known(&names, at(30)).await), [1]);
    assert_eq!(book.asked(), 4);
    // Retried after five seconds.
    assert_eq!(ends(&known(&names, at(35) - INSTANT).await), [1]);
    assert_eq!(book.asked(), 4);
    assert_eq!(ends(&known(&names, at(35)).await), [1]);
    assert_eq!(book.asked(), 5);
    // A result without a permitted address counts as a failed lookup.
    book.0.lock().unwrap().0 = vec!["169.254.169.254:80".parse().unwrap()];
    assert_eq!(ends(&known(&names, at(40)).await), [1]);
}

#[tokio::test]
async fn after_all_addresses_failed_the_name_is_resolved_again_in_a_second() {
    let (names, book) = names();
    book.says(&[1]);
    names.addresses(at(0)).await.unwrap();
    names.refresh_soon(at(10));
    // Later failures do not postpone it.
    names.refresh_soon(at(10) + SECOND / 2);
    known(&names, at(11) - INSTANT).await;
    assert_eq!(book.asked(), 1);
    known(&names, at(11)).await;
    assert_eq!(book.asked(), 2);
    // An earlier refresh time is kept.
    names.refresh_soon(at(41) - INSTANT);
    known(&names, at(41)).await;
    assert_eq!(book.asked(), 3);
}

#[tokio::test]
async fn an_address_that_no_answer_has_named_for_five_minutes_is_forgotten() {
    let (names, book) = names();
    book.says(&[1, 2]);
    let addresses = names.addresses(at(0)).await.unwrap();
    let (one, two) = (addresses[0].clone(), addresses[1].clone());
    book.says(&[2]);
    for now in (30..=270).step_by(30) {
        known(&names, at(now)).await;
        assert!(one.is_current(), "{now}");
    }
    // A new result that contains it restarts the period.
    book.says(&[1]);
    assert!(known(&names, at(300)).await[0].is_current() && one.is_current());
    book.says(&[3]);
    for now in (330..600).step_by(30) {
        known(&names, at(now)).await;
        assert!(one.is_current(), "{now}");
        // This one was last contained in the result at 270.
        assert_eq!(two.is_current(), now < 570, "{now}");
    }
    known(&names, at(600)).await;
    assert!(!one.is_current());
    assert_eq!(ends(&known(&names, at(600)).await), [3]);
}

#[tokio::test]
async fn what_works_is_tried_first_until_the_next_answer() {
    let (names, book) = names();
    book.says(&[1, 2, 3]);
    names.addresses(at(0)).await.unwrap();
    names.prefer(address(3));
    assert_eq!(ends(&names.addresses(at(0)).await.unwrap()), [3, 1, 2]);
    names.prefer(address(9));
    assert_eq!(ends(&names.addresses(at(0)).await.unwrap()), [3, 1, 2]);
    assert_eq!(ends(&known(&names, at(30)).await), [1, 2, 3]);
}

#[tokio::test]
async fn an_answer_is_read_without_doubles_and_to_a_sensible_length() {
    let (names, book) = names();
    book.says(&[1, 1, 2, 1]);
    assert_eq!(ends(&names.addresses(at(0)).await.unwrap()), [1, 2]);
    book.says(&(1..=40).collect::<Vec<_>>());
    assert_eq!(ends(&known(&names, at(30)).await), (1..=16).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_address_is_never_looked_up() {
    let book = Arc::new(Book::default());
    let names =
        DnsCache::new("10.0.0.7", 80, Arc::clone(&book) as Arc<dyn Resolve>, AddressPolicy::DenyMetadata);
    for now in [0, 30, 3_000] {
        assert_eq!(ends(&known(&names, at(now)).await), [7]);
        names.refresh_soon(at(now));
    }
    known(&names, Timestamp::NEVER - INSTANT).await;
    assert_eq!(book.asked(), 0);
}

#[tokio::test]
async fn a_crowd_that_knows_nothing_asks_once() {
    let (names, book) = names();
    book.says(&[1]);
    let addresses = || names.addresses(at(0));
    let (a, b, c) = tokio::join!(addresses(), addresses(), addresses());
    assert!([a, b, c].into_iter().all(|addresses| ends(&addresses.unwrap()) == [1]));
    assert_eq!(book.asked(), 1);
}

#[tokio::test]
async fn credential_sources_may_resolve_to_the_metadata_service() {
    let service: SocketAddr = "169.254.169.254:80".parse().unwrap();
    let book = Arc::new(Book::default());
    book.0.lock().unwrap().0 = vec![service];
    for host in ["169.254.169.254", "model"] {
        let names = DnsCache::new(host, 80, Arc::clone(&book) as Arc<dyn Resolve>, AddressPolicy::AllowAll);
        let addresses = names.addresses(Timestamp::ZERO).await.unwrap();
        assert_eq!(addresses.iter().map(|place| place.address).collect::<Vec<_>>(), [service]);
    }
    assert_eq!(book.0.lock().unwrap().1, 1);
}
