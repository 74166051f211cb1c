//! Checks of routes.

use super::Checker;
use super::callers::suggest_name;
use super::limits::route_quotas;
use super::operation::denied;
use crate::kind::quoted;
use crate::problem::{Problem, ProblemCode};
use crate::raw::{self, RootSection};
use crate::settings::{ANY_MODEL, RouteSettings};
use seawall_core::balance::{BalanceScope, BalanceStrategy};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn routes(raw: &RootSection, checker: &mut Checker<'_>) -> BTreeMap<String, RouteSettings> {
    let mut routes = BTreeMap::new();
    for (name, route) in &raw.routes {
        let path = &route.path;
        for (key, is_empty, origin, example) in [
            ("targets", route.targets.value.is_empty(), route.targets.origin, "[\"sonnet\"]"),
            ("faces", route.faces.value.is_empty(), route.faces.origin, "[\"anthropic\"]"),
        ] {
            if is_empty {
                let message =
                    format!("{path}.{key}: the list is empty, so the route could not serve any request");
                let help =
                    format!("write {key} = {example}, or remove the route with routes.{name} = \"none\"");
                checker.add(Problem::error(ProblemCode::NoTargets, message, origin).help(help));
            }
        }
        wildcard(name, route, raw, checker);
        balance(route, raw, checker);
        let mut seen = BTreeMap::new();
        for target in &route.targets.value {
            if !raw.targets.contains_key(&target.value) {
                let message = format!("{path}.targets: unknown target {}", quoted(&target.value));
                let help = suggest_name("target", &target.value, raw.targets.keys());
                checker.add(Problem::error(ProblemCode::UnknownTarget, message, target.origin).help(help));
            }
            if let Some(first) = seen.insert(&target.value, target.origin) {
                let message = format!("{path}.targets: {} is listed twice", quoted(&target.value));
                checker.add(
                    Problem::error(ProblemCode::Duplicate, message, target.origin)
                        .also_at(first, "first listed here"),
                );
            }
        }
        let start_timeout = route.start_timeout.as_ref();
        if let Some(timeout) = start_timeout {
            checker.check_positive(route, "start_timeout", timeout);
        }
        let quotas = route_quotas(name, route, checker);
        let settings = RouteSettings {
            targets: route.targets.value.iter().map(|target| target.value.clone()).collect(),
            balance: route.balance.value,
            balance_across: route.balance_across.value,
            faces: route.faces.value.iter().map(|face| face.value).collect(),
            guest_faces: route.guest_faces.value.iter().map(|face| face.value).collect(),
            start_timeout: start_timeout.unwrap_or(&raw.deadlines.start).value,
            fallback: route.fallback.value,
            deny: denied(&format!("{path}.deny"), &route.deny.value, checker),
            requests: route.requests.as_ref().map(|rate| rate.value),
            tokens: route.tokens.as_ref().map(|rate| rate.value),
            quotas,
        };
        routes.insert(name.clone(), settings);
    }
    if raw.routes.is_empty() {
        // A warning, because a profile alone is complete without them. Without routes no gateway starts.
        let message = "no routes are configured, so no request could be served";
        let help = "add [routes.NAME] with its targets, or let `seawall init` write a file";
        checker.add(Problem::warning(ProblemCode::NoTargets, message, raw.origin).help(help));
    }
    routes
}

/// Warns if a route balances its targets, and no two of them belong together.
fn balance(route: &raw::RouteSection, raw: &RootSection, checker: &mut Checker<'_>) {
    if route.balance.value == BalanceStrategy::Ordered {
        return;
    }
    let mut groups = BTreeSet::new();
    let sections = route.targets.value.iter().filter_map(|target| raw.targets.get(&target.value));
    let is_repeated = sections.map(|target| match route.balance_across.value {
        BalanceScope::Model => target.base_model.as_ref().unwrap_or(&target.model).value.as_str(),
        BalanceScope::Grade => target.grade.value.name(),
    });
    if is_repeated.into_iter().any(|group| !groups.insert(group)) {
        return;
    }
    let (path, scope) = (&route.path, route.balance_across.value.name());
    let message = format!("{path}.balance has no effect: no two targets of the route have the same {scope}");
    let help = "requests are tried in the order of targets; for targets of several models, write balance_across = \"grade\"";
    checker.add(Problem::warning(ProblemCode::UnusedKey, message, route.balance.origin).help(help));
}

/// Checks the name of a route, and that only one with a wildcard has targets without a model of their own.
fn wildcard(name: &str, route: &raw::RouteSection, raw: &RootSection, checker: &mut Checker<'_>) {
    let prefix = name.strip_suffix('*');
    if prefix.unwrap_or(name).contains('*') {
        let message = format!("{}: a wildcard can only be at the end of a name", route.path);
        let help = "write a name such as \"claude-*\"";
        checker.add(Problem::error(ProblemCode::InvalidValue, message, route.origin).help(help));
    }
    for target in &route.targets.value {
        let section = raw.targets.get(&target.value);
        if prefix.is_none() && section.is_some_and(|section| section.model.value == ANY_MODEL) {
            let message = format!(
                "{}.targets: {} has model = \"*\", but the name of this route has no wildcard",
                route.path,
                quoted(&target.value)
            );
            let help = format!("name the route {}, or give the target a model", quoted(&format!("{name}-*")));
            checker.add(Problem::error(ProblemCode::InvalidValue, message, target.origin).help(help));
        }
    }
}
