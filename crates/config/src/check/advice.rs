//! Warnings about settings that are valid and may still surprise: guests on a reachable address, real models without a
//! budget, and breakers that a model's usual time would open. They refuse nothing.

use super::Checker;
use super::spending::is_unlimited;
use crate::kind::{Provider, format_duration};
use crate::problem::{Problem, ProblemCode};
use crate::raw::{self, RootSection};
use crate::settings::RouteSettings;
use std::collections::BTreeMap;
use std::time::Duration;

/// A route whose callers wait this long for the beginning of an answer has models that think before they answer.
const PATIENT_START: Duration = Duration::from_secs(60);
/// First content that is not slow for such a model.
const USUAL_START: Duration = Duration::from_secs(10);

pub(super) fn advise(raw: &RootSection, routes: &BTreeMap<String, RouteSettings>, checker: &mut Checker<'_>) {
    open_guests(raw, routes, checker);
    missing_budget(raw, checker);
    slow_breakers(raw, routes, checker);
}

/// Guests need no credential, so whoever reaches the listener spends the operator's money.
fn open_guests(raw: &RootSection, routes: &BTreeMap<String, RouteSettings>, checker: &mut Checker<'_>) {
    let address = raw.server.listen.value;
    let has_guest_face = routes.values().any(|route| !route.guest_faces.is_empty());
    if !raw.callers.guests.value || !has_guest_face || address.ip().to_canonical().is_loopback() {
        return;
    }
    let message =
        format!("callers.guests: any client that can reach {address} is served without a credential");
    let problem = Problem::warning(ProblemCode::OpenGuests, message, raw.callers.guests.origin);
    let help =
        "set callers.guests = false, or listen on 127.0.0.1 behind a proxy that admits only whom you know";
    checker.add(problem.also_at(raw.server.listen.origin, "the address").help(help));
}

/// Without a budget, one caller in a loop can spend any amount.
fn missing_budget(raw: &RootSection, checker: &mut Checker<'_>) {
    let budget = &raw.budget;
    if !is_unlimited(budget) || !raw.targets.values().any(|target| is_paid(raw, target)) {
        return;
    }
    let message = "budget.day: no budget is set, so there is no limit to what models may cost";
    let problem = Problem::warning(ProblemCode::NoBudget, message, budget.day.origin);
    checker.add(problem.help("set budget.day = \"$20/day\", or another amount that you can afford to lose"));
}

fn is_paid(raw: &RootSection, target: &raw::TargetSection) -> bool {
    let model = raw.models.get(&target.model.value);
    let preset = target.provider.value;
    let is_free = preset.is_free || preset.api_family == Provider::Simulated;
    !is_free && !model.is_some_and(|model| model.free.value)
}

/// A breaker that counts slow starts opens although the target works, if the callers of its route are willing to wait
/// for longer than it.
fn slow_breakers(raw: &RootSection, routes: &BTreeMap<String, RouteSettings>, checker: &mut Checker<'_>) {
    for (name, breaker) in &raw.breakers {
        let threshold = breaker.slow_threshold.value;
        let uses_breaker =
            |target: &String| raw.targets.get(target).is_some_and(|target| target.breaker.value == *name);
        let patient = routes.iter().find_map(|(route, settings)| {
            let target = settings.targets.iter().find(|target| uses_breaker(target))?;
            (settings.start_timeout >= PATIENT_START).then_some((route, target, settings.start_timeout))
        });
        let Some((route, target, start_timeout)) = patient.filter(|_| threshold < USUAL_START) else {
            continue;
        };
        let message = format!(
            "{}.slow_threshold: {} counts answers of target {target} as slow that callers of route {route} wait for \
             ({}); a model that thinks before it answers would open the breaker",
            breaker.path,
            format_duration(threshold),
            format_duration(start_timeout),
        );
        let problem = Problem::warning(ProblemCode::SlowBreaker, message, breaker.slow_threshold.origin);
        let usual = format_duration(USUAL_START);
        checker.add(
            problem.help(format!("set it to {usual} or more, or the route's start_timeout to less than 60s")),
        );
    }
}
