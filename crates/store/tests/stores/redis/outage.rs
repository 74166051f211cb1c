//! Servers that are killed, frozen, restarted and emptied under nodes that must not notice.

use super::server::Server;
use super::world::World;
use super::{at_home, is_granted, minute};
use seawall_core::breaker::NodeId;
use seawall_core::handle::{Runtime, Timer as _};
use seawall_core::quota::{GroupId, QuotaKey, Scope};
use seawall_store::redis::RedisQuotas;
use seawall_store::{AwayObserver, AwayOptions, Quotas, SharedQuotas, Standing};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(Standing, Standing)>>>);

impl AwayObserver for Log {
    fn changed(&self, from: Standing, to: Standing, _: &str) {
        self.0.lock().unwrap().push((from, to));
    }
}

type Node = SharedQuotas<RedisQuotas<World>, World>;

fn node(server: &Server, world: &World, number: u64, fleet_size: u32, limit: u32) -> (Node, Log) {
    let store = at_home(server.hasty_link(world), vec![minute(limit)]);
    let log = Log::default();
    let answer_within = Duration::from_millis(25);
    let options = AwayOptions { node: NodeId(number), answer_within, fleet_size, seed: 1 };
    let node = SharedQuotas::new(store, vec![minute(limit)], options, world.clone(), Box::new(log.clone()));
    (node.unwrap(), log)
}

/// Asks so often that a store which is away is found out.
async fn find_out(node: &Node, world: &World, caller: u64) {
    for _ in 0..40 {
        let _ = is_granted(node, caller, world).await;
    }
}

#[tokio::test]
async fn a_frozen_server_delays_nobody_for_long() {
    let server = Server::start().await;
    let world = World::new();
    let (node, log) = node(&server, &world, 1, 1, 1_000);
    node.tick(world.now()).await;
    assert!(is_granted(&node, 1, &world).await);
    server.freeze();
    let mut longest = Duration::ZERO;
    for _ in 0..60 {
        let began = world.monotonic();
        assert!(is_granted(&node, 1, &world).await);
        longest = longest.max(world.monotonic() - began);
    }
    // 25 ms, and what a busy machine adds.
    assert!(longest < Duration::from_millis(120), "{longest:?}");
    assert_eq!(node.standing(), Standing::Away);
    assert_eq!(*log.0.lock().unwrap(), [(Standing::Here, Standing::Away)]);
    server.thaw();
    come_back(&node, &world).await;
    assert_eq!(node.waiting_to_merge(), 0);
}

/// Ticks as a node does, until the store is asked again.
async fn come_back(node: &Node, world: &World) {
    let began = world.monotonic();
    while node.standing() == Standing::Away {
        node.tick(world.now()).await;
        world.sleep(Duration::from_millis(50)).await;
        assert!(world.monotonic() - began < Duration::from_secs(10), "the store is back and nobody notices");
    }
}

#[tokio::test]
async fn four_nodes_without_their_server_admit_about_the_limit_and_tell_it_afterwards() {
    const LIMIT: u32 = 200;
    let mut server = Server::start().await;
    let world = World::new();
    let nodes: Vec<(Node, Log)> = (0..4).map(|number| node(&server, &world, number, 4, LIMIT)).collect();
    for (node, _) in &nodes {
        node.tick(world.now()).await;
    }
    let mut granted = 0;
    // Ten times what the limit allows, spread over the nodes, while the server is killed and comes back.
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
        assert_eq!(node.waiting_to_merge(), 0);
        let changes = log.0.lock().unwrap().clone();
        // It came back empty, and is not believed alone.
        let expected = [(Standing::Here, Standing::Away), (Standing::Away, Standing::Learning)];
        assert_eq!(changes, expected);
    }
    // What was admitted meanwhile counts there now: no second window.
    let scopes = [Scope { group: GroupId::at(0), key: QuotaKey(7) }];
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
    assert_eq!(node.standing(), Standing::Away);
    server.thaw();
    come_back(&node, &world).await;
    assert_eq!(node.standing(), Standing::Here);
    let scopes = [Scope { group: GroupId::at(0), key: QuotaKey(5) }];
    let left = node.store().view(5, &scopes, world.now()).await.unwrap()[0].remaining;
    // Forty were admitted here; some of those that were sent before it froze count there as well.
    assert!(left <= 60, "{left}");
    assert!(left >= 30, "{left}");
}

#[tokio::test]
async fn an_emptied_server_gives_nobody_a_second_window() {
    let server = Server::start().await;
    let world = World::new();
    let (node, log) = node(&server, &world, 1, 2, 20);
    node.tick(world.now()).await;
    let mut granted = 0;
    for turn in 0..60 {
        if turn == 30 {
            server.command("FLUSHALL");
            node.tick(world.now()).await;
            assert_eq!(node.standing(), Standing::Learning);
        }
        granted += u32::from(is_granted(&node, 3, &world).await);
    }
    assert_eq!(granted, 20);
    assert_eq!(*log.0.lock().unwrap(), [(Standing::Here, Standing::Learning)]);
}
