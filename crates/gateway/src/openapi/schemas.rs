//! The required parts of bodies. The vendors' own documents describe the rest.

use super::reference;
use seawall_core::vocabulary::Rung;
use serde_json::{Value, json};

pub(super) fn components() -> Value {
    let mut all = requests();
    if let (Value::Object(all), Value::Object(more)) = (&mut all, answers()) {
        all.extend(more);
    }
    all
}

fn requests() -> Value {
    let turns = |about: &str| json!({ "type": "array", "minItems": 1, "items": { "type": "object" }, "description": about });
    let name = json!({ "type": "string", "minLength": 1, "description": "The name of a route." });
    let most =
        json!({ "type": "integer", "minimum": 1, "description": "The most tokens that may come out." });
    let stream = json!({ "type": "boolean", "description": "Whether the answer is wanted in pieces." });
    json!({
        "RequestName": { "type": "string", "minLength": 1, "maxLength": 256 },
        "AnthropicRequest": {
            "type": "object",
            "description": "A body of Anthropic's Messages API.",
            "required": ["model", "max_tokens", "messages"],
            "properties": {
                "model": name,
                "max_tokens": most,
                "messages": turns("Turns, as Anthropic has them."),
                "stream": stream,
            },
        },
        "CountRequest": {
            "type": "object",
            "description": "A body of Anthropic's token counting API.",
            "required": ["model", "messages"],
            "properties": { "model": name, "messages": turns("Turns, as Anthropic has them.") },
        },
        "BedrockCountRequest": {
            "type": "object",
            "description": "A body of Bedrock's CountTokens.",
            "required": ["input"],
            "properties": {
                "input": {
                    "type": "object",
                    "description": "Either `invokeModel` with a `body` in base64, or `converse`.",
                },
            },
        },
        "OpenAiRequest": {
            "type": "object",
            "description": "A body of OpenAI's chat completions API.",
            "required": ["model", "messages"],
            "properties": {
                "model": name,
                "max_completion_tokens": most,
                "max_tokens": most,
                "messages": turns("Messages, as OpenAI has them."),
                "stream": stream,
            },
        },
        "ChatQuestion": {
            "type": "object",
            "description": "A message to the shop's chat. No other field is taken.",
            "required": ["message"],
            "additionalProperties": false,
            "properties": {
                "message": { "type": "string", "minLength": 1, "maxLength": 16_000 },
                "history": {
                    "type": "array",
                    "maxItems": 100,
                    "description": "What was said before, oldest first. What does not fit is left out.",
                    "items": {
                        "type": "object",
                        "required": ["role", "text"],
                        "additionalProperties": false,
                        "properties": {
                            "role": { "enum": ["user", "assistant"] },
                            "text": { "type": "string" },
                        },
                    },
                },
                "session": { "type": "string", "minLength": 1, "maxLength": 128 },
                "locale": { "type": "string", "description": "A language such as ja-JP or en; otherwise that of the message." },
                "stream": stream,
                "request_id": { "type": "string", "minLength": 1, "maxLength": 128, "description": "As idempotency-key." },
                "max_tokens": most,
            },
        },
        "InvokeRequest": {
            "type": "object",
            "description": "A body of Anthropic's models on Bedrock: as for Messages, without model and stream, which the path has.",
            "required": ["max_tokens", "messages"],
            "properties": {
                "anthropic_version": { "type": "string" },
                "max_tokens": most,
                "messages": turns("Turns, as Anthropic has them."),
            },
        },
        "ConverseRequest": {
            "type": "object",
            "description": "A body of Bedrock's Converse.",
            "required": ["messages"],
            "properties": {
                "messages": turns("Turns, as Converse has them."),
                "inferenceConfig": { "type": "object", "properties": { "maxTokens": most } },
            },
        },
    })
}

fn answers() -> Value {
    let object = |about: &str| json!({ "type": "object", "description": about });
    json!({
        "AnthropicMessage": object("A message, as Anthropic's Messages API has it."),
        "OpenAiCompletion": object("A chat completion, as OpenAI has it."),
        "ConverseAnswer": object("An answer of Bedrock's Converse."),
        "ChatAnswer": {
            "type": "object",
            "required": ["answer", "rung", "confidence", "degraded", "reasons", "stale", "request_id", "usage", "cost", "finish"],
            "properties": {
                "answer": { "type": "string" },
                "rung": { "enum": Rung::ALL.map(Rung::name), "description": "Which way it was answered." },
                "confidence": { "type": "number", "description": "How sure it is, from 0 to 1." },
                "degraded": { "type": "boolean", "description": "Whether it is anything but the strong model's answer." },
                "reasons": { "type": "array", "items": { "type": "string" }, "description": "Why it is no better." },
                "stale": { "type": "boolean" },
                "request_id": { "type": "string" },
                "session": { "type": "string" },
                "usage": { "type": "object", "required": ["input", "output"] },
                "cost": { "type": "string", "description": "Dollars, with nine digits behind the point." },
                "target": { "type": "string" },
                "finish": { "enum": ["finished", "length", "budget", "blocked", "refused"] },
                "retry_after": { "type": "integer", "description": "When coming back helps, in seconds." },
            },
        },
        "Events": {
            "type": "string",
            "description": "Server-sent events of the dialect. A stream that cannot be completed ends with an error event.",
        },
        "Frames": {
            "type": "string",
            "contentEncoding": "binary",
            "description": "Frames of Amazon's event stream. One that cannot be completed ends with an exception.",
        },
        "BedrockTokenCount": {
            "type": "object",
            "required": ["inputTokens"],
            "properties": { "inputTokens": { "type": "integer", "minimum": 0 } },
        },
        "TokenCount": {
            "type": "object",
            "required": ["input_tokens"],
            "properties": { "input_tokens": { "type": "integer", "minimum": 0 } },
        },
        "Models": {
            "type": "object",
            "required": ["data"],
            "properties": {
                "data": {
                    "type": "array",
                    "items": reference("schemas", "Model"),
                },
            },
        },
        "Model": { "type": "object", "required": ["id"], "properties": { "id": { "type": "string" } } },
        "Word": { "type": "string", "description": "One word and a line end." },
        "Metrics": { "type": "string", "description": "The text format of Prometheus, 0.0.4." },
        "Document": object("An OpenAPI document."),
        "AnthropicError": {
            "type": "object",
            "required": ["type", "error"],
            "properties": {
                "type": { "const": "error" },
                "error": {
                    "type": "object",
                    "required": ["type", "message"],
                    "properties": { "type": { "type": "string" }, "message": { "type": "string" } },
                },
                "request_id": { "type": ["string", "null"] },
            },
        },
        "OpenAiError": {
            "type": "object",
            "required": ["error"],
            "properties": {
                "error": {
                    "type": "object",
                    "required": ["message", "type", "param", "code"],
                    "properties": {
                        "message": { "type": "string" },
                        "type": { "type": "string" },
                        "param": { "type": ["string", "null"] },
                        "code": { "type": ["string", "null"] },
                    },
                },
            },
        },
        "ChatError": {
            "type": "object",
            "required": ["code", "message", "request_id"],
            "properties": {
                "code": { "type": "string" },
                "message": { "type": "string" },
                "detail": { "type": "string" },
                "limit": { "type": "string" },
                "request_id": { "type": "string" },
                "retry_after": { "type": "integer" },
                "should_retry": { "type": "boolean" },
            },
        },
        "BedrockError": {
            "type": "object",
            "required": ["message"],
            "properties": { "message": { "type": "string" } },
        },
    })
}
