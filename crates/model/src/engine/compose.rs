//! Builds scripts for answers and errors.

use super::answer_writer::{self, AnswerWriter, NO_USAGE};
use super::call::ModelCall;
use super::chance::Dice;
use super::choices::ChoiceOptions;
use super::fault::Fault;
use super::profile::Profile;
use super::reference::ReferencedInput;
use super::schema_value::satisfy;
use super::script::{Script, ScriptAction, ScriptEnding, ScriptHead, ScriptStep};
use super::tokens::{count_tokens, tokens};
use super::{text, tool};
use bytes::{Bytes, BytesMut};
use seawall_core::money::UsageExtras;
use seawall_wire::ApiErrorKind;
use seawall_wire::chat::{
    AnswerPart, ChatAnswer, ChatEvent, ChatRequest, FinishReason, OutputFormat, RequestPart, Role, ToolCall,
    Usage,
};
use serde_json::json;
use std::time::Duration;

/// Small enough that chunks arrive visibly one by one; as many as vendors send at once.
const TOKENS_PER_CHUNK: usize = 4;
/// Maximum output of a request without an output limit.
const DEFAULT_MAX_OUTPUT: u32 = 4_096;

pub(super) struct ParsedRequest<'a> {
    pub(super) profile: &'static Profile,
    pub(super) call: &'a ModelCall,
    pub(super) request: &'a ChatRequest,
    pub(super) body: &'a [u8],
    pub(super) request_id: &'a str,
    pub(super) referenced: ReferencedInput,
    /// Tokens at the start of the prompt that are in the prompt cache.
    pub(super) cached: u64,
}

/// One event of an answer, with its time and charge.
pub(super) struct TimedEvent {
    pub(super) at: Duration,
    pub(super) charge: Usage,
    pub(super) event: ChatEvent,
}

/// The answer, independent of the dialect.
pub(super) struct ComposedAnswer {
    pub(super) events: Vec<TimedEvent>,
    /// The usage that the answer reports.
    pub(super) reported_usage: Usage,
    pub(super) ends_at: Duration,
    /// The tool call that replaces the text, if any.
    tool: Option<ToolCall>,
}

/// What an answer consists of.
pub(super) enum ComposedContent {
    Text(String),
    ToolCall(ToolCall),
}

impl ComposedContent {
    /// The content that a rule of the schedule sets, if it sets one.
    pub(super) fn scripted(fault: &Fault) -> Option<Self> {
        match fault {
            Fault::ToolCall { tool, input } => tool::call(tool, input.clone()).map(Self::ToolCall),
            Fault::Text { text } => Some(Self::Text(text.clone())),
            _ => None,
        }
    }

    /// The content that the simulator makes up.
    pub(super) fn generated(request: &ChatRequest, mut dice: Dice) -> Self {
        if let Some(call) = tool::forced_call(request) {
            return Self::ToolCall(call);
        }
        let question = last_question(request);
        Self::Text(match &request.settings.output_format {
            OutputFormat::Text => text::generate(question, &mut dice),
            OutputFormat::Json => json!({ "answer": text::generate(question, &mut dice) }).to_string(),
            OutputFormat::Schema(schema) => {
                let schema = serde_json::from_str(schema.schema.get()).unwrap_or_default();
                satisfy(&schema, question).to_string()
            }
        })
    }
}

/// Composes the answer without any fault.
pub(super) fn answer(parsed: &ParsedRequest<'_>, content: ComposedContent) -> ComposedAnswer {
    let profile = parsed.profile;
    let ReferencedInput { tokens: referenced_tokens, tool_uses, .. } = parsed.referenced;
    let read: u64 = texts(parsed.request).map(count_tokens).sum();
    // Each use of a server tool processes the whole input once more.
    let input = read.saturating_add(referenced_tokens).saturating_mul(tool_uses.saturating_add(1));
    let extras = UsageExtras { tool_uses, ..UsageExtras::NONE };
    let max_tokens =
        usize::try_from(parsed.request.max_output.unwrap_or(DEFAULT_MAX_OUTPUT)).unwrap_or(usize::MAX);
    let begins_at = profile.first_token / 2;
    let cache_read = parsed.cached.min(input);
    let input = input - cache_read;
    let opening = Usage { input, cache_read, extras, ..NO_USAGE };
    let kind = parsed.call.dialect.answer_id_prefix();
    let id = format!("{kind}{}", parsed.request_id.trim_start_matches("req_"));
    let started = ChatEvent::Started { id, model: parsed.request.model.clone(), usage: opening };
    let mut events = vec![TimedEvent { at: begins_at, charge: opening, event: started }];
    let (generated, tool) = match content {
        ComposedContent::Text(text) => (text, None),
        ComposedContent::ToolCall(call) => (call.input.get().to_owned(), Some(call)),
    };
    // The same text in each choice; all of them are billed.
    let choices = u64::from(parsed.request.settings.choices.unwrap_or(1));
    let kept: Vec<&str> = tokens(&generated).take(max_tokens).collect();
    let is_cut = kept.iter().map(|token| token.len()).sum::<usize>() < generated.len();
    if let Some(ToolCall { id, name, .. }) = &tool {
        let event = ChatEvent::ToolCallStarted { id: id.clone(), name: name.clone() };
        events.push(TimedEvent { at: profile.token_at(0), charge: NO_USAGE, event });
    }
    for (number, chunk) in (0..).step_by(TOKENS_PER_CHUNK).zip(kept.chunks(TOKENS_PER_CHUNK)) {
        let text = chunk.concat();
        let event = if tool.is_some() { ChatEvent::ToolInput(text) } else { ChatEvent::Text(text) };
        let charge = Usage { output: (chunk.len() as u64).saturating_mul(choices), ..NO_USAGE };
        events.push(TimedEvent { at: profile.token_at(number), charge, event });
    }
    let finish = match &tool {
        _ if is_cut => FinishReason::MaxTokens,
        Some(_) => FinishReason::ToolUse,
        None => FinishReason::EndTurn,
    };
    let output = (kept.len() as u64).saturating_mul(choices);
    let reported_usage = Usage { input, cache_read, output, extras, ..NO_USAGE };
    let ends_at = profile.token_at(kept.len() as u64);
    events.push(TimedEvent { at: ends_at, charge: NO_USAGE, event: ChatEvent::Finished(finish) });
    ComposedAnswer { events, reported_usage, ends_at, tool }
}

/// The script of a streamed answer.
pub(super) fn stream(parsed: &ParsedRequest<'_>, composed: &ComposedAnswer) -> Script {
    let mut writer = AnswerWriter::new(parsed.call, parsed.request.stream_usage);
    let options = ChoiceOptions::of(&parsed.request.settings);
    let mut written = BytesMut::new();
    let mut write = |out: &mut BytesMut, event: &ChatEvent, at| match options {
        None => writer.write(out, event, at),
        Some(options) => {
            let mut chunks = BytesMut::new();
            writer.write(&mut chunks, event, at);
            options.complete_chunks(&chunks, out);
        }
    };
    let mut marks = Vec::with_capacity(composed.events.len());
    let (mut end, mut unsent) = (0, NO_USAGE);
    for TimedEvent { at, charge, event } in &composed.events {
        if matches!(event, ChatEvent::Finished(_)) {
            write(&mut written, &ChatEvent::Usage(composed.reported_usage), *at);
        }
        write(&mut written, event, *at);
        let charge = total([unsent, *charge].iter());
        // An event that writes nothing is charged with the next chunk.
        if written.len() == end {
            unsent = charge;
        } else {
            (end, unsent) = (written.len(), NO_USAGE);
            marks.push((*at, charge, end));
        }
    }
    let begins_at = composed.events.first().map_or(Duration::ZERO, |chunk| chunk.at);
    let head = ScriptStep {
        at: begins_at,
        action: ScriptAction::Head(AnswerWriter::head(parsed.call, parsed.request_id)),
        charge: NO_USAGE,
    };
    // One buffer; each step holds a slice of it.
    let mut written = written.freeze();
    let mut start = 0;
    let bodies = marks.into_iter().map(move |(at, charge, end)| {
        let chunk = written.split_to(end - start);
        start = end;
        ScriptStep { at, action: ScriptAction::Body(chunk), charge }
    });
    let steps = [head].into_iter().chain(bodies).collect();
    Script { profile: Some(parsed.profile), steps, ending: ScriptEnding::Complete, fault: None }
}

/// The script of an answer in a single body.
pub(super) fn whole(parsed: &ParsedRequest<'_>, composed: &ComposedAnswer) -> Script {
    let mut answer = ChatAnswer {
        id: String::new(),
        model: parsed.request.model.clone(),
        parts: Vec::new(),
        finish: FinishReason::EndTurn,
        usage: composed.reported_usage,
    };
    for TimedEvent { event, .. } in &composed.events {
        match (event, answer.parts.last_mut()) {
            (ChatEvent::Started { id, .. }, _) => answer.id.clone_from(id),
            (ChatEvent::Finished(finish), _) => answer.finish = *finish,
            (ChatEvent::Text(more), Some(AnswerPart::Text(text))) => text.push_str(more),
            (ChatEvent::Text(text), _) => answer.parts.push(AnswerPart::Text(text.clone())),
            _ => {}
        }
    }
    answer.parts.extend(composed.tool.clone().map(AnswerPart::ToolCall));
    let (head, body) =
        answer_writer::whole(parsed.call, &answer, parsed.body, parsed.request_id, composed.ends_at);
    let body = match ChoiceOptions::of(&parsed.request.settings) {
        Some(options) => options.complete(&body),
        None => body,
    };
    let mut script = single_body(head, body, Some(parsed.profile));
    script.steps.iter_mut().for_each(|step| step.at = composed.ends_at);
    if let Some(body) = script.steps.last_mut() {
        // The charge is the model's true usage, whatever the answer reports.
        body.charge = charge_of(composed);
    }
    script
}

/// The script of a token-counting response.
pub(super) fn count(parsed: &ParsedRequest<'_>) -> Script {
    let input = texts(parsed.request).map(count_tokens).sum();
    let (head, body) = answer_writer::count(parsed.call, input, parsed.request_id);
    single_body(head, body, Some(parsed.profile))
}

/// The script of an error of this kind.
pub(super) fn error_of_kind(
    call: &ModelCall,
    error_kind: ApiErrorKind,
    message: &str,
    request_id: &str,
) -> Script {
    let (head, body) = answer_writer::error_of_kind(call, error_kind, message, request_id);
    single_body(head, body, None)
}

/// The script of an error with this status.
pub(super) fn error(parsed: &ParsedRequest<'_>, status: u16, name: Option<&str>) -> Script {
    let (head, body) = answer_writer::error(parsed.call, status, name, parsed.request_id);
    single_body(head, body, Some(parsed.profile))
}

pub(super) fn single_body(mut head: ScriptHead, body: Bytes, profile: Option<&'static Profile>) -> Script {
    head.length = Some(body.len());
    let step = |action| ScriptStep { at: Duration::ZERO, action, charge: NO_USAGE };
    let steps = vec![step(ScriptAction::Head(head)), step(ScriptAction::Body(body))];
    Script { profile, steps, ending: ScriptEnding::Complete, fault: None }
}

fn charge_of(composed: &ComposedAnswer) -> Usage {
    total(composed.events.iter().map(|chunk| &chunk.charge))
}

fn total<'a>(charges: impl Iterator<Item = &'a Usage>) -> Usage {
    charges.fold(NO_USAGE, |sum, charge| {
        let tool_uses = sum.extras.tool_uses.saturating_add(charge.extras.tool_uses);
        let extras = UsageExtras { tool_uses, ..UsageExtras::NONE };
        let (input, output) =
            (sum.input.saturating_add(charge.input), sum.output.saturating_add(charge.output));
        let cache_read = sum.cache_read.saturating_add(charge.cache_read);
        Usage { input, cache_read, output, extras, ..NO_USAGE }
    })
}

/// All texts of a request, over which its tokens are counted.
pub(super) fn texts(request: &ChatRequest) -> impl Iterator<Item = &str> {
    let system = request.system.iter().map(String::as_str);
    let parts = request.turns.iter().flat_map(|turn| &turn.parts);
    system.chain(parts.flat_map(|part| -> Box<dyn Iterator<Item = &str>> {
        match part {
            RequestPart::Text(text) => Box::new(std::iter::once(text.as_str())),
            RequestPart::ToolCall(call) => Box::new(std::iter::once(call.input.get())),
            RequestPart::ToolResult { parts, .. } => Box::new(parts.iter().filter_map(text_of)),
            RequestPart::Image(_) | RequestPart::Document(_) => Box::new(std::iter::empty()),
        }
    }))
}

fn text_of(part: &RequestPart) -> Option<&str> {
    if let RequestPart::Text(text) = part { Some(text) } else { None }
}

/// The last text of the user.
pub(super) fn last_question(request: &ChatRequest) -> &str {
    let users = request.turns.iter().rev().filter(|turn| turn.role == Role::User);
    users.flat_map(|turn| turn.parts.iter().rev()).find_map(text_of).unwrap_or_default()
}
