//! What is left on a server: every key expires, refusals leave none, and clients cannot forge one.

use super::server::Server;
use super::world::World;
use super::{at_home, group, is_granted, minute, try_one};
use seawall_core::money::Money;
use seawall_core::quota::{
    CalendarPeriod, GroupId, Quota, QuotaGroup, QuotaKey, QuotaScope, QuotaUnit, QuotaUnits,
};
use seawall_core::runtime::Runtime;
use seawall_store::redis::{RedisClaims, RedisSessions};
use seawall_store::{
    AdmissionRequest, AdmitDecision, CallerBudgetRequest, ClaimDecision, ClaimRequest, Claims, Quotas,
    RequestTokens, SessionKey, Sessions, StoreError,
};
use std::time::Duration;

const LASTS: Duration = Duration::from_secs(30);

/// The keys on a server, each with its time to live in milliseconds.
fn keys(server: &Server) -> Vec<(String, i64)> {
    let script = "local r={} for _,k in ipairs(redis.call('keys','*')) do r[#r+1]=k r[#r+1]=redis.call('pttl',k) end return r";
    let answer = server.command(&format!("EVAL \"{script}\" 0"));
    let mut lines = answer.lines().skip(1);
    let mut keys = Vec::new();
    while let (Some(_), Some(key), Some(life)) = (lines.next(), lines.next(), lines.next()) {
        keys.push((key.to_owned(), life.trim_start_matches(':').parse().unwrap()));
    }
    keys
}

#[tokio::test]
async fn ten_thousand_refusals_leave_no_keys() {
    let server = Server::start().await;
    let world = World::new();
    let node = at_home(server.link(&world), vec![minute(2)]);
    let scope = |caller| [QuotaScope { group: GroupId::from_index(0), key: QuotaKey(caller) }];
    for caller in 0..10_000_u64 {
        let scopes = scope(caller);
        let broke =
            CallerBudgetRequest { caller, max_cost: Money::from_nanos(1), cap: Money::ZERO, timeout: LASTS };
        let claim = ClaimRequest { caller, key: "a", fingerprint: 1, timeout: LASTS, retention: LASTS };
        let (cost, money) = if caller % 2 == 0 {
            (QuotaUnits::REQUEST, Some(broke))
        } else {
            (QuotaUnits { requests: 3, tokens: 0 }, None)
        };
        let ask =
            AdmissionRequest { partition: caller, scopes: &scopes, units: cost, money, claim: Some(claim) };
        let decision = node.reserve(&ask, world.now()).await.unwrap();
        assert!(
            matches!(decision, AdmitDecision::InsufficientBudget(_) | AdmitDecision::TooLarge { .. }),
            "{decision:?}"
        );
    }
    assert_eq!(keys(&server), []);
    // A refusal requires that something was granted before; that key expires, and the refusal does not extend it.
    for _ in 0..3 {
        let _ = try_one(&node, 7, &world).await.unwrap();
    }
    let [(key, life)] = keys(&server).try_into().unwrap();
    assert!(key == "sw1:q:{7}" && (1..=63_000).contains(&life), "{key} {life}");
}

#[tokio::test]
async fn every_key_has_an_expiry() {
    let server = Server::start().await;
    let world = World::new();
    let second = Duration::from_secs(1);
    let quotas = vec![
        Quota::rate("smooth", QuotaUnit::Request, 5, second, 10).unwrap(),
        Quota::sliding("hour", QuotaUnit::Request, 50, second * 3_600, 0).unwrap(),
        Quota::calendar("day", QuotaUnit::Request, 50, CalendarPeriod::Day).unwrap(),
        Quota::calendar("month", QuotaUnit::Token, 50_000, CalendarPeriod::Month).unwrap(),
    ];
    let node = at_home(server.link(&world), vec![QuotaGroup::new("tier", quotas).unwrap()]);
    let scopes = [QuotaScope { group: GroupId::from_index(0), key: QuotaKey(9) }];
    let money = CallerBudgetRequest {
        caller: 8,
        max_cost: Money::from_nanos(5),
        cap: Money::from_nanos(50),
        timeout: LASTS,
    };
    for (name, done) in [("a", Some(true)), ("b", Some(false)), ("c", None)] {
        let claim = ClaimRequest { caller: 7, key: name, fingerprint: 1, timeout: LASTS, retention: LASTS };
        let ask = AdmissionRequest {
            partition: 7,
            scopes: &scopes,
            units: QuotaUnits::tokens(9),
            money: Some(money),
            claim: Some(claim),
        };
        let AdmitDecision::Granted { reservation, .. } = node.reserve(&ask, world.now()).await.unwrap()
        else {
            panic!()
        };
        if let Some(done) = done {
            let spent = seawall_store::Settlement {
                units: QuotaUnits::tokens(30),
                cost: Money::from_nanos(9),
                answered: done,
            };
            node.settle(reservation, spent, world.now()).await.unwrap();
        }
    }
    let sessions = RedisSessions::new(server.link(&world));
    let session = SessionKey { caller: 1, name: "{x}*\n".into() };
    sessions.append(&session, 1, &[], RequestTokens::default(), world.now()).await.unwrap();
    let keys = keys(&server);
    assert_eq!(keys.len(), 5, "{keys:?}");
    assert!(keys.iter().all(|(_, life)| *life > 0), "{keys:?}");
    let longest = keys.iter().map(|(_, life)| *life).max().unwrap();
    assert!(longest <= 33 * 86_400_000, "{keys:?}");
}

#[tokio::test]
async fn names_that_try_to_forge_keys_are_names() {
    let server = Server::start().await;
    let world = World::new();
    let claims = RedisClaims::new(server.link(&world));
    let large = "x".repeat(1 << 20);
    for name in ["*", "{tag}", "a\nb\r\nFLUSHALL\r\n", "\0", "", "sw1:q:{7}", &large] {
        for caller in [7, 8] {
            let ask = ClaimRequest { caller, key: name, fingerprint: 1, timeout: LASTS, retention: LASTS };
            let claim = match claims.claim(&ask, world.now()).await.unwrap() {
                ClaimDecision::Granted(claim) => claim,
                other => panic!("{other:?}"),
            };
            assert_eq!(claims.claim(&ask, world.now()).await.unwrap(), ClaimDecision::InProgress);
            claims.finish(claim, world.now()).await.unwrap();
            assert_eq!(claims.claim(&ask, world.now()).await.unwrap(), ClaimDecision::Completed);
        }
    }
    let keys = keys(&server);
    assert_eq!(keys.len(), 14);
    assert!(keys.iter().all(|(key, _)| key.len() == "sw1:c:{7}:".len() + 32), "{keys:?}");
}

#[tokio::test]
async fn what_an_intruder_writes_is_found_out_and_counts_as_all_used() {
    let server = Server::start().await;
    let world = World::new();
    let node = at_home(server.link(&world), vec![minute(5)]);
    let nonsense =
        ["SET sw1:q:{1} nonsense", "LPUSH sw1:q:{1} a", "SET sw1:q:{1} \"\"", "HSET sw1:q:{1} a b"];
    for command in nonsense {
        server.command("DEL sw1:q:{1}");
        server.command(command);
        let error = try_one(&node, 1, &world).await.unwrap_err();
        assert!(matches!(error, StoreError::Failed { .. }), "{command}: {error}");
        let decision = try_one(&node, 1, &world).await.unwrap();
        let AdmitDecision::RateLimited(refusal) = decision else { panic!("{command}: {decision:?}") };
        assert_eq!(refusal.binding.remaining, 0);
        assert!(keys(&server).iter().all(|(_, life)| *life > 0));
    }
    // Other keys are not affected, and viewing a corrupted record changes nothing.
    assert!(is_granted(&node, 2, &world).await);
    server.command("SET sw1:q:{3} nonsense");
    let scopes = [QuotaScope { group: GroupId::from_index(0), key: QuotaKey(3) }];
    assert!(node.view(3, &scopes, world.now()).await.is_err());
    let sessions = RedisSessions::new(server.link(&world));
    let session = SessionKey { caller: 1, name: "a".into() };
    sessions.append(&session, 1, &[], RequestTokens::default(), world.now()).await.unwrap();
    for (key, _) in keys(&server) {
        if key.starts_with("sw1:s:") {
            server.command(&format!("SET {key} nonsense"));
        }
    }
    assert!(sessions.load(&session, 5, world.now()).await.is_err());
    assert_eq!(sessions.load(&session, 5, world.now()).await.unwrap(), []);
}

#[tokio::test]
async fn other_limits_find_the_old_counts_by_their_names() {
    let server = Server::start().await;
    let world = World::new();
    let node = at_home(server.link(&world), vec![minute(5)]);
    for _ in 0..4 {
        assert!(is_granted(&node, 1, &world).await);
    }
    let left = async || {
        let scopes = [QuotaScope { group: GroupId::from_index(0), key: QuotaKey(1) }];
        node.view(1, &scopes, world.now()).await.unwrap()[0].remaining
    };
    node.change_limits(node.check_limits(vec![minute(9)]).unwrap(), world.now());
    assert_eq!(left().await, 5);
    // Another period or another kind: what was used counts as used now.
    let hour = Quota::sliding("minute", QuotaUnit::Request, 6, Duration::from_secs(3_600), 0).unwrap();
    node.change_limits(node.check_limits(vec![group("tier", hour)]).unwrap(), world.now());
    assert_eq!(left().await, 2);
    assert!(is_granted(&node, 1, &world).await);
    let day = Quota::calendar("minute", QuotaUnit::Request, 6, CalendarPeriod::Day).unwrap();
    node.change_limits(node.check_limits(vec![group("tier", day)]).unwrap(), world.now());
    assert_eq!(left().await, 1);
    assert!(is_granted(&node, 1, &world).await);
    let rate = Quota::rate("minute", QuotaUnit::Request, 1, Duration::from_secs(3_600), 8).unwrap();
    node.change_limits(node.check_limits(vec![group("tier", rate)]).unwrap(), world.now());
    assert_eq!(left().await, 2);
}

/// One request at a manual-clock time, this many microseconds after the start.
async fn step(node: &seawall_store::redis::RedisQuotas<World>, group: u16, micros: u64) {
    let scopes = [QuotaScope { group: GroupId::from_index(group), key: QuotaKey(7) }];
    let ask = AdmissionRequest {
        partition: 7,
        scopes: &scopes,
        units: QuotaUnits::REQUEST,
        money: None,
        claim: None,
    };
    let now = seawall_core::time::Now::default() + Duration::from_secs(1_000) + Duration::from_micros(micros);
    let decision = node.reserve(&ask, now).await.unwrap();
    assert!(matches!(decision, AdmitDecision::Granted { .. }), "{decision:?}");
}

#[tokio::test]
async fn the_end_of_a_record_is_moved_before_anything_in_it_could_be_lost() {
    let server = Server::start().await;
    let node = at_home(server.link(&World::new()), vec![minute(100)]).with_manual_clock();
    step(&node, 0, 0).await;
    // Stepped time adds an hour. In addition, a 64th of the necessary time is kept.
    let life = keys(&server)[0].1;
    assert!((3_660_000..=3_662_969).contains(&life), "{life}");
    for (micros, is_moved) in [(0, false), (968_750, false), (968_751, true)] {
        server.command("PEXPIRE sw1:q:{7} 100000");
        step(&node, 0, micros).await;
        assert_eq!(keys(&server)[0].1 > 100_000, is_moved, "{micros}");
    }
}

#[tokio::test]
async fn a_record_drops_limits_that_are_no_longer_configured() {
    let server = Server::start().await;
    let second = Duration::from_secs(1);
    let quota = |name, limit| Quota::sliding(name, QuotaUnit::Request, limit, second * 60, 0).unwrap();
    let both =
        vec![quota("a", 50), Quota::rate("b", QuotaUnit::Request, 1, second, 60).unwrap(), quota("c", 50)];
    let groups = vec![QuotaGroup::new("before", both).unwrap(), group("after", quota("a", 50))];
    let node = at_home(server.link(&World::new()), groups).with_manual_clock();
    let length = || server.command("STRLEN sw1:q:{7}");
    step(&node, 1, 0).await;
    let alone = length();
    step(&node, 0, 1).await;
    assert_ne!(length(), alone);
    // What was taken in one slice counts for 60 more, and is kept for a minute.
    step(&node, 1, 120_999_999).await;
    assert_ne!(length(), alone);
    step(&node, 1, 121_000_000).await;
    // Only the requested limit is left, with one older slice.
    assert_eq!((alone.as_str(), length().as_str()), (":62\r\n", ":73\r\n"));
}
