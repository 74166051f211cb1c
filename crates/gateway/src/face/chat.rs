//! Messages to the assistant, in the gateway's own protocol.

use super::error_response::reject_chat;
use super::model_request::{AuthenticatedRequest, success_response, with_session};
use super::request_body::linger;
use super::{GatewayState, response_headers};
use crate::TokioRuntime;
use crate::body::ReplyBody;
use crate::core_registry::CoreRegistry;
use crate::encode::{EncodedStream, complete_chat};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ACCEPT_LANGUAGE, HeaderMap};
use hyper::{Request, Response};
use seawall_assistant::{AssistantContent, AssistantReply, ChatInbound};
use seawall_core::strategy::Language;
use seawall_pipeline::Rejection;
use seawall_pipeline::dialect::Face;
use std::net::IpAddr;

impl GatewayState {
    pub(super) async fn serve_chat(
        &self,
        request: Request<Incoming>,
        peer: IpAddr,
        core: CoreRegistry,
    ) -> Response<ReplyBody> {
        let id = self.new_request_id();
        let (head, mut body) = request.into_parts();
        // The language of a rejection when the message could not be read.
        let fallback =
            || accepted_language(&head.headers).unwrap_or_else(|| self.assistant.default_language());
        let reject = |rejection: Rejection| {
            let metadata = self.pipeline.begin(id, Face::Chat).reject(&rejection);
            let reply =
                AssistantReply { content: AssistantContent::Rejected(rejection), metadata, language: None };
            respond(reply, id, fallback, None)
        };
        let received = tokio::select! {
            biased;
            received = self.read_request(&head, &mut body, Face::Chat, peer) => received,
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
        let AuthenticatedRequest { identity, caller, body, idempotency_key, charged, set_cookie, .. } =
            received;
        let accepts_stream = accepts_event_stream(&head.headers);
        let inbound = ChatInbound { id, body, accepts_stream, identity, caller, idempotency_key };
        let reply = self.assistant.serve_until(inbound, core.terminated()).await;
        with_session(respond(reply, id, fallback, Some(&core)), charged, set_cookie)
    }
}

/// Turns a reply into an HTTP response. `fallback` is the language of a rejection if the reply has none.
pub(crate) fn respond(
    reply: AssistantReply<TokioRuntime>,
    id: u64,
    fallback: impl FnOnce() -> Language,
    core: Option<&CoreRegistry>,
) -> Response<ReplyBody> {
    let AssistantReply { content, metadata, language } = reply;
    let mut response = match content {
        AssistantContent::Whole(reply) => {
            success_response(Face::Chat, false, ReplyBody::whole(reply.body(), core))
        }
        AssistantContent::CompleteStream(reply) => {
            success_response(Face::Chat, true, ReplyBody::Full(Some(complete_chat(*reply))))
        }
        AssistantContent::Stream(stream) => {
            let stream = EncodedStream::Chat(stream);
            let body = ReplyBody::stream(stream, core.unwrap_or(&CoreRegistry::default()));
            success_response(Face::Chat, true, body)
        }
        AssistantContent::Rejected(rejection) => {
            reject_chat(&rejection, id, language.unwrap_or_else(fallback))
        }
    };
    response_headers::write_headers(response.headers_mut(), Face::Chat, &metadata, id);
    response
}

/// Whether the caller accepts server-sent events rather than one JSON document.
fn accepts_event_stream(headers: &HeaderMap) -> bool {
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
