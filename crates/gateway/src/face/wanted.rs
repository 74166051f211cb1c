//! Routes callers' requests by method and path.

use hyper::Method;
use seawall_pipeline::Arriving;
use seawall_pipeline::speech::{Arrival, Face};
use seawall_wire::Refusal;
use seawall_wire::bedrock::{decode_path, read_path};

/// The operation that a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A model answer.
    Ask(Arriving),
    /// The model list.
    Models,
    /// One entry of the model list.
    Model(String),
    /// A token count.
    CountTokens,
    /// A token count for this model, in Bedrock's dialect.
    BedrockCountTokens(String),
    /// Liveness.
    Alive,
    /// Readiness.
    Ready,
    /// The metrics page.
    Metrics,
    /// The OpenAPI document.
    OpenApi,
    /// No such operation. The rejection uses the dialect of callers that use such a path.
    Nothing { face: Face, problem: &'static str, refusal: Refusal },
}

impl Wanted {
    /// The operation of an unknown path.
    pub(super) const fn nothing_here() -> Self {
        nothing(Face::OpenAiChat, "there is nothing at this path", Refusal::UnknownPath)
    }

    /// The face whose dialect a rejection uses.
    pub(super) fn face(&self) -> Face {
        match self {
            Self::Ask(arriving) => arriving.face(),
            Self::CountTokens => Face::AnthropicMessages,
            Self::BedrockCountTokens(_) => Face::BedrockInvoke,
            Self::Nothing { face, .. } => *face,
            Self::Models | Self::Model(_) | Self::Alive | Self::Ready | Self::Metrics | Self::OpenApi => {
                Face::OpenAiChat
            }
        }
    }

    pub(crate) fn of(method: &Method, path: &str) -> Self {
        let (wanted, only) = match path {
            "/v1/messages" => (Self::Ask(Arriving::Messages), Method::POST),
            "/v1/chat/completions" => (Self::Ask(Arriving::Completions), Method::POST),
            "/chat" => (Self::Ask(Arriving::Chat { accepts_stream: false }), Method::POST),
            "/v1/messages/count_tokens" => (Self::CountTokens, Method::POST),
            "/v1/models" => (Self::Models, Method::GET),
            "/livez" => (Self::Alive, Method::GET),
            "/readyz" => (Self::Ready, Method::GET),
            "/metrics" => (Self::Metrics, Method::GET),
            "/openapi.json" => (Self::OpenApi, Method::GET),
            _ if path.starts_with("/model/") => (bedrock(path), Method::POST),
            // Other paths of Bedrock's runtime API, rejected in Bedrock's dialect.
            _ if path.starts_with("/guardrail/") || path.starts_with("/async-invoke") => {
                return nothing(Face::BedrockInvoke, "there is nothing at this path", Refusal::UnknownPath);
            }
            _ => match path.strip_prefix("/v1/models/").and_then(named) {
                Some(model) => (Self::Model(model), Method::GET),
                None => return Self::nothing_here(),
            },
        };
        if *method == only || matches!(wanted, Self::Nothing { .. }) {
            return wanted;
        }
        let face = wanted.face();
        let problem = if only == Method::POST { "this path takes POST" } else { "this path takes GET" };
        nothing(face, problem, Refusal::UnknownPath)
    }
}

/// The model name at the end of a path. A slash inside it must be percent-encoded.
fn named(encoded: &str) -> Option<String> {
    let is_one_part = !encoded.is_empty() && !encoded.contains('/');
    is_one_part.then(|| decode_path(encoded)).flatten().and_then(|name| String::from_utf8(name).ok())
}

const fn nothing(face: Face, problem: &'static str, refusal: Refusal) -> Wanted {
    Wanted::Nothing { face, problem, refusal }
}

fn bedrock(path: &str) -> Wanted {
    let refused = |problem, refusal| nothing(Face::BedrockInvoke, problem, refusal);
    let call = match read_path(path) {
        Ok(call) => call,
        Err(error) if error.refusal() == Refusal::UnknownPath => {
            return refused("there is nothing at this path", Refusal::UnknownPath);
        }
        Err(_) => return refused("the model's name in the path cannot be one", Refusal::Malformed),
    };
    match Arrival::of_bedrock(&call) {
        Some(Arrival::Invoke { stream, .. }) => Wanted::Ask(Arriving::Invoke { model: call.model, stream }),
        Some(Arrival::Converse { stream, .. }) => {
            Wanted::Ask(Arriving::Converse { model: call.model, stream })
        }
        // The only operation without a model answer.
        _ => Wanted::BedrockCountTokens(call.model),
    }
}

#[cfg(test)]
mod tests {
    use super::Wanted;
    use hyper::Method;
    use seawall_pipeline::Arriving;
    use seawall_pipeline::speech::Face;
    use seawall_wire::Refusal;

    #[test]
    fn each_path_leads_to_its_dialect() {
        let post = |path: &str| Wanted::of(&Method::POST, path);
        assert_eq!(post("/v1/messages"), Wanted::Ask(Arriving::Messages));
        assert_eq!(post("/v1/chat/completions"), Wanted::Ask(Arriving::Completions));
        let model = || "a:0".to_owned();
        for (name, arriving) in [
            ("invoke", Arriving::Invoke { model: model(), stream: false }),
            ("invoke-with-response-stream", Arriving::Invoke { model: model(), stream: true }),
            ("converse", Arriving::Converse { model: model(), stream: false }),
            ("converse-stream", Arriving::Converse { model: model(), stream: true }),
        ] {
            assert_eq!(post(&format!("/model/a%3A0/{name}")), Wanted::Ask(arriving));
        }
        assert_eq!(post("/model/a%3A0/count-tokens"), Wanted::BedrockCountTokens(model()));
        assert_eq!(Wanted::of(&Method::GET, "/v1/models"), Wanted::Models);
        for (path, name) in [("manga", "manga"), ("a%2Fb%3A0", "a/b:0"), ("%E6%BC%AB%E7%94%BB", "漫画")] {
            assert_eq!(
                Wanted::of(&Method::GET, &format!("/v1/models/{path}")),
                Wanted::Model(name.to_owned())
            );
        }
        assert_eq!(post("/chat"), Wanted::Ask(Arriving::Chat { accepts_stream: false }));
    }

    #[test]
    fn what_is_not_there_is_refused_in_the_words_of_who_asks() {
        let refused = |method: Method, path: &str| match Wanted::of(&method, path) {
            Wanted::Nothing { face, refusal, .. } => (face, refusal),
            other => panic!("{path}: {other:?}"),
        };
        assert_eq!(refused(Method::GET, "/v1/messages"), (Face::AnthropicMessages, Refusal::UnknownPath));
        assert_eq!(refused(Method::POST, "/v1/models"), (Face::OpenAiChat, Refusal::UnknownPath));
        for path in ["/model/a/nothing", "/guardrail/a/version/1/apply", "/async-invoke"] {
            assert_eq!(refused(Method::POST, path), (Face::BedrockInvoke, Refusal::UnknownPath), "{path}");
        }
        assert_eq!(refused(Method::POST, "/model/%ff/invoke"), (Face::BedrockInvoke, Refusal::Malformed));
        for path in ["/v1/models/", "/v1/models/a/b", "/v1/models/%zz", "/v1/models/%ff"] {
            assert_eq!(refused(Method::GET, path), (Face::OpenAiChat, Refusal::UnknownPath), "{path}");
        }
        for path in ["/", "//v1/messages", "/v1/messages/", "/admin", "/v1/../admin", "/%2e%2e/admin"] {
            assert_eq!(refused(Method::POST, path), (Face::OpenAiChat, Refusal::UnknownPath), "{path}");
        }
    }
}
