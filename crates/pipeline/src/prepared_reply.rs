//! Prepared replies, for routes that prefer an apology over an error.

use crate::dialect::UnstreamedAnswer;
use crate::plan::PlannedRequest;
use crate::receive::format_request_id;
use crate::reply::{Rejection, ReplyContent};
use seawall_core::failure::FaultOrigin;
use seawall_core::money::Usage;
use seawall_core::runtime::Runtime;
use seawall_wire::chat::{AnswerPart, ChatAnswer, ChatEvent, FinishReason};
use seawall_wire::dialect::ModelOperation;
use seawall_wire::reply::{AnswerContent, ParsedAnswer, ReplyEncoder, ReplyEvent, ReplyIdentity};
use std::time::Duration;

/// Whether a prepared reply may replace this rejection. Not if the caller has to fix its request or slow down.
pub(crate) const fn may_replace(rejection: &Rejection) -> bool {
    match rejection {
        Rejection::BudgetExhausted { .. }
        | Rejection::BudgetHeld { .. }
        | Rejection::SwitchedOff
        | Rejection::Unavailable { .. } => true,
        Rejection::UpstreamFailed { failure, .. } => !matches!(failure.kind.origin(), FaultOrigin::Caller),
        _ => false,
    }
}

/// A text as an answer of the requested model.
pub(crate) fn prepared_reply<R: Runtime>(planned: &PlannedRequest, text: &str) -> Option<ReplyContent<R>> {
    let request = &planned.request;
    let dialect = request.parsed.face().dialect()?;
    let is_generated = request.parsed.operation() == ModelOperation::Generate;
    if !is_generated || request.parsed.opaque_answers().is_some() {
        // A text is no answer to another operation, nor to a model whose response format is unknown.
        return None;
    }
    let identity = ReplyIdentity {
        id: format_request_id(request.id).to_string(),
        model: request.parsed.model().to_owned(),
        created: request.received.utc.as_nanos() / 1_000_000_000,
        elapsed: Duration::ZERO,
    };
    let (id, model) = (identity.id.clone(), identity.model.clone());
    let (text, finish, usage) = (text.to_owned(), FinishReason::EndTurn, Usage::default());
    if request.parsed.stream() {
        let started = ChatEvent::Started { id, model, usage };
        let events = [started, ChatEvent::Text(text), ChatEvent::Usage(usage), ChatEvent::Finished(finish)];
        let encoder = ReplyEncoder::typed(dialect, identity, request.parsed.wants_usage());
        let events = events.into_iter().map(ReplyEvent::Chat).collect();
        return Some(ReplyContent::CompleteStream(events, encoder));
    }
    let answer = ChatAnswer { id, model, parts: vec![AnswerPart::Text(text)], finish, usage };
    Some(ReplyContent::Unstreamed(UnstreamedAnswer {
        usage,
        output_reported: true,
        finish,
        content: AnswerContent::Parsed(Box::new(ParsedAnswer { answer, identity })),
        headers: dialect.answer_headers(usage, Duration::ZERO),
    }))
}
