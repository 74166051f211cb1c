//! Several nodes on one server: clock skew has no effect, and neither has the choice of the node.

use super::server::{Cluster, Server};
use super::world::World;
use super::{at_home, group, is_granted, minute, try_one};
use seawall_core::breaker::NodeId;
use seawall_core::quota::{GroupId, Quota, QuotaKey, QuotaScope, QuotaUnit, QuotaUnits};
use seawall_core::runtime::{Runtime, Timer as _};
use seawall_store::redis::{Placement, RedisBoard, RedisQuotas};
use seawall_store::{AdmissionRequest, AdmitDecision, Board, NodeView, Quotas, SharedQuotaStore as _};
use std::time::Duration;

#[tokio::test]
async fn nodes_whose_clocks_differ_admit_no_more_than_the_limit() {
    let server = Server::start().await;
    for (round, skews) in [vec![-5_000, 5_000], vec![5_000, 0, -5_000]].into_iter().enumerate() {
        let worlds: Vec<World> = skews.into_iter().map(World::with_skew).collect();
        let nodes: Vec<_> =
            worlds.iter().map(|world| at_home(server.link(world), vec![minute(20)])).collect();
        let mut granted = 0;
        for turn in 0..60 {
            let node = turn % nodes.len();
            granted += u32::from(is_granted(&nodes[node], round as u64, &worlds[node]).await);
        }
        assert_eq!(granted, 20);
    }
}

#[tokio::test]
async fn two_nodes_with_clocks_a_second_apart_admit_nothing_extra() {
    let server = Server::start().await;
    let worlds = [World::with_skew(0), World::with_skew(1_000)];
    let quota = Quota::rate("smooth", QuotaUnit::Request, 5, Duration::from_secs(1), 10).unwrap();
    let nodes =
        worlds.each_ref().map(|world| at_home(server.link(world), vec![group("tier", quota.clone())]));
    let began = worlds[0].monotonic();
    let mut granted = 0;
    for turn in 0..400_u32 {
        let node = usize::try_from(turn % 2).unwrap();
        granted += u32::from(is_granted(&nodes[node], 1, &worlds[node]).await);
        worlds[0].sleep_until(began + Duration::from_millis(1) * turn).await;
    }
    let took = worlds[0].monotonic() - began;
    // A burst of ten and five a second: twelve in 0.4 s. A busy machine takes longer.
    let max_granted = 10 + u32::try_from(took.as_millis() * 5 / 1_000).unwrap();
    assert!((10..=max_granted).contains(&granted), "{granted} in {took:?}");
}

#[tokio::test]
async fn fleet_limits_are_leased_in_chunks_and_never_exceeded() {
    let server = Server::start().await;
    let world = World::new();
    let everybody = Quota::sliding("minute", QuotaUnit::Request, 500, Duration::from_secs(60), 0).unwrap();
    let groups =
        || vec![(minute(10_000), Placement::Partition), (group("all", everybody.clone()), Placement::Fleet)];
    let nodes = [(); 2].map(|()| RedisQuotas::new(server.link(&world), groups()).unwrap());
    let mut granted = 0;
    for turn in 0..1_200_u64 {
        let caller = turn % 50;
        let scopes = [
            QuotaScope { group: GroupId::from_index(0), key: QuotaKey(caller) },
            QuotaScope { group: GroupId::from_index(1), key: QuotaKey(0) },
        ];
        let ask = AdmissionRequest {
            partition: caller,
            scopes: &scopes,
            units: QuotaUnits::REQUEST,
            money: None,
            claim: None,
        };
        let node = &nodes[usize::try_from(turn % 2).unwrap()];
        match node.reserve(&ask, world.now()).await.unwrap() {
            AdmitDecision::Granted { .. } => granted += 1,
            AdmitDecision::RateLimited(refusal) => {
                assert_eq!(refusal.binding.limit.group, GroupId::from_index(1));
            }
            other => panic!("{other:?}"),
        }
    }
    // One node cannot use what another has left of its last chunk.
    assert!((490..=500).contains(&granted), "{granted}");
    // Expired chunks are given back, so that the rest is available.
    let lapsed = world.now() + Duration::from_secs(2);
    for node in &nodes {
        node.return_leases(lapsed).await.unwrap();
    }
    let scopes = [QuotaScope { group: GroupId::from_index(1), key: QuotaKey(0) }];
    let views = nodes[0].view(1, &scopes, world.now()).await.unwrap();
    assert_eq!(views[0].remaining, 500 - granted);
}

#[tokio::test]
async fn a_chunk_is_taken_back_from_when_the_caller_itself_is_refused() {
    let server = Server::start().await;
    let world = World::new();
    let everybody = Quota::sliding("minute", QuotaUnit::Request, 500, Duration::from_secs(60), 0).unwrap();
    let groups = vec![(minute(1), Placement::Partition), (group("all", everybody), Placement::Fleet)];
    let node = RedisQuotas::new(server.link(&world), groups).unwrap();
    let scopes = [0, 1].map(|place| QuotaScope {
        group: GroupId::from_index(place),
        key: QuotaKey(if place == 0 { 7 } else { 0 }),
    });
    let ask = AdmissionRequest {
        partition: 7,
        scopes: &scopes,
        units: QuotaUnits::REQUEST,
        money: None,
        claim: None,
    };
    for turn in 0..40 {
        let decision = node.reserve(&ask, world.now()).await.unwrap();
        assert_eq!(matches!(decision, AdmitDecision::Granted { .. }), turn == 0, "{decision:?}");
    }
    node.return_leases(world.now() + Duration::from_secs(2)).await.unwrap();
    let views = node.view(7, &scopes, world.now()).await.unwrap();
    assert_eq!((views[0].remaining, views[1].remaining), (0, 499));
}

#[tokio::test]
async fn a_cluster_of_three_masters_decides_for_callers_in_every_slot() {
    let cluster = Cluster::start().await;
    let world = World::new();
    let nodes = [(); 2].map(|()| at_home(cluster.link(&world), vec![minute(3)]));
    for caller in 0..60 {
        let mut granted = 0;
        for turn in 0..5 {
            granted += u32::from(is_granted(&nodes[turn % 2], caller, &world).await);
        }
        assert_eq!(granted, 3, "caller {caller}");
    }
    let sizes = cluster.0.iter().map(|server| server.command("DBSIZE"));
    assert!(sizes.into_iter().all(|size| size != ":0\r\n"), "every master has a part of the callers");
    let board = RedisBoard::new(cluster.link(&world));
    let view = NodeView { sequence: 1, ..NodeView::default() };
    board.publish(NodeId(1), &view, Duration::from_secs(5), world.now()).await.unwrap();
    assert_eq!(board.read(world.now()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_has_forgotten_its_scripts_decides_all_the_same() {
    let mut server = Server::start().await;
    let world = World::new();
    let node = at_home(server.link(&world), vec![minute(5)]);
    assert!(is_granted(&node, 1, &world).await);
    server.command("SCRIPT FLUSH");
    assert!(is_granted(&node, 1, &world).await);
    server.kill();
    let error = try_one(&node, 1, &world).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    server.run().await;
    // The connection is re-established in the background.
    for _ in 0..100 {
        if try_one(&node, 1, &world).await.is_ok() {
            return;
        }
        world.sleep(Duration::from_millis(20)).await;
    }
    panic!("the server is back and nobody notices");
}
