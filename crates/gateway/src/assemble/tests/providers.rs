//! Connectors to every provider, built from settings.

use crate::runtime::TokioRuntime;
use crate::simulated_target::{SimulatedModel, simulated_target};
use crate::target::{TargetEnvironment, TargetError, Targets};
use seawall_config::{Settings, SettingsInput, load};
use seawall_core::time::UtcTime;
use seawall_model::call_log::CallEnd;
use seawall_model::engine::{Engine, ModelOptions, Pace};
use seawall_provider::{Call, Target, UpstreamResponse};
use seawall_wire::dialect::DialectId;
use std::future::poll_fn;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

fn settings(target: &str) -> Settings {
    let text = format!(
        "profile = \"mangaassist\"\n[models.haiku]\nfree = true\n[models.\"amazon.nova-pro-v1:0\"]\nfree = true\n\
         [targets.sonnet]\n{target}"
    );
    load(&SettingsInput::from_file("test.toml", &text, UtcTime::from_civil(2026, 11, 16))).unwrap().settings
}

fn environment(simulated: Option<SimulatedModel>) -> TargetEnvironment {
    TargetEnvironment { cores: 1, runtime: TokioRuntime::new(), simulated }
}

fn model() -> SimulatedModel {
    let options = ModelOptions { seed: 1, faults: Vec::new(), pace: Pace::Instant };
    SimulatedModel::new(Engine::new(options).unwrap(), TokioRuntime::new().timer())
}

/// The target `sonnet` of these settings, or why it cannot be built.
fn opened(settings: &Settings, environment: &TargetEnvironment) -> Result<Arc<dyn Target>, TargetError> {
    let (targets, wrong) = Targets::default().rebuild(settings, environment);
    match wrong.into_iter().find(|(name, _)| name == "sonnet") {
        Some((_, error)) => Err(error),
        None => Ok(targets.get("sonnet").unwrap().upstream()),
    }
}

fn dialect(target: &str) -> Result<DialectId, String> {
    let opened = opened(&settings(target), &environment(Some(model())));
    opened.map(|target| target.dialect()).map_err(|error| error.to_string())
}

#[test]
fn every_provider_is_asked_in_its_dialect() {
    let bedrock = "provider = \"bedrock\"\nregion = \"eu-west-1\"\nbase_url = \"http://127.0.0.1:9\"\n";
    for (target, expected) in [
        (
            "provider = \"anthropic\"\nbase_url = \"http://127.0.0.1:9\"\nmodel = \"haiku\"".to_owned(),
            DialectId::ANTHROPIC_MESSAGES,
        ),
        (
            "provider = \"openai\"\nbase_url = \"http://localhost:11434/v1\"\nmodel = \"haiku\"".to_owned(),
            DialectId::OPENAI_CHAT,
        ),
        (
            format!("{bedrock}role_arn = \"arn:aws:iam::1:role/r\"\nexternal_id = \"x\""),
            DialectId::BEDROCK_INVOKE,
        ),
        (format!("{bedrock}model = \"amazon.nova-pro-v1:0\""), DialectId::BEDROCK_CONVERSE),
        (
            "provider = \"gemini\"\nbase_url = \"http://127.0.0.1:9\"\nmodel = \"haiku\"".to_owned(),
            DialectId::GEMINI,
        ),
        ("provider = \"simulated\"\nmodel = \"haiku\"".to_owned(), DialectId::ANTHROPIC_MESSAGES),
    ] {
        assert_eq!(dialect(&target), Ok(expected), "{target}");
    }
}

#[test]
fn missing_or_invalid_settings_are_refused_at_startup() {
    let bedrock = "provider = \"bedrock\"\nbase_url = \"http://127.0.0.1:9\"\n";
    for (target, problem) in [
        (format!("{bedrock}region = \"eu west\""), "region: \"eu west\" is not a valid region name"),
        (
            format!("{bedrock}region = \"eu-west-1\"\nrole_arn = \"harbour\""),
            "role_arn: \"harbour\" is not the ARN of a role",
        ),
        (
            format!("{bedrock}region = \"eu-west-1\"\nexternal_id = \"x\""),
            "external_id: requires role_arn: it is sent when the role is assumed",
        ),
    ] {
        assert_eq!(dialect(&target), Err(problem.to_owned()), "{target}");
    }
}

#[test]
fn only_self_hosted_servers_may_need_no_key() {
    // Parsed settings are refused earlier for this; settings that a program builds are not.
    for (provider, vendor) in [
        ("anthropic", "api.anthropic.com"),
        ("openai", "api.openai.com"),
        ("gemini", "generativelanguage.googleapis.com"),
    ] {
        let mut settings = settings(&format!("provider = \"{provider}\"\nbase_url = \"http://127.0.0.1:9\""));
        assert!(opened(&settings, &environment(None)).is_ok());
        for url in [None, Some(format!("https://{vendor}")), Some(format!("http://{vendor}:80/v1"))] {
            settings.targets.get_mut("sonnet").unwrap().base_url.clone_from(&url);
            let refusal = opened(&settings, &environment(None)).err().unwrap().to_string();
            let expected =
                format!("{vendor} requires api_key: write api_key = \"env:NAME\" or api_key = \"file:PATH\"");
            assert_eq!(refusal, expected, "{url:?}");
        }
    }
}

#[tokio::test]
async fn an_address_with_a_path_and_no_key_leads_to_a_server_of_ones_own() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/ollama/v1", listener.local_addr().unwrap());
    let target =
        opened(&settings(&format!("provider = \"openai\"\nbase_url = \"{url}\"")), &environment(None))
            .unwrap();
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut heard = vec![0; 4_096];
        let length = stream.read(&mut heard).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
        String::from_utf8_lossy(&heard[..length]).into_owned()
    };
    let (heard, answer) = tokio::join!(server, target.call(Call::new("{}".into(), false)));
    assert!(matches!(answer, Ok(UpstreamResponse::Unstreamed { body, .. }) if body == "{}"));
    assert!(heard.starts_with("POST /ollama/v1/chat/completions HTTP/1.1\r\n"), "{heard}");
    assert!(!heard.contains("authorization"), "{heard}");
}

#[tokio::test]
async fn a_simulated_model_is_asked_without_a_socket_and_keeps_one_bill() {
    let model = model();
    let whole =
        opened(&settings("provider = \"simulated\"\nmodel = \"haiku\""), &environment(Some(model.clone())));
    let body = |stream| {
        let text = format!(
            r#"{{"model":"haiku","max_tokens":9,"stream":{stream},"messages":[{{"role":"user","content":"hi"}}]}}"#
        );
        Call::new(text.into(), stream)
    };
    let answer = whole.unwrap().call(body(false)).await;
    assert!(matches!(answer, Ok(UpstreamResponse::Unstreamed { .. })));
    for dialect in [DialectId::ANTHROPIC_MESSAGES, DialectId::OPENAI_CHAT] {
        let target = simulated_target(&model, dialect, "haiku");
        let Ok(UpstreamResponse::Stream(mut chunks)) = target.call(body(true)).await else {
            panic!("a stream")
        };
        assert!(matches!(poll_fn(|context| chunks.poll_chunk(context)).await, Some(Ok(_))));
    }
    let calls = model.meter().calls();
    let ends: Vec<_> = calls.iter().map(|call| (call.operation, call.end)).collect();
    let expected = [
        ("messages", CallEnd::Complete),
        ("messages", CallEnd::CallerGone),
        ("chat_completions", CallEnd::CallerGone),
    ];
    assert_eq!(ends, expected);
    let line = model.meter().bill().line("haiku");
    assert!((line.requests, line.answers) == (3, 1) && line.output_tokens < 27, "{line:?}");
}
