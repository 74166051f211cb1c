//! The model list, and token counting.

use super::GatewayState;
use super::accepted_form::AcceptedForm;
use super::error_response::{plain_error, reject};
use super::model_request::respond;
use super::request_body::{ReceivedBody, http_request_head, linger};
use super::response_headers::write_request_id;
use crate::body::ReplyBody;
use bytes::{Bytes, BytesMut};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response};
use seawall_pipeline::Rejection;
use seawall_pipeline::dialect::{DialectId, Face};
use seawall_wire::bedrock::{self, CountInput};
use seawall_wire::{ApiErrorKind, RequestError, RequestLimits, anthropic, estimate_input, gemini, openai};
use std::net::IpAddr;
use std::sync::Arc;

/// The creation time in the model list. Routes have none; this is the earliest one possible.
const CREATED: (&str, u64) = ("2026-01-01T00:00:00Z", 1_767_225_600);

/// Maximum body size that is counted on the thread of its connection, in bytes: that takes at most 100 µs.
const MAX_INLINE_COUNT: usize = 8 << 10;

impl GatewayState {
    /// The routes, or one of them, as models in the caller's dialect. Anthropic's clients are recognised because they
    /// always send the version of its dialect.
    pub(super) async fn models(
        &self,
        request: Request<Incoming>,
        peer: IpAddr,
        only: Option<String>,
    ) -> Response<ReplyBody> {
        let (id, (head, _)) = (self.new_request_id(), request.into_parts());
        let is_anthropic = head.headers.contains_key("anthropic-version");
        let dialect = if is_anthropic { DialectId::ANTHROPIC_MESSAGES } else { DialectId::OPENAI_CHAT };
        let face = Face::Vendor(dialect);
        let Some(caller) = self.identify_caller(&head, peer).await else {
            return plain_error(face, ApiErrorKind::Unauthenticated, "the credential is invalid", id);
        };
        let routes = self.pipeline.routes(face, &caller);
        let names = routes.iter().map(AsRef::as_ref);
        let anthropic = |id| anthropic::AnthropicModelEntry { id, display_name: id, created_at: CREATED.0 };
        let openai = |id| openai::OpenAiModelEntry { id, created: CREATED.1, owned_by: "seawall" };
        let mut out = BytesMut::new();
        match (only, is_anthropic) {
            (Some(name), _) if !names.clone().any(|route: &str| route == name) => {
                return reject(dialect, &Rejection::UnknownModel(name), id);
            }
            (Some(name), true) => anthropic::write_model(&mut out, &anthropic(&name)),
            (Some(name), false) => openai::write_model(&mut out, &openai(&name)),
            (None, true) => anthropic::write_models(&mut out, &names.map(anthropic).collect::<Vec<_>>()),
            (None, false) => openai::write_models(&mut out, &names.map(openai).collect::<Vec<_>>()),
        }
        json_response(out.freeze(), face, id)
    }

    /// Estimates the tokens of a request. No model is called and no money is charged; rate limits apply as to any other
    /// request.
    pub(super) async fn count_tokens(
        &self,
        request: Request<Incoming>,
        peer: IpAddr,
        format: CountFormat,
    ) -> Response<ReplyBody> {
        let id = self.new_request_id();
        let dialect = format.dialect();
        let face = Face::Vendor(dialect);
        let (head, mut body) = request.into_parts();
        let authenticator = self.authenticator.load_full();
        let request_head = http_request_head(&authenticator, &head, peer);
        let received = match self.authenticate_caller(&authenticator, request_head).await {
            Ok(identified) => {
                match self.read_body(&authenticator, request_head, &identified, &mut body).await {
                    // Not earlier: a signature is verified together with the body.
                    Ok(received) => self
                        .pipeline
                        .admit_without_model(&identified.caller)
                        .await
                        .map(|()| (received, identified.caller)),
                    Err(rejection) => Err(rejection),
                }
            }
            Err(rejection) => Err(rejection),
        };
        let (ReceivedBody { bytes: body, charged: _charged, .. }, caller) = match received {
            Ok(received) => received,
            Err(rejection) => {
                linger(&head, body, self.runtime);
                return respond(
                    dialect,
                    AcceptedForm::Any,
                    self.pipeline.reject(id, face, rejection),
                    id,
                    None,
                );
            }
        };
        let limits = self.pipeline.with_request_limits(|limits| *limits);
        let (length, pipeline) = (body.len(), Arc::clone(&self.pipeline));
        let count = move || {
            let named = match &format {
                CountFormat::Anthropic => anthropic::read_count_request(&body, &limits)?.model,
                CountFormat::Bedrock { model } | CountFormat::Gemini { model } => model.clone(),
            };
            // An unknown model must be an error here already, not only in the request that follows.
            match pipeline.first_model(face, &caller, &named) {
                Some(model) => Ok(format.write(format.count(&model, &body, &limits)?)),
                None => Err(CountError::UnknownModel(named)),
            }
        };
        let counted = if length <= MAX_INLINE_COUNT {
            count()
        } else {
            // A large body takes milliseconds, during which this core would serve no other request.
            match tokio::task::spawn_blocking(count).await {
                Ok(counted) => counted,
                Err(_) => {
                    return plain_error(face, ApiErrorKind::Internal, "internal error of the gateway", id);
                }
            }
        };
        match counted {
            Ok(answer) => json_response(answer, face, id),
            Err(CountError::UnknownModel(name)) => reject(dialect, &Rejection::UnknownModel(name), id),
            Err(CountError::Request(error)) => {
                plain_error(face, ApiErrorKind::Malformed, &error.to_string(), id)
            }
        }
    }
}

/// Why tokens cannot be counted.
enum CountError {
    UnknownModel(String),
    Request(RequestError),
}

impl From<RequestError> for CountError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

/// The format of a request to count tokens. The path names the model, except in Anthropic's format.
pub(super) enum CountFormat {
    Anthropic,
    Bedrock { model: String },
    Gemini { model: String },
}

impl CountFormat {
    const fn dialect(&self) -> DialectId {
        match self {
            Self::Anthropic => DialectId::ANTHROPIC_MESSAGES,
            Self::Bedrock { .. } => DialectId::BEDROCK_INVOKE,
            Self::Gemini { .. } => DialectId::GEMINI,
        }
    }

    /// The tokens of a request to this model.
    fn count(&self, model: &str, body: &[u8], limits: &RequestLimits) -> Result<u64, RequestError> {
        match self {
            Self::Anthropic => estimate_input(model, body, limits),
            Self::Gemini { .. } => {
                estimate_input(model, gemini::read_count_input(body, limits)?.as_bytes(), limits)
            }
            Self::Bedrock { .. } => match bedrock::read_count_input(body, limits)? {
                CountInput::Converse(body) => estimate_input(model, body.as_bytes(), limits),
                CountInput::Invoke(body) => {
                    // The same validation as for the request itself.
                    bedrock::read_invoke_body(&body, limits)?;
                    estimate_input(model, &body, limits)
                }
            },
        }
    }

    /// The answer.
    fn write(&self, tokens: u64) -> Bytes {
        match self {
            Self::Anthropic => {
                let mut out = BytesMut::new();
                anthropic::write_count_answer(&mut out, tokens);
                out.freeze()
            }
            Self::Bedrock { .. } => bedrock::write_count(tokens),
            Self::Gemini { .. } => gemini::write_count(tokens),
        }
    }
}

fn json_response(body: Bytes, face: Face, id: u64) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::Full(Some(body)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    write_request_id(response.headers_mut(), face, id);
    response
}
