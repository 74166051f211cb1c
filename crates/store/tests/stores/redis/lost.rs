//! Connections that die without a reset, and servers with TLS.

use super::outage::Log;
use super::proxy::Proxy;
use super::server::{Server, patient};
use super::world::World;
use super::{at_home, is_granted, minute, try_one};
use seawall_core::breaker::NodeId;
use seawall_core::runtime::{Runtime as _, Timer as _};
use seawall_store::redis::{RedisConnection, RedisOptions};
use seawall_store::{SharedQuotas, SharedQuotasOptions, SharedStoreState};
use std::time::Duration;

/// How often an unreachable store is checked, as in the gateway.
const SEARCH_EVERY: Duration = Duration::from_millis(200);

#[tokio::test]
async fn a_connection_that_dies_without_a_reset_is_replaced_within_two_seconds() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.port()).await;
    let world = World::new();
    // A timeout long enough that a busy machine does not look like a dead connection.
    let operation_timeout = Duration::from_millis(50);
    let servers = vec![format!("redis://127.0.0.1:{}", proxy.port)];
    let link = RedisConnection::new(
        &RedisOptions { servers, operation_timeout, ..RedisOptions::default() },
        world.clone(),
    );
    let store = at_home(link.unwrap(), vec![minute(10_000)]);
    let options = SharedQuotasOptions { node: NodeId(1), operation_timeout, fleet_size: 1, seed: 1 };
    let log = Log::default();
    let node = SharedQuotas::new(store, vec![minute(10_000)], options, world.clone(), Box::new(log)).unwrap();
    while !node.tick(world.now()).await {
        world.sleep(Duration::from_millis(20)).await;
    }
    // The connect timeout has passed.
    world.sleep(Duration::from_millis(1_100)).await;
    for turn in 1..=2 {
        assert!(is_granted(&node, 1, &world).await && node.store_state() == SharedStoreState::Reachable);
        proxy.forget_connections();
        for _ in 0..40 {
            assert!(is_granted(&node, 1, &world).await);
        }
        assert_eq!(node.store_state(), SharedStoreState::Unreachable, "turn {turn}");
        let began = world.monotonic();
        while !node.tick(world.now()).await {
            assert!(world.monotonic() - began < Duration::from_secs(20), "nobody connects anew");
            world.sleep(SEARCH_EVERY).await;
        }
        let took = world.monotonic() - began;
        println!("turn {turn}: back {took:?} after the node had gone on alone");
        assert!(took < Duration::from_secs(2), "{took:?}");
        assert_eq!((node.store_state(), node.pending_reports()), (SharedStoreState::Reachable, 0));
        world.sleep(Duration::from_millis(1_100)).await;
    }
}

#[tokio::test]
async fn a_server_is_reached_by_tls_only_with_a_trusted_certificate() {
    let (server, authority) = Server::start_with_tls().await;
    let world = World::new();
    let link = |ca_certificates: Option<Vec<u8>>| {
        let servers = vec![format!("rediss://localhost:{}", server.port())];
        let options = RedisOptions { servers, ca_certificates, ..patient() };
        at_home(RedisConnection::new(&options, world.clone()).unwrap(), vec![minute(3)])
    };
    let trusting = link(Some(authority.into_bytes()));
    let mut granted = 0;
    for _ in 0..5 {
        granted += u32::from(is_granted(&trusting, 1, &world).await);
    }
    assert_eq!(granted, 3);
    // No CA of this machine has signed its certificate.
    let error = try_one(&link(None), 2, &world).await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    let wrong = RedisOptions {
        servers: vec!["rediss://localhost:1".to_owned()],
        ca_certificates: Some(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec()),
        ..patient()
    };
    assert!(RedisConnection::new(&wrong, world.clone()).is_err());
}
