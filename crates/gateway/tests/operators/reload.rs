//! Reloads: all or nothing, and with the same result as a start.

use crate::running::{Gateway, send, settings, try_start};
use seawall_config::{LoadedSettings, Provider, SecretReference, ServerTlsSettings, Settings};
use seawall_core::quota::{Quota, QuotaGroup, QuotaUnit};
use seawall_gateway::identity::hash_api_key;
use serde_json::{Value, json};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

type SettingsEdit<'a> = &'a dyn Fn(&mut Settings);

/// A key that only the changed settings list.
const SECOND_KEY: &str = "sk-second-0123456789abcdef";

/// Settings in which everything differs that the state below shows.
fn changed() -> Arc<LoadedSettings> {
    let hash = hex::encode(hash_api_key(SECOND_KEY));
    let mut loaded = settings(&format!(
        "limits.tiers.prime = {{ minute = \"33/min\", hour = \"333/h\", day = \"3,333/day\" }}\n\
         budget.day = \"$7/day\"\nbudget.caller_day = \"$1/day\"\ntelemetry.public_metrics = true\n\
         callers.keys.second = {{ hash = \"sha256:{hash}\", tier = \"standard\" }}"
    ));
    let changed = &mut Arc::make_mut(&mut loaded).settings;
    changed.server.drain_timeout = Duration::from_secs(3);
    changed.targets.get_mut("sonnet").unwrap().concurrency = NonZeroU32::new(7).unwrap();
    loaded
}

/// What settings change, as far as a client or an operator can see it.
fn state(gateway: &Gateway) -> Value {
    let on_data = |path: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nhost: a\r\nx-api-key: {SECOND_KEY}\r\n");
        send(gateway.data, &format!("{head}connection: close\r\n\r\n")).status
    };
    // Any caller has the limits of its tier.
    let mut limits = gateway.json("/admin/limits?caller=0000000000000000&tier=prime");
    limits["caller"].take();
    json!({
        "targets": gateway.json("/admin/targets"),
        "limits": limits,
        "spend": gateway.json("/admin/spend"),
        "metrics": [gateway.ask("/metrics").status, on_data("/metrics")],
        "second key": on_data("/v1/models"),
        "drain_timeout": gateway.listening.as_ref().unwrap().drain_timeout().as_millis(),
    })
}

fn apply(gateway: &Gateway, settings: &Settings) -> Result<(), String> {
    let applied = gateway.listening.as_ref().unwrap().apply_settings(settings);
    applied.map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_reload_leads_to_the_same_state_as_a_start() {
    let (first, next) = (settings(""), changed());
    let (reloaded, started) = (try_start(&first).unwrap(), try_start(&next).unwrap());
    let before = state(&reloaded);
    apply(&reloaded, &next.settings).unwrap();
    assert_eq!(state(&reloaded), state(&started));
    for part in ["targets", "limits", "spend", "metrics", "second key", "drain_timeout"] {
        assert_ne!(before[part], state(&started)[part], "{part} shows the change");
    }
    // And back, where it started.
    apply(&reloaded, &first.settings).unwrap();
    assert_eq!(state(&reloaded), before);
}

#[test]
fn a_reload_that_fails_anywhere_changes_nothing() {
    let missing = || Some(SecretReference::File("no/such/file".to_owned()));
    let minute = Duration::from_secs(60);
    let twice = Quota::sliding("minute", QuotaUnit::Request, 1, minute, 0).unwrap();
    let twice = QuotaGroup::new("global", vec![twice]).unwrap();
    let failing: [(&str, SettingsEdit<'_>); 11] = [
        ("api_key", &|settings| settings.targets.get_mut("haiku").unwrap().api_key = missing()),
        ("simulated", &|settings| settings.targets.get_mut("haiku").unwrap().provider = Provider::Simulated),
        ("tls", &|settings| {
            let (certificate, key) = ("no/such/file".to_owned(), SecretReference::File("none".to_owned()));
            settings.server.tls = Some(ServerTlsSettings { certificate, key });
        }),
        ("admin.credential", &|settings| settings.admin.credential = missing()),
        ("admin.listen", &|settings| settings.admin.listen = "0.0.0.0:0".parse().unwrap()),
        ("no caller", &|settings| {
            settings.callers.keys.clear();
            settings.callers.guests = false;
        }),
        ("two groups of one name", &|settings| {
            settings.routes.get_mut("manga").unwrap().quotas = Some(twice.clone());
        }),
        ("no routes", &|settings| settings.routes.clear()),
        ("guest_secret", &|settings| settings.callers.guest_secret = missing()),
        ("master_secret", &|settings| settings.callers.master_secret = missing()),
        ("salt", &|settings| settings.telemetry.salt = missing()),
    ];
    let gateway = try_start(&settings("")).unwrap();
    let before = state(&gateway);
    for (name, break_it) in failing {
        let mut next = changed();
        let next = &mut Arc::make_mut(&mut next).settings;
        break_it(next);
        assert!(apply(&gateway, next).is_err(), "{name}");
        assert_eq!(state(&gateway), before, "{name}");
    }
    // The same settings without the problem do change it.
    apply(&gateway, &changed().settings).unwrap();
    assert_ne!(state(&gateway), before);
}
