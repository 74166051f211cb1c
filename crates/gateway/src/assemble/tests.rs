//! What a gateway refuses to be made from.

use super::{Made, ServeError, Surroundings, Targets};
use crate::runtime::TokioRuntime;
use seawall_config::{Input, Settings, load};
use seawall_core::credit::RetryBudget;
use seawall_core::retry::HedgePolicy;
use seawall_core::time::UtcTime;
use seawall_pipeline::Tier;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const TARGETS: &str = r#"
    [models.m]
    input = "$3/M"
    output = "$15/M"
    [targets.sonnet]
    provider = "anthropic"
    url = "http://127.0.0.1:9"
    region = "none"
    model = "m"
    [targets.haiku]
    provider = "anthropic"
    url = "http://127.0.0.1:9"
    region = "none"
    model = "m"
"#;

fn settings(more: &str) -> Settings {
    let text = format!("{TARGETS}{more}");
    load(&Input::of_file("test.toml", &text, UtcTime::from_civil(2026, 11, 16))).unwrap().settings
}

fn refusal(settings: &Settings, simulated: Option<SocketAddr>) -> Option<ServeError> {
    let budget = settings.retry.budget.clone();
    let retry_budget = (budget.clone(), Arc::new(RetryBudget::new(budget).unwrap()));
    let hedge = (settings.retry.hedge, Arc::new(HedgePolicy::new(settings.retry.hedge).unwrap()));
    let nothing =
        Made { grace: Duration::ZERO, targets: Targets::default(), credential: None, retry_budget, hedge };
    let around = Surroundings { cores: 1, runtime: TokioRuntime::new(), simulated };
    nothing.renewed(settings, &[(Tier::Prime, "sk-test-0123456789".to_owned())], around).err()
}

fn said(more: &str) -> String {
    refusal(&settings(more), None).map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn what_can_be_served_is_not_refused() {
    assert_eq!(said(""), "");
}

#[test]
fn every_secret_that_is_missing_is_named_at_once() {
    let said = said("key = \"file:no/such/haiku\"");
    assert_eq!(said, "target haiku: file:no/such/haiku: there is no such file");
    let mut both = settings("key = \"file:no/such/haiku\"");
    if let Some(sonnet) = both.targets.get_mut("sonnet") {
        sonnet.key = Some(seawall_config::SecretReference::File("no/such/sonnet".to_owned()));
    }
    let error = refusal(&both, None).unwrap();
    assert!(error.is_bad_input());
    assert_eq!(
        error.to_string(),
        "2 problems:\n  target haiku: file:no/such/haiku: there is no such file\n  \
         target sonnet: file:no/such/sonnet: there is no such file"
    );
}

#[test]
fn everything_that_cannot_be_served_is_named_at_once() {
    let said = said(
        "key = \"file:no/such/haiku\"\n[store]\nkind = \"redis\"\nredis = { url = \"redis://127.0.0.1:1\" }",
    );
    assert!(said.starts_with("2 problems:\n  store.kind = \"redis\": this cannot be served yet\n"), "{said}");
    assert!(said.ends_with("file:no/such/haiku: there is no such file"), "{said}");
}

#[test]
fn a_model_that_was_not_started_cannot_be_had_by_a_reload() {
    let settings = settings(
        "[targets.third]\nprovider = \"simulated\"\nmodel = \"m\"\ngrade = \"fast\"\nbreaker = \"haiku\"",
    );
    let error = refusal(&settings, None).unwrap();
    assert_eq!(error.to_string(), "target third: the simulated model starts with the program: start it anew");
    assert!(refusal(&settings, Some(SocketAddr::from(([127, 0, 0, 1], 9)))).is_none());
}
