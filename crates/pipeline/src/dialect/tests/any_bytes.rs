//! Property tests with arbitrary input.

use super::judge::listen;
use super::requests::limit;
use super::{DEFAULTS, PLAIN, Question, STREAM, answered, body, dialect, every_pair, play, request_for};
use crate::dialect::{Face, UnstreamedAnswer};
use bytes::Bytes;
use proptest::arbitrary::any;
use proptest::collection::{btree_map, vec};
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use proptest::sample::{Index, select};
use proptest::strategy::{Just, Strategy};
use seawall_core::vocabulary::OutputLimitField;
use seawall_wire::ApiErrorKind;
use seawall_wire::dialect::DialectId;
use serde_json::Value;

const MESSAGE: [&str; 12] =
    ["", "text", "type", "user", "assistant", "tool", "image", "漫画", "tool_use", "function", "{}", "auto"];

/// Small random JSON with the field names of the dialects.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = proptest::prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(&MESSAGE[..]).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let names = select(&["type", "text", "role", "content", "name", "input", "toolUse", "id", "x"][..]);
        proptest::prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(names.prop_map(str::to_owned), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// The JSON pointers of all values, outer ones first.
fn places(value: &Value, way: &str, found: &mut Vec<String>) {
    found.push(way.to_owned());
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| places(value, &format!("{way}/{name}"), found));
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(at, value)| places(value, &format!("{way}/{at}"), found));
        }
        _ => {}
    }
}

fn changed(mut value: Value, changes: &[(Index, Value)]) -> Value {
    for (at, new) in changes {
        let mut ways = Vec::new();
        places(&value, "", &mut ways);
        let way: &String = at.get(&ways);
        if let Some(place) = value.pointer_mut(way) {
            *place = new.clone();
        }
    }
    value
}

proptest! {
    #[test]
    fn a_request_is_told_to_a_target_with_its_limit_or_refused_by_name(
        face in 0..Face::VENDORS.len(), stream: bool, needs_tool: bool, limited: bool,
        changes in vec((any::<Index>(), any_json()), 0..4),
    ) {
        let face = Face::VENDORS[face];
        let max_output = if limited { Some(7) } else { None };
        let question = Question { stream, needs_tool, max_output, ..PLAIN };
        let text = changed(body(face, &question), &changes).to_string();
        let read = super::read(face, stream, Bytes::from(text));
        let request = match read {
            Ok(request) => request,
            Err(error) => {
                prop_assert!(!error.to_string().is_empty());
                prop_assert_eq!(error.api_error_kind(), ApiErrorKind::Malformed);
                return Ok(());
            }
        };
        if request.opaque_answers().is_some() {
            // Its limits are unknown to the gateway.
            prop_assert_eq!(&request.body_for(DialectId::BEDROCK_INVOKE, "m").unwrap(), request.body());
            prop_assert!(request.body_for(DialectId::OPENAI_CHAT, "m").is_err());
            return Ok(());
        }
        for target in DialectId::ALL {
            match request.body_with_limit(Some(9), OutputLimitField::MaxCompletionTokens, target, "m") {
                Ok(sent) => {
                    let sent: Value = serde_json::from_slice(&sent).unwrap();
                    let choices = sent["n"].as_u64().or(sent["generationConfig"]["candidateCount"].as_u64());
                    prop_assert_eq!(choices.unwrap_or(1), u64::from(request.choices()));
                    prop_assert_eq!(limit(target, &sent), u64::from(request.max_output().unwrap_or(9)));
                    let turns = match target.name() {
                        "openai_responses" => &sent["input"],
                        "gemini" => &sent["contents"],
                        _ => &sent["messages"],
                    };
                    // The whole input of Responses may be one string, which passes through as it is.
                    let is_text = dialect(face) == target && target == DialectId::RESPONSES && turns.is_string();
                    prop_assert!(is_text || turns.as_array().is_some_and(|turns| !turns.is_empty()));
                }
                Err(error) => {
                    prop_assert!(dialect(face) != target, "{}", error);
                    prop_assert!(error.to_string().contains(':'), "{}", error);
                    prop_assert_eq!(error.api_error_kind(), ApiErrorKind::Malformed);
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_no_request_or_one(face in 0..Face::VENDORS.len(), bytes: Vec<u8>) {
        let face = Face::VENDORS[face];
        if let Ok(request) = super::read(face, true, bytes.into()) {
            for target in DialectId::ALL {
                let _ = request.body_for(target, "m");
            }
        }
    }

    #[test]
    fn any_bytes_of_a_target_are_no_complete_answer(pair in 0..every_pair().count(), pieces in vec(vec(any::<u8>(), 0..40), 0..6)) {
        let (face, target) = every_pair().nth(pair).unwrap();
        let request = request_for(face, &STREAM);
        let played = play(&request, target, pieces.iter().map(|piece| &piece[..]));
        prop_assert!(!played.is_complete());
        let whole = Bytes::from(pieces.concat());
        prop_assert!(UnstreamedAnswer::read(&request, target, whole, None, &DEFAULTS).is_err());
    }

    #[test]
    fn a_stream_that_was_changed_on_its_way_is_still_told_in_order(
        pair in 0..every_pair().count(), needs_tool: bool, size in 1_usize..400,
        flips in vec((any::<Index>(), any::<u8>()), 0..3),
        cut in proptest::option::of((any::<Index>(), 0_usize..300)),
    ) {
        let (face, target) = every_pair().nth(pair).unwrap();
        let request = request_for(face, &Question { max_output: Some(12), needs_tool, ..STREAM });
        let mut bytes = answered(&request, target).concat();
        for (at, byte) in &flips {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        if let Some((at, length)) = cut {
            let start = at.index(bytes.len());
            bytes.drain(start..bytes.len().min(start + length));
        }
        let played = play(&request, target, bytes.chunks(size));
        let moves_bytes = dialect(face) == target
            || (super::has_anthropic_bodies(dialect(face)) && super::has_anthropic_bodies(target));
        if !moves_bytes {
            let parsed = listen(face, &played.sent);
            prop_assert!(parsed.is_ok(), "{:?} {:?} {:?}", face, target, parsed);
            let parsed = parsed.unwrap();
            prop_assert_eq!(parsed.is_complete, played.is_complete());
            prop_assert_eq!(parsed.failure.is_some(), !played.is_complete());
        }
    }

    #[test]
    fn an_answer_that_was_changed_on_its_way_is_an_answer_or_a_failure(
        pair in 0..every_pair().count(), needs_tool: bool, changes in vec((any::<Index>(), any_json()), 1..4),
    ) {
        let (face, target) = every_pair().nth(pair).unwrap();
        let request = request_for(face, &Question { needs_tool, ..PLAIN });
        let body: Value = serde_json::from_slice(&answered(&request, target).concat()).unwrap();
        let body = Bytes::from(changed(body, &changes).to_string());
        if let Ok(answer) = UnstreamedAnswer::read(&request, target, body, None, &DEFAULTS) {
            prop_assert!(serde_json::from_slice::<Value>(&super::written(&answer, face)).unwrap().is_object());
        }
    }
}
