//! Settings that a gateway refuses to start with.

mod providers;

use super::ServeError;
use super::build::BuildInputs;
use super::derive::DerivedState;
use crate::runtime::TokioRuntime;
use crate::simulated_target::SimulatedModel;
use crate::target::TargetEnvironment;
use seawall_config::{Settings, SettingsInput, load};
use seawall_core::time::UtcTime;
use seawall_model::engine::{Engine, ModelOptions};
use seawall_pipeline::Tier;

const TARGETS: &str = r#"
    [models.m]
    input = "$3/M"
    output = "$15/M"
    [targets.sonnet]
    provider = "anthropic"
    base_url = "http://127.0.0.1:9"
    region = "none"
    model = "m"
    [targets.haiku]
    provider = "anthropic"
    base_url = "http://127.0.0.1:9"
    region = "none"
    model = "m"
"#;

fn settings(more: &str) -> Settings {
    let text = format!("profile = \"mangaassist\"\n{TARGETS}{more}");
    load(&SettingsInput::from_file("test.toml", &text, UtcTime::from_civil(2026, 11, 16))).unwrap().settings
}

fn refusal(settings: &Settings, simulated: Option<SimulatedModel>) -> Option<ServeError> {
    let environment = TargetEnvironment { cores: 1, runtime: TokioRuntime::new(), simulated };
    let inputs = BuildInputs { environment, keys: vec![(Tier::Prime, "sk-test-0123456789".to_owned())] };
    DerivedState::build(settings, &inputs, None).err()
}

fn message(more: &str) -> String {
    refusal(&settings(more), None).map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn what_can_be_served_is_not_refused() {
    assert_eq!(message(""), "");
}

#[test]
fn every_secret_that_is_missing_is_named_at_once() {
    let message = message("api_key = \"file:no/such/haiku\"");
    assert_eq!(message, "target haiku: file:no/such/haiku: file not found");
    let mut both = settings("api_key = \"file:no/such/haiku\"");
    if let Some(sonnet) = both.targets.get_mut("sonnet") {
        sonnet.api_key = Some(seawall_config::SecretReference::File("no/such/sonnet".to_owned()));
    }
    let error = refusal(&both, None).unwrap();
    assert!(error.is_bad_input());
    assert_eq!(
        error.to_string(),
        "2 problems:\n  target haiku: file:no/such/haiku: file not found\n  \
         target sonnet: file:no/such/sonnet: file not found"
    );
}

#[test]
fn everything_that_cannot_be_served_is_named_at_once() {
    let message = message(
        "api_key = \"file:no/such/haiku\"\n[server.tls]\ncertificate = \"c.pem\"\nkey = \"file:k.pem\"",
    );
    assert!(message.starts_with("2 problems:\n  target haiku: file:no/such/haiku"), "{message}");
    assert!(message.contains("\n  server.tls"), "{message}");
}

#[test]
fn a_simulated_model_cannot_be_added_by_a_reload() {
    let settings = settings(
        "[targets.third]\nprovider = \"simulated\"\nmodel = \"m\"\ngrade = \"fast\"\nbreaker = \"haiku\"",
    );
    let error = refusal(&settings, None).unwrap();
    assert_eq!(
        error.to_string(),
        "target third: a simulated model can only be added at startup: restart the gateway"
    );
    let engine = Engine::new(ModelOptions::default()).unwrap();
    let model = SimulatedModel::new(engine, TokioRuntime::new().timer());
    assert!(refusal(&settings, Some(model)).is_none());
}
