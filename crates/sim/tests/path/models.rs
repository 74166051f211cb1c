//! The simulated model as a target, in every dialect.

use seawall_core::failure::FailureKind;
use seawall_core::time::Timestamp;
use seawall_model::engine::{Engine, Fault, FaultRule, ModelOptions, Pace};
use seawall_model::shared::SharedModel;
use seawall_provider::{Call, Target as _, UpstreamResponse};
use seawall_sim::{ModelTarget, World};
use seawall_wire::dialect::DialectId;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NAME: &str = "anthropic.claude-3-haiku-20240307-v1:0";

fn model(world: &World, faults: Vec<Fault>) -> SharedModel<World> {
    let faults = faults.into_iter().map(FaultRule::always).collect();
    let engine = Engine::new(ModelOptions { seed: 1, faults, pace: Pace::Real }).unwrap();
    SharedModel::new(engine, world.clone())
}

fn question(dialect: DialectId, stream: bool) -> Call {
    let messages = r#""messages":[{"role":"user","content":"hi"}]"#;
    let body = match dialect.name() {
        "anthropic" | "openai" => {
            format!(r#"{{"model":"{NAME}","max_tokens":9,"stream":{stream},{messages}}}"#)
        }
        "openai_responses" => {
            format!(r#"{{"model":"{NAME}","max_output_tokens":9,"stream":{stream},"input":"hi"}}"#)
        }
        "bedrock_invoke" => {
            format!(r#"{{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,{messages}}}"#)
        }
        "bedrock_converse" => {
            r#"{"inferenceConfig":{"maxTokens":9},"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#
                .to_owned()
        }
        "gemini" => {
            r#"{"generationConfig":{"maxOutputTokens":9},"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#
                .to_owned()
        }
        other => panic!("{other:?}"),
    };
    Call::new(body.into(), stream)
}

/// Runs one call in the world to its end, and returns the outcome.
fn ask(world: &World, target: &ModelTarget, call: Call) -> (Result<usize, FailureKind>, Option<Box<str>>) {
    let outcome = Arc::new(Mutex::new(None));
    let (result, target) = (Arc::clone(&outcome), target.clone());
    world.spawn(async move {
        let came = match target.call(call).await {
            Err(error) => (Err(error.failure.kind), error.message),
            Ok(UpstreamResponse::Unstreamed { body, .. }) => (Ok(body.len()), None),
            Ok(UpstreamResponse::Stream(mut chunks)) => {
                let mut bytes = 0;
                loop {
                    match poll_fn(|context| chunks.poll_chunk(context)).await {
                        None => break (Ok(bytes), None),
                        Some(Ok(piece)) => bytes += piece.len(),
                        Some(Err(failure)) => break (Err(failure.kind), None),
                    }
                }
            }
        };
        *result.lock().unwrap() = Some(came);
    });
    world.run();
    let came = outcome.lock().unwrap().take();
    came.unwrap()
}

#[test]
fn every_dialect_calls_the_same_model_and_shares_one_bill() {
    let world = World::new(1);
    let model = model(&world, vec![]);
    for (expected, dialect) in (1..).zip(DialectId::ALL) {
        let target = ModelTarget::sharing(model.clone(), dialect, NAME);
        assert_eq!(target.dialect(), dialect);
        let before = world.now();
        for stream in [false, true] {
            let (came, _) = ask(&world, &target, question(dialect, stream));
            assert!(came.is_ok_and(|bytes| bytes > 100), "{dialect:?} {stream}");
        }
        assert!(world.now() - before >= Duration::from_millis(2 * 250), "{dialect:?}");
        let line = target.bill().line("haiku");
        assert_eq!(
            (line.requests, line.answers, line.output_tokens),
            (2 * expected, 2 * expected, 18 * expected)
        );
        assert_eq!(model.meter().bill().line("haiku"), line);
    }
}

#[test]
fn every_dialect_reports_failures() {
    for dialect in DialectId::ALL {
        let failed = |fault: Fault| {
            let world = World::new(1);
            let target = ModelTarget::sharing(model(&world, vec![fault]), dialect, NAME);
            ask(&world, &target, question(dialect, true)).0
        };
        assert_eq!(failed(Fault::Reset), Err(FailureKind::Unreachable), "{dialect:?}");
        let status = Fault::Status { status: 429, retry_after: None, error: None };
        assert_eq!(failed(status), Err(FailureKind::Throttled), "{dialect:?}");
        let cut = Fault::Cut { after: None, after_bytes: None, after_tokens: Some(3), reset: false };
        assert_eq!(failed(cut), Err(FailureKind::StreamInterrupted), "{dialect:?}");
        let world = World::new(1);
        let target = ModelTarget::sharing(model(&world, vec![]), dialect, NAME);
        let (came, words) = ask(&world, &target, Call::new("[]".into(), false));
        assert_eq!(came, Err(FailureKind::BadRequest), "{dialect:?}");
        assert!(words.is_some(), "{dialect:?}");
    }
}

#[test]
fn an_unknown_model_is_not_found() {
    let world = World::new(1);
    let target = ModelTarget::sharing(model(&world, vec![]), DialectId::BEDROCK_INVOKE, "nobody.knows");
    let (came, words) = ask(&world, &target, question(DialectId::BEDROCK_INVOKE, false));
    assert_eq!((came, words, world.now()), (Err(FailureKind::NotFound), None, Timestamp::ZERO));
}
