//! A master that is found through its sentinels.

use super::server::{Server, patient};
use super::world::World;
use super::{at_home, is_granted, minute, try_one};
use seawall_store::StoreError;
use seawall_store::redis::{RedisConnection, RedisOptions};

fn watch(sentinel: &Server, master: &Server) {
    sentinel.command("SENTINEL REMOVE one");
    let answer = sentinel.command(&format!("SENTINEL MONITOR one 127.0.0.1 {} 1", master.port()));
    assert_eq!(answer, "+OK\r\n");
}

fn options(sentinels: &[&Server]) -> RedisOptions {
    let servers = sentinels.iter().map(|sentinel| sentinel.url()).collect();
    RedisOptions { servers, sentinel_master: Some("one".into()), ..patient() }
}

#[tokio::test]
async fn the_master_that_the_sentinels_report_is_used() {
    let (mut first, second, sentinel) =
        (Server::start().await, Server::start().await, Server::sentinel().await);
    let mut dead = Server::sentinel().await;
    dead.kill();
    watch(&sentinel, &first);
    let world = World::new();
    let link = RedisConnection::new(&options(&[&dead, &sentinel]), world.clone()).unwrap();
    let node = at_home(link, vec![minute(2)]);
    assert!(is_granted(&node, 1, &world).await);
    assert_eq!((first.command("DBSIZE"), second.command("DBSIZE")), (":1\r\n".into(), ":0\r\n".into()));
    // As long as the master responds, no other is looked for.
    watch(&sentinel, &second);
    assert!(is_granted(&node, 2, &world).await);
    assert_eq!(second.command("DBSIZE"), ":0\r\n");
    first.kill();
    let error = try_one(&node, 1, &world).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(is_granted(&node, 1, &world).await);
    assert_eq!(second.command("DBSIZE"), ":1\r\n");
}

#[tokio::test]
async fn a_master_that_has_become_a_replica_is_left() {
    let (first, second, sentinel) = (Server::start().await, Server::start().await, Server::sentinel().await);
    watch(&sentinel, &first);
    let world = World::new();
    let node = at_home(RedisConnection::new(&options(&[&sentinel]), world.clone()).unwrap(), vec![minute(9)]);
    assert!(is_granted(&node, 1, &world).await);
    first.command(&format!("REPLICAOF 127.0.0.1 {}", second.port()));
    watch(&sentinel, &second);
    let error = try_one(&node, 1, &world).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(is_granted(&node, 1, &world).await);
    assert_eq!(second.command("DBSIZE"), ":1\r\n");
}

#[tokio::test]
async fn without_a_sentinel_that_knows_the_master_the_store_is_unavailable() {
    let (master, sentinel, world) = (Server::start().await, Server::sentinel().await, World::new());
    let node = at_home(RedisConnection::new(&options(&[&sentinel]), world.clone()).unwrap(), vec![minute(9)]);
    let error = try_one(&node, 1, &world).await.unwrap_err();
    assert!(error.to_string().contains("no sentinel knows the address of the master"), "{error}");
    watch(&sentinel, &master);
    assert!(is_granted(&node, 1, &world).await);
    let wrong = |options| RedisConnection::new(&options, world.clone()).err().unwrap().to_string();
    let both = RedisOptions { cluster: true, ..options(&[&sentinel]) };
    assert_eq!(wrong(both), "sentinel_master: cannot be combined with a cluster");
    assert_eq!(wrong(options(&[])), "servers: the address of a sentinel is missing");
    let two = RedisOptions { sentinel_master: None, ..options(&[&sentinel, &sentinel]) };
    assert_eq!(wrong(two), "servers: 2 addresses, but cluster mode is off");
}
