//! Every feature of the feature table, for every pair of a face and a target: it survives, or is declared ignorable, or
//! is refused by name. Nothing is dropped silently.

use super::requests::read;
use super::{PLAIN, Question, body, dialect, every_pair, model_of, schema};
use crate::dialect::{DialectRequest, Face};
use bytes::Bytes;
use proptest::prelude::{any, proptest};
use proptest::sample::subsequence;
use seawall_wire::chat::{ChatFeature, ChatRequest, FEATURES, FeatureSupport};
use seawall_wire::dialect::{DialectId, UrlParameters};
use seawall_wire::{RequestError, RequestLimits};
use serde_json::{Value, json};

/// The models that are called: with all features of their dialects.
fn capable_model(target: DialectId) -> &'static str {
    match target.name() {
        "anthropic" => "claude-sonnet-4-6",
        "bedrock_invoke" | "bedrock_converse" => "anthropic.claude-sonnet-4-6-v1:0",
        _ => model_of(target),
    }
}

/// Merges `change` into `body`; objects are merged, everything else is replaced.
fn merge(body: &mut Value, change: &Value) {
    match (body, change) {
        (Value::Object(body), Value::Object(change)) => {
            for (name, value) in change {
                merge(body.entry(name).or_insert(Value::Null), value);
            }
        }
        (body, change) => *body = change.clone(),
    }
}

/// The closed schema, which every vendor enforces.
fn output_schema() -> Value {
    json!({"type": "object", "properties": {"volume": {"type": "integer"}}, "required": ["volume"],
        "additionalProperties": false})
}

const PDF: &str = "data:application/pdf;base64,JVBERi0=";

/// The change to a request of a face that uses a feature; `None` if the face does not have it.
fn using(face: Face, feature: ChatFeature) -> Option<Value> {
    let anthropic_part = |part: Value| json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, part]}]});
    let openai_part = anthropic_part;
    let responses_part = |part: Value| json!({"input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}, part]}]});
    let converse_part =
        |part: Value| json!({"messages": [{"role": "user", "content": [{"text": "hi"}, part]}]});
    let gemini_part = |part: Value| json!({"contents": [{"role": "user", "parts": [{"text": "hi"}, part]}]});
    let choice = |value: Value| json!({"tool_choice": value});
    Some(match (face.name(), feature) {
        ("anthropic" | "bedrock_invoke", feature) => match feature {
            ChatFeature::StructuredOutput => {
                json!({"output_config": {"format": {"type": "json_schema", "schema": output_schema()}}})
            }
            ChatFeature::Reasoning => {
                json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}})
            }
            ChatFeature::ReasoningSummary => {
                json!({"thinking": {"type": "adaptive", "display": "summarized"}})
            }
            ChatFeature::ForcedTool => choice(json!({"type": "tool", "name": "find"})),
            ChatFeature::NoTool => choice(json!({"type": "none"})),
            ChatFeature::SingleToolCall => choice(json!({"type": "any", "disable_parallel_tool_use": true})),
            ChatFeature::StrictTools => {
                json!({"tools": [{"name": "find", "input_schema": schema(), "strict": true}], "tool_choice": {"type": "auto"}})
            }
            ChatFeature::Images => anthropic_part(
                json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aQ=="}}),
            ),
            ChatFeature::ImageUrls => anthropic_part(
                json!({"type": "image", "source": {"type": "url", "url": "https://a.test/a.png"}}),
            ),
            ChatFeature::Documents => anthropic_part(json!({"type": "document", "title": "a",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}})),
            ChatFeature::DocumentUrls => anthropic_part(
                json!({"type": "document", "source": {"type": "url", "url": "https://a.test/a.pdf"}}),
            ),
            ChatFeature::StopSequences => json!({"stop_sequences": ["END"]}),
            ChatFeature::Sampling => json!({"temperature": 0.5, "top_p": 0.9}),
            ChatFeature::TopK => json!({"top_k": 7}),
            ChatFeature::CachePoints => json!({"cache_control": {"type": "ephemeral"},
                "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]}),
            ChatFeature::Identifiers => json!({"metadata": {"user_id": "u"}}),
            ChatFeature::ServiceTier => json!({"service_tier": "auto"}),
            ChatFeature::ReasoningState => json!({"messages": [{"role": "user", "content": "hi"},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"},
                    {"type": "text", "text": "a"}]}, {"role": "user", "content": "b"}]}),
            ChatFeature::ContextEditing => {
                json!({"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}})
            }
            ChatFeature::VendorToolHistory => json!({"messages": [{"role": "user", "content": "hi"},
                {"role": "assistant", "content": [
                    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                    {"type": "web_search_tool_result", "tool_use_id": "s", "content": [
                        {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "e"}]},
                    {"type": "text", "text": "a"}]}, {"role": "user", "content": "b"}]}),
            ChatFeature::Delivery => {
                json!({"tools": [{"name": "find", "input_schema": schema(), "eager_input_streaming": true}]})
            }
            _ => return None,
        },
        ("openai", feature) => match feature {
            ChatFeature::StructuredOutput => json!({"response_format": {"type": "json_schema",
                "json_schema": {"name": "volume", "strict": true, "schema": output_schema()}}}),
            ChatFeature::JsonMode => json!({"response_format": {"type": "json_object"}}),
            ChatFeature::Reasoning => json!({"reasoning_effort": "low"}),
            ChatFeature::ForcedTool => choice(json!({"type": "function", "function": {"name": "find"}})),
            ChatFeature::NoTool => choice(json!("none")),
            ChatFeature::AllowedTools => {
                choice(json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto",
                "tools": [{"type": "function", "function": {"name": "find"}}]}}))
            }
            ChatFeature::SingleToolCall => json!({"parallel_tool_calls": false}),
            ChatFeature::StrictTools => json!({"tool_choice": "auto", "tools": [
                {"type": "function", "function": {"name": "find", "parameters": schema(), "strict": true}}]}),
            ChatFeature::CustomTools => {
                json!({"tool_choice": "auto", "tools": [{"type": "custom", "custom": {"name": "patch",
                "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: \"x\""}}}}]})
            }
            ChatFeature::Images => {
                openai_part(json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,aQ=="}}))
            }
            ChatFeature::ImageUrls => {
                openai_part(json!({"type": "image_url", "image_url": {"url": "https://a.test/a.png"}}))
            }
            ChatFeature::Documents => {
                openai_part(json!({"type": "file", "file": {"filename": "a", "file_data": PDF}}))
            }
            ChatFeature::StopSequences => json!({"stop": ["END"]}),
            ChatFeature::Sampling => json!({"temperature": 0.5, "top_p": 0.9}),
            ChatFeature::HighTemperature => json!({"temperature": 1.5}),
            ChatFeature::TopK => json!({"top_k": 7}),
            ChatFeature::Seed => json!({"seed": 7}),
            ChatFeature::Penalties => json!({"presence_penalty": 0.5, "frequency_penalty": -0.5}),
            ChatFeature::LogitBias => json!({"logit_bias": {"50256": -100}}),
            ChatFeature::Verbosity => json!({"verbosity": "low"}),
            ChatFeature::Choices => json!({"n": 2}),
            ChatFeature::LogProbabilities => json!({"logprobs": true, "top_logprobs": 2}),
            ChatFeature::CachePoints => json!({"prompt_cache_key": "k"}),
            ChatFeature::Identifiers => json!({"user": "u", "metadata": {"a": "b"}}),
            ChatFeature::ServiceTier => json!({"service_tier": "flex"}),
            ChatFeature::ImageDetail => openai_part(
                json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,aQ==", "detail": "low"}}),
            ),
            ChatFeature::Delivery => json!({"prediction": {"type": "content", "content": "x"}}),
            _ => return None,
        },
        ("openai_responses", feature) => match feature {
            ChatFeature::StructuredOutput => {
                json!({"text": {"format": {"type": "json_schema", "name": "volume",
                "strict": true, "schema": output_schema()}}})
            }
            ChatFeature::JsonMode => json!({"text": {"format": {"type": "json_object"}}}),
            ChatFeature::Reasoning => json!({"reasoning": {"effort": "low"}}),
            ChatFeature::ReasoningSummary => json!({"reasoning": {"effort": "low", "summary": "auto"}}),
            ChatFeature::ForcedTool => choice(json!({"type": "function", "name": "find"})),
            ChatFeature::NoTool => choice(json!("none")),
            ChatFeature::AllowedTools => choice(
                json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "find"}]}),
            ),
            ChatFeature::SingleToolCall => json!({"parallel_tool_calls": false}),
            ChatFeature::StrictTools => json!({"tool_choice": "auto",
                "tools": [{"type": "function", "name": "find", "parameters": schema(), "strict": true}]}),
            ChatFeature::CustomTools => {
                json!({"tool_choice": "auto", "tools": [{"type": "custom", "name": "patch", "format": {"type": "text"}}]})
            }
            ChatFeature::Images => {
                responses_part(json!({"type": "input_image", "image_url": "data:image/png;base64,aQ=="}))
            }
            ChatFeature::ImageUrls => {
                responses_part(json!({"type": "input_image", "image_url": "https://a.test/a.png"}))
            }
            ChatFeature::Documents => {
                responses_part(json!({"type": "input_file", "filename": "a", "file_data": PDF}))
            }
            ChatFeature::DocumentUrls => {
                responses_part(json!({"type": "input_file", "file_url": "https://a.test/a.pdf"}))
            }
            ChatFeature::Sampling => json!({"temperature": 0.5, "top_p": 0.9}),
            ChatFeature::HighTemperature => json!({"temperature": 1.5}),
            ChatFeature::Verbosity => json!({"text": {"verbosity": "high"}}),
            ChatFeature::LogProbabilities => json!({"top_logprobs": 2}),
            ChatFeature::CachePoints => json!({"prompt_cache_key": "k"}),
            ChatFeature::Identifiers => json!({"safety_identifier": "u", "metadata": {"a": "b"}}),
            ChatFeature::ServiceTier => json!({"service_tier": "flex"}),
            ChatFeature::ImageDetail => responses_part(
                json!({"type": "input_image", "image_url": "data:image/png;base64,aQ==", "detail": "low"}),
            ),
            ChatFeature::ReasoningState => json!({"include": ["reasoning.encrypted_content"], "input": [
                {"role": "user", "content": "hi"}, {"type": "reasoning", "summary": [], "encrypted_content": "e"}]}),
            ChatFeature::ContextEditing => json!({"context_management": [{"type": "compaction"}]}),
            ChatFeature::WebSearchOffer => json!({"tool_choice": "auto", "tools": [{"type": "web_search"}]}),
            ChatFeature::VendorToolHistory => json!({"input": [{"role": "user", "content": "hi"},
                {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search"}}]}),
            ChatFeature::Delivery => json!({"stream_options": {"include_obfuscation": false}}),
            _ => return None,
        },
        ("bedrock_converse", feature) => match feature {
            ChatFeature::StructuredOutput => json!({"outputConfig": {"textFormat": {"type": "json_schema",
                "structure": {"jsonSchema": {"schema": output_schema().to_string()}}}}}),
            ChatFeature::Reasoning => {
                json!({"additionalModelRequestFields": {"thinking": {"type": "adaptive"},
                "output_config": {"effort": "low"}}})
            }
            ChatFeature::ForcedTool => json!({"toolConfig": {"toolChoice": {"tool": {"name": "find"}}}}),
            ChatFeature::StrictTools => {
                json!({"toolConfig": {"toolChoice": {"auto": {}, "any": null}, "tools": [
                {"toolSpec": {"name": "find", "inputSchema": {"json": schema()}, "strict": true}}]}})
            }
            ChatFeature::Images => {
                converse_part(json!({"image": {"format": "png", "source": {"bytes": "aQ=="}}}))
            }
            ChatFeature::Documents => converse_part(
                json!({"document": {"format": "pdf", "name": "a", "source": {"bytes": "JVBERi0="}}}),
            ),
            ChatFeature::StopSequences => json!({"inferenceConfig": {"stopSequences": ["END"]}}),
            ChatFeature::Sampling => json!({"inferenceConfig": {"temperature": 0.5, "topP": 0.5}}),
            ChatFeature::TopK => json!({"additionalModelRequestFields": {"top_k": 7}}),
            ChatFeature::CachePoints => converse_part(json!({"cachePoint": {"type": "default"}})),
            ChatFeature::Identifiers => json!({"requestMetadata": {"a": "b"}}),
            ChatFeature::ServiceTier => json!({"performanceConfig": {"latency": "optimized"}}),
            _ => return None,
        },
        ("gemini", feature) => match feature {
            ChatFeature::StructuredOutput => {
                json!({"generationConfig": {"responseMimeType": "application/json",
                "responseJsonSchema": output_schema()}})
            }
            ChatFeature::JsonMode => json!({"generationConfig": {"response_mime_type": "application/json"}}),
            ChatFeature::Reasoning => {
                json!({"generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}}})
            }
            ChatFeature::ReasoningSummary => {
                json!({"generationConfig": {"thinkingConfig": {"includeThoughts": true, "thinkingLevel": "LOW"}}})
            }
            ChatFeature::ForcedTool => json!({"toolConfig": {"functionCallingConfig": {"mode": "ANY",
                "allowedFunctionNames": ["find"]}}}),
            ChatFeature::NoTool => json!({"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}),
            ChatFeature::StrictTools => {
                json!({"toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}})
            }
            ChatFeature::Images => {
                gemini_part(json!({"inlineData": {"mimeType": "image/png", "data": "aQ=="}}))
            }
            ChatFeature::Documents => {
                gemini_part(json!({"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}}))
            }
            ChatFeature::StopSequences => json!({"generationConfig": {"stopSequences": ["END"]}}),
            ChatFeature::Sampling => json!({"generationConfig": {"temperature": 0.5, "topP": 0.5}}),
            ChatFeature::HighTemperature => json!({"generationConfig": {"temperature": 1.5}}),
            ChatFeature::TopK => json!({"generationConfig": {"topK": 7}}),
            ChatFeature::Seed => json!({"generationConfig": {"seed": 7}}),
            ChatFeature::Penalties => json!({"generationConfig": {"presencePenalty": 0.5}}),
            ChatFeature::Choices => json!({"generationConfig": {"candidateCount": 2}}),
            ChatFeature::LogProbabilities => {
                json!({"generationConfig": {"responseLogprobs": true, "logprobs": 2}})
            }
            ChatFeature::Identifiers => json!({"labels": {"a": "b"}}),
            ChatFeature::ServiceTier => json!({"serviceTier": "flex"}),
            ChatFeature::ImageDetail => {
                json!({"generationConfig": {"mediaResolution": "MEDIA_RESOLUTION_LOW"}})
            }
            ChatFeature::ReasoningState => json!({"contents": [{"parts": [{"text": "hi"}]},
                {"role": "model", "parts": [{"text": "a", "thoughtSignature": "c2ln"}]}, {"parts": [{"text": "b"}]}]}),
            _ => return None,
        },
        (other, _) => panic!("{other:?}"),
    })
}

fn body_with(face: Face, features: &[ChatFeature]) -> Value {
    let mut body = body(face, &Question { needs_tool: true, ..PLAIN });
    for feature in features {
        merge(&mut body, &using(face, *feature).unwrap());
    }
    body
}

fn target_body(request: &DialectRequest, target: DialectId) -> Result<Bytes, RequestError> {
    request.body_for(target, capable_model(target))
}

/// A target's body in the neutral form, as a target of that dialect reads it.
fn understood(target: DialectId, body: &[u8]) -> ChatRequest {
    let (limits, url) =
        (RequestLimits::default(), UrlParameters::new(capable_model(target).to_owned(), false));
    target.read_head(&url, body, &limits).unwrap().read_chat(body, &limits).unwrap()
}

/// Whether a body uses a feature in a way that the neutral form of its dialect shows.
fn survives(caller: DialectId, target: DialectId, feature: ChatFeature, body: &[u8]) -> bool {
    let chat = understood(target, body);
    match feature {
        // OpenAI's key of a cache is not a mark in the prompt.
        ChatFeature::CachePoints if [DialectId::OPENAI_CHAT, DialectId::RESPONSES].contains(&caller) => true,
        // A function stands for the tool, or the tools that must not be called are not offered.
        ChatFeature::CustomTools => chat.tools.iter().any(|tool| tool.name == "patch"),
        ChatFeature::NoTool if target == DialectId::BEDROCK_CONVERSE => chat.tools.is_empty(),
        ChatFeature::AllowedTools => chat.tools.len() == 1 && chat.tools[0].name == "find",
        ChatFeature::Reasoning => chat.uses(feature),
        feature => chat.uses(feature),
    }
}

#[test]
fn every_feature_of_every_pair_survives_or_is_ignorable_or_is_refused_by_name() {
    let mut counts = [0; 3];
    for (face, target) in every_pair() {
        let own = face.dialect().unwrap();
        for row in FEATURES {
            let feature = row.feature;
            if using(face, feature).is_none() {
                assert!(is_without_example(face, feature), "{face:?} {feature:?} has no example");
                continue;
            }
            let request = read(face, &body_with(face, &[feature])).unwrap();
            let written = target_body(&request, target);
            let names = format!("{face:?} {target:?} {feature:?}");
            if own.body_format() == target.body_format() {
                assert!(written.is_ok(), "{names}: {written:?}");
                continue;
            }
            match feature.support(target.feature_column()) {
                FeatureSupport::Carried => {
                    let written = written.unwrap_or_else(|error| panic!("{names}: {error}"));
                    assert!(
                        survives(own, target, feature, &written),
                        "{names}: {}",
                        String::from_utf8_lossy(&written)
                    );
                    counts[0] += 1;
                }
                FeatureSupport::Ignored(reason) => {
                    assert!(written.is_ok() && !reason.is_empty(), "{names}: {written:?}");
                    counts[1] += 1;
                }
                FeatureSupport::Unsupported => {
                    let error = written.expect_err(&names);
                    assert_eq!(error.feature(), Some(feature), "{names}: {error}");
                    let field = feature.field_in(own.feature_column()).unwrap();
                    assert_eq!(
                        error.at_target("haiku").to_string(),
                        format!("{field}: Not supported by the target model haiku: {}", row.name)
                    );
                    counts[2] += 1;
                }
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
}

/// Whether a face does not have a feature, or has it only in combination with others.
fn is_without_example(face: Face, feature: ChatFeature) -> bool {
    let is_absent = feature.field_in(dialect(face).feature_column()).is_none();
    is_absent
        || matches!(
            (face.name(), feature),
            // Of one tool there is no subset; the others occur only in answers that are sent back.
            ("gemini", ChatFeature::AllowedTools)
                | ("openai", ChatFeature::ReasoningState | ChatFeature::VendorToolHistory)
                | ("bedrock_converse", ChatFeature::ReasoningState)
        )
}

#[test]
fn structured_output_is_the_same_schema_in_every_dialect() {
    for (face, target) in every_pair() {
        let request = read(face, &body_with(face, &[ChatFeature::StructuredOutput])).unwrap();
        let chat = understood(target, &target_body(&request, target).unwrap());
        let seawall_wire::chat::OutputFormat::Schema(schema) = chat.settings.output_format else {
            panic!("{face:?}")
        };
        assert_eq!(
            serde_json::from_str::<Value>(schema.schema.get()).unwrap(),
            output_schema(),
            "{face:?} {target:?}"
        );
        assert!(schema.is_enforced, "{face:?} {target:?}");
    }
}

#[test]
fn a_model_that_refuses_what_its_dialect_has_is_not_called() {
    let refused = |features: &[ChatFeature], model: &str| {
        let request = read(Face::OPENAI_CHAT, &body_with(Face::OPENAI_CHAT, features)).unwrap();
        request.body_for(DialectId::ANTHROPIC_MESSAGES, model).err().and_then(|error| error.feature())
    };
    for (feature, model, is_refused) in [
        (ChatFeature::Sampling, "claude-opus-4-7", true),
        (ChatFeature::Sampling, "claude-sonnet-4-5", false),
        (ChatFeature::Reasoning, "claude-3-haiku-20240307", true),
        (ChatFeature::Reasoning, "claude-opus-4-7", false),
        // The limit of 500 tokens leaves no room for the least budget.
        (ChatFeature::Reasoning, "claude-sonnet-4-5", true),
        (ChatFeature::ForcedTool, "claude-sonnet-5-5", true),
        (ChatFeature::ForcedTool, "claude-haiku-5-5", false),
    ] {
        assert_eq!(refused(&[feature], model), is_refused.then_some(feature), "{feature:?} {model}");
    }
}

/// The features that a face has and that can be combined: each sets fields of its own.
fn independent(face: Face) -> Vec<ChatFeature> {
    let own = [
        ChatFeature::StructuredOutput,
        ChatFeature::Reasoning,
        ChatFeature::StopSequences,
        ChatFeature::Sampling,
        ChatFeature::TopK,
        ChatFeature::Seed,
        ChatFeature::Penalties,
        ChatFeature::Choices,
        ChatFeature::LogitBias,
        ChatFeature::Documents,
        ChatFeature::Identifiers,
        ChatFeature::ServiceTier,
    ];
    own.into_iter().filter(|feature| using(face, *feature).is_some()).collect()
}

proptest! {
    #[test]
    fn any_combination_is_carried_whole_or_refused_by_one_of_its_features(
        pair in 0..36_usize,
        picks in subsequence((0..12).collect::<Vec<usize>>(), 0..6),
    ) {
        let (face, target) = every_pair().nth(pair).unwrap();
        let own = face.dialect().unwrap();
        let features: Vec<_> = independent(face).into_iter().enumerate()
            .filter(|(at, _)| picks.contains(at)).map(|(_, feature)| feature).collect();
        let request = read(face, &body_with(face, &features)).unwrap();
        let is_refused = |feature: &&ChatFeature| {
            feature.support(target.feature_column()) == FeatureSupport::Unsupported
        };
        let first = features.iter().find(is_refused);
        match target_body(&request, target) {
            Ok(written) => {
                assert!(first.is_none() || own.body_format() == target.body_format(), "{face:?} {target:?} {features:?}");
                let is_carried = |feature: &&ChatFeature| feature.support(target.feature_column()) == FeatureSupport::Carried;
                for feature in features.iter().filter(is_carried) {
                    assert!(survives(own, target, *feature, &written), "{face:?} {target:?} {feature:?} of {features:?}");
                }
            }
            Err(error) => assert!(features.iter().any(|feature| error.feature() == Some(*feature)), "{error}"),
        }
    }

    /// A field that nobody knows is refused by its path, wherever it stands.
    #[test]
    fn an_unknown_field_is_never_dropped(pair in 0..36_usize, at in any::<usize>()) {
        let (face, target) = every_pair().nth(pair).unwrap();
        let own = face.dialect().unwrap();
        let mut changed = body_with(face, &[]);
        let path = add_unknown(&mut changed, at);
        let Ok(request) = read(face, &changed) else { return Ok(()) };
        match target_body(&request, target) {
            Ok(_) => assert_eq!(own.body_format(), target.body_format(), "{face:?} {target:?} {path}"),
            Err(error) => {
                // The field, or the part that it makes ambiguous.
                let error = error.to_string();
                let part = format!("{}: ", path.trim_start_matches('/').replace('/', "."));
                assert!(error.contains("unheard_of") || error.starts_with(&part), "{face:?} {target:?} {path}: {error}");
            }
        }
    }
}

/// Adds a field to one of the objects of a body, except to schemas, and returns the path of that object.
fn add_unknown(body: &mut Value, at: usize) -> String {
    fn objects(value: &Value, path: &str, into: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                into.push(path.to_owned());
                let is_schema = |name: &str| {
                    ["parameters", "input_schema", "inputSchema", "parametersJsonSchema"].contains(&name)
                };
                let is_choice = |name: &str| ["tool_choice", "toolChoice"].contains(&name);
                for (name, value) in fields.iter().filter(|(name, _)| !is_schema(name) && !is_choice(name)) {
                    objects(value, &format!("{path}/{name}"), into);
                }
            }
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    objects(item, &format!("{path}/{at}"), into);
                }
            }
            _ => {}
        }
    }
    let mut paths = Vec::new();
    objects(body, "", &mut paths);
    let path = paths[at % paths.len()].clone();
    body.pointer_mut(&path).unwrap()["unheard_of"] = json!(true);
    path
}
