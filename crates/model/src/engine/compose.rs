//! Builds scripts for answers and refusals.

use super::call::ModelCall;
use super::chance::Dice;
use super::profile::Profile;
use super::reference::Referenced;
use super::script::{Act, Ending, Head, Script, Step};
use super::speaker::{self, FREE, Speaker};
use super::tokens::{count_tokens, tokens};
use super::{speech, tool};
use bytes::{Bytes, BytesMut};
use seawall_core::money::UsageExtras;
use seawall_wire::chat::{
    AnswerPart, ChatAnswer, ChatEvent, ChatRequest, FinishReason, Part, Role, ToolCall, Usage,
};
use seawall_wire::{Dialect, Refusal};
use std::time::Duration;

/// Small enough that chunks arrive visibly one by one; as many as vendors send at once.
const TOKENS_PER_PIECE: usize = 4;
/// Maximum output of a request without an output limit.
const USUAL_OUTPUT: u32 = 4_096;

/// A parsed request.
pub(super) struct Turn<'a> {
    pub(super) profile: &'static Profile,
    pub(super) call: &'a ModelCall,
    pub(super) request: &'a ChatRequest,
    pub(super) request_id: &'a str,
    pub(super) referenced: Referenced,
}

/// One event of an answer, with its time and charge.
pub(super) struct Piece {
    pub(super) at: Duration,
    pub(super) charge: Usage,
    pub(super) event: ChatEvent,
}

/// The answer, independent of the dialect.
pub(super) struct Speech {
    pub(super) pieces: Vec<Piece>,
    /// The usage that the answer reports.
    pub(super) told: Usage,
    pub(super) ends_at: Duration,
    /// The tool call that replaces the text, if any.
    tool: Option<ToolCall>,
}

/// Composes the answer without any fault.
pub(super) fn speech(turn: &Turn<'_>, mut dice: Dice) -> Speech {
    let profile = turn.profile;
    let Referenced { tokens: named, tool_uses, .. } = turn.referenced;
    let read: u64 = texts(turn.request).map(count_tokens).sum();
    // Each use of a server tool processes the whole input once more.
    let input = read.saturating_add(named).saturating_mul(tool_uses.saturating_add(1));
    let extras = UsageExtras { tool_uses, ..UsageExtras::NONE };
    let most = usize::try_from(turn.request.max_output.unwrap_or(USUAL_OUTPUT)).unwrap_or(usize::MAX);
    let begins_at = profile.first_token / 2;
    let opening = Usage { input, extras, ..FREE };
    let kind = if turn.call.dialect() == Dialect::OpenAi { "chatcmpl-" } else { "msg_" };
    let id = format!("{kind}{}", turn.request_id.trim_start_matches("req_"));
    let started = ChatEvent::Started { id, model: turn.request.model.clone(), usage: opening };
    let mut pieces = vec![Piece { at: begins_at, charge: opening, event: started }];
    let tool = tool::wanted(turn.request);
    let said = match &tool {
        Some(call) => call.input.get().to_owned(),
        None => speech::reply(last_question(turn.request), &mut dice),
    };
    let kept: Vec<&str> = tokens(&said).take(most).collect();
    let is_cut = kept.iter().map(|token| token.len()).sum::<usize>() < said.len();
    if let Some(ToolCall { id, name, .. }) = &tool {
        let event = ChatEvent::ToolCallStarted { id: id.clone(), name: name.clone() };
        pieces.push(Piece { at: profile.token_at(0), charge: FREE, event });
    }
    for (number, piece) in (0..).step_by(TOKENS_PER_PIECE).zip(kept.chunks(TOKENS_PER_PIECE)) {
        let text = piece.concat();
        let event = if tool.is_some() { ChatEvent::ToolInput(text) } else { ChatEvent::Text(text) };
        let charge = Usage { output: piece.len() as u64, ..FREE };
        pieces.push(Piece { at: profile.token_at(number), charge, event });
    }
    let finish = match &tool {
        _ if is_cut => FinishReason::MaxTokens,
        Some(_) => FinishReason::ToolUse,
        None => FinishReason::EndTurn,
    };
    let told = Usage { input, output: kept.len() as u64, extras, ..FREE };
    let ends_at = profile.token_at(told.output);
    pieces.push(Piece { at: ends_at, charge: FREE, event: ChatEvent::Finished(finish) });
    Speech { pieces, told, ends_at, tool }
}

/// The script of a streamed answer.
pub(super) fn stream(turn: &Turn<'_>, speech: &Speech) -> Script {
    let mut speaker = Speaker::new(turn.call, turn.request.stream_usage);
    let mut written = BytesMut::new();
    let mut marks = Vec::with_capacity(speech.pieces.len());
    for Piece { at, charge, event } in &speech.pieces {
        if matches!(event, ChatEvent::Finished(_)) {
            speaker.write(&mut written, &ChatEvent::Usage(speech.told), *at);
        }
        speaker.write(&mut written, event, *at);
        marks.push((*at, *charge, written.len()));
    }
    let begins_at = speech.pieces.first().map_or(Duration::ZERO, |piece| piece.at);
    let head =
        Step { at: begins_at, act: Act::Head(Speaker::head(turn.call, turn.request_id)), charge: FREE };
    // One buffer; each step holds a slice of it.
    let mut written = written.freeze();
    let mut start = 0;
    let bodies = marks.into_iter().map(move |(at, charge, end)| {
        let piece = written.split_to(end - start);
        start = end;
        Step { at, act: Act::Body(piece), charge }
    });
    let steps = [head].into_iter().chain(bodies).collect();
    Script { profile: Some(turn.profile), steps, ending: Ending::Complete, fault: None }
}

/// The script of an answer in a single body.
pub(super) fn whole(turn: &Turn<'_>, speech: &Speech) -> Script {
    let mut answer = ChatAnswer {
        id: String::new(),
        model: turn.request.model.clone(),
        parts: Vec::new(),
        finish: FinishReason::EndTurn,
        usage: speech.told,
    };
    for Piece { event, .. } in &speech.pieces {
        match (event, answer.parts.last_mut()) {
            (ChatEvent::Started { id, .. }, _) => answer.id.clone_from(id),
            (ChatEvent::Finished(finish), _) => answer.finish = *finish,
            (ChatEvent::Text(more), Some(AnswerPart::Text(text))) => text.push_str(more),
            (ChatEvent::Text(text), _) => answer.parts.push(AnswerPart::Text(text.clone())),
            _ => {}
        }
    }
    answer.parts.extend(speech.tool.clone().map(AnswerPart::ToolCall));
    let (head, body) = speaker::whole(turn.call, &answer, turn.request_id, speech.ends_at);
    let mut script = plain(head, body, Some(turn.profile));
    script.steps.iter_mut().for_each(|step| step.at = speech.ends_at);
    if let Some(body) = script.steps.last_mut() {
        // The charge is the model's true usage, whatever the answer reports.
        body.charge = charge_of(speech);
    }
    script
}

/// The script of a token-counting response.
pub(super) fn count(turn: &Turn<'_>) -> Script {
    let input = texts(turn.request).map(count_tokens).sum();
    let (head, body) = speaker::count(turn.call, input, turn.request_id);
    plain(head, body, Some(turn.profile))
}

/// The script of a refusal.
pub(super) fn refusal(call: &ModelCall, refusal: Refusal, message: &str, request_id: &str) -> Script {
    let (head, body) = speaker::refusal(call, refusal, message, request_id);
    plain(head, body, None)
}

/// The script of an error with this status.
pub(super) fn error(turn: &Turn<'_>, status: u16, name: Option<&str>) -> Script {
    let (head, body) = speaker::error(turn.call, status, name, turn.request_id);
    plain(head, body, Some(turn.profile))
}

pub(super) fn plain(mut head: Head, body: Bytes, profile: Option<&'static Profile>) -> Script {
    head.length = Some(body.len());
    let step = |act| Step { at: Duration::ZERO, act, charge: FREE };
    let steps = vec![step(Act::Head(head)), step(Act::Body(body))];
    Script { profile, steps, ending: Ending::Complete, fault: None }
}

fn charge_of(speech: &Speech) -> Usage {
    let sum = |part: fn(&Usage) -> u64| speech.pieces.iter().map(|piece| part(&piece.charge)).sum();
    let tool_uses = sum(|usage| usage.extras.tool_uses);
    let extras = UsageExtras { tool_uses, ..UsageExtras::NONE };
    Usage { input: sum(|usage| usage.input), output: sum(|usage| usage.output), extras, ..FREE }
}

/// All texts of a request, over which its tokens are counted.
pub(super) fn texts(request: &ChatRequest) -> impl Iterator<Item = &str> {
    let system = request.system.iter().map(String::as_str);
    let parts = request.turns.iter().flat_map(|turn| &turn.parts);
    system.chain(parts.flat_map(|part| -> Box<dyn Iterator<Item = &str>> {
        match part {
            Part::Text(text) => Box::new(std::iter::once(text.as_str())),
            Part::ToolCall(call) => Box::new(std::iter::once(call.input.get())),
            Part::ToolResult { parts, .. } => Box::new(parts.iter().filter_map(text_of)),
            Part::Image(_) => Box::new(std::iter::empty()),
        }
    }))
}

fn text_of(part: &Part) -> Option<&str> {
    if let Part::Text(text) = part { Some(text) } else { None }
}

/// The last text of the user.
pub(super) fn last_question(request: &ChatRequest) -> &str {
    let users = request.turns.iter().rev().filter(|turn| turn.role == Role::User);
    users.flat_map(|turn| turn.parts.iter().rev()).find_map(text_of).unwrap_or_default()
}
