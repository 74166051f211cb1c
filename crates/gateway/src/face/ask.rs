//! Model requests, in every dialect.

use super::refusal::reject;
use super::request_body::{ArrivedBody, KnownCaller, linger, shown_by};
use super::{Face, told};
use crate::body::ReplyBody;
use crate::identity::Shown;
use crate::stopping::Cut;
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, SET_COOKIE,
};
use hyper::http::request::Parts;
use hyper::{Request, Response};
use seawall_core::body_memory::HeldBytes;
use seawall_core::strategy::Language;
use seawall_pipeline::callers::Caller;
use seawall_pipeline::speech::{self, SpokenHeaders, content_type, stream_headers};
use seawall_pipeline::{Arriving, InboundRequest, Rejection, Reply, ReplyContent, Runtime as _};
use seawall_provider::ANTHROPIC_VERSION;
use seawall_wire::bedrock::{HEADER_PREFIX, InvokeHeader};
use std::net::IpAddr;

/// Maximum length of the request id that a caller supplies.
const LONGEST_NAME: usize = 256;

impl Face {
    pub(super) async fn ask(
        &self,
        request: Request<Incoming>,
        arriving: Arriving,
        peer: IpAddr,
        cut: Cut,
    ) -> Response<ReplyBody> {
        let (id, face) = (self.id(), arriving.face());
        let (head, mut body) = request.into_parts();
        let arriving = match arriving {
            Arriving::Chat { .. } => Arriving::Chat { accepts_stream: accepts_events(&head.headers) },
            arriving => arriving,
        };
        let inbound = tokio::select! {
            biased;
            inbound = self.inbound(id, &head, &mut body, arriving, peer) => inbound,
            () = cut.told() => {
                return self.refused(id, face, Rejection::Stopping, &head.headers);
            }
        };
        let Inbound { request, held, set_cookie } = match inbound {
            Ok(inbound) => inbound,
            Err(response) => {
                linger(&head, body, self.runtime);
                return *response;
            }
        };
        let mut reply = self.path.serve_until(request, cut.told()).await;
        self.note_language(face, &mut reply, &head.headers);
        let mut response = respond(face, reply, id, Some(&cut));
        match response.body() {
            ReplyBody::Large(answer) => answer.hold(held),
            // A small answer is not worth charging, and a stream does not need the request body any more.
            _ => drop(held),
        }
        if let Some(cookie) = set_cookie.and_then(|cookie| HeaderValue::from_str(&cookie).ok()) {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    }

    /// A rejection before the request has entered the path.
    fn refused(
        &self,
        id: u64,
        face: speech::Face,
        rejection: Rejection,
        headers: &HeaderMap,
    ) -> Response<ReplyBody> {
        let mut reply = self.path.refuse(id, face, rejection);
        self.note_language(face, &mut reply, headers);
        respond(face, reply, id, None)
    }

    /// Chooses the language of a rejection on our own face when the request itself could not be read.
    fn note_language(&self, face: speech::Face, reply: &mut Reply<crate::TokioRuntime>, headers: &HeaderMap) {
        let is_refused = matches!(reply.content, ReplyContent::Rejected(_));
        if face == speech::Face::Chat && is_refused && reply.notes.language.is_none() {
            reply.notes.language = accepted_language(headers).or_else(|| Some(self.path.chat_language()));
        }
    }

    /// Authenticates the caller and reads the request.
    async fn inbound(
        &self,
        id: u64,
        head: &Parts,
        body: &mut Incoming,
        arriving: Arriving,
        peer: IpAddr,
    ) -> Result<Inbound, Box<Response<ReplyBody>>> {
        let face = arriving.face();
        let rejected = |rejection| Box::new(self.refused(id, face, rejection, &head.headers));
        let gate = self.gate.load_full();
        let headers = &head.headers;
        let shown = shown_by(&gate, head, peer);
        let mut known = self.known_caller(&gate, shown).await.map_err(rejected)?;
        if known.caller.is_guest() && !self.path.admits_guests(face) {
            return Err(rejected(Rejection::needs_credential()));
        }
        if headers.get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
            let words = "the body is compressed: send it as it is";
            return Err(rejected(Rejection::Malformed(words.to_owned())));
        }
        let name = match headers.get("idempotency-key").map(|name| name.to_str()) {
            None => None,
            Some(Ok(name)) if !name.is_empty() && name.len() <= LONGEST_NAME => Some(name.into()),
            Some(_) => {
                let words = "idempotency-key: must be 1 to 256 printable characters";
                return Err(rejected(Rejection::Malformed(words.to_owned())));
            }
        };
        let spoken = spoken_headers(face, headers).map_err(rejected)?;
        let arrived = self.arrived_body(&gate, shown, &known, body).await.map_err(rejected)?;
        let ArrivedBody { bytes: body, held, was_late } = arrived;
        let set_cookie = known.set_cookie.take();
        let KnownCaller { proven, caller, .. } = known;
        let caller = (!was_late).then_some(caller);
        Ok(Inbound {
            request: InboundRequest { id, arriving, proven, caller, body, headers: spoken, name },
            held,
            set_cookie,
        })
    }

    /// The caller of a request that costs nothing, if its credential identifies one.
    pub(super) async fn caller(&self, head: &Parts, peer: IpAddr) -> Option<Caller> {
        let gate = self.gate.load_full();
        let shown = shown_by(&gate, head, peer);
        let proven = match Box::pin(gate.show(shown)).await {
            Ok(Shown::Proven(proven) | Shown::NewGuest { proven, .. }) => proven,
            Ok(Shown::Signed(signed)) => match gate.verify_body(&signed, shown, &[], self.runtime.now()) {
                Ok(proven) => proven,
                Err(_) => return None,
            },
            Ok(Shown::NeedsKeys(_)) | Err(_) => return None,
        };
        self.path.caller(&proven).await
    }
}

/// A complete request, and the cookie for a new guest.
struct Inbound {
    request: InboundRequest,
    /// The memory that its body is charged for.
    held: HeldBytes,
    set_cookie: Option<String>,
}

/// Turns a reply into an HTTP response.
pub(crate) fn respond(
    face: speech::Face,
    reply: Reply<crate::TokioRuntime>,
    id: u64,
    cut: Option<&Cut>,
) -> Response<ReplyBody> {
    let Reply { content, notes } = reply;
    let mut response = match content {
        ReplyContent::Whole(answer) => {
            with_headers(answered(face, false, ReplyBody::whole(answer.body, cut)), answer.headers)
        }
        ReplyContent::Stream(stream) => {
            let headers = match face {
                speech::Face::BedrockInvoke => stream.headers().to_vec(),
                _ => Vec::new(),
            };
            let body = ReplyBody::stream(stream, cut.unwrap_or(&Cut::default()));
            with_headers(answered(face, true, body), headers)
        }
        ReplyContent::Pieces(pieces) => answered(face, true, ReplyBody::Whole(Some(pieces))),
        ReplyContent::Rejected(rejection) => {
            reject(face, &rejection, id, notes.language.unwrap_or(Language::English))
        }
    };
    told::tell(response.headers_mut(), face, &notes, id);
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

fn answered(face: speech::Face, is_stream: bool, body: ReplyBody) -> Response<ReplyBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.reserve(told::MOST);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type(face, is_stream)));
    if is_stream {
        for (name, value) in stream_headers(face) {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
    }
    response
}

/// Whether the caller accepts server-sent events rather than one JSON document.
fn accepts_events(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT)
        .iter()
        .any(|value| value.to_str().is_ok_and(|value| value.contains("text/event-stream")))
}

/// The first of our languages in the caller's `accept-language`.
fn accepted_language(headers: &HeaderMap) -> Option<Language> {
    let accepted = headers.get(ACCEPT_LANGUAGE)?.to_str().ok()?;
    accepted.split(',').find_map(|range| match range.trim().get(..2)?.to_ascii_lowercase().as_str() {
        "ja" => Some(Language::Japanese),
        "en" => Some(Language::English),
        _ => None,
    })
}

/// Headers that are part of the request, like its fields. A header that changes what is done or what it costs is passed
/// to a target that supports it, and the request is refused if none does; it is never dropped. The organisation or
/// project that pays at a vendor (`openai-organization`, `openai-project`) is set by our own settings and not by a
/// caller.
fn spoken_headers(face: speech::Face, headers: &HeaderMap) -> Result<SpokenHeaders, Rejection> {
    let mut spoken = SpokenHeaders::default();
    if face == speech::Face::Chat {
        return Ok(spoken);
    }
    if face == speech::Face::AnthropicMessages {
        spoken.betas = betas(headers);
        let version = headers.get("anthropic-version").and_then(|version| version.to_str().ok());
        spoken.anthropic_version =
            version.filter(|version| !version.is_empty() && *version != ANTHROPIC_VERSION).map(Into::into);
    }
    for (name, value) in headers.iter().filter(|(name, _)| name.as_str().starts_with(HEADER_PREFIX)) {
        let malformed = |problem: &str| Rejection::Malformed(format!("{name}: {problem}"));
        let value = value.to_str().map_err(|_| malformed("must be printable ASCII"))?;
        let header = InvokeHeader::read(name.as_str(), value);
        let Some(header) = header.map_err(|error| Rejection::Malformed(error.to_string()))? else { continue };
        if spoken.invoke.iter().any(|known| known.name == header.name) {
            return Err(malformed("must not be there twice"));
        }
        spoken.invoke.push(header);
    }
    Ok(spoken)
}

/// The beta features that a caller names, in one header or several.
fn betas(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all("anthropic-beta").iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(',')).map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
