//! Invariants of individual requests.

use super::{Evidence, Law};
use crate::caller::End;
use crate::history::{Asked, Seen, Span};
use seawall_core::time::Timestamp;
use seawall_demo::judge::Verdict;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long after its last fault a model may still be unavailable. A call that began at the last moment fails five
/// seconds later at most; then the breaker is open for a second, and each of its two half-open stages takes the time of
/// whole answers.
const RECOVERY: Duration = Duration::from_secs(13);

/// Fewer faults than this say nothing about a failure rate.
const FEW: u64 = 2;

/// Callers that disconnected, and those whose node was killed.
pub(super) fn left_and_lost(evidence: &Evidence) -> (u64, u64) {
    let seen = &evidence.seen;
    let left = seen.asked.iter().filter(|asked| asked.got.end == End::Left).count() as u64;
    // A request in flight at a kill may have had an end that was not persisted.
    let under_way = |asked: &&Asked| was_killed(seen, asked);
    (left, seen.asked.iter().filter(under_way).count() as u64)
}

/// Whether the node of this request was killed during the request.
fn was_killed(seen: &Seen, asked: &Asked) -> bool {
    touched(&seen.kills, asked)
}

fn touched(spans: &[(usize, Span)], asked: &Asked) -> bool {
    let got = &asked.got;
    spans.iter().any(|(node, span)| *node == got.node && span.touches(got.put, got.over))
}

/// The span, and the time after its end in which breakers may still be open.
fn with_recovery(span: &Span) -> Span {
    Span { from: span.from, to: span.to.map(|end| end + RECOVERY) }
}

/// Whether at some time during this request every model had a fault or had not recovered.
fn were_all_spoilt(seen: &Seen, asked: &Asked) -> bool {
    let (from, to) = (asked.got.put, asked.got.over);
    seen.spoilt.iter().zip(seen.may_be_aside).all(|(spans, aside)| {
        aside.is_some_and(|since| since <= to)
            || spans.iter().any(|span| with_recovery(span).touches(from, to))
    })
}

/// Whether models were slow, or failed for one caller, during this request, and neither had any other fault.
fn were_strained(seen: &Seen, asked: &Asked) -> bool {
    let (from, to) = (asked.got.put, asked.got.over);
    let touches = |spans: &[Span]| spans.iter().any(|span| with_recovery(span).touches(from, to));
    seen.strained.iter().any(|spans| touches(spans)) && !seen.spoilt.iter().any(|spans| touches(spans))
}

/// Whether every model failed for the caller of this request because that caller provoked it. Breakers that one caller's
/// requests have opened are open for all requests of that caller, until a probe succeeds.
fn was_provoked(seen: &Seen, asked: &Asked) -> bool {
    let (from, to) = (asked.got.put, asked.got.over);
    let all_failed =
        |touches: &dyn Fn(&Span) -> bool| seen.strained.iter().all(|spans| spans.iter().any(touches));
    if asked.is_hostile {
        return all_failed(&|span| span.touches(from, to));
    }
    let provoked = |other: &Asked| {
        let span = Span { from: other.got.put, to: Some(other.got.over) };
        other.is_hostile && other.who == asked.who && with_recovery(&span).touches(from, to)
    };
    all_failed(&|span| with_recovery(span).touches(from, to)) && seen.asked.iter().any(provoked)
}

/// Whether a model may have exceeded its limit, or reported a false usage.
fn was_dishonest(seen: &Seen, asked: &Asked) -> bool {
    seen.dishonest.iter().any(|span| span.touches(asked.got.put, asked.got.over))
}

/// Whether the budget may have been too low for the more expensive model, so that only the other one was left.
fn may_lack_money(seen: &Seen, asked: &Asked) -> bool {
    seen.tight.get(asked.got.node).is_some_and(|since| since.is_some_and(|since| since <= asked.got.over))
}

pub(super) fn laws(evidence: &Evidence) -> Vec<Law> {
    let seen = &evidence.seen;
    let zero = evidence.zero;
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    let (mut broken, mut untyped, mut unfounded) = (Vec::new(), Vec::new(), Vec::new());
    let mut refusals: BTreeMap<u16, u64> = BTreeMap::new();
    // Requests of other callers while models were slow or failed for one caller: answered, and failed.
    let mut strained = (0_u64, 0_u64);
    for asked in &seen.asked {
        if asked.got.end == End::Judged(Verdict::Answered) && were_strained(seen, asked) && !asked.is_hostile
        {
            strained.0 += 1;
        }
        let name = match asked.got.end {
            End::Left => "left",
            End::NobodyThere => {
                broken.push(told(asked, zero, "nobody was there"));
                "nobody there"
            }
            End::Judged(verdict) => match verdict {
                Verdict::Answered => "answered",
                Verdict::BrokenOff => "broken off",
                Verdict::Refused { status, has_hint } => {
                    *refusals.entry(status).or_default() += 1;
                    if !has_hint {
                        untyped.push(told(asked, zero, "a refusal without a hint"));
                    }
                    let is_founded = !is_fault(status)
                        || were_all_spoilt(seen, asked)
                        || touched(&seen.stops, asked)
                        || may_lack_money(seen, asked)
                        || was_provoked(seen, asked);
                    let is_strained = were_strained(seen, asked) && is_fault(status);
                    strained.1 += u64::from(is_strained && !asked.is_hostile);
                    if is_fault(status) && !is_founded && !is_strained {
                        unfounded.push(told(asked, zero, "refused while a model was well"));
                    }
                    "refused"
                }
                Verdict::Lost | Verdict::Cut if was_killed(seen, asked) => "lost to a kill",
                Verdict::Lost if asked.got.status.is_some() => {
                    untyped.push(told(asked, zero, "no answer of the dialect"));
                    "untyped"
                }
                Verdict::Lost => {
                    broken.push(told(asked, zero, "lost"));
                    "lost"
                }
                Verdict::Cut => {
                    broken.push(told(asked, zero, "cut without a word"));
                    "cut"
                }
                Verdict::Hung => {
                    broken.push(told(asked, zero, "hung"));
                    "hung"
                }
                // The strict client compares usage with the text, and a vendor's own usage is passed through unchanged.
                Verdict::LookedComplete if asked.got.is_ended && was_dishonest(seen, asked) => {
                    "with a usage of its own"
                }
                Verdict::LookedComplete => {
                    broken.push(told(asked, zero, "looked complete"));
                    "looked complete"
                }
            },
        };
        *counts.entry(name).or_default() += 1;
    }
    if !counts.contains_key("answered") {
        broken.push("nobody got an answer".to_owned());
    }
    let ends: Vec<String> = counts.iter().map(|(name, number)| format!("{number} {name}")).collect();
    let statuses: Vec<String> =
        refusals.iter().map(|(status, number)| format!("{number} with {status}")).collect();
    let refused = if statuses.is_empty() { "none".to_owned() } else { statuses.join(", ") };
    let faults =
        refusals.iter().filter(|(status, _)| is_fault(**status)).map(|(_, number)| number).sum::<u64>();
    vec![
        Law::new(
            "every request ends once, whole or with a word",
            format!("{} asked: {}", seen.asked.len(), ends.join(", ")),
            broken,
        ),
        Law::new("refusals are of the dialect and have a hint", refused, untyped),
        Law::new("faults are told only when all models fail", format!("{faults} told"), unfounded),
        Law::new(
            "slow models and one hostile caller leave nineteen in twenty others answered",
            format!("{} answered, {} told a fault", strained.0, strained.1),
            (strained.1 > FEW + strained.0 / 19)
                .then(|| "too many were told a fault".to_owned())
                .into_iter()
                .collect(),
        ),
    ]
}

/// Whether this status means that the caller is not at fault.
const fn is_fault(status: u16) -> bool {
    status >= 500 || status == 408
}

fn told(asked: &Asked, zero: Option<Timestamp>, what: &str) -> String {
    let got = &asked.got;
    let at = |moment: Timestamp| zero.map_or(0.0, |zero| (moment - zero).as_secs_f64());
    let kind = if asked.is_streamed { "stream" } else { "whole" };
    let words: String = got.words.chars().take(160).collect();
    format!(
        "{what}: {:?} {kind}, node {}, from {:.2} s to {:.2} s, status {:?} {words}",
        asked.dialect,
        got.node,
        at(got.put),
        at(got.over),
        got.status
    )
}
