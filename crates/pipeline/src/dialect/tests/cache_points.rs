//! Cache marks between the two dialects that have them.

use super::requests::read;
use crate::dialect::Face;
use seawall_wire::dialect::DialectId;
use serde_json::{Value, json};

#[test]
fn cache_marks_stay_at_their_blocks_between_anthropic_and_converse() {
    let mark = json!({"type": "ephemeral"});
    let body = json!({"model": "m", "max_tokens": 9,
        "tools": [{"name": "a", "input_schema": {"type": "object"}},
            {"name": "b", "input_schema": {"type": "object"}, "cache_control": mark}],
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two", "cache_control": mark}]},
            {"role": "user", "content": [{"type": "text", "text": "three", "cache_control": mark}, {"type": "text", "text": "four"}]}]});
    let request = read(Face::ANTHROPIC_MESSAGES, &body).unwrap();
    let written = |model: &str| -> Value {
        serde_json::from_slice(&request.body_for(DialectId::BEDROCK_CONVERSE, model).unwrap()).unwrap()
    };
    let claude = written("anthropic.claude-sonnet-4-6-v1:0");
    let point = json!({"cachePoint": {"type": "default"}});
    assert_eq!(claude["system"], json!([{"text": "s"}, {"cachePoint": {"type": "default", "ttl": "1h"}}]));
    assert_eq!(claude["toolConfig"]["tools"][2], point);
    let texts = json!([{"text": "one"}, {"text": "two"}, point, {"text": "three"}, point, {"text": "four"}]);
    assert_eq!(claude["messages"], json!([{"role": "user", "content": texts}]));
    // Nova caches no tools and for five minutes only; other models reject a mark.
    let nova = written("us.amazon.nova-pro-v1:0");
    assert_eq!((&nova["system"][1], &nova["toolConfig"]["tools"][2]), (&point, &Value::Null));
    for model in [
        "meta.llama3-8b-instruct-v1:0",
        "anthropic.claude-3-haiku-20240307-v1:0",
        "arn:aws:bedrock:eu-west-1:1:application-inference-profile/x",
    ] {
        assert!(!written(model).to_string().contains("cachePoint"), "{model}");
    }
    // And back.
    let converse = read(Face::BEDROCK_CONVERSE, &claude).unwrap();
    let anthropic = converse.body_for(DialectId::ANTHROPIC_MESSAGES, "claude-sonnet-4-6").unwrap();
    let anthropic: Value = serde_json::from_slice(&anthropic).unwrap();
    assert_eq!(anthropic["system"], body["system"]);
    assert_eq!(anthropic["tools"][1]["cache_control"], mark);
    let marked: Vec<bool> = anthropic["messages"][0]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["cache_control"] == mark)
        .collect();
    assert_eq!(marked, [false, true, true, false]);
}
