//! Settings that a gateway refuses to start with.

mod providers;

use super::{Made, ServeError, Surroundings, Targets};
use crate::identity::caller_options;
use crate::runtime::TokioRuntime;
use crate::simulated::SimulatedModel;
use seawall_config::{Input, Settings, load};
use seawall_core::credit::RetryBudget;
use seawall_core::retry::HedgePolicy;
use seawall_core::time::UtcTime;
use seawall_model::engine::{Engine, ModelOptions};
use seawall_pipeline::{Callers, Tier};
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

fn refusal(settings: &Settings, simulated: Option<SimulatedModel>) -> Option<ServeError> {
    let budget = settings.retry.budget.clone();
    let retry_budget = (budget.clone(), Arc::new(RetryBudget::new(budget).unwrap()));
    let hedge = (settings.retry.hedge, Arc::new(HedgePolicy::new(settings.retry.hedge).unwrap()));
    let shelf = seawall_store::MemoryAnswers::of_rule(
        settings.cache.ages,
        settings.cache.storing,
        crate::chat::MOST_KEPT,
    );
    let chat = crate::chat::ChatState::new(settings, Arc::new(shelf)).unwrap();
    let targets = Targets::default();
    let callers = Arc::new(Callers::new(caller_options(settings, &[], None)));
    let directory = Arc::default();
    let grace = Duration::ZERO;
    let nothing = Made {
        grace,
        targets,
        encryption: None,
        credential: None,
        retry_budget,
        hedge,
        chat,
        callers,
        directory,
    };
    let around = Surroundings { cores: 1, runtime: TokioRuntime::new(), simulated };
    nothing.renewed(settings, &[(Tier::Prime, "sk-test-0123456789".to_owned())], &around).err()
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
    let said =
        said("key = \"file:no/such/haiku\"\n[server.tls]\ncertificate = \"c.pem\"\nkey = \"file:k.pem\"");
    assert!(said.starts_with("2 problems:\n  target haiku: file:no/such/haiku"), "{said}");
    assert!(said.contains("\n  server.tls"), "{said}");
}

#[test]
fn a_model_that_was_not_started_cannot_be_had_by_a_reload() {
    let settings = settings(
        "[targets.third]\nprovider = \"simulated\"\nmodel = \"m\"\ngrade = \"fast\"\nbreaker = \"haiku\"",
    );
    let error = refusal(&settings, None).unwrap();
    assert_eq!(error.to_string(), "target third: the simulated model starts with the program: start it anew");
    let engine = Engine::new(ModelOptions::default()).unwrap();
    let model = SimulatedModel::new(engine, TokioRuntime::new().timer());
    assert!(refusal(&settings, Some(model)).is_none());
}
