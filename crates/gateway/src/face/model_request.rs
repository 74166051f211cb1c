//! Model requests, in every vendor's dialect.

use super::accepted_form::{AcceptedForm, reject_in};
use super::request_body::{IdentifiedCaller, ReceivedBody, http_request_head, linger};
use super::{GatewayState, response_headers};
use crate::body::{ReplyBody, StreamedAnswer};
use crate::core_registry::CoreRegistry;
use crate::encode::{EncodedStream, complete_stream};
use crate::identity::AuthenticationDecision;
use crate::pending_reply::PendingReply;
use crate::runtime::TokioRuntime;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use hyper::http::request::Parts;
use hyper::{Request, Response};
use seawall_core::balance::StableHash;
use seawall_core::body_memory::ChargedBytes;
use seawall_pipeline::callers::{Caller, CallerIdentity};
use seawall_pipeline::dialect::{DialectHeaders, DialectId, Face, content_type, stream_headers};
use seawall_pipeline::{
    ApiOperation, InboundRequest, Rejection, Reply, ReplyContent, Runtime as _, UnansweredRequest,
    format_request_id,
};
use seawall_provider::{ANTHROPIC_VERSION, TRACEPARENT, TRACESTATE, TraceHeaders};
use seawall_wire::bedrock::{HEADER_PREFIX, InvokeHeader};
use seawall_wire::reply::ReplyIdentity;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of an idempotency key, in bytes.
const MAX_IDEMPOTENCY_KEY: usize = 256;

impl GatewayState {
    pub(super) async fn serve_model_request(
        &self,
        request: Request<Incoming>,
        operation: ApiOperation,
        peer: IpAddr,
        core: CoreRegistry,
    ) -> Response<ReplyBody> {
        let (id, face) = (self.new_request_id(), operation.face());
        let (head, mut body) = request.into_parts();
        let form = AcceptedForm::of(&head.headers);
        let reject =
            |rejection| respond(operation.dialect, form, self.pipeline.reject(id, face, rejection), id, None);
        let received = tokio::select! {
            biased;
            received = self.read_request(&head, &mut body, face, peer) => received,
            () = core.terminated() => return reject(Rejection::ShuttingDown),
        };
        let received = match received {
            Ok(received) => received,
            Err(rejection) => {
                let response = reject(rejection);
                linger(&head, body, self.runtime);
                return response;
            }
        };
        let AuthenticatedRequest { identity, caller, body, headers, idempotency_key, charged, set_cookie } =
            received;
        let dialect = operation.dialect;
        let inbound = InboundRequest { id, operation, identity, caller, body, headers, idempotency_key };
        let request = match self.pipeline.plan_until(inbound, core.terminated()).await {
            Ok(request) => request,
            Err(rejected) => {
                return with_session(respond(dialect, form, *rejected, id, Some(&core)), charged, set_cookie);
            }
        };
        if request.is_stream() && dialect.keep_alive(false).is_some() {
            let response = self.start_stream(request, (dialect, form), id, charged, core).await;
            return with_cookie(response, set_cookie);
        }
        let reply = request.answer_until(&self.pipeline, core.terminated()).await;
        with_session(respond(dialect, form, reply, id, Some(&core)), charged, set_cookie)
    }

    /// The response of a streamed request: when the reply starts, or when a keep-alive is due before it. Headers that
    /// describe the reply are then missing.
    async fn start_stream(
        &self,
        request: UnansweredRequest<TokioRuntime>,
        (dialect, form): (DialectId, AcceptedForm),
        id: u64,
        charged: ChargedBytes,
        core: CoreRegistry,
    ) -> Response<ReplyBody> {
        let (model, created) = request.identity();
        let identity = ReplyIdentity {
            id: format_request_id(id).to_string(),
            model: model.to_owned(),
            created,
            elapsed: Duration::ZERO,
        };
        let (pipeline, own_core) = (Arc::clone(&self.pipeline), core.clone());
        let work = async move {
            // The body of the request is in use until the reply starts.
            let _charged = charged;
            request.answer_until(&pipeline, own_core.terminated()).await
        };
        let answer = StreamedAnswer::pending(PendingReply::new(work, dialect, identity), &core);
        match answer.reply().await {
            Some(reply) => respond_on((dialect, form), reply, id, Some(&core), Some(answer)),
            None => {
                let face = Face::Vendor(dialect);
                let mut response = success_response(face, true, ReplyBody::Stream(answer));
                response_headers::write_request_id(response.headers_mut(), face, id);
                response
            }
        }
    }

    /// Authenticates the caller and reads the request.
    pub(super) async fn read_request(
        &self,
        head: &Parts,
        body: &mut Incoming,
        face: Face,
        peer: IpAddr,
    ) -> Result<AuthenticatedRequest, Rejection> {
        let authenticator = self.authenticator.load_full();
        let headers = &head.headers;
        let request_head = http_request_head(&authenticator, head, peer);
        let mut identified = self.authenticate_caller(&authenticator, request_head).await?;
        if identified.caller.is_guest() && !self.pipeline.admits_guests(face) {
            return Err(Rejection::needs_credential());
        }
        if headers.get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
            let message = "content-encoding is not supported: send the body uncompressed";
            return Err(Rejection::Malformed(message.to_owned()));
        }
        let idempotency_key = match headers.get("idempotency-key").map(|key| key.to_str()) {
            None => None,
            Some(Ok(key)) if !key.is_empty() && key.len() <= MAX_IDEMPOTENCY_KEY => Some(key.into()),
            Some(_) => {
                let message = "idempotency-key: must be 1 to 256 printable characters";
                return Err(Rejection::Malformed(message.to_owned()));
            }
        };
        let mut parameters = dialect_headers(face, headers)?;
        if self.pipeline.reads_sessions() {
            parameters.session = session(headers);
        }
        let received = self.read_body(&authenticator, request_head, &identified, body).await?;
        let ReceivedBody { bytes: body, charged, was_awaited } = received;
        let set_cookie = identified.set_cookie.take();
        let IdentifiedCaller { identity, caller, .. } = identified;
        let caller = (!was_awaited).then_some(caller);
        let headers = parameters;
        Ok(AuthenticatedRequest { identity, caller, body, headers, idempotency_key, charged, set_cookie })
    }

    /// The caller of a request that costs nothing, if its credential identifies one.
    pub(super) async fn identify_caller(&self, head: &Parts, peer: IpAddr) -> Option<Caller> {
        let authenticator = self.authenticator.load_full();
        let request_head = http_request_head(&authenticator, head, peer);
        let identity = match Box::pin(authenticator.authenticate(request_head)).await {
            Ok(
                AuthenticationDecision::Identified(identity)
                | AuthenticationDecision::NewGuest { identity, .. },
            ) => identity,
            Ok(AuthenticationDecision::SignaturePending(pending_signature)) => {
                match authenticator.verify_body(&pending_signature, request_head, &[], self.runtime.now()) {
                    Ok(identity) => identity,
                    Err(_) => return None,
                }
            }
            Ok(AuthenticationDecision::KeysNeeded(_)) | Err(_) => return None,
        };
        self.pipeline.caller(&identity).await
    }
}

/// A complete request of an authenticated caller.
pub(super) struct AuthenticatedRequest {
    pub(super) identity: CallerIdentity,
    pub(super) caller: Option<Caller>,
    pub(super) body: Bytes,
    /// Headers that carry request parameters.
    pub(super) headers: DialectHeaders,
    pub(super) idempotency_key: Option<Box<str>>,
    /// The memory that its body is charged for.
    pub(super) charged: ChargedBytes,
    /// The cookie for a new guest.
    pub(super) set_cookie: Option<String>,
}

/// Adds the cookie of a new guest, and charges a large answer in place of the request body.
pub(super) fn with_session(
    response: Response<ReplyBody>,
    charged: ChargedBytes,
    set_cookie: Option<String>,
) -> Response<ReplyBody> {
    match response.body() {
        ReplyBody::Large(answer) => answer.charge(charged),
        // A small answer is not worth charging, and a stream does not need the request body any more.
        _ => drop(charged),
    }
    with_cookie(response, set_cookie)
}

fn with_cookie(mut response: Response<ReplyBody>, set_cookie: Option<String>) -> Response<ReplyBody> {
    if let Some(cookie) = set_cookie.and_then(|cookie| HeaderValue::from_str(&cookie).ok()) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// Turns a reply into an HTTP response.
pub(crate) fn respond(
    dialect: DialectId,
    form: AcceptedForm,
    reply: Reply<TokioRuntime>,
    id: u64,
    core: Option<&CoreRegistry>,
) -> Response<ReplyBody> {
    respond_on((dialect, form), reply, id, core, None)
}

/// The same; a streamed answer uses what was registered while it was pending.
fn respond_on(
    (dialect, form): (DialectId, AcceptedForm),
    reply: Reply<TokioRuntime>,
    id: u64,
    core: Option<&CoreRegistry>,
    pending: Option<Arc<StreamedAnswer>>,
) -> Response<ReplyBody> {
    let Reply { content, metadata } = reply;
    let face = Face::Vendor(dialect);
    let mut response = match content {
        ReplyContent::Unstreamed(answer) => {
            let body = ReplyBody::whole(answer.content.encode(dialect), core);
            with_headers(success_response(face, false, body), answer.headers)
        }
        ReplyContent::Stream(stream) => {
            let headers = if dialect.takes_invoke_headers() { stream.headers().to_vec() } else { Vec::new() };
            let stream = EncodedStream::api(stream, dialect);
            let (own_core, core) = (CoreRegistry::default(), core);
            let core = core.unwrap_or(&own_core);
            let body = match pending {
                Some(answer) => ReplyBody::started(answer, stream, core),
                None => ReplyBody::stream(stream, core),
            };
            with_headers(success_response(face, true, body), headers)
        }
        ReplyContent::CompleteStream(events, encoder) => {
            success_response(face, true, ReplyBody::Full(Some(complete_stream(&events, encoder))))
        }
        ReplyContent::Rejected(rejection) => {
            reject_in(form, dialect, &rejection, metadata.failed_targets.as_deref(), id)
        }
    };
    response_headers::write_headers(response.headers_mut(), face, &metadata, id);
    response
}

/// Adds the headers that the caller's dialect requires.
fn with_headers(
    mut response: Response<ReplyBody>,
    headers: Vec<(&'static str, String)>,
) -> Response<ReplyBody> {
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

pub(super) fn success_response(face: Face, is_stream: bool, body: ReplyBody) -> Response<ReplyBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.reserve(response_headers::HEADER_CAPACITY);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type(face, is_stream)));
    if is_stream {
        for (name, value) in stream_headers(face) {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
    }
    response
}

/// Headers that are part of the request, like its fields. A header that changes what is done or what it costs is passed
/// to a target that supports it, and the request is rejected if none does; it is never dropped. The organisation or
/// project that pays at a vendor (`openai-organization`, `openai-project`) is set by our own settings and not by a
/// caller.
fn dialect_headers(face: Face, headers: &HeaderMap) -> Result<DialectHeaders, Rejection> {
    let mut parameters = DialectHeaders::default();
    if face == Face::Chat {
        return Ok(parameters);
    }
    parameters.trace = trace_headers(headers);
    if face == Face::ANTHROPIC_MESSAGES {
        parameters.betas = beta_features(headers);
        let version = headers.get("anthropic-version").and_then(|version| version.to_str().ok());
        parameters.anthropic_version =
            version.filter(|version| !version.is_empty() && *version != ANTHROPIC_VERSION).map(Into::into);
    }
    for (name, value) in headers.iter().filter(|(name, _)| name.as_str().starts_with(HEADER_PREFIX)) {
        let malformed = |problem: &str| Rejection::Malformed(format!("{name}: {problem}"));
        let value = value.to_str().map_err(|_| malformed("must be printable ASCII"))?;
        let header = InvokeHeader::read(name.as_str(), value);
        let Some(header) = header.map_err(|error| Rejection::Malformed(error.to_string()))? else { continue };
        if parameters.invoke.iter().any(|known| known.name == header.name) {
            return Err(malformed("must not be repeated"));
        }
        parameters.invoke.push(header);
    }
    Ok(parameters)
}

/// Headers in which clients name their session: our own, and those of coding agents.
const SESSION_HEADERS: [&str; 4] =
    ["x-seawall-session", "x-claude-code-session-id", "x-session-id", "session_id"];

/// A hash of the session that the caller names, if any.
fn session(headers: &HeaderMap) -> Option<u64> {
    let value = SESSION_HEADERS.iter().find_map(|name| headers.get(*name))?;
    Some(StableHash::of(value.as_bytes()))
}

/// The caller's trace, if it has sent one. Most do not, so that one lookup is all.
fn trace_headers(headers: &HeaderMap) -> Option<Arc<TraceHeaders>> {
    if !headers.contains_key(TRACEPARENT) {
        return None;
    }
    let all = |name| headers.get_all(name).into_iter().map(HeaderValue::as_bytes);
    TraceHeaders::read(all(TRACEPARENT), all(TRACESTATE)).map(Arc::new)
}

/// The beta features that a caller names, in one header or several.
fn beta_features(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all("anthropic-beta").iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(',')).map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
