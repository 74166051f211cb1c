//! Servers that are killed, frozen, restarted and flushed under nodes whose callers must not notice.

use super::server::Server;
use super::world::World;
use super::{at_home, is_granted, minute};
use seawall_core::breaker::NodeId;
use seawall_core::quota::{GroupId, QuotaKey, QuotaScope};
use seawall_core::runtime::{Runtime, Timer as _};
use seawall_store::redis::RedisQuotas;
use seawall_store::{Quotas, SharedQuotas, SharedQuotasOptions, SharedStoreState, StoreStateObserver};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<(SharedStoreState, SharedStoreState)>>>);

impl StoreStateObserver for Log {
    fn changed(&self, from: SharedStoreState, to: SharedStoreState, _: &str) {
        self.0.lock().unwrap().push((from, to));
    }
}

type Node = SharedQuotas<RedisQuotas<World>, World>;

fn node(server: &Server, world: &World, number: u64, fleet_size: u32, limit: u32) -> (Node, Log) {
    let store = at_home(server.hasty_link(world), vec![minute(limit)]);
    let log = Log::default();
    let operation_timeout = Duration::from_millis(25);
    let options = SharedQuotasOptions { node: NodeId(number), operation_timeout, fleet_size, seed: 1 };
    let node = SharedQuotas::new(store, vec![minute(limit)], options, world.clone(), Box::new(log.clone()));
    (node.unwrap(), log)
}

/// Sends enough requests to open the breaker of a store that is unreachable.
async fn find_out(node: &Node, world: &World, caller: u64) {
    for _ in 0..40 {
        let _ = is_granted(node, caller, world).await;
    }
}

/// The latencies of many requests, sorted, at a concurrency of sixteen.
async fn delays(node: &Arc<Node>, world: &World) -> Vec<Duration> {
    let mut tasks = tokio::task::JoinSet::new();
    for caller in 0..16 {
        let (node, world) = (Arc::clone(node), world.clone());
        tasks.spawn(async move {
            let mut delays = Vec::new();
            for _ in 0..250 {
                let began = world.monotonic();
                assert!(is_granted(&*node, caller, &world).await);
                delays.push(world.monotonic() - began);
            }
            delays
        });
    }
    let mut all = tasks.join_all().await.concat();
    all.sort_unstable();
    all
}

#[tokio::test]
async fn a_frozen_server_delays_no_request_for_long() {
    let server = Server::start().await;
    let world = World::new();
    let (node, log) = node(&server, &world, 1, 1, 1_000);
    let node = Arc::new(node);
    node.tick(world.now()).await;
    let normal = delays(&node, &world).await;
    server.freeze();
    let frozen = delays(&node, &world).await;
    let at = |delays: &[Duration], thousandths: usize| delays[delays.len() * thousandths / 1_000];
    let more = at(&frozen, 999).saturating_sub(at(&normal, 500));
    let longest = frozen[frozen.len() - 1];
    println!("normal p50 {:?}, p99.9 {:?}", at(&normal, 500), at(&normal, 999));
    println!("frozen p99.9 {:?}, longest {longest:?}; p99.9 is {more:?} more", at(&frozen, 999));
    // 25 ms, and the overhead of a busy machine; on a quiet one it stays below 50.
    assert!(more < Duration::from_millis(100), "{more:?}");
    assert!(longest < Duration::from_millis(150), "{longest:?}");
    assert_eq!(node.store_state(), SharedStoreState::Unreachable);
    assert_eq!(*log.0.lock().unwrap(), [(SharedStoreState::Reachable, SharedStoreState::Unreachable)]);
    server.thaw();
    come_back(&node, &world).await;
    assert_eq!(node.pending_reports(), 0);
}

#[tokio::test]
async fn a_thousand_partitions_are_reported_within_two_seconds_of_recovery() {
    const PARTITIONS: u64 = 1_000;
    let server = Server::start().await;
    let world = World::new();
    let (node, _) = node(&server, &world, 1, 2, 10);
    node.tick(world.now()).await;
    server.freeze();
    for partition in 0..PARTITIONS {
        assert!(is_granted(&node, partition, &world).await);
    }
    assert_eq!(node.pending_reports() as u64, PARTITIONS);
    // The server comes back just after a check, and the next check is a second later.
    node.tick(world.now()).await;
    server.thaw();
    let began = world.monotonic();
    while node.pending_reports() > 0 {
        world.sleep(Duration::from_secs(1)).await;
        node.tick(world.now()).await;
        assert!(world.monotonic() - began < Duration::from_secs(10), "{} left", node.pending_reports());
    }
    let took = world.monotonic() - began;
    println!("{PARTITIONS} partitions reported {took:?} after the return");
    assert_eq!((node.stats().merged, node.store_state()), (PARTITIONS, SharedStoreState::Reachable));
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// Ticks like a node until the store is used again.
async fn come_back(node: &Node, world: &World) {
    let began = world.monotonic();
    while node.store_state() == SharedStoreState::Unreachable {
        node.tick(world.now()).await;
        world.sleep(Duration::from_millis(50)).await;
        assert!(world.monotonic() - began < Duration::from_secs(10), "the store is back and nobody notices");
    }
}

#[tokio::test]
async fn four_nodes_without_their_server_admit_about_the_limit_and_report_it_afterwards() {
    const LIMIT: u32 = 200;
    let mut server = Server::start().await;
    let world = World::new();
    let nodes: Vec<(Node, Log)> = (0..4).map(|number| node(&server, &world, number, 4, LIMIT)).collect();
    for (node, _) in &nodes {
        node.tick(world.now()).await;
    }
    let mut granted = 0;
    // Ten times the limit, spread over the nodes, while the server is killed and restarted.
    for turn in 0..10 * LIMIT {
        if turn == LIMIT / 2 {
            server.kill();
        }
        if turn == 8 * LIMIT {
            server.run().await;
            for (node, _) in &nodes {
                come_back(node, &world).await;
            }
        }
        let (node, _) = &nodes[usize::try_from(turn % 4).unwrap()];
        granted += u32::from(is_granted(node, 7, &world).await);
    }
    assert!((LIMIT..=LIMIT * 13 / 10).contains(&granted), "{granted} of {LIMIT}");
    for (node, log) in &nodes {
        assert_eq!(node.pending_reports(), 0);
        let changes = log.0.lock().unwrap().clone();
        // It came back empty, so that it does not decide alone.
        let expected = [
            (SharedStoreState::Reachable, SharedStoreState::Unreachable),
            (SharedStoreState::Unreachable, SharedStoreState::Recovering),
        ];
        assert_eq!(changes, expected);
    }
    // What was admitted meanwhile has been merged: no second window is granted.
    let scopes = [QuotaScope { group: GroupId::from_index(0), key: QuotaKey(7) }];
    let left = nodes[0].0.store().view(7, &scopes, world.now()).await.unwrap()[0].remaining;
    assert!(left <= LIMIT / 2 + LIMIT / 10, "{left} left on the server");
}

#[tokio::test]
async fn what_was_admitted_without_the_server_counts_when_it_thaws() {
    let server = Server::start().await;
    let world = World::new();
    let (node, _) = node(&server, &world, 1, 2, 100);
    node.tick(world.now()).await;
    server.freeze();
    find_out(&node, &world, 5).await;
    assert_eq!(node.store_state(), SharedStoreState::Unreachable);
    server.thaw();
    come_back(&node, &world).await;
    assert_eq!(node.store_state(), SharedStoreState::Reachable);
    let scopes = [QuotaScope { group: GroupId::from_index(0), key: QuotaKey(5) }];
    let left = node.store().view(5, &scopes, world.now()).await.unwrap()[0].remaining;
    // Forty were admitted locally; some that were sent before the server froze count there as well.
    assert!(left <= 60, "{left}");
    assert!(left >= 30, "{left}");
}

#[tokio::test]
async fn an_emptied_server_gives_no_caller_a_second_window() {
    let server = Server::start().await;
    let world = World::new();
    let (node, log) = node(&server, &world, 1, 2, 20);
    node.tick(world.now()).await;
    let mut granted = 0;
    for turn in 0..60 {
        if turn == 30 {
            server.command("FLUSHALL");
            node.tick(world.now()).await;
            assert_eq!(node.store_state(), SharedStoreState::Recovering);
        }
        granted += u32::from(is_granted(&node, 3, &world).await);
    }
    assert_eq!(granted, 20);
    assert_eq!(*log.0.lock().unwrap(), [(SharedStoreState::Reachable, SharedStoreState::Recovering)]);
}
