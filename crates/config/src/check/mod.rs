//! Validates the parsed settings as a whole.
//!
//! An error from a `core` type is reported at the key that caused it. Consistency between keys, such as a route and its
//! targets, is checked here.

mod advice;
mod callers;
mod limits;
mod models;
mod operation;
mod resilience;
mod routes;
mod server;
mod service;
mod spending;
mod targets;

use crate::field::KeyOrigins;
use crate::load::SettingsInput;
use crate::problem::{Problem, ProblemCode, Problems};
use crate::raw::RootSection;
use crate::settings::Settings;
use crate::source::{Located, SettingOrigin};
use seawall_core::setting::SettingError;
use seawall_core::time::UtcTime;

/// Collects the problems that checks find.
pub(crate) struct Checker<'a> {
    problems: &'a mut Problems,
    /// Origins of placeholders for values that could not be parsed. No problems are reported about these.
    placeholders: Vec<SettingOrigin>,
    today: UtcTime,
}

impl Checker<'_> {
    fn add(&mut self, problem: Problem) {
        if !problem.locations.iter().any(|location| self.placeholders.contains(&location.origin)) {
            self.problems.add(problem);
        }
    }

    /// Reports an error of a `core` type at the key that caused it.
    fn report_core_error(&mut self, sections: &[&dyn KeyOrigins], code: ProblemCode, error: &SettingError) {
        let name = error.setting();
        let short = name.strip_suffix("_percent").unwrap_or(name);
        let rate = format!("{short}_rate");
        let found = sections.iter().find_map(|section| {
            [name, short, rate.as_str()].into_iter().find_map(|key| {
                let origin = section.origin_of(key)?;
                Some((*section, key.to_owned(), origin))
            })
        });
        let problem = error.problem().replace("_percent", "");
        match (found, sections.first()) {
            (Some((section, key, origin)), _) => {
                self.add(Problem::error(code, format!("{}.{key}: {problem}", section.path()), origin));
            }
            (None, Some(section)) => {
                self.add(Problem::error(code, format!("{}: {problem}", section.path()), section.origin()));
            }
            (None, None) => {}
        }
    }

    /// A checked value, or `None` after a problem was reported.
    fn checked<T>(&mut self, sections: &[&dyn KeyOrigins], result: Result<T, SettingError>) -> Option<T> {
        result.map_err(|error| self.report_core_error(sections, ProblemCode::InvalidValue, &error)).ok()
    }

    /// Reports a value that is not valid here.
    fn report_invalid<T>(&mut self, section: &dyn KeyOrigins, key: &str, value: &Located<T>, problem: &str) {
        let message = format!("{}.{key}: {problem}", section.path());
        self.add(Problem::error(ProblemCode::InvalidValue, message, value.origin));
    }

    /// Reports a duration of zero.
    fn check_positive(&mut self, section: &dyn KeyOrigins, key: &str, span: &Located<std::time::Duration>) {
        if span.value.is_zero() {
            self.report_invalid(section, key, span, "must be longer than 0s");
        }
    }
}

/// The checked settings, unless there are errors. All errors are reported.
pub(crate) fn all(
    raw: &RootSection,
    placeholders: Vec<SettingOrigin>,
    input: &SettingsInput,
    problems: &mut Problems,
) -> Option<Settings> {
    let mut checker = Checker { problems, placeholders, today: input.today };
    let checker = &mut checker;
    // Run every check so that all problems are reported; only then test whether all parts are valid.
    let server = server::server(&raw.server, checker);
    let admin = server::admin(&raw.admin, &raw.server, checker);
    let callers = callers::callers(raw, checker);
    let limits = limits::limits(&raw.limits, checker);
    let models = models::models(raw, input.price_file.as_ref(), checker);
    let targets = targets::targets(raw, &models, checker);
    let routes = routes::routes(raw, checker);
    if let Some(limits) = &limits {
        limits::request_groups(limits, &routes, &raw.limits, checker);
    }
    let retry = resilience::retry(&raw.retry, checker);
    let breakers = resilience::breakers(&raw.breakers, checker);
    let pressure = resilience::pressure(&raw.pressure, checker);
    let deadlines = resilience::deadlines(&raw.deadlines, checker);
    let queue = resilience::queue(&raw.queue, checker);
    let budget = spending::budget(&raw.budget, checker);
    spending::fleet_budget(raw, checker);
    let tokens = spending::tokens(&raw.tokens, checker);
    let degradation = service::degradation(&raw.degradation, checker);
    let classifier = service::classifier(&raw.classifier, checker);
    let hours = service::hours(&raw.off_peak, &raw.router.evening_peak, checker);
    let cache = service::cache(&raw.cache, checker);
    let framing = service::framing(&raw.framing, checker);
    let assistant = operation::assistant(&raw.assistant, checker);
    let store = operation::store(&raw.store, checker);
    let protections = operation::protections(&raw.switches, &raw.modes, checker);
    let rollout = operation::rollout(&raw.rollout, checker);
    let telemetry = operation::telemetry(&raw.telemetry, checker);
    advice::advise(raw, &routes, checker);
    Some(Settings {
        server: server?,
        admin,
        callers: callers?,
        limits: limits?,
        models,
        targets,
        routes,
        retry: retry?,
        breakers,
        pressure: pressure?,
        deadlines: deadlines?,
        queue: queue?,
        budget: budget?,
        tokens: tokens?,
        degradation: degradation?,
        classifier: classifier?,
        hours: hours?,
        cache: cache?,
        framing: framing?,
        assistant,
        store,
        protections,
        rollout: rollout?,
        telemetry,
    })
}
