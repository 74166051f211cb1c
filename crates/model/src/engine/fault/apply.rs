//! Applies a fault to an answer.

use super::super::answer_writer::{self, NO_USAGE};
use super::super::chance::Dice;
use super::super::compose::{self, ComposedAnswer, ParsedRequest, TimedEvent};
use super::super::script::{Script, ScriptAction, ScriptEnding, ScriptHead, ScriptStep};
use super::super::tokens::count_tokens;
use super::Fault;
use super::figures::{OUTPUT_KEYS, USAGE_KEYS, garble_frames, with_figures};
use bytes::{Bytes, BytesMut};
use seawall_wire::chat::{ChatEvent, FinishReason, Usage};
use seawall_wire::{ApiErrorKind, RetryAdvice};
use std::time::Duration;

const HTML_PAGE: &str = "<!doctype html><title>502</title><h1>Bad gateway (simulated proxy)</h1>\n";
/// Maximum number of thinking chunks; longer thinking shows nothing towards its end.
const MAX_THOUGHTS: u32 = 10_000;
/// The period of a quota.
const MINUTE: Duration = Duration::from_secs(60);

/// The script of an answer without a fault.
pub(in super::super) fn without_fault(parsed: &ParsedRequest<'_>, answer: &ComposedAnswer) -> Script {
    if parsed.request.stream { compose::stream(parsed, answer) } else { compose::whole(parsed, answer) }
}

impl Fault {
    /// The script of an answer with this fault; `at` is the arrival time of the request.
    pub(in super::super) fn apply(
        &self,
        parsed: &ParsedRequest<'_>,
        mut answer: ComposedAnswer,
        mut dice: Dice,
        at: Duration,
    ) -> Script {
        match self {
            Self::Status { status, retry_after, error } => {
                error_response(parsed, *status, error.as_deref(), *retry_after)
            }
            Self::Capacity { retry_after, .. } => error_response(parsed, 429, None, *retry_after),
            Self::Quota { .. } => {
                let into_minute =
                    Duration::from_nanos(u64::try_from(at.as_nanos() % MINUTE.as_nanos()).unwrap_or(0));
                error_response(parsed, 429, None, Some(MINUTE - into_minute))
            }
            // The answer was composed as the rule says.
            Self::ToolCall { .. } | Self::Text { .. } => without_fault(parsed, &answer),
            Self::Slow { by } => delayed(without_fault(parsed, &answer), *by),
            Self::Latency { median, p99 } => {
                delayed(without_fault(parsed, &answer), log_normal(*median, *p99, &mut dice))
            }
            Self::Thinking { takes, every } => without_fault(parsed, &thinking(answer, *takes, *every)),
            Self::Drip { every } => {
                let first = answer.events.first().map_or(Duration::ZERO, |event| event.at);
                for (number, event) in (0..).zip(&mut answer.events) {
                    event.at = first.saturating_add(every.saturating_mul(number));
                    answer.ends_at = event.at;
                }
                without_fault(parsed, &answer)
            }
            Self::Usage { percent } => scaled_usage(parsed, answer, *percent),
            Self::Overlong { tokens, at_once } => overlong(parsed, answer, *tokens, *at_once),
            Self::Claim { input, output } => {
                answer.reported_usage.input = input.unwrap_or(answer.reported_usage.input);
                answer.reported_usage.output = output.unwrap_or(answer.reported_usage.output);
                if let Some(TimedEvent { event: ChatEvent::Started { usage, .. }, .. }) =
                    answer.events.first_mut()
                {
                    usage.input = answer.reported_usage.input;
                }
                without_fault(parsed, &answer)
            }
            Self::PartialUsage => partial_usage(parsed, answer),
            Self::GarbledUsage { figure } => garbled_usage(parsed, &answer, figure),
            Self::Declined { after } => declined(parsed, answer, *after),
            Self::Html => html_page(parsed),
            Self::Reset => no_response(parsed, ScriptEnding::Reset),
            Self::Error { after } if *after == 0 || !parsed.request.stream => {
                let (kind, advice) = (ApiErrorKind::Overloaded, RetryAdvice::default());
                let status = parsed.call.dialect.write_error(kind, "", "", advice).status;
                error_response(parsed, status, None, None)
            }
            Self::Error { after } => error_event(parsed, answer, *after),
            Self::Endless { every } => endless(parsed, answer, *every),
            Self::Cut { after, after_bytes, after_tokens, reset } => {
                let ending = if *reset { ScriptEnding::Reset } else { ScriptEnding::Close };
                let mut script = without_fault(parsed, &answer);
                match (after_bytes, after_tokens) {
                    (Some(bytes), _) => end_after_bytes(&mut script, *bytes, ending),
                    (None, Some(tokens)) => {
                        end_after(&mut script, chunks_for_tokens(&answer, *tokens), ending);
                    }
                    (None, None) => end_after(&mut script, after.unwrap_or(0), ending),
                }
                script
            }
            Self::EndEarly { after } => {
                ended_after(without_fault(parsed, &answer), *after, ScriptEnding::Early)
            }
            Self::Hang { after } => ended_after(without_fault(parsed, &answer), *after, ScriptEnding::Hang),
            Self::Truncate { after } => truncated(without_fault(parsed, &answer), *after),
            Self::Malformed { after } => {
                malformed(without_fault(parsed, &answer), *after, parsed.request.stream)
            }
        }
    }
}

fn error_response(
    parsed: &ParsedRequest<'_>,
    status: u16,
    name: Option<&str>,
    retry_after: Option<Duration>,
) -> Script {
    let mut script = compose::error(parsed, status, name);
    if let Some(head) = head_of(&mut script) {
        head.retry_after = retry_after;
    }
    script
}

fn head_of(script: &mut Script) -> Option<&mut ScriptHead> {
    match script.steps.first_mut() {
        Some(ScriptStep { action: ScriptAction::Head(head), .. }) => Some(head),
        _ => None,
    }
}

fn delayed(mut script: Script, by: Duration) -> Script {
    script.steps.iter_mut().for_each(|step| step.at = step.at.saturating_add(by));
    script
}

/// Draws a delay from the log-normal distribution with this median and 99th percentile; latencies of real services are
/// log-normal.
fn log_normal(median: Duration, p99: Duration, dice: &mut Dice) -> Duration {
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
fn thinking(mut answer: ComposedAnswer, takes: Duration, every: Option<Duration>) -> ComposedAnswer {
    const THOUGHT: &str = "Hm, let me see.";
    let begins_at = answer.events.first().map_or(Duration::ZERO, |event| event.at);
    for event in answer.events.iter_mut().skip(1) {
        event.at = event.at.saturating_add(takes);
    }
    answer.ends_at = answer.ends_at.saturating_add(takes);
    let tokens = count_tokens(THOUGHT);
    let times = every.and_then(|every| takes.as_nanos().checked_div(every.as_nanos())).unwrap_or(1).max(1);
    let times = u32::try_from(times.min(MAX_THOUGHTS.into())).unwrap_or(MAX_THOUGHTS);
    let thoughts = (1..=times).map(|number| TimedEvent {
        at: begins_at.saturating_add(every.unwrap_or(takes).saturating_mul(number).min(takes)),
        charge: Usage { output: tokens, ..NO_USAGE },
        event: ChatEvent::Thinking(if every.is_some() { THOUGHT.to_owned() } else { String::new() }),
    });
    answer.reported_usage.output =
        answer.reported_usage.output.saturating_add(tokens.saturating_mul(times.into()));
    answer.events.splice(1..1, thoughts);
    answer
}

fn scaled_usage(parsed: &ParsedRequest<'_>, mut answer: ComposedAnswer, percent: u32) -> Script {
    let scale = |tokens: u64| tokens.saturating_mul(percent.into()) / 100;
    let scale_usage =
        |usage: &Usage| Usage { input: scale(usage.input), output: scale(usage.output), ..NO_USAGE };
    answer.reported_usage = scale_usage(&answer.reported_usage);
    if let Some(TimedEvent { event: ChatEvent::Started { usage, .. }, .. }) = answer.events.first_mut() {
        *usage = scale_usage(usage);
    }
    let mut script = without_fault(parsed, &answer);
    // A frame cannot be edited without its checksum; in frames, usage is reported as zero instead.
    let is_frames = parsed.request.stream && parsed.call.has_binary_frames();
    if percent == 0 && !is_frames {
        omit_usage(&mut script);
    }
    script
}

/// An answer that exceeds the output limit.
fn overlong(parsed: &ParsedRequest<'_>, mut answer: ComposedAnswer, tokens: u32, at_once: bool) -> Script {
    const WORDS: [&str; 4] = [" and", " so", " it", " goes"];
    let profile = parsed.profile;
    answer.events.truncate(1);
    let word = |number: u32| WORDS[number as usize % WORDS.len()];
    if at_once {
        let text: String = (0..tokens).map(word).collect();
        let charge = Usage { output: tokens.into(), ..NO_USAGE };
        answer.events.push(TimedEvent { at: profile.token_at(0), charge, event: ChatEvent::Text(text) });
    } else {
        for number in 0..tokens {
            let (at, charge) = (profile.token_at(number.into()), Usage { output: 1, ..NO_USAGE });
            answer.events.push(TimedEvent { at, charge, event: ChatEvent::Text(word(number).to_owned()) });
        }
    }
    let at = profile.token_at(tokens.into());
    answer.events.push(TimedEvent {
        at,
        charge: NO_USAGE,
        event: ChatEvent::Finished(FinishReason::EndTurn),
    });
    (answer.reported_usage.output, answer.ends_at) = (tokens.into(), at);
    without_fault(parsed, &answer)
}

/// An answer that omits its output tokens.
fn partial_usage(parsed: &ParsedRequest<'_>, mut answer: ComposedAnswer) -> Script {
    let is_frames = parsed.request.stream && parsed.call.has_binary_frames();
    if is_frames {
        answer.reported_usage.output = 0;
        return without_fault(parsed, &answer);
    }
    let mut script = without_fault(parsed, &answer);
    change_bodies(&mut script, |json| with_figures(json, &OUTPUT_KEYS, "null").into());
    script
}

fn garbled_usage(parsed: &ParsedRequest<'_>, answer: &ComposedAnswer, figure: &str) -> Script {
    let mut script = without_fault(parsed, answer);
    let is_frames = parsed.request.stream && parsed.call.has_binary_frames();
    change_bodies(&mut script, |body| match is_frames {
        true => garble_frames(body, parsed.call, figure),
        false => with_figures(body, &USAGE_KEYS, figure).into(),
    });
    if let Some(head) = head_of(&mut script) {
        // Bedrock also reports usage in headers.
        head.extra_headers.retain(|(name, _)| !name.ends_with("-token-count"));
    }
    script
}

/// An answer that a vendor's guardrail stops after this many chunks.
fn declined(parsed: &ParsedRequest<'_>, mut answer: ComposedAnswer, after: usize) -> Script {
    let last = answer.events.len().saturating_sub(1);
    let at = answer.events.get(after.min(last)).map_or(answer.ends_at, |event| event.at);
    answer.events.truncate(after.clamp(1, last.max(1)));
    answer.reported_usage.output = answer.events.iter().map(|event| event.charge.output).sum();
    answer.events.push(TimedEvent {
        at,
        charge: NO_USAGE,
        event: ChatEvent::Finished(FinishReason::Refusal),
    });
    answer.ends_at = at;
    without_fault(parsed, &answer)
}

fn omit_usage(script: &mut Script) {
    change_bodies(script, without_usage);
}

fn change_bodies(script: &mut Script, change: impl Fn(&Bytes) -> Bytes) {
    for step in &mut script.steps {
        if let ScriptAction::Body(body) = &mut step.action {
            *body = change(body);
        }
    }
    let length = script
        .steps
        .iter()
        .map(|step| if let ScriptAction::Body(body) = &step.action { body.len() } else { 0 })
        .sum();
    if let Some(head) = head_of(script) {
        head.length = head.length.map(|_| length);
    }
}

/// Removes the usage members from JSON written by this crate, in which no string inside them contains braces.
fn without_usage(json: &Bytes) -> Bytes {
    const MEMBERS: [&[u8]; 2] = [b"\"usage\":{", b"\"usageMetadata\":{"];
    let mut rest = &json[..];
    let mut kept = BytesMut::with_capacity(rest.len());
    while let Some(start) =
        (0..rest.len()).find(|start| MEMBERS.iter().any(|member| rest[*start..].starts_with(member)))
    {
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

fn html_page(parsed: &ParsedRequest<'_>) -> Script {
    let head = ScriptHead::new(200, "text/html; charset=utf-8", parsed.call.dialect, parsed.request_id);
    compose::single_body(head, Bytes::from_static(HTML_PAGE.as_bytes()), Some(parsed.profile))
}

fn no_response(parsed: &ParsedRequest<'_>, ending: ScriptEnding) -> Script {
    Script { profile: Some(parsed.profile), steps: Vec::new(), ending, fault: None }
}

fn error_event(parsed: &ParsedRequest<'_>, mut answer: ComposedAnswer, after: usize) -> Script {
    let Some(at) = answer.events.get(after).map(|event| event.at) else {
        return without_fault(parsed, &answer);
    };
    answer.events.truncate(after);
    answer.events.push(TimedEvent { at, charge: NO_USAGE, event: answer_writer::failure() });
    let mut script = compose::stream(parsed, &answer);
    script.ending = ScriptEnding::Early;
    script
}

fn endless(parsed: &ParsedRequest<'_>, mut answer: ComposedAnswer, every: Duration) -> Script {
    if !parsed.request.stream {
        return no_response(parsed, ScriptEnding::Hang);
    }
    answer.events.retain(|event| !matches!(event.event, ChatEvent::Finished(_)));
    let mut script = compose::stream(parsed, &answer);
    script.ending = ScriptEnding::Repeat(every);
    script
}

/// The number of chunks that hold this many tokens.
fn chunks_for_tokens(answer: &ComposedAnswer, tokens: u64) -> usize {
    let mut left = tokens;
    let reaches = |event: &TimedEvent| {
        left = left.saturating_sub(event.charge.output);
        left == 0
    };
    answer.events.iter().position(reaches).map_or(usize::MAX, |index| index.saturating_add(1))
}

fn ended_after(mut script: Script, after: usize, ending: ScriptEnding) -> Script {
    end_after(&mut script, after, ending);
    if ending == ScriptEnding::Early {
        // A body with a declared length cannot end early and cleanly.
        if let Some(head) = head_of(&mut script) {
            head.length = None;
        }
    }
    script
}

/// Keeps `after` chunks of the body; the head is kept only if at least one chunk is.
fn end_after(script: &mut Script, after: usize, ending: ScriptEnding) {
    halve_body(script);
    let kept = if after == 0 { 0 } else { after.saturating_add(1) };
    // An answer that was delivered completely is not cut any more, but it may still hang.
    if kept < script.steps.len() || ending == ScriptEnding::Hang {
        script.steps.truncate(kept);
        script.ending = ending;
    }
}

fn end_after_bytes(script: &mut Script, bytes: usize, ending: ScriptEnding) {
    let mut left = bytes;
    for index in 0..script.steps.len() {
        let Some(ScriptStep { action: ScriptAction::Body(body), .. }) = script.steps.get_mut(index) else {
            continue;
        };
        if body.len() > left {
            body.truncate(left);
            script.steps.truncate(index + usize::from(left > 0));
            script.ending = ending;
            return;
        }
        left -= body.len();
    }
}

/// Splits the body of an answer that is not streamed into two chunks. The first one carries the charge, because the
/// model had generated everything before it sent anything.
fn halve_body(script: &mut Script) {
    let [_, ScriptStep { at, action: ScriptAction::Body(body), .. }] = script.steps.as_mut_slice() else {
        return;
    };
    let second = ScriptStep {
        at: *at,
        action: ScriptAction::Body(body.split_off(body.len() / 2)),
        charge: Usage::default(),
    };
    script.steps.push(second);
}

fn truncated(mut script: Script, after: usize) -> Script {
    halve_body(&mut script);
    // One more for the head, and one more for the truncated chunk.
    let kept = after.saturating_add(2);
    if kept > script.steps.len() {
        return script;
    }
    script.steps.truncate(kept);
    if let Some(ScriptStep { action: ScriptAction::Body(body), .. }) = script.steps.last_mut() {
        body.truncate(body.len() / 2);
    }
    script.ending = ScriptEnding::Early;
    if let Some(head) = head_of(&mut script) {
        head.length = None;
    }
    script
}

fn malformed(mut script: Script, after: usize, is_stream: bool) -> Script {
    // An answer that is not streamed counts as one chunk here: half of a JSON text is malformed anyway.
    let index = if is_stream { after.saturating_add(1) } else { 1 };
    if let Some(ScriptStep { action: ScriptAction::Body(body), .. }) = script.steps.get_mut(index) {
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
