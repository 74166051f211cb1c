//! Invariants of individual requests.

use super::{Evidence, InvariantResult};
use crate::caller::RequestEnd;
use crate::history::{Observations, RequestObservation, TimeSpan};
use seawall_core::time::Timestamp;
use seawall_testkit::validator::ClientOutcome;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long after its last fault a model may still be unavailable. A call that began at the last moment fails five
/// seconds later at most; then the breaker is open for a second, and each of its two half-open stages takes the time of
/// whole answers.
const RECOVERY: Duration = Duration::from_secs(13);

/// Fewer faults than this say nothing about a failure rate.
const MIN_FAULTS: u64 = 2;

/// Callers that disconnected, and those whose node was killed.
pub(super) fn disconnected_and_killed(evidence: &Evidence) -> (u64, u64) {
    let observations = &evidence.observations;
    let disconnected = observations
        .requests
        .iter()
        .filter(|request| request.response.end == RequestEnd::Disconnected)
        .count() as u64;
    // A request in flight at a kill may have had an end that was not persisted.
    let was_in_flight = |request: &&RequestObservation| was_killed(observations, request);
    (disconnected, observations.requests.iter().filter(was_in_flight).count() as u64)
}

/// Whether the node of this request was killed during the request.
fn was_killed(observations: &Observations, request: &RequestObservation) -> bool {
    overlaps_node(&observations.kills, request)
}

fn overlaps_node(spans: &[(usize, TimeSpan)], request: &RequestObservation) -> bool {
    let response = &request.response;
    spans
        .iter()
        .any(|(node, span)| *node == response.node && span.overlaps(response.sent_at, response.ended_at))
}

/// The span, and the time after its end in which breakers may still be open.
fn with_recovery(span: &TimeSpan) -> TimeSpan {
    TimeSpan { from: span.from, to: span.to.map(|end| end + RECOVERY) }
}

/// Whether at some time during this request every model had a fault or had not recovered.
fn were_all_faulty(observations: &Observations, request: &RequestObservation) -> bool {
    let (from, to) = (request.response.sent_at, request.response.ended_at);
    observations.faulty.iter().zip(observations.quarantined_since).all(|(spans, quarantined)| {
        quarantined.is_some_and(|since| since <= to)
            || spans.iter().any(|span| with_recovery(span).overlaps(from, to))
    })
}

/// Whether models were slow, or failed for one caller, during this request, and neither had any other fault.
fn were_degraded(observations: &Observations, request: &RequestObservation) -> bool {
    let (from, to) = (request.response.sent_at, request.response.ended_at);
    let overlaps = |spans: &[TimeSpan]| spans.iter().any(|span| with_recovery(span).overlaps(from, to));
    observations.degraded.iter().any(|spans| overlaps(spans))
        && !observations.faulty.iter().any(|spans| overlaps(spans))
}

/// Whether every model failed for the caller of this request because that caller provoked it. Breakers that one caller's
/// requests have opened are open for all requests of that caller, until a probe succeeds.
fn was_provoked(observations: &Observations, request: &RequestObservation) -> bool {
    let (from, to) = (request.response.sent_at, request.response.ended_at);
    let all_failed = |overlaps: &dyn Fn(&TimeSpan) -> bool| {
        observations.degraded.iter().all(|spans| spans.iter().any(overlaps))
    };
    if request.is_hostile {
        return all_failed(&|span| span.overlaps(from, to));
    }
    let provoked = |other: &RequestObservation| {
        let span = TimeSpan { from: other.response.sent_at, to: Some(other.response.ended_at) };
        other.is_hostile && other.caller == request.caller && with_recovery(&span).overlaps(from, to)
    };
    all_failed(&|span| with_recovery(span).overlaps(from, to)) && observations.requests.iter().any(provoked)
}

/// Whether a model may have exceeded its limit, or reported a false usage.
fn had_false_billing(observations: &Observations, request: &RequestObservation) -> bool {
    observations
        .false_billing
        .iter()
        .any(|span| span.overlaps(request.response.sent_at, request.response.ended_at))
}

/// Whether the budget may have been too low for the more expensive model, so that only the other one was left.
fn may_lack_budget(observations: &Observations, request: &RequestObservation) -> bool {
    observations
        .budget_low_since
        .get(request.response.node)
        .is_some_and(|since| since.is_some_and(|since| since <= request.response.ended_at))
}

pub(super) fn check(evidence: &Evidence) -> Vec<InvariantResult> {
    let observations = &evidence.observations;
    let started_at = evidence.started_at;
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    let (mut broken, mut untyped, mut unjustified) = (Vec::new(), Vec::new(), Vec::new());
    let mut rejections: BTreeMap<u16, u64> = BTreeMap::new();
    // Requests of other callers while models were slow or failed for one caller: answered, and failed.
    let mut degraded = (0_u64, 0_u64);
    for request in &observations.requests {
        if request.response.end == RequestEnd::Received(ClientOutcome::Answered)
            && were_degraded(observations, request)
            && !request.is_hostile
        {
            degraded.0 += 1;
        }
        let name = match request.response.end {
            RequestEnd::Disconnected => "disconnected",
            RequestEnd::NoConnection => {
                broken.push(describe(request, started_at, "no node accepted a connection"));
                "no connection"
            }
            RequestEnd::Received(outcome) => match outcome {
                ClientOutcome::Answered => "answered",
                ClientOutcome::Interrupted => "interrupted",
                ClientOutcome::Rejected { status, has_retry_advice } => {
                    *rejections.entry(status).or_default() += 1;
                    if !has_retry_advice {
                        untyped.push(describe(request, started_at, "rejected without retry advice"));
                    }
                    let is_justified = !is_server_error(status)
                        || were_all_faulty(observations, request)
                        || overlaps_node(&observations.stops, request)
                        || may_lack_budget(observations, request)
                        || was_provoked(observations, request);
                    let is_degraded = were_degraded(observations, request) && is_server_error(status);
                    degraded.1 += u64::from(is_degraded && !request.is_hostile);
                    if is_server_error(status) && !is_justified && !is_degraded {
                        unjustified.push(describe(
                            request,
                            started_at,
                            "server error while a model was healthy",
                        ));
                    }
                    "rejected"
                }
                ClientOutcome::Lost | ClientOutcome::Cut if was_killed(observations, request) => {
                    "lost to a kill"
                }
                ClientOutcome::Lost if request.response.status.is_some() => {
                    untyped.push(describe(request, started_at, "error not in the format of the dialect"));
                    "untyped"
                }
                ClientOutcome::Lost => {
                    broken.push(describe(request, started_at, "lost"));
                    "lost"
                }
                ClientOutcome::Cut => {
                    broken.push(describe(request, started_at, "cut without an error"));
                    "cut"
                }
                ClientOutcome::Hung => {
                    broken.push(describe(request, started_at, "hung"));
                    "hung"
                }
                // The strict client compares usage with the text, and a vendor's own usage is passed through unchanged.
                ClientOutcome::FalselyComplete
                    if request.response.is_ended && had_false_billing(observations, request) =>
                {
                    "with a false usage"
                }
                ClientOutcome::FalselyComplete => {
                    broken.push(describe(request, started_at, "truncated as if complete"));
                    "truncated as if complete"
                }
            },
        };
        *counts.entry(name).or_default() += 1;
    }
    if !counts.contains_key("answered") {
        broken.push("no request was answered".to_owned());
    }
    let ends: Vec<String> = counts.iter().map(|(name, number)| format!("{number} {name}")).collect();
    let statuses: Vec<String> =
        rejections.iter().map(|(status, number)| format!("{number} with {status}")).collect();
    let rejected = if statuses.is_empty() { "none".to_owned() } else { statuses.join(", ") };
    let faults = rejections
        .iter()
        .filter(|(status, _)| is_server_error(**status))
        .map(|(_, number)| number)
        .sum::<u64>();
    vec![
        InvariantResult::new(
            "every request ends exactly once, completely or with an error",
            format!("{} sent: {}", observations.requests.len(), ends.join(", ")),
            broken,
        ),
        InvariantResult::new("rejections are in the dialect and have retry advice", rejected, untyped),
        InvariantResult::new(
            "server errors occur only when all models fail",
            format!("{faults} server errors"),
            unjustified,
        ),
        InvariantResult::new(
            "slow models or one hostile caller leave 95 % of other requests answered",
            format!("{} answered, {} server errors", degraded.0, degraded.1),
            (degraded.1 > MIN_FAULTS + degraded.0 / 19)
                .then(|| "too many server errors".to_owned())
                .into_iter()
                .collect(),
        ),
    ]
}

/// Whether this status means that the caller is not at fault.
const fn is_server_error(status: u16) -> bool {
    status >= 500 || status == 408
}

fn describe(request: &RequestObservation, started_at: Option<Timestamp>, problem: &str) -> String {
    let response = &request.response;
    let at = |moment: Timestamp| started_at.map_or(0.0, |started_at| (moment - started_at).as_secs_f64());
    let kind = if request.is_streamed { "stream" } else { "whole" };
    let message: String = response.message.chars().take(160).collect();
    format!(
        "{problem}: {:?} {kind}, node {}, from {:.2} s to {:.2} s, status {:?} {message}",
        request.dialect,
        response.node,
        at(response.sent_at),
        at(response.ended_at),
        response.status
    )
}
