//! Faults that do more than stop the answer.

use super::{body, charge, checked, engine, error_type, faulty, head, read_stream, rule, script, sent};
use crate::engine::{
    Fault, FaultRule, Frequency, ModelCall, ModelRequest, Script, ScriptAction, ScriptEnding, read_faults,
};
use seawall_wire::anthropic::{AnthropicStream, read_answer};
use seawall_wire::bedrock::{self, FrameLimits};
use seawall_wire::dialect::DialectId;
use seawall_wire::sse::SseLimits;
use serde_json::{Value, json};
use std::time::Duration;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn usual(stream: bool) -> Script {
    faulty(Fault::Slow { by: Duration::ZERO }, stream)
}

#[test]
fn a_connection_is_cut_at_the_byte_and_at_the_token() {
    let whole = sent(&usual(true));
    for bytes in [1, 100, 333, whole.len() - 1] {
        let fault = Fault::Cut { after: None, after_bytes: Some(bytes), after_tokens: None, reset: true };
        let script = faulty(fault, true);
        assert_eq!((sent(&script), script.ending), (whole[..bytes].to_vec(), ScriptEnding::Reset));
    }
    let late = Fault::Cut { after: None, after_bytes: Some(whole.len()), after_tokens: None, reset: false };
    assert_eq!(faulty(late, true).ending, ScriptEnding::Complete);
    for (tokens, delivered) in [(1, 4), (4, 4), (5, 8), (20, 20)] {
        let fault = Fault::Cut { after: None, after_bytes: None, after_tokens: Some(tokens), reset: false };
        let script = faulty(fault, true);
        assert_eq!((charge(&script).output, script.ending), (delivered, ScriptEnding::Close));
    }
}

#[test]
fn a_piece_is_cut_in_half_and_the_body_ends_in_good_order() {
    let script = faulty(Fault::Truncate { after: 2 }, true);
    let usual = sent(&usual(true));
    assert_eq!((script.ending, script.steps.len()), (ScriptEnding::Early, 4));
    assert!(usual.starts_with(&sent(&script)));
    let mut stream = AnthropicStream::new(SseLimits::default());
    stream.feed(&sent(&script), |_| ()).unwrap();
    assert!(!stream.is_complete() && !stream.is_between_events());
    // The same in a Bedrock frame.
    let model = "haiku".to_owned();
    let call = ModelCall::with_url(DialectId::BEDROCK_CONVERSE, &model, true);
    let request = br#"{"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#;
    let script =
        engine(vec![rule(Fault::Truncate { after: 3 })]).script(&ModelRequest::first(&call, request));
    let mut watch = bedrock::ConverseStream::new(FrameLimits::default());
    watch.feed(&sent(&script), |_| ()).unwrap();
    assert!(!watch.is_complete() && !watch.is_between_frames());
    assert_eq!(faulty(Fault::Truncate { after: 500 }, true).ending, ScriptEnding::Complete);
}

#[test]
fn a_piece_that_makes_no_sense_is_followed_by_the_rest() {
    let usual = usual(true);
    let script = faulty(Fault::Malformed { after: 1 }, true);
    assert_eq!((script.steps.len(), script.ending), (usual.steps.len(), ScriptEnding::Complete));
    let changed =
        script.steps.iter().zip(&usual.steps).filter(|(one, other)| one.action != other.action).count();
    assert_eq!(changed, 1);
    assert!(String::from_utf8(sent(&script)).unwrap().contains("data: <"));
    assert!(read_answer(&sent(&faulty(Fault::Malformed { after: 0 }, false))).is_err());
    let model = "haiku".to_owned();
    let call = ModelCall::with_url(DialectId::BEDROCK_CONVERSE, &model, true);
    let request = br#"{"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#;
    let script =
        engine(vec![rule(Fault::Malformed { after: 2 })]).script(&ModelRequest::first(&call, request));
    assert!(bedrock::ConverseStream::new(FrameLimits::default()).feed(&sent(&script), |_| ()).is_err());
}

#[test]
fn a_page_of_html_is_no_answer_and_costs_nothing() {
    for stream in [true, false] {
        let script = faulty(Fault::Html, stream);
        assert_eq!((head(&script).status, head(&script).content_type), (200, "text/html; charset=utf-8"));
        assert!(sent(&script).starts_with(b"<!doctype html>") && charge(&script).output == 0);
        assert_eq!(script.fault.as_deref(), Some("html"));
    }
}

#[test]
fn a_false_usage_can_be_reported_and_the_true_one_is_charged() {
    for stream in [true, false] {
        let (truth, script) = (charge(&usual(stream)), faulty(Fault::Usage { percent: 300 }, stream));
        let reported = if stream {
            read_stream(&script).1.usage()
        } else {
            read_answer(&sent(&script)).unwrap().0.usage
        };
        assert_eq!((reported.input, reported.output), (truth.input * 3, truth.output * 3));
        assert_eq!(charge(&script), truth);
    }
}

#[test]
fn usage_can_be_left_out_of_what_is_json() {
    let quiet = Fault::Usage { percent: 0 };
    for stream in [true, false] {
        let (truth, script) = (charge(&usual(stream)), faulty(quiet.clone(), stream));
        let text = String::from_utf8(sent(&script)).unwrap();
        assert!(!text.contains("usage") && charge(&script) == truth, "{text}");
        assert!(head(&script).length.is_none_or(|length| length == text.len()));
        for json in text
            .lines()
            .filter_map(|line| line.strip_prefix("data: ").or(line.starts_with('{').then_some(line)))
        {
            serde_json::from_str::<serde_json::Value>(json).unwrap();
        }
    }
    let request = br#"{"model":"haiku","stream":true,"stream_options":{"include_usage":true},
        "messages":[{"role":"user","content":"hi"}]}"#;
    let script = engine(vec![rule(quiet)])
        .script(&ModelRequest::first(&ModelCall::of(DialectId::OPENAI_CHAT), request));
    let text = String::from_utf8(sent(&script)).unwrap();
    assert!(!text.contains("\"usage\":{") && text.ends_with("data: [DONE]\n\n"), "{text}");
}

#[test]
fn thinking_is_shown_and_billed_before_the_answer() {
    let script = faulty(Fault::Thinking { takes: seconds(90), every: Some(seconds(30)) }, true);
    assert_eq!(script.steps.len(), usual(true).steps.len() + 3);
    let last = |script: &Script| script.steps.last().unwrap().at;
    assert_eq!(last(&script), last(&usual(true)) + seconds(90));
    assert!(charge(&script).output > charge(&usual(true)).output);
    let hidden = faulty(Fault::Thinking { takes: seconds(90), every: None }, false);
    assert_eq!(last(&hidden), last(&usual(false)) + seconds(90));
}

#[test]
fn a_drip_is_even_and_a_latency_is_drawn_for_each() {
    let script = faulty(Fault::Drip { every: seconds(2) }, true);
    let at: Vec<_> = script.steps[1..].iter().map(|step| step.at).collect();
    assert!(at.windows(2).all(|pair| pair[1] - pair[0] == seconds(2)));
    let latency = Fault::Latency { median: Duration::from_millis(200), p99: seconds(2) };
    let engine = engine(vec![rule(latency)]);
    let body = body("instant", 1, false, "hi");
    let mut waits: Vec<_> = (0..2_000)
        .map(|number| {
            engine
                .script(&ModelRequest {
                    schedule_number: number,
                    ..ModelRequest::first(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES), &body)
                })
                .steps[0]
                .at
        })
        .collect();
    waits.sort();
    let (median, p99) = (waits[1_000].as_millis(), waits[1_980].as_millis());
    assert!((180..220).contains(&median) && (1_500..2_600).contains(&p99), "{median} {p99}");
}

#[test]
fn an_endless_stream_repeats_its_last_chunk() {
    let script = faulty(Fault::Endless { every: Duration::from_millis(50) }, true);
    assert_eq!(script.ending, ScriptEnding::Repeat(Duration::from_millis(50)));
    let Some(ScriptAction::Body(last)) = script.steps.last().map(|step| &step.action) else {
        panic!("{script:?}")
    };
    assert!(
        last.starts_with(b"event: content_block_delta") && script.steps.last().unwrap().charge.output > 0
    );
    assert_eq!(faulty(Fault::Endless { every: seconds(1) }, false).ending, ScriptEnding::Hang);
}

#[test]
fn more_than_the_capacity_or_the_quota_is_throttled_with_a_hint() {
    let retry_after = Some(seconds(3));
    let engine = engine(vec![
        rule(Fault::Capacity { in_flight: 2, retry_after }),
        rule(Fault::Quota { per_minute: 5 }),
    ]);
    let body = body("instant", 1, false, "hi");
    let call = ModelCall::of(DialectId::ANTHROPIC_MESSAGES);
    let first = ModelRequest::first(&call, &body);
    let seen = |ask: ModelRequest<'_>| {
        let script = engine.script(&ask);
        (head(&script).status, head(&script).retry_after, script.fault)
    };
    assert_eq!(seen(ModelRequest { in_flight: 2, requests_this_minute: 5, ..first }), (200, None, None));
    assert_eq!(seen(ModelRequest { in_flight: 3, ..first }), (429, retry_after, Some("capacity".into())));
    let late = ModelRequest { requests_this_minute: 6, at: seconds(70), ..first };
    assert_eq!(seen(late), (429, Some(seconds(50)), Some("quota".into())));
}

#[test]
fn a_status_can_have_another_name_than_usual() {
    let error = Some("timeout_error".to_owned());
    let script = faulty(Fault::Status { status: 429, retry_after: None, error }, false);
    assert_eq!((head(&script).status, error_type(&script).as_str()), (429, "timeout_error"));
}

#[test]
fn a_rule_may_meet_only_what_contains_a_text() {
    let engine = engine(vec![FaultRule { contains: Some("crash".to_owned()), ..rule(Fault::status(500)) }]);
    for (text, status) in [("please crash now", 500), ("hi", 200)] {
        let body = body("instant", 1, false, text);
        assert_eq!(
            head(&engine.script(&ModelRequest::first(&ModelCall::of(DialectId::ANTHROPIC_MESSAGES), &body)))
                .status,
            status
        );
    }
}

#[test]
fn rules_come_in_bursts_and_shares_change_over_time() {
    let engine = engine(vec![
        FaultRule { bursts: Some((seconds(10), seconds(2))), from: seconds(5), ..rule(Fault::status(500)) },
        FaultRule {
            frequency: Frequency::Ramp(1.0, 99.0),
            from: seconds(100),
            to: seconds(200),
            ..rule(Fault::status(503))
        },
    ]);
    let body = body("instant", 1, false, "hi");
    let call = ModelCall::of(DialectId::ANTHROPIC_MESSAGES);
    let first = ModelRequest::first(&call, &body);
    let status = |at, number| {
        head(&engine.script(&ModelRequest { at: seconds(at), schedule_number: number, ..first })).status
    };
    let seen: Vec<_> = [4, 5, 6, 7, 14, 15, 16, 17].map(|at| status(at, 0)).into();
    assert_eq!(seen, [200, 500, 500, 200, 200, 500, 500, 200]);
    let share = |at| (0..1_000).filter(|number| status(at, *number) == 503).count();
    let (early, middle, late) = (share(103), share(153), share(198));
    assert!(early < 80 && (450..600).contains(&middle) && late > 900, "{early} {middle} {late}");
}

#[test]
fn schedules_in_toml_and_json_are_equivalent() {
    let toml = br#"
        [[fault]]
        name = "evening rush"
        kind = "capacity"
        in_flight = 50
        retry_after = "2s"

        [[fault]]
        seed = 9
        kind = "drip"
        every = "100ms"
        every_nth = 4
        model = "haiku"

        [[fault]]
        kind = "status"
        status = 503
        percent = 5
        percent_to = 80
        from = "1m"
        to = "3m"
        repeat = "30s"
        lasts = "10s"
    "#;
    let json = br#"[
        {"name": "evening rush", "fault": {"kind": "capacity", "in_flight": 50, "retry_after": "2s"}},
        {"seed": 9, "every": 4, "model": "haiku", "fault": {"kind": "drip", "every": "100ms"}},
        {"percent": 5, "percent_to": 80, "from": "1m", "to": "3m", "repeat": "30s", "lasts": "10s",
         "fault": {"kind": "status", "status": 503}}
    ]"#;
    assert_eq!(read_faults(toml).unwrap(), read_faults(json).unwrap());
    assert_eq!(read_faults(b"").unwrap(), []);
    for (text, problem) in [
        ("[[fault]]\nkind = \"cut\"\nafter = 1\nafter_bytes = 2", "faults.cut: exactly one of"),
        ("[[fault]]\nkind = \"cut\"", "faults.cut: exactly one of"),
        ("[[fault]]\nkind = \"drip\"\nevery = \"0s\"", "faults.every: must be longer than 0s"),
        (
            "[[fault]]\nkind = \"latency\"\nmedian = \"2s\"\np99 = \"1s\"",
            "faults.p99: 1s must be at least the median",
        ),
        ("[[fault]]\nkind = \"reset\"\nrepeat = \"1s\"", "faults: repeat and lasts must be set together"),
        (
            "[[fault]]\nkind = \"reset\"\nrepeat = \"1s\"\nlasts = \"2s\"",
            "faults.lasts: 2s must be longer than 0s",
        ),
        ("[[fault]]\nkind = \"reset\"\npercent_to = 3", "faults: percent_to requires percent"),
        ("[[fault]]\nkind = \"reset\"\nevry_nth = 3", "faults: unknown field `evry_nth`"),
        ("[[fault]]\nkind = \"explode\"", "faults: unknown variant `explode`"),
        ("[[fault]]\nstatus = 3", "faults: missing field `kind`"),
        ("[[fault", "faults: "),
    ] {
        let error = read_faults(text.as_bytes()).and_then(checked).unwrap_err().to_string();
        assert!(error.starts_with(problem), "{text}: {error}");
    }
}

/// A request that offers the tool `write`, with these turns behind the question.
fn offering(more: &[Value]) -> Vec<u8> {
    let mut turns = vec![json!({"role": "user", "content": "Write a note"})];
    turns.extend(more.iter().cloned());
    let tools = json!([{"name": "write", "input_schema": {"type": "object"}}]);
    json!({"model": "haiku", "max_tokens": 200, "messages": turns, "tools": tools}).to_string().into_bytes()
}

#[test]
fn a_scripted_tool_is_called_once_if_it_is_offered_and_then_the_text_is_answered() {
    let rules = br#"
        [[fault]]
        kind = "tool_call"
        tool = "write"
        input = { path = "note.txt", lines = 2 }

        [[fault]]
        kind = "text"
        text = "It is written."
    "#;
    let engine = engine(read_faults(rules).unwrap());
    let answer = |body: &[u8]| -> Value { serde_json::from_slice(&sent(&script(&engine, body))).unwrap() };
    let first = answer(&offering(&[]));
    let call = &first["content"][0];
    assert_eq!((&call["name"], &call["input"]), (&json!("write"), &json!({"path": "note.txt", "lines": 2})));
    assert_eq!(first["stop_reason"], "tool_use");
    let called = json!({"role": "assistant", "content": [call]});
    let result = json!({"type": "tool_result", "tool_use_id": call["id"], "content": "done"});
    let reminder = json!({"role": "user", "content": [result, {"type": "text", "text": "Be brief."}]});
    for body in [offering(&[called, reminder]), body("haiku", 200, false, "Write a note").to_vec()] {
        let answer = answer(&body);
        assert_eq!(
            (&answer["content"][0]["text"], &answer["stop_reason"]),
            (&json!("It is written."), &json!("end_turn"))
        );
    }
}
