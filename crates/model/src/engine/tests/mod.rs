//! Tests of the engine as a whole.

mod dialects;
mod faults;

use super::{
    Engine, Fault, FaultRule, Frequency, ModelCall, ModelOptions, ModelRequest, Pace, Profile, Script,
    ScriptAction, ScriptEnding, ScriptHead, ScriptStep, count_tokens, read_faults,
};
use bytes::Bytes;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use proptest::strategy::{Just, Strategy, Union};
use seawall_core::setting::SettingError;
use seawall_wire::anthropic::{AnthropicStream, read_answer};
use seawall_wire::chat::{FinishReason, StreamEvent, Usage};
use seawall_wire::dialect::DialectId;
use seawall_wire::sse::SseLimits;
use serde_json::{Value, json};
use std::time::Duration;

fn body(model: &str, max_tokens: u32, stream: bool, question: &str) -> Bytes {
    let turns = json!([{"role": "user", "content": question}]);
    json!({"model": model, "max_tokens": max_tokens, "stream": stream, "messages": turns}).to_string().into()
}

fn rule(fault: Fault) -> FaultRule {
    FaultRule::always(fault)
}

fn engine(faults: Vec<FaultRule>) -> Engine {
    Engine::new(ModelOptions { seed: 7, faults, pace: Pace::Real }).unwrap()
}

fn checked(faults: Vec<FaultRule>) -> Result<Engine, SettingError> {
    Engine::new(ModelOptions { faults, ..Default::default() })
}

fn script(engine: &Engine, body: &[u8]) -> Script {
    engine.script(&ModelRequest::first(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES), body))
}

fn faulty(fault: Fault, stream: bool) -> Script {
    script(&engine(vec![rule(fault)]), &body("haiku", 500, stream, "hi"))
}

fn head(script: &Script) -> &ScriptHead {
    let Some(ScriptStep { action: ScriptAction::Head(head), .. }) = script.steps.first() else {
        panic!("{script:?}")
    };
    head
}

fn sent(script: &Script) -> Vec<u8> {
    let bodies = script.steps.iter().filter_map(|step| match &step.action {
        ScriptAction::Body(bytes) => Some(&bytes[..]),
        ScriptAction::Head(_) => None,
    });
    bodies.collect::<Vec<_>>().concat()
}

fn charge(script: &Script) -> Usage {
    let sum = |part: fn(&Usage) -> u64| script.steps.iter().map(|step| part(&step.charge)).sum();
    Usage { input: sum(|usage| usage.input), output: sum(|usage| usage.output), ..Usage::default() }
}

fn read_stream(script: &Script) -> (Vec<StreamEvent>, AnthropicStream) {
    let mut stream = AnthropicStream::new(SseLimits::default());
    let mut events = Vec::new();
    stream.feed(&sent(script), |event| events.push(event)).unwrap();
    (events, stream)
}

fn error_type(script: &Script) -> String {
    let body: Value = serde_json::from_slice(&sent(script)).unwrap();
    body["error"]["type"].as_str().unwrap().to_owned()
}

#[test]
fn an_answer_is_charged_as_reported_and_arrives_at_its_pace() {
    let script = script(&engine(vec![]), &body("sonnet", 1_000, false, "What should I read?"));
    let (report, finish) = read_answer(&sent(&script)).unwrap();
    let usage = report.usage;
    assert_eq!((usage, finish), (charge(&script), FinishReason::EndTurn));
    assert_eq!(usage.input, count_tokens("What should I read?"));
    let answer: Value = serde_json::from_slice(&sent(&script)).unwrap();
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("This is a simulator speaking"), "{text}");
    assert_eq!(usage.output, count_tokens(text));
    let due = Duration::from_millis(600)
        + Duration::from_nanos(1_000_000_000 / 60) * u32::try_from(usage.output).unwrap();
    assert!(script.steps.iter().all(|step| step.at == due));
    assert_eq!(head(&script).length, Some(sent(&script).len()));
}

#[test]
fn a_stream_is_charged_as_reported_and_its_first_token_is_on_time() {
    let engine = engine(vec![]);
    let script = script(&engine, &body("haiku", 1_000, true, "次に何を読めばいい？"));
    let (events, stream) = read_stream(&script);
    assert!(stream.is_complete());
    assert_eq!(stream.usage(), charge(&script));
    assert!(matches!(events[0], StreamEvent::Started(_)), "{events:?}");
    // The head, the opening event, then content.
    assert_eq!(script.steps[..3].iter().map(|step| step.at.as_millis()).collect::<Vec<_>>(), [125, 125, 250]);
    assert_eq!(script.steps[2].charge.output, 4);
    assert!(String::from_utf8(sent(&script)).unwrap().contains("これはシ"));
}

#[test]
fn the_output_limit_is_kept_to_the_token() {
    for stream in [true, false] {
        let script = script(&engine(vec![]), &body("instant", 5, stream, "hi"));
        assert_eq!(charge(&script).output, 5);
        assert!(String::from_utf8(sent(&script)).unwrap().contains(r#""stop_reason":"max_tokens""#));
        assert!(script.steps.iter().all(|step| step.at.is_zero()));
    }
}

#[test]
fn the_same_seed_gives_the_same_text_and_another_seed_does_not() {
    let body = body("haiku", 500, true, "hi");
    let with_seed = |seed| script(&Engine::new(ModelOptions { seed, ..Default::default() }).unwrap(), &body);
    assert_eq!(with_seed(1), with_seed(1));
    assert_ne!(sent(&with_seed(1)), sent(&with_seed(2)));
}

#[test]
fn a_request_that_makes_no_sense_is_refused_at_no_charge() {
    for (bytes, status, kind) in [
        (&b"{"[..], 400, "invalid_request_error"),
        (br#"{"model":"haiku"}"#, 400, "invalid_request_error"),
        (&body("opus", 1, true, "hi"), 404, "not_found_error"),
    ] {
        let script = script(&engine(vec![rule(Fault::Reset)]), bytes);
        assert_eq!((head(&script).status, error_type(&script).as_str()), (status, kind));
        assert_eq!((script.profile, charge(&script)), (None, Usage::default()));
    }
}

#[test]
fn a_status_replaces_the_answer() {
    for (status, kind) in [
        (429, "rate_limit_error"),
        (529, "overloaded_error"),
        (500, "api_error"),
        (503, "api_error"),
        (408, "timeout_error"),
        (409, "invalid_request_error"),
    ] {
        let wait = Some(Duration::from_secs(2));
        let script = faulty(Fault::Status { status, retry_after: wait, error: None }, true);
        assert_eq!((head(&script).status, head(&script).retry_after), (status, wait));
        assert_eq!(error_type(&script), kind);
        assert_eq!((charge(&script), script.ending), (Usage::default(), ScriptEnding::Complete));
    }
}

#[test]
fn streams_break_where_the_fault_says() {
    let whole = faulty(Fault::Slow { by: Duration::ZERO }, true);
    for (fault, ending) in [
        (Fault::cut(3), ScriptEnding::Close),
        (Fault::EndEarly { after: 3 }, ScriptEnding::Early),
        (Fault::Hang { after: 3 }, ScriptEnding::Hang),
    ] {
        let script = faulty(fault, true);
        assert_eq!(script.ending, ending);
        assert_eq!(script.steps, whole.steps[..4]);
        assert_eq!(charge(&script).output, 8);
    }
    let script = faulty(Fault::Error { after: 3 }, true);
    let (events, stream) = read_stream(&script);
    assert!(matches!(events[..], [.., StreamEvent::Content, StreamEvent::Failed { .. }]), "{events:?}");
    assert!(!stream.is_complete() && script.ending == ScriptEnding::Early);
    let late = faulty(Fault::cut(1_000), true);
    assert_eq!((late.steps, late.ending), (whole.steps, whole.ending));
}

#[test]
fn answers_that_are_no_streams_break_in_the_middle() {
    let whole = sent(&faulty(Fault::Slow { by: Duration::ZERO }, false));
    let cut = faulty(Fault::cut(1), false);
    assert_eq!((sent(&cut), cut.ending), (whole[..whole.len() / 2].to_vec(), ScriptEnding::Close));
    assert_eq!(head(&cut).length, Some(whole.len()));
    assert!(charge(&cut).output > 0);
    assert_eq!(head(&faulty(Fault::EndEarly { after: 1 }, false)).length, None);
    assert_eq!(error_type(&faulty(Fault::Error { after: 3 }, false)), "overloaded_error");
    for (fault, ending) in [
        (Fault::cut(0), ScriptEnding::Close),
        (Fault::Hang { after: 0 }, ScriptEnding::Hang),
        (Fault::Reset, ScriptEnding::Reset),
    ] {
        let script = faulty(fault, false);
        assert_eq!((script.steps.len(), script.ending), (0, ending));
    }
}

#[test]
fn slowness_moves_everything() {
    let by = Duration::from_secs(3);
    let (slow, usual) = (faulty(Fault::Slow { by }, true), faulty(Fault::Slow { by: Duration::ZERO }, true));
    assert!(slow.steps.iter().zip(&usual.steps).all(|(slow, usual)| slow.at == usual.at + by));
}

#[test]
fn the_first_rule_that_applies_counts() {
    let second = Duration::from_secs;
    let status = |status| Fault::status(status);
    let engine = engine(vec![
        FaultRule { from: second(10), to: second(20), ..rule(status(500)) },
        FaultRule { model: Some("sonnet".into()), ..rule(status(501)) },
        FaultRule { frequency: Frequency::Every(3), ..rule(status(502)) },
    ]);
    let status_of = |model, at, number| {
        let body = body(model, 1, false, "hi");
        head(&engine.script(&ModelRequest {
            number,
            schedule_number: number,
            at,
            ..ModelRequest::first(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES), &body)
        }))
        .status
    };
    assert_eq!(status_of("haiku", second(10), 0), 500);
    assert_eq!(status_of("haiku", second(20), 1), 200);
    assert_eq!(status_of("sonnet", second(20), 1), 501);
    assert_eq!(
        (0..6).map(|number| status_of("haiku", second(5), number)).collect::<Vec<_>>(),
        [502, 200, 200, 502, 200, 200]
    );
}

#[test]
fn a_share_by_lot_is_about_that_share() {
    let engine = engine(vec![FaultRule { frequency: Frequency::Percent(20.0), ..rule(Fault::Reset) }]);
    let body = body("instant", 1, false, "hi");
    let hit = (0..10_000).filter(|number| {
        engine
            .script(&ModelRequest {
                schedule_number: *number,
                ..ModelRequest::first(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES), &body)
            })
            .ending
            == ScriptEnding::Reset
    });
    let hit = hit.count();
    assert!((1_850..2_150).contains(&hit), "{hit}");
}

#[test]
fn an_instant_pace_needs_no_clock() {
    let options = ModelOptions {
        faults: vec![rule(Fault::Slow { by: Duration::from_secs(1) })],
        pace: "instant".parse().unwrap(),
        seed: 1,
    };
    let script = script(&Engine::new(options).unwrap(), &body("sonnet", 100, true, "hi"));
    assert!(script.steps.iter().all(|step| step.at.is_zero()));
    assert_eq!("slow".parse::<Pace>().unwrap_err().to_string(), "pace: \"slow\" is neither real nor instant");
}

#[test]
fn rules_are_read_and_nonsense_is_refused_by_name() {
    let text = br#"[{"from":"250ms","to":"2h","model":"haiku","every":2,"fault":{"kind":"hang"}},
        {"to":"5m","percent":0.5,"fault":{"kind":"slow","by":"30s"}}]"#;
    let rules = read_faults(text).unwrap();
    let expected = FaultRule {
        from: Duration::from_millis(250),
        to: Duration::from_secs(7_200),
        model: Some("haiku".into()),
        frequency: Frequency::Every(2),
        ..FaultRule::always(Fault::Hang { after: 0 })
    };
    assert_eq!(rules[0], expected);
    assert_eq!((rules[1].to, rules[1].frequency), (Duration::from_secs(300), Frequency::Percent(0.5)));
    for (text, expected) in [
        (r#"{"#, "faults: "),
        (r#"[{"fault":{"kind":"explode"}}]"#, "faults: unknown variant `explode`"),
        (r#"[{"fault":{"kind":"reset"},"evry":2}]"#, "faults: unknown field `evry`"),
        (r#"[{"fault":{"kind":"slow","by":"soon"}}]"#, "faults: invalid duration \"soon\""),
        (r#"[{"fault":{"kind":"slow","by":"5"}}]"#, "faults: invalid duration \"5\""),
        (
            r#"[{"fault":{"kind":"reset"},"every":1,"percent":5}]"#,
            "faults: every_nth and percent are mutually exclusive",
        ),
        (r#"[{"fault":{"kind":"reset"},"every":0}]"#, "faults.every: must be at least 1"),
        (r#"[{"fault":{"kind":"reset"},"percent":101}]"#, "faults.percent: 101% is more than 100%"),
        (r#"[{"fault":{"kind":"reset"},"model":"opus"}]"#, "faults.model: unknown model \"opus\""),
        (r#"[{"fault":{"kind":"reset"},"from":"2s","to":"2s"}]"#, "faults.from: 2s must be before to (2s)"),
        (r#"[{"fault":{"kind":"status","status":200}}]"#, "faults.status: 200 must be between 400 and 599"),
    ] {
        let outcome = read_faults(text.as_bytes())
            .and_then(|faults| Engine::new(ModelOptions { faults, ..Default::default() }));
        let error = outcome.unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

fn any_fault() -> impl Strategy<Value = Fault> {
    let after = 0_usize..80;
    Union::new([
        Just(Fault::Reset).boxed(),
        (400_u16..600).prop_map(Fault::status).boxed(),
        after.clone().prop_map(Fault::cut).boxed(),
        after.clone().prop_map(|after| Fault::EndEarly { after }).boxed(),
        after.clone().prop_map(|after| Fault::Hang { after }).boxed(),
        after.prop_map(|after| Fault::Error { after }).boxed(),
    ])
}

proptest! {
    #[test]
    fn every_script_can_be_played_and_never_charges_more_than_the_whole(
        fault in any_fault(),
        question in "[a-z漫]{1,8}",
        max_tokens in 1_u32..300,
        stream: bool,
    ) {
        let body = body("haiku", max_tokens, stream, &question);
        let whole = script(&engine(vec![]), &body);
        let faulty = script(&engine(vec![rule(fault)]), &body);
        prop_assert!(faulty.steps.is_sorted_by_key(|step| step.at));
        let heads = faulty.steps.iter().filter(|step| matches!(step.action, ScriptAction::Head(_))).count();
        prop_assert_eq!(heads, usize::from(!faulty.steps.is_empty()));
        prop_assert!(charge(&faulty).output <= charge(&whole).output);
        prop_assert!(charge(&whole).output <= u64::from(max_tokens));
        prop_assert_eq!(whole.profile, Profile::named("haiku"));
    }

    #[test]
    fn tokens_are_the_text_in_pieces(text in "(?s).{0,40}") {
        let pieces: Vec<&str> = super::tokens::tokens(&text).collect();
        prop_assert_eq!(pieces.concat(), &text[..]);
        prop_assert!(pieces.iter().all(|piece| piece.len() <= 4));
    }
}
