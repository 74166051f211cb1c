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
    let turns = |description: &str| json!({ "type": "array", "minItems": 1, "items": { "type": "object" }, "description": description });
    let name = json!({ "type": "string", "minLength": 1, "description": "The name of a route." });
    let max_tokens =
        json!({ "type": "integer", "minimum": 1, "description": "Maximum number of output tokens." });
    let stream = json!({ "type": "boolean", "description": "Whether to stream the answer." });
    json!({
        "RequestName": { "type": "string", "minLength": 1, "maxLength": 256 },
        "AnthropicRequest": {
            "type": "object",
            "description": "A body of Anthropic's Messages API.",
            "required": ["model", "max_tokens", "messages"],
            "properties": {
                "model": name,
                "max_tokens": max_tokens,
                "messages": turns("Messages in Anthropic's format."),
                "stream": stream,
            },
        },
        "CountRequest": {
            "type": "object",
            "description": "A body of Anthropic's token counting API.",
            "required": ["model", "messages"],
            "properties": { "model": name, "messages": turns("Messages in Anthropic's format.") },
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
                "max_completion_tokens": max_tokens,
                "max_tokens": max_tokens,
                "messages": turns("Messages in OpenAI's format."),
                "stream": stream,
            },
        },
        "ResponsesRequest": {
            "type": "object",
            "description": "A body of OpenAI's Responses API.",
            "required": ["model"],
            "properties": {
                "model": name,
                "max_output_tokens": max_tokens,
                "input": { "description": "A text, or a list of items in OpenAI's format.", "type": ["string", "array"] },
                "stream": stream,
            },
        },
        "EmbeddingsRequest": {
            "type": "object",
            "description": "A body of OpenAI's embeddings API.",
            "required": ["model", "input"],
            "properties": {
                "model": name,
                "input": { "description": "A text, or a list of texts.", "type": ["string", "array"] },
                "dimensions": { "type": "integer", "minimum": 1 },
                "encoding_format": { "enum": ["float", "base64"] },
            },
        },
        "ChatQuestion": {
            "type": "object",
            "description": "A chat message. Other fields are refused.",
            "required": ["message"],
            "additionalProperties": false,
            "properties": {
                "message": { "type": "string", "minLength": 1, "maxLength": 16_000 },
                "history": {
                    "type": "array",
                    "maxItems": 100,
                    "description": "Earlier turns, oldest first. Turns that do not fit into the context are left out.",
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
                "locale": { "type": "string", "description": "A language tag such as ja-JP or en; by default the language of the message." },
                "stream": stream,
                "request_id": { "type": "string", "minLength": 1, "maxLength": 128, "description": "Same as the idempotency-key header." },
                "max_tokens": max_tokens,
            },
        },
        "InvokeRequest": {
            "type": "object",
            "description": "A body of Anthropic's models on Bedrock: as for Messages, without model and stream, which are in the path.",
            "required": ["max_tokens", "messages"],
            "properties": {
                "anthropic_version": { "type": "string" },
                "max_tokens": max_tokens,
                "messages": turns("Messages in Anthropic's format."),
            },
        },
        "ConverseRequest": {
            "type": "object",
            "description": "A body of Bedrock's Converse.",
            "required": ["messages"],
            "properties": {
                "messages": turns("Messages in Converse's format."),
                "inferenceConfig": { "type": "object", "properties": { "maxTokens": max_tokens } },
            },
        },
        "GeminiRequest": {
            "type": "object",
            "description": "A body of the Gemini API. The path names the model, so the body must not.",
            "required": ["contents"],
            "properties": {
                "contents": turns("Contents in Gemini's format."),
                "generationConfig": { "type": "object", "properties": { "maxOutputTokens": max_tokens } },
            },
        },
        "GeminiCountRequest": {
            "type": "object",
            "description": "A body of Gemini's countTokens: either `contents`, or a whole request as `generateContentRequest`.",
            "properties": {
                "contents": turns("Contents in Gemini's format."),
                "generateContentRequest": { "type": "object", "required": ["contents"] },
            },
        },
    })
}

fn answers() -> Value {
    let object = |description: &str| json!({ "type": "object", "description": description });
    json!({
        "AnthropicMessage": object("A message of Anthropic's Messages API."),
        "OpenAiCompletion": object("A chat completion of OpenAI's API."),
        "OpenAiResponse": object("A response of OpenAI's Responses API."),
        "OpenAiEmbeddings": object("A list of embeddings of OpenAI's API."),
        "ConverseAnswer": object("A response of Bedrock's Converse."),
        "GeminiAnswer": object("A response of Gemini's generateContent."),
        "ChatAnswer": {
            "type": "object",
            "required": ["answer", "rung", "confidence", "degraded", "reasons", "stale", "request_id", "usage", "cost", "finish"],
            "properties": {
                "answer": { "type": "string" },
                "rung": { "enum": Rung::ALL.map(Rung::name), "description": "The rung that answered: how the answer was produced." },
                "confidence": { "type": "number", "description": "Confidence from 0 to 1." },
                "degraded": { "type": "boolean", "description": "Whether the answer is not from the strong model." },
                "reasons": { "type": "array", "items": { "type": "string" }, "description": "Why no better rung was used." },
                "stale": { "type": "boolean" },
                "request_id": { "type": "string" },
                "session": { "type": "string" },
                "usage": { "type": "object", "required": ["input", "output"] },
                "cost": { "type": "string", "description": "Dollars, with nine decimal places." },
                "target": { "type": "string" },
                "finish": { "enum": ["finished", "length", "budget", "blocked", "refused"] },
                "retry_after": { "type": "integer", "description": "When to retry, in seconds." },
            },
        },
        "Events": {
            "type": "string",
            "description": "Server-sent events in the format of the API. A stream that cannot be completed ends with an error event.",
        },
        "Frames": {
            "type": "string",
            "contentEncoding": "binary",
            "description": "Frames of an Amazon event stream. A stream that cannot be completed ends with an exception.",
        },
        "BedrockTokenCount": {
            "type": "object",
            "required": ["inputTokens"],
            "properties": { "inputTokens": { "type": "integer", "minimum": 0 } },
        },
        "GeminiTokenCount": {
            "type": "object",
            "required": ["totalTokens"],
            "properties": { "totalTokens": { "type": "integer", "minimum": 0 } },
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
        "PlainText": { "type": "string", "description": "A status word, and a line for each problem." },
        "Metrics": { "type": "string", "description": "The Prometheus text format, version 0.0.4." },
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
        "GeminiError": {
            "type": "object",
            "required": ["error"],
            "properties": {
                "error": {
                    "type": "object",
                    "required": ["code", "message", "status"],
                    "properties": {
                        "code": { "type": "integer" },
                        "message": { "type": "string" },
                        "status": { "type": "string" },
                        "details": { "type": "array", "items": { "type": "object" } },
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
