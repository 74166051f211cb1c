//! Prepared replies in a vendor's dialect, for routes that prefer an apology over an error.

use crate::dialect::{AnswerDefaults, DialectStream, UnstreamedAnswer};
use crate::plan::PlannedRequest;
use crate::receive::format_request_id;
use crate::reply::{Rejection, ReplyContent};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::FaultOrigin;
use seawall_core::money::Usage;
use seawall_core::runtime::Runtime;
use seawall_wire::anthropic::{
    AnswerStart, TextAnswer, write_answer, write_block_start, write_block_stop, write_message_delta,
    write_message_start, write_message_stop, write_text_delta,
};
use seawall_wire::chat::FinishReason;
use seawall_wire::dialect::{DialectId, ModelOperation};
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

/// Renders a text as an answer in the caller's dialect. It is written as one vendor's response and then translated like
/// any other answer.
pub(crate) fn prepared_reply<R: Runtime>(planned: &PlannedRequest, text: &str) -> Option<ReplyContent<R>> {
    let request = &planned.request;
    let is_generated = request.parsed.operation() == ModelOperation::Generate;
    if !is_generated || request.parsed.opaque_answers().is_some() {
        // A text is no answer to another operation, nor to a model whose response format is unknown.
        return None;
    }
    let id = format_request_id(request.id);
    let start = AnswerStart { id: &id, model: &planned.route.alias, usage: Usage::default() };
    let defaults = AnswerDefaults {
        id: &id,
        created: request.received.utc.as_nanos() / 1_000_000_000,
        elapsed: Duration::ZERO,
    };
    let mut out = BytesMut::new();
    if !request.parsed.stream() {
        write_answer(&mut out, &TextAnswer { start, text, finish: FinishReason::EndTurn });
        let answer = UnstreamedAnswer::read(
            &request.parsed,
            DialectId::ANTHROPIC_MESSAGES,
            out.freeze(),
            None,
            &defaults,
        );
        return answer.ok().map(ReplyContent::Unstreamed);
    }
    write_message_start(&mut out, &start);
    write_block_start(&mut out, 0);
    write_text_delta(&mut out, 0, text);
    write_block_stop(&mut out, 0);
    write_message_delta(&mut out, FinishReason::EndTurn, Usage::default());
    write_message_stop(&mut out);
    let mut stream = DialectStream::new(&request.parsed, DialectId::ANTHROPIC_MESSAGES, &defaults);
    let mut events = BytesMut::new();
    let mut into = |bytes: Bytes| events.extend_from_slice(&bytes);
    stream.feed(&out.freeze(), &mut into, &mut |_| {}).ok()?;
    stream.end(&mut into, &mut |_| {});
    stream.is_finished().then(|| ReplyContent::CompleteStream(events.freeze()))
}
