//! Applies a fault to an answer.

use super::super::chance::Dice;
use super::super::compose::{self, Piece, Speech, Turn};
use super::super::script::{Act, Ending, Head, Script, Step};
use super::super::speaker::{self, FREE};
use super::super::tokens::count_tokens;
use super::Fault;
use super::figures::{OUTPUT, USAGE, garble_frames, with_figures};
use bytes::{Bytes, BytesMut};
use seawall_wire::Dialect;
use seawall_wire::chat::{ChatEvent, FinishReason, Usage};
use std::time::Duration;

const PAGE: &str = "<!doctype html><title>502</title><h1>Bad gateway, says the simulated proxy</h1>\n";
/// Maximum number of thinking chunks; longer thinking shows nothing towards its end.
const MAX_THOUGHTS: u32 = 10_000;
/// The period of a quota.
const MINUTE: Duration = Duration::from_secs(60);

/// The script of an answer without a fault.
pub(in super::super) fn played(turn: &Turn<'_>, speech: &Speech) -> Script {
    if turn.request.stream { compose::stream(turn, speech) } else { compose::whole(turn, speech) }
}

impl Fault {
    /// The script of an answer with this fault; `at` is the arrival time of the request.
    pub(in super::super) fn spoil(
        &self,
        turn: &Turn<'_>,
        mut speech: Speech,
        mut dice: Dice,
        at: Duration,
    ) -> Script {
        match self {
            Self::Status { status, retry_after, error } => {
                refused(turn, *status, error.as_deref(), *retry_after)
            }
            Self::Capacity { retry_after, .. } => refused(turn, 429, None, *retry_after),
            Self::Quota { .. } => {
                let into_minute =
                    Duration::from_nanos(u64::try_from(at.as_nanos() % MINUTE.as_nanos()).unwrap_or(0));
                refused(turn, 429, None, Some(MINUTE - into_minute))
            }
            Self::Slow { by } => later(played(turn, &speech), *by),
            Self::Latency { median, p99 } => later(played(turn, &speech), drawn(*median, *p99, &mut dice)),
            Self::Thinking { takes, every } => played(turn, &thinking(speech, *takes, *every)),
            Self::Drip { every } => {
                let first = speech.pieces.first().map_or(Duration::ZERO, |piece| piece.at);
                for (number, piece) in (0..).zip(&mut speech.pieces) {
                    piece.at = first.saturating_add(every.saturating_mul(number));
                    speech.ends_at = piece.at;
                }
                played(turn, &speech)
            }
            Self::Usage { percent } => misreported(turn, speech, *percent),
            Self::Overlong { tokens, at_once } => overlong(turn, speech, *tokens, *at_once),
            Self::Claim { input, output } => {
                speech.told.input = input.unwrap_or(speech.told.input);
                speech.told.output = output.unwrap_or(speech.told.output);
                if let Some(Piece { event: ChatEvent::Started { usage, .. }, .. }) = speech.pieces.first_mut()
                {
                    usage.input = speech.told.input;
                }
                played(turn, &speech)
            }
            Self::PartialUsage => partial_usage(turn, speech),
            Self::GarbledUsage { figure } => garbled_usage(turn, &speech, figure),
            Self::Declined { after } => declined(turn, speech, *after),
            Self::Html => page(turn),
            Self::Reset => nothing(turn, Ending::Reset),
            Self::Error { after } if *after == 0 || !turn.request.stream => {
                let status = if turn.call.dialect() == Dialect::Anthropic { 529 } else { 503 };
                refused(turn, status, None, None)
            }
            Self::Error { after } => failing(turn, speech, *after),
            Self::Endless { every } => endless(turn, speech, *every),
            Self::Cut { after, after_bytes, after_tokens, reset } => {
                let ending = if *reset { Ending::Reset } else { Ending::Close };
                let mut script = played(turn, &speech);
                match (after_bytes, after_tokens) {
                    (Some(bytes), _) => stop_after_bytes(&mut script, *bytes, ending),
                    (None, Some(tokens)) => stop(&mut script, pieces_of(&speech, *tokens), ending),
                    (None, None) => stop(&mut script, after.unwrap_or(0), ending),
                }
                script
            }
            Self::EndEarly { after } => stopped(played(turn, &speech), *after, Ending::Early),
            Self::Hang { after } => stopped(played(turn, &speech), *after, Ending::Hang),
            Self::Truncate { after } => truncated(played(turn, &speech), *after),
            Self::Malformed { after } => malformed(played(turn, &speech), *after, turn.request.stream),
        }
    }
}

fn refused(turn: &Turn<'_>, status: u16, name: Option<&str>, retry_after: Option<Duration>) -> Script {
    let mut script = compose::error(turn, status, name);
    if let Some(head) = head_of(&mut script) {
        head.retry_after = retry_after;
    }
    script
}

fn head_of(script: &mut Script) -> Option<&mut Head> {
    match script.steps.first_mut() {
        Some(Step { act: Act::Head(head), .. }) => Some(head),
        _ => None,
    }
}

fn later(mut script: Script, by: Duration) -> Script {
    script.steps.iter_mut().for_each(|step| step.at = step.at.saturating_add(by));
    script
}

/// Draws a delay from the log-normal distribution with this median and 99th percentile; latencies of real services are
/// log-normal.
fn drawn(median: Duration, p99: Duration, dice: &mut Dice) -> Duration {
    /// The 99th percentile of the standard normal distribution.
    const P99: f64 = 2.326;
    let even = |dice: &mut Dice| dice.roll().below(1 << 32) as f64 / f64::from(1_u32 << 31) / 2.0;
    // The sum of twelve uniform draws approximates a normal distribution well enough, and is identical on every
    // machine.
    let normal: f64 = (0..12).map(|_| even(dice)).sum::<f64>() - 6.0;
    let spread = (p99.as_secs_f64() / median.as_secs_f64().max(1e-9)).max(1.0).ln() / P99;
    Duration::try_from_secs_f64(median.as_secs_f64() * (spread * normal).exp()).unwrap_or(p99)
}

/// Delays the answer by the time spent thinking and adds thinking chunks at an interval.
fn thinking(mut speech: Speech, takes: Duration, every: Option<Duration>) -> Speech {
    const THOUGHT: &str = "Hm, let me see.";
    let begins_at = speech.pieces.first().map_or(Duration::ZERO, |piece| piece.at);
    for piece in speech.pieces.iter_mut().skip(1) {
        piece.at = piece.at.saturating_add(takes);
    }
    speech.ends_at = speech.ends_at.saturating_add(takes);
    let tokens = count_tokens(THOUGHT);
    let times = every.and_then(|every| takes.as_nanos().checked_div(every.as_nanos())).unwrap_or(1).max(1);
    let times = u32::try_from(times.min(MAX_THOUGHTS.into())).unwrap_or(MAX_THOUGHTS);
    let thoughts = (1..=times).map(|number| Piece {
        at: begins_at.saturating_add(every.unwrap_or(takes).saturating_mul(number).min(takes)),
        charge: Usage { output: tokens, ..FREE },
        event: ChatEvent::Thinking(if every.is_some() { THOUGHT.to_owned() } else { String::new() }),
    });
    speech.told.output = speech.told.output.saturating_add(tokens.saturating_mul(times.into()));
    speech.pieces.splice(1..1, thoughts);
    speech
}

fn misreported(turn: &Turn<'_>, mut speech: Speech, percent: u32) -> Script {
    let bent = |tokens: u64| tokens.saturating_mul(percent.into()) / 100;
    let bend = |usage: &Usage| Usage { input: bent(usage.input), output: bent(usage.output), ..FREE };
    speech.told = bend(&speech.told);
    if let Some(Piece { event: ChatEvent::Started { usage, .. }, .. }) = speech.pieces.first_mut() {
        *usage = bend(usage);
    }
    let mut script = played(turn, &speech);
    // A frame cannot be edited without its checksum; in frames, usage is reported as zero instead.
    let is_frames = turn.request.stream && turn.call.dialect() == Dialect::Bedrock;
    if percent == 0 && !is_frames {
        leave_usage_out(&mut script);
    }
    script
}

/// An answer that exceeds the output limit.
fn overlong(turn: &Turn<'_>, mut speech: Speech, tokens: u32, at_once: bool) -> Script {
    const WORDS: [&str; 4] = [" and", " so", " it", " goes"];
    let profile = turn.profile;
    speech.pieces.truncate(1);
    let word = |number: u32| WORDS[number as usize % WORDS.len()];
    if at_once {
        let text: String = (0..tokens).map(word).collect();
        let charge = Usage { output: tokens.into(), ..FREE };
        speech.pieces.push(Piece { at: profile.token_at(0), charge, event: ChatEvent::Text(text) });
    } else {
        for number in 0..tokens {
            let (at, charge) = (profile.token_at(number.into()), Usage { output: 1, ..FREE });
            speech.pieces.push(Piece { at, charge, event: ChatEvent::Text(word(number).to_owned()) });
        }
    }
    let at = profile.token_at(tokens.into());
    speech.pieces.push(Piece { at, charge: FREE, event: ChatEvent::Finished(FinishReason::EndTurn) });
    (speech.told.output, speech.ends_at) = (tokens.into(), at);
    played(turn, &speech)
}

/// An answer that omits its output tokens.
fn partial_usage(turn: &Turn<'_>, mut speech: Speech) -> Script {
    let is_frames = turn.request.stream && turn.call.dialect() == Dialect::Bedrock;
    if is_frames {
        speech.told.output = 0;
        return played(turn, &speech);
    }
    let mut script = played(turn, &speech);
    change_bodies(&mut script, |json| with_figures(json, &OUTPUT, "null").into());
    script
}

fn garbled_usage(turn: &Turn<'_>, speech: &Speech, figure: &str) -> Script {
    let mut script = played(turn, speech);
    let is_frames = turn.request.stream && turn.call.dialect() == Dialect::Bedrock;
    change_bodies(&mut script, |body| match is_frames {
        true => garble_frames(body, turn.call, figure),
        false => with_figures(body, &USAGE, figure).into(),
    });
    if let Some(head) = head_of(&mut script) {
        // Bedrock also reports usage in headers.
        head.more.retain(|(name, _)| !name.ends_with("-token-count"));
    }
    script
}

/// An answer that a vendor's guardrail stops after this many chunks.
fn declined(turn: &Turn<'_>, mut speech: Speech, after: usize) -> Script {
    let last = speech.pieces.len().saturating_sub(1);
    let at = speech.pieces.get(after.min(last)).map_or(speech.ends_at, |piece| piece.at);
    speech.pieces.truncate(after.clamp(1, last.max(1)));
    speech.told.output = speech.pieces.iter().map(|piece| piece.charge.output).sum();
    speech.pieces.push(Piece { at, charge: FREE, event: ChatEvent::Finished(FinishReason::Refusal) });
    speech.ends_at = at;
    played(turn, &speech)
}

fn leave_usage_out(script: &mut Script) {
    change_bodies(script, without_usage);
}

fn change_bodies(script: &mut Script, change: impl Fn(&Bytes) -> Bytes) {
    for step in &mut script.steps {
        if let Act::Body(body) = &mut step.act {
            *body = change(body);
        }
    }
    let length =
        script.steps.iter().map(|step| if let Act::Body(body) = &step.act { body.len() } else { 0 }).sum();
    if let Some(head) = head_of(script) {
        head.length = head.length.map(|_| length);
    }
}

/// Removes the `usage` members from JSON written by this crate, in which no string inside `usage` contains braces.
fn without_usage(json: &Bytes) -> Bytes {
    const MEMBER: &[u8] = b"\"usage\":{";
    let mut rest = &json[..];
    let mut kept = BytesMut::with_capacity(rest.len());
    while let Some(start) = rest.windows(MEMBER.len()).position(|window| window == MEMBER) {
        let mut depth = 0_usize;
        let end = rest[start..].iter().position(|byte| {
            depth = match byte {
                b'{' => depth + 1,
                b'}' => depth - 1,
                _ => return false,
            };
            depth == 0
        });
        let end = end.map_or(rest.len(), |length| start + length + 1);
        // Remove the comma before the member, or else the one after it.
        let (start, end) = match (rest[..start].last(), rest.get(end)) {
            (Some(b','), _) => (start - 1, end),
            (_, Some(b',')) => (start, end + 1),
            _ => (start, end),
        };
        kept.extend_from_slice(&rest[..start]);
        rest = &rest[end..];
    }
    kept.extend_from_slice(rest);
    kept.freeze()
}

fn page(turn: &Turn<'_>) -> Script {
    let head = Head::new(200, "text/html; charset=utf-8", turn.call.dialect(), turn.request_id);
    compose::plain(head, Bytes::from_static(PAGE.as_bytes()), Some(turn.profile))
}

fn nothing(turn: &Turn<'_>, ending: Ending) -> Script {
    Script { profile: Some(turn.profile), steps: Vec::new(), ending, fault: None }
}

fn failing(turn: &Turn<'_>, mut speech: Speech, after: usize) -> Script {
    let Some(at) = speech.pieces.get(after).map(|piece| piece.at) else { return played(turn, &speech) };
    speech.pieces.truncate(after);
    speech.pieces.push(Piece { at, charge: FREE, event: speaker::failure() });
    let mut script = compose::stream(turn, &speech);
    script.ending = Ending::Early;
    script
}

fn endless(turn: &Turn<'_>, mut speech: Speech, every: Duration) -> Script {
    if !turn.request.stream {
        return nothing(turn, Ending::Hang);
    }
    speech.pieces.retain(|piece| !matches!(piece.event, ChatEvent::Finished(_)));
    let mut script = compose::stream(turn, &speech);
    script.ending = Ending::Repeat(every);
    script
}

/// The number of chunks that hold this many tokens.
fn pieces_of(speech: &Speech, tokens: u64) -> usize {
    let mut left = tokens;
    let reaches = |piece: &Piece| {
        left = left.saturating_sub(piece.charge.output);
        left == 0
    };
    speech.pieces.iter().position(reaches).map_or(usize::MAX, |place| place.saturating_add(1))
}

fn stopped(mut script: Script, after: usize, ending: Ending) -> Script {
    stop(&mut script, after, ending);
    if ending == Ending::Early {
        // A body with a declared length cannot end early and cleanly.
        if let Some(head) = head_of(&mut script) {
            head.length = None;
        }
    }
    script
}

/// Keeps `after` chunks of the body; the head is kept only if at least one chunk is.
fn stop(script: &mut Script, after: usize, ending: Ending) {
    halve_whole_body(script);
    let kept = if after == 0 { 0 } else { after.saturating_add(1) };
    // An answer that was delivered completely is not cut any more, but it may still hang.
    if kept < script.steps.len() || ending == Ending::Hang {
        script.steps.truncate(kept);
        script.ending = ending;
    }
}

fn stop_after_bytes(script: &mut Script, bytes: usize, ending: Ending) {
    let mut left = bytes;
    for place in 0..script.steps.len() {
        let Some(Step { act: Act::Body(body), .. }) = script.steps.get_mut(place) else { continue };
        if body.len() > left {
            body.truncate(left);
            script.steps.truncate(place + usize::from(left > 0));
            script.ending = ending;
            return;
        }
        left -= body.len();
    }
}

/// Splits the body of an answer that is not streamed into two chunks. The first one carries the charge, because the
/// model had generated everything before it sent anything.
fn halve_whole_body(script: &mut Script) {
    let [_, Step { at, act: Act::Body(body), .. }] = script.steps.as_mut_slice() else { return };
    let second = Step { at: *at, act: Act::Body(body.split_off(body.len() / 2)), charge: Usage::default() };
    script.steps.push(second);
}

fn truncated(mut script: Script, after: usize) -> Script {
    halve_whole_body(&mut script);
    // One more for the head, and one more for the truncated chunk.
    let kept = after.saturating_add(2);
    if kept > script.steps.len() {
        return script;
    }
    script.steps.truncate(kept);
    if let Some(Step { act: Act::Body(body), .. }) = script.steps.last_mut() {
        body.truncate(body.len() / 2);
    }
    script.ending = Ending::Early;
    if let Some(head) = head_of(&mut script) {
        head.length = None;
    }
    script
}

fn malformed(mut script: Script, after: usize, is_stream: bool) -> Script {
    // An answer that is not streamed counts as one chunk here: half of a JSON text is malformed anyway.
    let place = if is_stream { after.saturating_add(1) } else { 1 };
    if let Some(Step { act: Act::Body(body), .. }) = script.steps.get_mut(place) {
        let mut broken = BytesMut::from(&body[..]);
        let data = broken.windows(6).position(|window| window == b"data: ").map(|start| start + 6);
        // In an SSE event the first byte of the JSON is changed, in a frame the checksum at its end.
        let spot = match (is_stream, data) {
            (true, Some(start)) => start,
            (true, None) => broken.len().saturating_sub(1),
            (false, _) => 0,
        };
        if let Some(byte) = broken.get_mut(spot) {
            *byte = if *byte == b'<' { b'>' } else { b'<' };
        }
        *body = broken.freeze();
    }
    script
}
