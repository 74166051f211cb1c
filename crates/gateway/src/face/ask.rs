//! Questions to models, in every dialect.

use super::refusal::reject;
use super::{Face, told};
use crate::body::ReplyBody;
use crate::identity::token::TokenRefusal;
use crate::identity::{Gate, RequestHead, Shown};
use crate::stopping::Cut;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use hyper::http::request::Parts;
use hyper::{Request, Response};
use seawall_pipeline::speech::{self, content_type, stream_headers};
use seawall_pipeline::{Arriving, InboundRequest, Rejection, Reply, ReplyContent, Runtime as _, Timer as _};
use std::net::IpAddr;

/// So long may the name be that a caller gives a request.
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
        let (head, body) = request.into_parts();
        let arriving = match arriving {
            Arriving::Chat { .. } => Arriving::Chat { accepts_stream: accepts_events(&head.headers) },
            arriving => arriving,
        };
        let inbound = tokio::select! {
            biased;
            inbound = self.inbound(id, &head, body, arriving, peer) => inbound,
            () = cut.told() => {
                let reply = self.path.refuse(id, face, Rejection::Stopping);
                return respond(face, reply, id, None);
            }
        };
        let Inbound { request, set_cookie } = match inbound {
            Ok(inbound) => inbound,
            Err(response) => return *response,
        };
        let reply = self.path.serve_until(request, cut.told()).await;
        let mut response = respond(face, reply, id, Some(&cut));
        if let Some(cookie) = set_cookie.and_then(|cookie| HeaderValue::from_str(&cookie).ok()) {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    }

    /// The request, once it is here and its caller is proven. Who shows nothing is not read.
    async fn inbound(
        &self,
        id: u64,
        head: &Parts,
        body: Incoming,
        arriving: Arriving,
        peer: IpAddr,
    ) -> Result<Inbound, Box<Response<ReplyBody>>> {
        let face = arriving.face();
        let rejected = |rejection| Box::new(respond(face, self.path.refuse(id, face, rejection), id, None));
        let nobody = |refusal: crate::identity::Refusal| rejected(unauthenticated(refusal));
        let gate = self.gate.load_full();
        let headers = &head.headers;
        let shown = shown_by(&gate, head, peer);
        let inspected = match gate.inspect(shown, || self.runtime.now()) {
            // Few have to wait for an issuer's keys.
            Ok(Shown::NeedsKeys(_)) => Box::pin(gate.show(shown)).await,
            inspected => inspected,
        };
        let (mut proven, signed, set_cookie) = match inspected.map_err(nobody)? {
            Shown::Proven(proven) => (proven, None, None),
            Shown::NewGuest { proven, set_cookie } => (proven, None, Some(set_cookie)),
            Shown::Signed(signed) => (*signed.claimed(), Some(signed), None),
            // Whoever shows this was given the chance to fetch keys.
            Shown::NeedsKeys(_) => return Err(nobody(TokenRefusal::KeyUnknown.into())),
        };
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
        let body = self.body(body).await.map_err(rejected)?;
        if let Some(signed) = signed {
            proven = gate.verify_body(&signed, shown, &body, self.runtime.now()).map_err(nobody)?;
        }
        let betas = match face {
            speech::Face::AnthropicMessages => betas(headers),
            _ => Vec::new(),
        };
        Ok(Inbound { request: InboundRequest { id, arriving, proven, body, betas, name }, set_cookie })
    }

    /// Who asks for something that costs nothing, if somebody is known by what it shows.
    pub(super) async fn is_known(&self, head: &Parts, body: &[u8], peer: IpAddr) -> bool {
        let gate = self.gate.load_full();
        let shown = shown_by(&gate, head, peer);
        let proven = match Box::pin(gate.show(shown)).await {
            Ok(Shown::Proven(proven) | Shown::NewGuest { proven, .. }) => proven,
            Ok(Shown::Signed(signed)) => match gate.verify_body(&signed, shown, body, self.runtime.now()) {
                Ok(proven) => proven,
                Err(_) => return false,
            },
            Ok(Shown::NeedsKeys(_)) | Err(_) => return false,
        };
        self.path.knows(&proven).await
    }

    /// The body, unless it is too large or too slow.
    pub(super) async fn body(&self, body: Incoming) -> Result<Bytes, Rejection> {
        let (most_bytes, limits) = self.path.arrival();
        let too_large = || Rejection::TooLarge(format!("the body is larger than {most_bytes} bytes"));
        if body.size_hint().lower() > most_bytes as u64 {
            return Err(too_large());
        }
        // Who sends a byte now and then must not hold a connection for ever. Most bodies are here already.
        let late = async { self.runtime.sleep_until(self.runtime.monotonic() + limits.body).await };
        let collected = tokio::select! {
            biased;
            collected = collect(body, most_bytes) => collected,
            () = late => {
                let words = format!("the body took longer than {:?} to arrive", limits.body);
                return Err(Rejection::Malformed(words));
            }
        };
        match collected {
            Ok(Some(body)) => Ok(body),
            Ok(None) => Err(too_large()),
            Err(_) => Err(Rejection::Malformed("the body did not arrive whole".to_owned())),
        }
    }
}

/// All of a body; nothing if it is larger than allowed. One that comes in one piece is not copied.
async fn collect(mut body: Incoming, most_bytes: usize) -> Result<Option<Bytes>, hyper::Error> {
    let (mut first, mut whole) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        // What comes behind a body is of no use.
        let Ok(piece) = frame?.into_data() else { continue };
        if first.len() + whole.len() + piece.len() > most_bytes {
            return Ok(None);
        }
        if first.is_empty() && whole.is_empty() {
            first = piece;
            continue;
        }
        if whole.is_empty() {
            whole.extend_from_slice(&std::mem::take(&mut first));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(Some(if whole.is_empty() { first } else { whole.freeze() }))
}

/// A request, and what a new guest is to be sent back.
struct Inbound {
    request: InboundRequest,
    set_cookie: Option<String>,
}

/// What a request shows of who asks.
fn shown_by<'a>(gate: &Gate, head: &'a Parts, peer: IpAddr) -> RequestHead<'a> {
    let Parts { method, uri, headers, .. } = head;
    RequestHead { method, uri, headers, address: gate.address(peer, headers) }
}

fn unauthenticated(refusal: crate::identity::Refusal) -> Rejection {
    Rejection::Unauthenticated { told: refusal.to_string(), cause: refusal.logged() }
}

/// What goes out for this reply.
pub(crate) fn respond(
    face: speech::Face,
    reply: Reply<crate::TokioRuntime>,
    id: u64,
    cut: Option<&Cut>,
) -> Response<ReplyBody> {
    let Reply { content, notes } = reply;
    let mut response = match content {
        ReplyContent::Whole(answer) => {
            let mut response = answered(face, false, ReplyBody::Whole(Some(answer.body)));
            for (name, value) in answer.headers {
                if let Ok(value) = HeaderValue::from_str(&value) {
                    response.headers_mut().insert(HeaderName::from_static(name), value);
                }
            }
            response
        }
        ReplyContent::Stream(stream) => {
            let body = ReplyBody::stream(stream, cut.unwrap_or(&Cut::default()));
            answered(face, true, body)
        }
        ReplyContent::Pieces(pieces) => answered(face, true, ReplyBody::Whole(Some(pieces))),
        ReplyContent::Rejected(rejection) => reject(face, &rejection, id),
    };
    told::tell(response.headers_mut(), face, &notes, id);
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

/// Whether a caller asks for events rather than for one piece.
fn accepts_events(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT)
        .iter()
        .any(|value| value.to_str().is_ok_and(|value| value.contains("text/event-stream")))
}

/// The features in trial that a caller names, in one header or several.
fn betas(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all("anthropic-beta").iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(',')).map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
