//! The table of paths.

use super::reference;
use seawall_pipeline::speech::Face;
use seawall_wire::Refusal;
use serde_json::{Value, json};

/// One operation of the API.
pub(super) struct Operation {
    /// In lower case, as OpenAPI requires.
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    /// The face whose dialect it uses, if any.
    pub(super) face: Option<Face>,
    pub(super) parameters: &'static [&'static str],
    /// The schema of its request body.
    pub(super) request: Option<&'static str>,
    pub(super) answers: &'static [Body],
    pub(super) refusals: Refusals,
    /// Whether it needs no credential.
    pub(super) is_open: bool,
    /// Whether it is the readiness check, which reports that no new requests are accepted.
    pub(super) is_ready: bool,
}

/// A successful response.
pub(super) struct Body {
    pub(super) content_type: &'static str,
    pub(super) schema: &'static str,
}

/// The set of rejections that an operation can return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusals {
    None,
    /// Those of a model request.
    All,
    /// Those of authentication alone.
    OfKey,
    /// Those of authentication, and of an unknown name.
    OfName,
    /// Those of authentication, and of a request body.
    OfBody,
    /// Only 404, where the endpoint may be switched off.
    Missing,
}

impl Refusals {
    pub(super) fn has(self, refusal: Refusal) -> bool {
        match self {
            Self::None => false,
            Self::All => refusal != Refusal::UnknownPath,
            Self::OfKey => refusal == Refusal::Unauthenticated,
            Self::OfName => matches!(refusal, Refusal::Unauthenticated | Refusal::NotFound),
            Self::OfBody => {
                matches!(refusal, Refusal::Unauthenticated | Refusal::Malformed | Refusal::TooLarge)
            }
            Self::Missing => refusal == Refusal::UnknownPath,
        }
    }
}

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const FRAMES: &str = "application/vnd.amazon.eventstream";
const TEXT: &str = "text/plain";

const fn asks(path: &'static str, id: &'static str, face: Face, request: &'static str) -> Operation {
    Operation {
        method: "post",
        path,
        id,
        summary: "",
        face: Some(face),
        parameters: &["IdempotencyKey"],
        request: Some(request),
        answers: &[],
        refusals: Refusals::All,
        is_open: false,
        is_ready: false,
    }
}

const fn tells(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    answers: &'static [Body],
) -> Operation {
    Operation {
        method: "get",
        path,
        id,
        summary,
        face: None,
        parameters: &[],
        request: None,
        answers,
        refusals: Refusals::None,
        is_open: true,
        is_ready: false,
    }
}

const OF_MODEL: &[&str] = &["ModelId", "IdempotencyKey"];

/// All operations.
pub(super) static PATHS: &[Operation] = &[
    Operation {
        summary: "Answers as Anthropic Messages does, whole or as a stream.",
        parameters: &["IdempotencyKey", "AnthropicBeta"],
        answers: &[
            Body { content_type: JSON, schema: "AnthropicMessage" },
            Body { content_type: EVENTS, schema: "Events" },
        ],
        ..asks("/v1/messages", "messages", Face::AnthropicMessages, "AnthropicRequest")
    },
    Operation {
        summary: "Estimates the tokens of a request. No model is asked, and it costs nothing.",
        parameters: &[],
        answers: &[Body { content_type: JSON, schema: "TokenCount" }],
        refusals: Refusals::OfBody,
        ..asks("/v1/messages/count_tokens", "countTokens", Face::AnthropicMessages, "CountRequest")
    },
    Operation {
        summary: "Answers as OpenAI chat completions does, whole or as a stream.",
        answers: &[
            Body { content_type: JSON, schema: "OpenAiCompletion" },
            Body { content_type: EVENTS, schema: "Events" },
        ],
        ..asks("/v1/chat/completions", "chatCompletions", Face::OpenAiChat, "OpenAiRequest")
    },
    Operation {
        summary: "Answers a message of the shop's own chat, whole or as a stream: with the best that can be had, and always.",
        answers: &[
            Body { content_type: JSON, schema: "ChatAnswer" },
            Body { content_type: EVENTS, schema: "Events" },
        ],
        ..asks("/chat", "chat", Face::Chat, "ChatQuestion")
    },
    Operation {
        summary: "Answers as Bedrock's InvokeModel does; bodies of other models than Anthropic's pass to targets of Bedrock only.",
        parameters: OF_MODEL,
        answers: &[Body { content_type: JSON, schema: "AnthropicMessage" }],
        ..asks("/model/{modelId}/invoke", "invoke", Face::BedrockInvoke, "InvokeRequest")
    },
    Operation {
        summary: "The same, as a stream of binary frames.",
        parameters: OF_MODEL,
        answers: &[Body { content_type: FRAMES, schema: "Frames" }],
        ..asks(
            "/model/{modelId}/invoke-with-response-stream",
            "invokeStream",
            Face::BedrockInvoke,
            "InvokeRequest",
        )
    },
    Operation {
        summary: "Answers as Bedrock's Converse does.",
        parameters: OF_MODEL,
        answers: &[Body { content_type: JSON, schema: "ConverseAnswer" }],
        ..asks("/model/{modelId}/converse", "converse", Face::BedrockConverse, "ConverseRequest")
    },
    Operation {
        summary: "The same, as a stream of binary frames.",
        parameters: OF_MODEL,
        answers: &[Body { content_type: FRAMES, schema: "Frames" }],
        ..asks("/model/{modelId}/converse-stream", "converseStream", Face::BedrockConverse, "ConverseRequest")
    },
    Operation {
        summary: "Estimates the tokens of a request, as Bedrock's CountTokens does. No model is asked, and it costs nothing.",
        parameters: &["ModelId"],
        answers: &[Body { content_type: JSON, schema: "BedrockTokenCount" }],
        refusals: Refusals::OfBody,
        ..asks(
            "/model/{modelId}/count-tokens",
            "bedrockCountTokens",
            Face::BedrockInvoke,
            "BedrockCountRequest",
        )
    },
    Operation {
        parameters: &["AnthropicVersion"],
        refusals: Refusals::OfKey,
        is_open: false,
        ..tells(
            "/v1/models",
            "models",
            "The routes, as models: in Anthropic's words to who names the version of its dialect, else in OpenAI's.",
            &[Body { content_type: JSON, schema: "Models" }],
        )
    },
    Operation {
        parameters: &["AnthropicVersion", "ModelId"],
        refusals: Refusals::OfName,
        is_open: false,
        ..tells(
            "/v1/models/{modelId}",
            "model",
            "One route, as a model.",
            &[Body { content_type: JSON, schema: "Model" }],
        )
    },
    tells("/livez", "alive", "Whether the process lives.", &[Body { content_type: TEXT, schema: "Word" }]),
    Operation {
        is_ready: true,
        ..tells(
            "/readyz",
            "ready",
            "Whether it takes requests.",
            &[Body { content_type: TEXT, schema: "Word" }],
        )
    },
    Operation {
        refusals: Refusals::Missing,
        ..tells(
            "/metrics",
            "metrics",
            "Metrics for Prometheus; only where telemetry.public_metrics serves them on this listener.",
            &[Body { content_type: TEXT, schema: "Metrics" }],
        )
    },
    tells("/openapi.json", "openapi", "This document.", &[Body { content_type: JSON, schema: "Document" }]),
];

/// The parameter definitions.
pub(super) fn parameters() -> Value {
    json!({
        "IdempotencyKey": {
            "name": "idempotency-key",
            "in": "header",
            "description": "A name for this request. A second request of the same caller with the same name is refused \
                            with a conflict: while the first is under way, and for ten minutes after it was answered.",
            "schema": reference("schemas", "RequestName"),
        },
        "AnthropicBeta": {
            "name": "anthropic-beta",
            "in": "header",
            "description": "Features in trial, separated by commas. Passed on.",
            "schema": { "type": "string" },
        },
        "AnthropicVersion": {
            "name": "anthropic-version",
            "in": "header",
            "description": "Which version of Anthropic's dialect a client speaks. Only whether it is there counts.",
            "schema": { "type": "string" },
        },
        "ModelId": {
            "name": "modelId",
            "in": "path",
            "required": true,
            "description": "The name of a route, percent-encoded.",
            "schema": { "type": "string", "minLength": 1 },
        },
    })
}
