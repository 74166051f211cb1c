//! Answers and refusals as scripts.

use super::chance::Dice;
use super::profile::Profile;
use super::script::{Act, Ending, Head, Script, Step};
use super::speech;
use super::tokens::{count_tokens, tokens};
use bytes::{Bytes, BytesMut};
use seawall_wire::Refusal;
use seawall_wire::anthropic::{
    Answer, AnswerStart, ErrorReply, RequestHead, RequestText, status_of, write_answer, write_block_start,
    write_block_stop, write_error, write_message_delta, write_message_start, write_message_stop,
    write_text_delta,
};
use seawall_wire::chat::{FinishReason, Usage};
use std::time::Duration;

/// Few enough to be seen arriving, as many as vendors send at once.
const TOKENS_PER_EVENT: usize = 4;
const FREE: Usage = Usage { input: 0, cache_read: 0, cache_write: 0, output: 0 };

/// A request that was understood.
pub(super) struct Turn<'a> {
    pub(super) profile: &'static Profile,
    pub(super) head: &'a RequestHead,
    pub(super) text: &'a RequestText,
    pub(super) request_id: &'a str,
}

/// The script of an answer without any fault.
pub(super) fn answer(turn: &Turn<'_>, mut dice: Dice) -> Script {
    let id = format!("msg_{}", turn.request_id.trim_start_matches("req_"));
    let said = speech::reply(turn.text.last_user_text(), &mut dice);
    let most = usize::try_from(turn.head.max_output).unwrap_or(usize::MAX);
    let kept: Vec<&str> = tokens(&said).take(most).collect();
    let is_cut = kept.iter().map(|token| token.len()).sum::<usize>() < said.len();
    let finish = if is_cut { FinishReason::MaxTokens } else { FinishReason::EndTurn };
    let input = turn.text.all().map(count_tokens).sum();
    let usage = Usage { input, output: kept.len() as u64, ..FREE };
    let start = AnswerStart { id: &id, model: turn.profile.name, usage };
    if turn.head.stream { stream(turn, &start, &kept, finish) } else { whole(turn, &start, &kept, finish) }
}

fn whole(turn: &Turn<'_>, start: &AnswerStart<'_>, kept: &[&str], finish: FinishReason) -> Script {
    let mut body = BytesMut::new();
    write_answer(&mut body, &Answer { start: *start, text: &kept.concat(), finish });
    let at = turn.profile.token_at(start.usage.output);
    let mut script = plain(200, body.freeze(), turn.request_id, Some(turn.profile));
    script.steps.iter_mut().for_each(|step| step.at = at);
    if let Some(body) = script.steps.last_mut() {
        body.charge = start.usage;
    }
    script
}

fn stream(turn: &Turn<'_>, start: &AnswerStart<'_>, kept: &[&str], finish: FinishReason) -> Script {
    let mut events = Events::default();
    let begins_at = turn.profile.first_token / 2;
    let opening = AnswerStart { usage: Usage { output: 0, ..start.usage }, ..*start };
    events.push(begins_at, opening.usage, |out| write_message_start(out, &opening));
    events.push(begins_at, FREE, |out| write_block_start(out, 0));
    for (number, piece) in (0..).step_by(TOKENS_PER_EVENT).zip(kept.chunks(TOKENS_PER_EVENT)) {
        let charge = Usage { output: piece.len() as u64, ..FREE };
        events.push(turn.profile.token_at(number), charge, |out| write_text_delta(out, 0, &piece.concat()));
    }
    let ends_at = turn.profile.token_at(start.usage.output);
    events.push(ends_at, FREE, |out| write_block_stop(out, 0));
    events.push(ends_at, FREE, |out| write_message_delta(out, finish, start.usage));
    events.push(ends_at, FREE, write_message_stop);
    let head = Head {
        status: 200,
        content_type: "text/event-stream",
        length: None,
        retry_after: None,
        request_id: turn.request_id.to_owned(),
    };
    let head = Step { at: begins_at, act: Act::Head(head), charge: FREE };
    let steps = [head].into_iter().chain(events.steps()).collect();
    Script { profile: Some(turn.profile), steps, ending: Ending::Complete }
}

/// The script of a refusal.
pub(super) fn refusal(
    refusal: Refusal,
    message: &str,
    request_id: &str,
    profile: Option<&'static Profile>,
) -> Script {
    error(status_of(refusal), &ErrorReply::new(refusal, message, Some(request_id)), request_id, profile)
}

/// The script of an error with a status of its own.
pub(super) fn error(
    status: u16,
    reply: &ErrorReply<'_>,
    request_id: &str,
    profile: Option<&'static Profile>,
) -> Script {
    let mut body = BytesMut::new();
    write_error(&mut body, reply);
    plain(status, body.freeze(), request_id, profile)
}

fn plain(status: u16, body: Bytes, request_id: &str, profile: Option<&'static Profile>) -> Script {
    let head = Head {
        status,
        content_type: "application/json",
        length: Some(body.len()),
        retry_after: None,
        request_id: request_id.to_owned(),
    };
    let step = |act| Step { at: Duration::ZERO, act, charge: FREE };
    Script { profile, steps: vec![step(Act::Head(head)), step(Act::Body(body))], ending: Ending::Complete }
}

/// Events written behind each other, so that a stream is one piece of memory.
#[derive(Default)]
struct Events {
    written: BytesMut,
    marks: Vec<Mark>,
}

struct Mark {
    at: Duration,
    charge: Usage,
    end: usize,
}

impl Events {
    fn push(&mut self, at: Duration, charge: Usage, write: impl FnOnce(&mut BytesMut)) {
        write(&mut self.written);
        self.marks.push(Mark { at, charge, end: self.written.len() });
    }

    fn steps(self) -> impl Iterator<Item = Step> {
        let mut written = self.written.freeze();
        let mut start = 0;
        self.marks.into_iter().map(move |Mark { at, charge, end }| {
            let event = written.split_to(end - start);
            start = end;
            Step { at, act: Act::Body(event), charge }
        })
    }
}
