//! The table of paths.

use super::reference;
use seawall_pipeline::dialect::Face;
use seawall_wire::ApiErrorKind;
use serde_json::{Value, json};

/// One operation of the API.
pub(super) struct OpenApiOperation {
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
    pub(super) responses: &'static [ResponseContent],
    pub(super) errors: PossibleErrors,
    /// Whether it needs no credential.
    pub(super) is_public: bool,
    /// Whether it is the readiness check, which reports that no new requests are accepted.
    pub(super) is_readiness: bool,
}

/// A successful response.
pub(super) struct ResponseContent {
    pub(super) content_type: &'static str,
    pub(super) schema: &'static str,
}

/// The set of rejections that an operation can return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PossibleErrors {
    None,
    /// Those of a model request.
    All,
    /// Those of authentication alone.
    Authentication,
    /// Those of authentication, and of an unknown name.
    UnknownName,
    /// Those of authentication, and of a request body.
    RequestBody,
    /// Only 404, where the endpoint may be switched off.
    NotFound,
}

impl PossibleErrors {
    pub(super) fn has(self, error_kind: ApiErrorKind) -> bool {
        match self {
            Self::None => false,
            Self::All => error_kind != ApiErrorKind::UnknownPath,
            Self::Authentication => error_kind == ApiErrorKind::Unauthenticated,
            Self::UnknownName => matches!(error_kind, ApiErrorKind::Unauthenticated | ApiErrorKind::NotFound),
            Self::RequestBody => {
                matches!(
                    error_kind,
                    ApiErrorKind::Unauthenticated | ApiErrorKind::Malformed | ApiErrorKind::TooLarge
                )
            }
            Self::NotFound => error_kind == ApiErrorKind::UnknownPath,
        }
    }
}

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const FRAMES: &str = "application/vnd.amazon.eventstream";
const TEXT: &str = "text/plain";

const fn model_operation(
    path: &'static str,
    id: &'static str,
    face: Face,
    request: &'static str,
) -> OpenApiOperation {
    OpenApiOperation {
        method: "post",
        path,
        id,
        summary: "",
        face: Some(face),
        parameters: &["IdempotencyKey"],
        request: Some(request),
        responses: &[],
        errors: PossibleErrors::All,
        is_public: false,
        is_readiness: false,
    }
}

const fn public_operation(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    responses: &'static [ResponseContent],
) -> OpenApiOperation {
    OpenApiOperation {
        method: "get",
        path,
        id,
        summary,
        face: None,
        parameters: &[],
        request: None,
        responses,
        errors: PossibleErrors::None,
        is_public: true,
        is_readiness: false,
    }
}

const MODEL_PARAMETERS: &[&str] = &["ModelId", "IdempotencyKey"];

/// All operations.
pub(super) static PATHS: &[OpenApiOperation] = &[
    OpenApiOperation {
        summary: "Anthropic Messages, complete or streamed.",
        parameters: &["IdempotencyKey", "AnthropicBeta"],
        responses: &[
            ResponseContent { content_type: JSON, schema: "AnthropicMessage" },
            ResponseContent { content_type: EVENTS, schema: "Events" },
        ],
        ..model_operation("/v1/messages", "messages", Face::ANTHROPIC_MESSAGES, "AnthropicRequest")
    },
    OpenApiOperation {
        summary: "Estimates the tokens of a request. No model is called, and nothing is charged.",
        parameters: &[],
        responses: &[ResponseContent { content_type: JSON, schema: "TokenCount" }],
        errors: PossibleErrors::RequestBody,
        ..model_operation(
            "/v1/messages/count_tokens",
            "countTokens",
            Face::ANTHROPIC_MESSAGES,
            "CountRequest",
        )
    },
    OpenApiOperation {
        summary: "OpenAI chat completions, complete or streamed.",
        responses: &[
            ResponseContent { content_type: JSON, schema: "OpenAiCompletion" },
            ResponseContent { content_type: EVENTS, schema: "Events" },
        ],
        ..model_operation("/v1/chat/completions", "chatCompletions", Face::OPENAI_CHAT, "OpenAiRequest")
    },
    OpenApiOperation {
        summary: "OpenAI Responses, complete or streamed. `store: true` and references to stored content need a target with this API.",
        responses: &[
            ResponseContent { content_type: JSON, schema: "OpenAiResponse" },
            ResponseContent { content_type: EVENTS, schema: "Events" },
        ],
        ..model_operation("/v1/responses", "responses", Face::RESPONSES, "ResponsesRequest")
    },
    OpenApiOperation {
        summary: "Compacts a conversation of OpenAI Responses, at a target with this API.",
        responses: &[ResponseContent { content_type: JSON, schema: "OpenAiResponse" }],
        ..model_operation("/v1/responses/compact", "compactResponse", Face::RESPONSES, "ResponsesRequest")
    },
    OpenApiOperation {
        summary: "OpenAI embeddings, of OpenAI-compatible servers and of Titan and Cohere on Bedrock.",
        responses: &[ResponseContent { content_type: JSON, schema: "OpenAiEmbeddings" }],
        ..model_operation("/v1/embeddings", "embeddings", Face::OPENAI_CHAT, "EmbeddingsRequest")
    },
    OpenApiOperation {
        summary: "Seawall's own chat, complete or streamed. Every accepted message is answered, by the best rung available.",
        responses: &[
            ResponseContent { content_type: JSON, schema: "ChatAnswer" },
            ResponseContent { content_type: EVENTS, schema: "Events" },
        ],
        ..model_operation("/chat", "chat", Face::Chat, "ChatQuestion")
    },
    OpenApiOperation {
        summary: "Bedrock InvokeModel. Bodies of models other than Anthropic's are passed to Bedrock targets only.",
        parameters: MODEL_PARAMETERS,
        responses: &[ResponseContent { content_type: JSON, schema: "AnthropicMessage" }],
        ..model_operation("/model/{modelId}/invoke", "invoke", Face::BEDROCK_INVOKE, "InvokeRequest")
    },
    OpenApiOperation {
        summary: "The same, as a stream of binary event frames.",
        parameters: MODEL_PARAMETERS,
        responses: &[ResponseContent { content_type: FRAMES, schema: "Frames" }],
        ..model_operation(
            "/model/{modelId}/invoke-with-response-stream",
            "invokeStream",
            Face::BEDROCK_INVOKE,
            "InvokeRequest",
        )
    },
    OpenApiOperation {
        summary: "Bedrock Converse.",
        parameters: MODEL_PARAMETERS,
        responses: &[ResponseContent { content_type: JSON, schema: "ConverseAnswer" }],
        ..model_operation("/model/{modelId}/converse", "converse", Face::BEDROCK_CONVERSE, "ConverseRequest")
    },
    OpenApiOperation {
        summary: "The same, as a stream of binary event frames.",
        parameters: MODEL_PARAMETERS,
        responses: &[ResponseContent { content_type: FRAMES, schema: "Frames" }],
        ..model_operation(
            "/model/{modelId}/converse-stream",
            "converseStream",
            Face::BEDROCK_CONVERSE,
            "ConverseRequest",
        )
    },
    OpenApiOperation {
        summary: "Bedrock CountTokens: estimates the tokens of a request. No model is called, and nothing is charged.",
        parameters: &["ModelId"],
        responses: &[ResponseContent { content_type: JSON, schema: "BedrockTokenCount" }],
        errors: PossibleErrors::RequestBody,
        ..model_operation(
            "/model/{modelId}/count-tokens",
            "bedrockCountTokens",
            Face::BEDROCK_INVOKE,
            "BedrockCountRequest",
        )
    },
    OpenApiOperation {
        summary: "Gemini generateContent. The same path below /v1 is equivalent, here and for the next two.",
        parameters: MODEL_PARAMETERS,
        responses: &[ResponseContent { content_type: JSON, schema: "GeminiAnswer" }],
        ..model_operation(
            "/v1beta/models/{modelId}:generateContent",
            "generateContent",
            Face::GEMINI,
            "GeminiRequest",
        )
    },
    OpenApiOperation {
        summary: "The same, as server-sent events. Streams in another format are not supported.",
        parameters: &["ModelId", "IdempotencyKey", "Alt"],
        responses: &[ResponseContent { content_type: EVENTS, schema: "Events" }],
        ..model_operation(
            "/v1beta/models/{modelId}:streamGenerateContent",
            "streamGenerateContent",
            Face::GEMINI,
            "GeminiRequest",
        )
    },
    OpenApiOperation {
        summary: "Gemini countTokens: estimates the tokens of a request. No model is called, and nothing is charged.",
        parameters: &["ModelId"],
        responses: &[ResponseContent { content_type: JSON, schema: "GeminiTokenCount" }],
        errors: PossibleErrors::RequestBody,
        ..model_operation(
            "/v1beta/models/{modelId}:countTokens",
            "geminiCountTokens",
            Face::GEMINI,
            "GeminiCountRequest",
        )
    },
    OpenApiOperation {
        parameters: &["AnthropicVersion"],
        errors: PossibleErrors::Authentication,
        is_public: false,
        ..public_operation(
            "/v1/models",
            "models",
            "Lists the routes as models, in Anthropic's format if the request has anthropic-version, else in OpenAI's.",
            &[ResponseContent { content_type: JSON, schema: "Models" }],
        )
    },
    OpenApiOperation {
        parameters: &["AnthropicVersion", "ModelId"],
        errors: PossibleErrors::UnknownName,
        is_public: false,
        ..public_operation(
            "/v1/models/{modelId}",
            "model",
            "One route as a model.",
            &[ResponseContent { content_type: JSON, schema: "Model" }],
        )
    },
    public_operation(
        "/livez",
        "alive",
        "Liveness check.",
        &[ResponseContent { content_type: TEXT, schema: "PlainText" }],
    ),
    OpenApiOperation {
        is_readiness: true,
        ..public_operation(
            "/readyz",
            "ready",
            "Readiness check.",
            &[ResponseContent { content_type: TEXT, schema: "PlainText" }],
        )
    },
    OpenApiOperation {
        errors: PossibleErrors::NotFound,
        ..public_operation(
            "/metrics",
            "metrics",
            "Prometheus metrics, if telemetry.public_metrics serves them on this listener.",
            &[ResponseContent { content_type: TEXT, schema: "Metrics" }],
        )
    },
    public_operation(
        "/openapi.json",
        "openapi",
        "This document.",
        &[ResponseContent { content_type: JSON, schema: "Document" }],
    ),
];

/// The parameter definitions.
pub(super) fn parameters() -> Value {
    json!({
        "IdempotencyKey": {
            "name": "idempotency-key",
            "in": "header",
            "description": "An idempotency key. A second request of the same caller with the same key is refused with a \
                            conflict while the first is in progress, and for ten minutes after it was answered.",
            "schema": reference("schemas", "RequestName"),
        },
        "AnthropicBeta": {
            "name": "anthropic-beta",
            "in": "header",
            "description": "Beta features, separated by commas. Passed on to the target.",
            "schema": { "type": "string" },
        },
        "AnthropicVersion": {
            "name": "anthropic-version",
            "in": "header",
            "description": "The API version of Anthropic's clients. Its presence selects Anthropic's format.",
            "schema": { "type": "string" },
        },
        "Alt": {
            "name": "alt",
            "in": "query",
            "required": true,
            "description": "The format of the stream.",
            "schema": { "const": "sse" },
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
