//! Which models there are, and how many tokens a request has.

use super::Face;
use super::ask::respond;
use super::refusal::{refuse, reject};
use super::request_body::{ArrivedBody, linger, shown_by};
use super::told::tell_name;
use crate::body::ReplyBody;
use bytes::BytesMut;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response};
use seawall_core::strategy::Language;
use seawall_core::tokens::{Calibration, ClassCounts, OverheadOptions, RequestCounts, estimate};
use seawall_pipeline::Rejection;
use seawall_pipeline::speech;
use seawall_wire::{Refusal, RequestError, RequestLimits, anthropic, openai};
use std::net::IpAddr;

/// Routes have no birthday; this is when the first of them could have been made.
const SINCE: (&str, u64) = ("2026-01-01T00:00:00Z", 1_767_225_600);

/// The largest body that is counted on the core of its connection, in bytes: it takes no longer than 100 µs.
const COUNTED_AT_ONCE: usize = 8 << 10;

impl Face {
    /// The routes, or one of them, as models in the words of whoever asks: one vendor's clients always name the version of
    /// its dialect.
    pub(super) async fn models(
        &self,
        request: Request<Incoming>,
        peer: IpAddr,
        only: Option<String>,
    ) -> Response<ReplyBody> {
        let (id, (head, _)) = (self.id(), request.into_parts());
        let is_anthropic = head.headers.contains_key("anthropic-version");
        let face = if is_anthropic { speech::Face::AnthropicMessages } else { speech::Face::OpenAiChat };
        let Some(caller) = self.caller(&head, peer).await else {
            return refuse(face, Refusal::Unauthenticated, "the credentials are not valid", id);
        };
        let routes = self.path.routes(face, &caller);
        let names = routes.iter().map(AsRef::as_ref);
        let anthropic = |id| anthropic::ModelEntry { id, display_name: id, created_at: SINCE.0 };
        let openai = |id| openai::ModelEntry { id, created: SINCE.1, owned_by: "seawall" };
        let mut out = BytesMut::new();
        match (only, is_anthropic) {
            (Some(name), _) if !names.clone().any(|route: &str| route == name) => {
                return reject(face, &Rejection::UnknownModel(name), id, Language::English);
            }
            (Some(name), true) => anthropic::write_model(&mut out, &anthropic(&name)),
            (Some(name), false) => openai::write_model(&mut out, &openai(&name)),
            (None, true) => anthropic::write_models(&mut out, &names.map(anthropic).collect::<Vec<_>>()),
            (None, false) => openai::write_models(&mut out, &names.map(openai).collect::<Vec<_>>()),
        }
        json(out, face, id)
    }

    /// How many tokens a request has, as we estimate it. No model is asked, and it costs no money; it is limited like any
    /// other request.
    pub(super) async fn count_tokens(&self, request: Request<Incoming>, peer: IpAddr) -> Response<ReplyBody> {
        let (id, face) = (self.id(), speech::Face::AnthropicMessages);
        let (head, mut body) = request.into_parts();
        let gate = self.gate.load_full();
        let shown = shown_by(&gate, &head, peer);
        let arrived = match self.known_caller(&gate, shown).await {
            Ok(known) => match self.arrived_body(&gate, shown, &known, &mut body).await {
                // Not before: what is signed is proven with its body.
                Ok(arrived) => {
                    self.path.admit_without_model(&known.caller).await.map(|()| (arrived, known.caller))
                }
                Err(rejection) => Err(rejection),
            },
            Err(rejection) => Err(rejection),
        };
        let (ArrivedBody { bytes: body, held: _held, .. }, caller) = match arrived {
            Ok(arrived) => arrived,
            Err(rejection) => {
                linger(&head, body, self.runtime);
                return respond(face, self.path.refuse(id, face, rejection), id, None);
            }
        };
        let limits = self.path.with_request_limits(|limits| *limits);
        let counted = if body.len() <= COUNTED_AT_ONCE {
            counted(&body, &limits)
        } else {
            // A large body takes milliseconds, in which this core would serve nobody.
            let counting = tokio::task::spawn_blocking(move || counted(&body, &limits));
            match counting.await {
                Ok(counted) => counted,
                Err(_) => return refuse(face, Refusal::Internal, "the gateway has made a mistake", id),
            }
        };
        match counted {
            // Who mistypes a name must not learn of it only by the request that was counted.
            Ok((model, _)) if !self.path.routes(face, &caller).iter().any(|route| **route == *model) => {
                reject(face, &Rejection::UnknownModel(model), id, Language::English)
            }
            Ok((_, tokens)) => {
                let mut out = BytesMut::new();
                anthropic::write_count_answer(&mut out, tokens);
                json(out, face, id)
            }
            Err(error) => refuse(face, Refusal::Malformed, &error.to_string(), id),
        }
    }
}

/// The model that is asked for, and the tokens.
fn counted(body: &[u8], limits: &RequestLimits) -> Result<(String, u64), RequestError> {
    let head = anthropic::read_count_request(body, limits)?;
    let text = anthropic::read_text(body)?;
    let mut counts = RequestCounts { messages: head.turns as u64, ..RequestCounts::default() };
    counts.system = ClassCounts::of(&text.system);
    for turn in &text.turns {
        counts.history += ClassCounts::of(&turn.text);
    }
    let tokens = estimate(&head.model, &counts, OverheadOptions::default(), &Calibration::default()).best;
    Ok((head.model, tokens))
}

fn json(out: BytesMut, face: speech::Face, id: u64) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::Whole(Some(out.freeze())));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    tell_name(response.headers_mut(), face, id);
    response
}
