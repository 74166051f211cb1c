//! Routes callers' requests by method and path.

use hyper::Method;
use seawall_pipeline::ApiOperation;
use seawall_pipeline::dialect::Face;
use seawall_wire::ApiErrorKind;
use seawall_wire::bedrock::{decode_path, read_path};
use seawall_wire::dialect::route;
use seawall_wire::gemini;

/// The endpoint of a request: what its method and path select.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CallerEndpoint {
    /// A model answer, in a vendor's dialect.
    ModelRequest(ApiOperation),
    /// A message to the assistant.
    Chat,
    /// The model list.
    Models,
    /// One entry of the model list.
    Model(String),
    /// A token count.
    CountTokens,
    /// A token count for this model, in Bedrock's dialect.
    BedrockCountTokens(String),
    /// A token count for this model, in Gemini's dialect.
    GeminiCountTokens(String),
    /// Liveness.
    Liveness,
    /// Readiness.
    Readiness,
    /// The metrics page.
    Metrics,
    /// The OpenAPI document.
    OpenApi,
    /// An unknown path, a method that the path does not have, or an invalid model id in the path. The rejection uses the
    /// dialect of callers that use such a path. `allow` is the method that the path has, if only the method is wrong.
    Invalid { face: Face, problem: &'static str, error_kind: ApiErrorKind, allow: Option<&'static str> },
}

impl CallerEndpoint {
    /// The endpoint of an unknown path.
    pub(super) const fn unknown_path() -> Self {
        unknown_path(Face::OPENAI_CHAT)
    }

    /// The face whose dialect a rejection uses.
    pub(super) fn face(&self) -> Face {
        match self {
            Self::ModelRequest(operation) => operation.face(),
            Self::Chat => Face::Chat,
            Self::CountTokens => Face::ANTHROPIC_MESSAGES,
            Self::BedrockCountTokens(_) => Face::BEDROCK_INVOKE,
            Self::GeminiCountTokens(_) => Face::GEMINI,
            Self::Invalid { face, .. } => *face,
            Self::Models
            | Self::Model(_)
            | Self::Liveness
            | Self::Readiness
            | Self::Metrics
            | Self::OpenApi => Face::OPENAI_CHAT,
        }
    }

    pub(crate) fn route(method: &Method, path: &str) -> Self {
        if let Some((dialect, url)) = route(path) {
            let endpoint = match url {
                Ok(url) => Self::ModelRequest(ApiOperation { dialect, url }),
                Err(ApiErrorKind::UnknownPath) => unknown_path(Face::Vendor(dialect)),
                Err(error_kind) => invalid(Face::Vendor(dialect), INVALID_MODEL, error_kind),
            };
            return endpoint.for_method(method, &Method::POST);
        }
        let (endpoint, only) = match path {
            "/chat" => (Self::Chat, Method::POST),
            "/v1/messages/count_tokens" => (Self::CountTokens, Method::POST),
            "/v1/models" => (Self::Models, Method::GET),
            "/livez" => (Self::Liveness, Method::GET),
            "/readyz" => (Self::Readiness, Method::GET),
            "/metrics" => (Self::Metrics, Method::GET),
            "/openapi.json" => (Self::OpenApi, Method::GET),
            // Other paths of Bedrock's runtime API, rejected in Bedrock's dialect.
            _ if path.starts_with("/guardrail/") || path.starts_with("/async-invoke") => {
                return unknown_path(Face::BEDROCK_INVOKE);
            }
            _ if path.starts_with("/model/") => match read_path(path) {
                // The only operation without a model answer.
                Ok(call) => (Self::BedrockCountTokens(call.model), Method::POST),
                Err(_) => return unknown_path(Face::BEDROCK_INVOKE),
            },
            _ if let Some(model) = gemini::read_count_path(path) => match model {
                Ok(model) => (Self::GeminiCountTokens(model), Method::POST),
                Err(_) => return invalid(Face::GEMINI, INVALID_MODEL, ApiErrorKind::Malformed),
            },
            // A GET may name a route with a colon.
            _ if gemini::is_vendor_path(path) && (method == Method::POST || path.starts_with("/v1beta/")) => {
                return unknown_path(Face::GEMINI);
            }
            _ => match path.strip_prefix("/v1/models/").and_then(decode_model_name) {
                Some(model) => (Self::Model(model), Method::GET),
                None => return not_carried(path).unwrap_or(Self::unknown_path()),
            },
        };
        endpoint.for_method(method, &only)
    }

    /// The endpoint, unless this query selects something that its dialect does not support.
    pub(crate) fn for_query(self, query: Option<&str>) -> Self {
        let Self::ModelRequest(ApiOperation { dialect, url }) = &self else { return self };
        match dialect.check_query(url, query.unwrap_or_default()) {
            Ok(()) => self,
            Err(problem) => invalid(Face::Vendor(*dialect), problem, ApiErrorKind::Malformed),
        }
    }

    /// The endpoint, if this is the only method that it has.
    fn for_method(self, method: &Method, only: &Method) -> Self {
        if method == only || matches!(self, Self::Invalid { .. }) {
            return self;
        }
        let (problem, allow) = if only == Method::POST {
            ("this path does not have this method: use POST", "POST")
        } else {
            ("this path does not have this method: use GET", "GET")
        };
        let (face, error_kind) = (self.face(), ApiErrorKind::UnknownPath);
        Self::Invalid { face, problem, error_kind, allow: Some(allow) }
    }
}

const INVALID_MODEL: &str = "invalid model id in the path";

/// Operations of the vendors that the gateway does not carry, by the start of their paths, with the reason that callers
/// receive. Without it, a wrong base URL and a missing operation would look the same.
const NOT_CARRIED: [(&str, &str); 14] = [
    ("/v1/messages/batches", "not supported by the gateway: batches"),
    ("/v1/batches", "not supported by the gateway: batches"),
    ("/v1/files", "not supported by the gateway: files"),
    ("/v1/uploads", "not supported by the gateway: files"),
    ("/v1/images", "not supported by the gateway: images"),
    ("/v1/videos", "not supported by the gateway: videos"),
    ("/v1/audio", "not supported by the gateway: audio"),
    ("/v1/realtime", "not supported by the gateway: realtime sessions"),
    ("/v1/moderations", "not supported by the gateway: moderations"),
    ("/v1/completions", "not supported by the gateway: completions without a chat; use /v1/chat/completions"),
    ("/v1/responses/", "not supported by the gateway: operations on stored responses"),
    ("/v1/assistants", "not supported by the gateway: assistants; use /v1/responses"),
    ("/v1/threads", "not supported by the gateway: threads; use /v1/responses"),
    ("/v1/vector_stores", "not supported by the gateway: vector stores"),
];

fn not_carried(path: &str) -> Option<CallerEndpoint> {
    let is_below = |start: &str| {
        path.strip_prefix(start)
            .is_some_and(|rest| start.ends_with('/') || rest.is_empty() || rest.starts_with('/'))
    };
    let (start, problem) = NOT_CARRIED.into_iter().find(|(start, _)| is_below(start))?;
    let is_anthropic = start.starts_with("/v1/messages");
    let face = if is_anthropic { Face::ANTHROPIC_MESSAGES } else { Face::OPENAI_CHAT };
    Some(invalid(face, problem, ApiErrorKind::UnknownPath))
}

/// The model name at the end of a path. A slash inside it must be percent-encoded.
fn decode_model_name(encoded: &str) -> Option<String> {
    let is_one_part = !encoded.is_empty() && !encoded.contains('/');
    is_one_part.then(|| decode_path(encoded)).flatten().and_then(|name| String::from_utf8(name).ok())
}

const fn invalid(face: Face, problem: &'static str, error_kind: ApiErrorKind) -> CallerEndpoint {
    CallerEndpoint::Invalid { face, problem, error_kind, allow: None }
}

const fn unknown_path(face: Face) -> CallerEndpoint {
    invalid(face, "unknown path", ApiErrorKind::UnknownPath)
}

#[cfg(test)]
mod tests {
    use super::CallerEndpoint;
    use hyper::Method;
    use seawall_pipeline::ApiOperation;
    use seawall_pipeline::dialect::Face;
    use seawall_wire::ApiErrorKind;
    use seawall_wire::dialect::{DialectId, UrlParameters};

    #[test]
    fn an_operation_that_is_not_carried_is_rejected_by_name() {
        for (path, face, name) in [
            ("/v1/images/generations", Face::OPENAI_CHAT, "images"),
            ("/v1/audio/speech", Face::OPENAI_CHAT, "audio"),
            ("/v1/batches", Face::OPENAI_CHAT, "batches"),
            ("/v1/files/file_1/content", Face::OPENAI_CHAT, "files"),
            ("/v1/messages/batches", Face::ANTHROPIC_MESSAGES, "batches"),
            ("/v1/responses/resp_1", Face::OPENAI_CHAT, "stored responses"),
        ] {
            for method in [Method::POST, Method::GET] {
                let CallerEndpoint::Invalid { face: rejecting, problem, error_kind, allow: None } =
                    CallerEndpoint::route(&method, path)
                else {
                    panic!("{path}")
                };
                assert_eq!((rejecting, error_kind), (face, ApiErrorKind::UnknownPath), "{path}");
                assert!(problem.contains(name), "{path}: {problem}");
            }
        }
        assert_eq!(CallerEndpoint::route(&Method::GET, "/v1/filesystem"), CallerEndpoint::unknown_path());
    }

    #[test]
    fn each_path_leads_to_its_dialect() {
        let post = |path: &str| CallerEndpoint::route(&Method::POST, path);
        assert_eq!(
            post("/v1/messages"),
            CallerEndpoint::ModelRequest(ApiOperation::of(DialectId::ANTHROPIC_MESSAGES))
        );
        assert_eq!(
            post("/v1/chat/completions"),
            CallerEndpoint::ModelRequest(ApiOperation::of(DialectId::OPENAI_CHAT))
        );
        let model = || "a:0".to_owned();
        for (name, operation) in [
            ("invoke", (DialectId::BEDROCK_INVOKE, false)),
            ("invoke-with-response-stream", (DialectId::BEDROCK_INVOKE, true)),
            ("converse", (DialectId::BEDROCK_CONVERSE, false)),
            ("converse-stream", (DialectId::BEDROCK_CONVERSE, true)),
        ] {
            let (dialect, stream) = operation;
            let operation = ApiOperation { dialect, url: UrlParameters::new(model(), stream) };
            assert_eq!(post(&format!("/model/a%3A0/{name}")), CallerEndpoint::ModelRequest(operation));
        }
        assert_eq!(post("/model/a%3A0/count-tokens"), CallerEndpoint::BedrockCountTokens(model()));
        for version in ["v1", "v1beta"] {
            for (name, stream) in [("generateContent", false), ("streamGenerateContent", true)] {
                let url = UrlParameters::new(model(), stream);
                let operation = ApiOperation { dialect: DialectId::GEMINI, url };
                assert_eq!(
                    post(&format!("/{version}/models/a%3A0:{name}")),
                    CallerEndpoint::ModelRequest(operation)
                );
            }
            assert_eq!(
                post(&format!("/{version}/models/a%3A0:countTokens")),
                CallerEndpoint::GeminiCountTokens(model())
            );
        }
        assert_eq!(CallerEndpoint::route(&Method::GET, "/v1/models"), CallerEndpoint::Models);
        for (path, name) in [("manga", "manga"), ("a%2Fb%3A0", "a/b:0"), ("%E6%BC%AB%E7%94%BB", "漫画")] {
            assert_eq!(
                CallerEndpoint::route(&Method::GET, &format!("/v1/models/{path}")),
                CallerEndpoint::Model(name.to_owned())
            );
        }
        assert_eq!(post("/chat"), CallerEndpoint::Chat);
    }

    #[test]
    fn unknown_paths_are_rejected_in_the_dialect_of_the_path() {
        let refused = |method: Method, path: &str| match CallerEndpoint::route(&method, path) {
            CallerEndpoint::Invalid { face, error_kind, .. } => (face, error_kind),
            other => panic!("{path}: {other:?}"),
        };
        assert_eq!(
            refused(Method::GET, "/v1/messages"),
            (Face::ANTHROPIC_MESSAGES, ApiErrorKind::UnknownPath)
        );
        assert_eq!(refused(Method::POST, "/v1/models"), (Face::OPENAI_CHAT, ApiErrorKind::UnknownPath));
        for path in ["/model/a/nothing", "/guardrail/a/version/1/apply", "/async-invoke"] {
            assert_eq!(
                refused(Method::POST, path),
                (Face::BEDROCK_INVOKE, ApiErrorKind::UnknownPath),
                "{path}"
            );
        }
        assert_eq!(
            refused(Method::POST, "/model/%ff/invoke"),
            (Face::BEDROCK_INVOKE, ApiErrorKind::Malformed)
        );
        for (path, error_kind) in [
            ("/v1beta/models/a:embedContent", ApiErrorKind::UnknownPath),
            ("/v1/models/a:embedContent", ApiErrorKind::UnknownPath),
            ("/v1beta/models", ApiErrorKind::UnknownPath),
            ("/v1beta/models/%ff:generateContent", ApiErrorKind::Malformed),
            ("/v1/models/%ff:countTokens", ApiErrorKind::Malformed),
        ] {
            assert_eq!(refused(Method::POST, path), (Face::GEMINI, error_kind), "{path}");
        }
        assert_eq!(refused(Method::GET, "/v1beta/models"), (Face::GEMINI, ApiErrorKind::UnknownPath));
        for path in ["/v1/models/", "/v1/models/a/b", "/v1/models/%zz", "/v1/models/%ff"] {
            assert_eq!(refused(Method::GET, path), (Face::OPENAI_CHAT, ApiErrorKind::UnknownPath), "{path}");
        }
        for path in ["/", "//v1/messages", "/v1/messages/", "/admin", "/v1/../admin", "/%2e%2e/admin"] {
            assert_eq!(refused(Method::POST, path), (Face::OPENAI_CHAT, ApiErrorKind::UnknownPath), "{path}");
        }
    }

    #[test]
    fn a_known_path_names_its_method_and_an_unknown_one_none() {
        let allowed = |method: Method, path: &str| match CallerEndpoint::route(&method, path) {
            CallerEndpoint::Invalid { allow, .. } => allow,
            other => panic!("{path}: {other:?}"),
        };
        for (path, allow) in [
            ("/v1/messages", "POST"),
            ("/v1/responses", "POST"),
            ("/v1/messages/count_tokens", "POST"),
            ("/model/a/converse-stream", "POST"),
            ("/v1beta/models/a:countTokens", "POST"),
            ("/chat", "POST"),
            ("/v1/models", "GET"),
            ("/v1/models/manga", "GET"),
            ("/readyz", "GET"),
            ("/openapi.json", "GET"),
        ] {
            assert_eq!(allowed(Method::PUT, path), Some(allow), "{path}");
            assert_eq!(allowed(Method::OPTIONS, path), Some(allow), "{path}");
        }
        for path in ["/", "/v1/files", "/v1/messages/", "/model/a/nothing", "/admin/status"] {
            assert_eq!(allowed(Method::PUT, path), None, "{path}");
        }
    }

    #[test]
    fn a_stream_that_is_not_of_events_is_rejected_in_its_dialect() {
        let at = |query| {
            CallerEndpoint::route(&Method::POST, "/v1beta/models/a:streamGenerateContent").for_query(query)
        };
        assert!(matches!(at(Some("alt=sse&key=k")), CallerEndpoint::ModelRequest(_)));
        for query in [None, Some("alt=json"), Some("key=k")] {
            let CallerEndpoint::Invalid { face, error_kind, problem, allow: None } = at(query) else {
                panic!("{query:?}")
            };
            assert_eq!((face, error_kind), (Face::GEMINI, ApiErrorKind::Malformed));
            assert!(problem.contains("alt=sse"));
        }
        let messages = CallerEndpoint::route(&Method::POST, "/v1/messages");
        assert_eq!(messages.for_query(None), CallerEndpoint::route(&Method::POST, "/v1/messages"));
    }
}
