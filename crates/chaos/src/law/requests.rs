//! What every caller may rely on.

use super::{Evidence, Law};
use crate::caller::End;
use crate::history::{Asked, Seen, Span};
use seawall_core::time::Timestamp;
use seawall_demo::judge::Verdict;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long after its last fault a model may still not be asked. What was begun at the last moment fails five seconds later
/// at the most; then the breaker stays open for a second, and each of its two stages takes the time of whole answers.
const RECOVERY: Duration = Duration::from_secs(13);

/// So many faults are too few to say anything about a share.
const FEW: u64 = 2;

/// Callers who left, and those whose node was killed.
pub(super) fn left_and_lost(evidence: &Evidence) -> (u64, u64) {
    let seen = &evidence.seen;
    let left = seen.asked.iter().filter(|asked| asked.got.end == End::Left).count() as u64;
    // Whoever was under way at a kill may have had an end that was not written down.
    let under_way = |asked: &&Asked| was_killed(seen, asked);
    (left, seen.asked.iter().filter(under_way).count() as u64)
}

/// Whether the node that had this question was killed while it had it.
fn was_killed(seen: &Seen, asked: &Asked) -> bool {
    touched(&seen.kills, asked)
}

fn touched(spans: &[(usize, Span)], asked: &Asked) -> bool {
    let got = &asked.got;
    spans.iter().any(|(node, span)| *node == got.node && span.touches(got.put, got.over))
}

/// Whether every model was wrong, or had not recovered, at some time while this was asked.
fn were_all_spoilt(seen: &Seen, asked: &Asked) -> bool {
    let (from, to) = (asked.got.put, asked.got.over);
    seen.spoilt.iter().zip(seen.may_be_aside).all(|(spans, aside)| {
        aside.is_some_and(|since| since <= to)
            || spans.iter().any(|span| {
                let recovered = Span { from: span.from, to: span.to.map(|end| end + RECOVERY) };
                recovered.touches(from, to)
            })
    })
}

/// Whether models were slow, or failed for one caller, while this was asked, and nothing else was wrong with either of them.
fn were_strained(seen: &Seen, asked: &Asked) -> bool {
    let (from, to) = (asked.got.put, asked.got.over);
    let recovered = |span: &Span| Span { from: span.from, to: span.to.map(|end| end + RECOVERY) };
    let touches = |spans: &[Span]| spans.iter().any(|span| recovered(span).touches(from, to));
    seen.strained.iter().any(|spans| touches(spans)) && !seen.spoilt.iter().any(|spans| touches(spans))
}

/// Whether a model may have passed its limit, or lied about its usage.
fn was_dishonest(seen: &Seen, asked: &Asked) -> bool {
    seen.dishonest.iter().any(|span| span.touches(asked.got.put, asked.got.over))
}

/// Whether there may have been too little money left for the dearer model, so that all hung on the other one.
fn may_lack_money(seen: &Seen, asked: &Asked) -> bool {
    seen.tight.get(asked.got.node).is_some_and(|since| since.is_some_and(|since| since <= asked.got.over))
}

pub(super) fn laws(evidence: &Evidence) -> Vec<Law> {
    let seen = &evidence.seen;
    let zero = evidence.zero;
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    let (mut broken, mut untyped, mut unfounded) = (Vec::new(), Vec::new(), Vec::new());
    let mut refusals: BTreeMap<u16, u64> = BTreeMap::new();
    // Requests of others while models were slow or failed for one caller: answered, and told a fault.
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
                    let is_founded = were_all_spoilt(seen, asked)
                        || touched(&seen.stops, asked)
                        || may_lack_money(seen, asked);
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
                // The strict client compares usage with the text, and a vendor's own usage is passed on as it came.
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

/// Whether this status says that the fault is not the caller's.
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
