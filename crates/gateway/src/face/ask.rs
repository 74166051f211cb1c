//! Questions to models, in every dialect.

use super::refusal::{refuse, reject};
use super::{Face, told};
use crate::body::ReplyBody;
use crate::identity::credential_of_key;
use crate::stopping::Cut;
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use seawall_pipeline::speech::{self, content_type, stream_headers};
use seawall_pipeline::{
    Arriving, InboundRequest, ProofKind, Proven, Rejection, Reply, ReplyContent, Timer as _,
};
use seawall_wire::Refusal;

/// So long may the name be that a caller gives a request.
const LONGEST_NAME: usize = 256;

impl Face {
    pub(super) async fn ask(
        &self,
        request: Request<Incoming>,
        arriving: Arriving,
        cut: Cut,
    ) -> Response<ReplyBody> {
        let (id, face) = (self.id(), arriving.face());
        let (head, body) = request.into_parts();
        let inbound = match self.inbound(id, &head.headers, body, arriving).await {
            Ok(inbound) => inbound,
            Err(response) => return *response,
        };
        let reply = tokio::select! {
            biased;
            reply = self.path.serve(inbound) => reply,
            // What it has taken is settled as the work on it is dropped.
            () = cut.clone().told() => self.path.refuse(id, face, Rejection::Stopping),
        };
        respond(face, reply, id, cut)
    }

    /// The request, once it is here and its caller is proven.
    async fn inbound(
        &self,
        id: u64,
        headers: &HeaderMap,
        body: Incoming,
        arriving: Arriving,
    ) -> Result<InboundRequest, Box<Response<ReplyBody>>> {
        let face = arriving.face();
        let refused = |refusal, words: &str| Box::new(refuse(face, refusal, words, id));
        let rejected =
            |rejection| Box::new(respond(face, self.path.refuse(id, face, rejection), id, Cut::never()));
        let Some(key) = api_key(headers) else {
            let words = "the API key is missing, or sent in more than one way";
            return Err(rejected(Rejection::Unauthenticated(words.to_owned())));
        };
        let proven = Proven::Credential { hash: credential_of_key(key), proof: ProofKind::Key, tier: None };
        if headers.get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
            return Err(refused(Refusal::Malformed, "the body is compressed: send it as it is"));
        }
        let name = match headers.get("idempotency-key").map(|name| name.to_str()) {
            None => None,
            Some(Ok(name)) if !name.is_empty() && name.len() <= LONGEST_NAME => Some(name.into()),
            Some(_) => {
                let words = "idempotency-key: must be 1 to 256 printable characters";
                return Err(rejected(Rejection::Malformed(words.to_owned())));
            }
        };
        let body = self.body(id, body, face).await?;
        let betas = match face {
            speech::Face::AnthropicMessages => betas(headers),
            _ => Vec::new(),
        };
        Ok(InboundRequest { id, arriving, proven, body, betas, name })
    }

    /// The body, unless it is too large or too slow.
    pub(super) async fn body(
        &self,
        id: u64,
        body: Incoming,
        face: speech::Face,
    ) -> Result<Bytes, Box<Response<ReplyBody>>> {
        let refused = |refusal, words: &str| Box::new(refuse(face, refusal, words, id));
        // Who sends a byte now and then must not hold a connection for ever.
        let (most_bytes, limits) = self.path.arrival();
        let late = self.runtime.monotonic() + limits.body;
        let body = tokio::select! {
            biased;
            body = Limited::new(body, most_bytes).collect() => body,
            () = self.runtime.sleep_until(late) => {
                let words = format!("the body took longer than {:?} to arrive", limits.body);
                return Err(refused(Refusal::Malformed, &words));
            }
        };
        match body {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(refused(Refusal::TooLarge, &format!("the body is larger than {most_bytes} bytes")))
            }
            Err(_) => Err(refused(Refusal::Malformed, "the body did not arrive whole")),
        }
    }
}

/// What goes out for this reply.
pub(crate) fn respond(
    face: speech::Face,
    reply: Reply<crate::TokioRuntime>,
    id: u64,
    cut: Cut,
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
        ReplyContent::Stream(stream) => answered(face, true, ReplyBody::stream(stream, cut)),
        ReplyContent::Rejected(rejection) => reject(face, &rejection, id),
    };
    told::tell(response.headers_mut(), face, &notes, id);
    response
}

fn answered(face: speech::Face, is_stream: bool, body: ReplyBody) -> Response<ReplyBody> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type(face, is_stream)));
    if is_stream {
        for (name, value) in stream_headers(face) {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
    }
    response
}

/// The features in trial that a caller names, in one header or several.
fn betas(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all("anthropic-beta").iter().filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(',')).map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The key, from either of the headers that clients send it in. Of two values of one header nobody can say which was
/// meant, and what stands in front of us may have looked at the other: that is no key.
pub(super) fn api_key(headers: &HeaderMap) -> Option<&str> {
    let only = |name: &str| {
        let mut values = headers.get_all(name).iter();
        let value = values.next()?.to_str().ok()?;
        values.next().is_none().then_some(value)
    };
    if headers.contains_key("x-api-key") {
        return only("x-api-key");
    }
    only("authorization")?.strip_prefix("Bearer ")
}
