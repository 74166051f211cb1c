//! Checks of the assistant, the store, protections and telemetry.

use super::Checker;
use crate::field::KeyOrigins as _;
use crate::kind::StoreKind;
use crate::problem::{Problem, ProblemCode};
use crate::raw;
use crate::settings::{
    AssistantSettings, RecordSettings, RedisSettings, RolloutSettings, StoreSettings, TelemetrySettings,
};
use crate::source::Located;
use seawall_core::evaluator::{Protection, Protections, Switch};
use seawall_core::rollout::{Experiment, Ramp, RampOptions};
use seawall_core::vocabulary::Mode;

fn text(text: &Option<Located<String>>) -> Option<String> {
    text.as_ref().map(|text| text.value.clone())
}

/// Maximum length of a denied text, in characters: a streamed answer is held back while it could still become one.
const MAX_DENIED_CHARACTERS: usize = 1_000;

/// Texts that no request may contain.
pub(super) fn denied(key: &str, texts: &[Located<String>], checker: &mut Checker<'_>) -> Vec<String> {
    for text in texts {
        let (problem, help) = if text.value.trim().is_empty() {
            ("an empty text would match every request", "remove it from the list")
        } else if text.value.chars().count() > MAX_DENIED_CHARACTERS {
            ("a text has more than 1000 characters", "shorten it to its distinctive part")
        } else {
            continue;
        };
        let message = format!("{key}: {problem}");
        checker.add(Problem::error(ProblemCode::EmptyPattern, message, text.origin).help(help));
    }
    texts.iter().map(|text| text.value.clone()).collect()
}

pub(super) fn assistant(raw: &raw::AssistantSection, checker: &mut Checker<'_>) -> AssistantSettings {
    for (key, prompt) in [("ja", &raw.prompts.ja), ("en", &raw.prompts.en)] {
        if prompt.value.trim().is_empty() {
            checker.report_invalid(&raw.prompts, key, prompt, "the prompt is empty");
        }
    }
    if !(0.0..=1.0).contains(&raw.temperature.value) {
        checker.report_invalid(raw, "temperature", &raw.temperature, "must be between 0 and 1");
    }
    if raw.max_history_turns.value < 2 {
        let problem = "must be at least 2: a question and its answer";
        checker.report_invalid(raw, "max_history_turns", &raw.max_history_turns, problem);
    }
    checker.check_positive(raw, "retrieval_timeout", &raw.retrieval_timeout);
    AssistantSettings {
        locale: raw.locale.value.clone(),
        prompt_ja: raw.prompts.ja.value.clone(),
        prompt_en: raw.prompts.en.value.clone(),
        prompt_version: raw.prompt_version.value.clone(),
        catalogue: text(&raw.catalogue),
        catalogue_version: raw.catalogue_version.value.clone(),
        faq: text(&raw.faq),
        templates: text(&raw.templates),
        intents: text(&raw.intents),
        deny: denied("assistant.deny", &raw.deny.value, checker),
        temperature: raw.temperature.value,
        max_history_turns: raw.max_history_turns.value,
        max_retrieved_items: raw.max_retrieved_items.value,
        max_retrieved_characters: raw.max_retrieved_characters.value,
        retrieval_timeout: raw.retrieval_timeout.value,
    }
}

pub(super) fn store(store: &raw::StoreSection, checker: &mut Checker<'_>) -> StoreSettings {
    if store.kind.value == StoreKind::Redis && store.redis.as_ref().is_none_or(|redis| redis.url.is_none()) {
        let message = "store.kind: redis requires store.redis.url";
        let help = "write url = \"redis://HOST:6379\" under [store.redis]";
        checker.add(Problem::error(ProblemCode::IncompleteStore, message, store.kind.origin).help(help));
    }
    let redis = store.redis.as_ref().and_then(|redis| {
        checker.check_positive(redis, "operation_timeout", &redis.operation_timeout);
        let url = redis.url.as_ref()?;
        check_redis(redis, url, checker);
        Some(RedisSettings {
            url: url.value.clone(),
            ca_file: text(&redis.ca_file),
            password: redis.password.as_ref().map(|secret| secret.value.clone()),
            operation_timeout: redis.operation_timeout.value,
            cluster: redis.cluster.value,
            prefix: redis.prefix.value.clone(),
            fleet_size: redis.fleet_size.as_ref().map(|size| size.value),
        })
    });
    checker.check_positive(&store.session, "ttl", &store.session.ttl);
    StoreSettings {
        kind: store.kind.value,
        data_dir: store.data_dir.value.clone(),
        redis,
        session_ttl: store.session.ttl.value,
    }
}

/// Reports what the Redis client would refuse at startup.
fn check_redis(redis: &raw::RedisSection, url: &Located<String>, checker: &mut Checker<'_>) {
    let rest = url.value.strip_prefix("redis://").or_else(|| url.value.strip_prefix("rediss://"));
    let Some(rest) = rest else {
        return checker.report_invalid(redis, "url", url, "must start with redis:// or rediss://");
    };
    // A path is a database number, and a cluster has only database 0.
    match rest.split_once('/').map(|(_, database)| database).filter(|database| !database.is_empty()) {
        Some(database) if !is_database(database) => {
            checker.report_invalid(redis, "url", url, "the path must be a database number, such as /0");
        }
        Some(database) if redis.cluster.value && database.bytes().any(|digit| digit != b'0') => {
            checker.report_invalid(redis, "url", url, "a cluster supports only database 0");
        }
        _ => {}
    }
    if let Some(ca_file) = redis.ca_file.as_ref().filter(|_| !url.value.starts_with("rediss://")) {
        checker.report_invalid(redis, "ca_file", ca_file, "requires a rediss:// URL");
    }
    if redis.prefix.value.contains(['{', '}']) || redis.prefix.value.chars().any(char::is_control) {
        checker.report_invalid(
            redis,
            "prefix",
            &redis.prefix,
            "must not contain braces or control characters",
        );
    }
    if let Some(size) = redis.fleet_size.as_ref().filter(|size| size.value == 0) {
        checker.report_invalid(redis, "fleet_size", size, "must be at least 1");
    }
}

fn is_database(text: &str) -> bool {
    text.bytes().all(|digit| digit.is_ascii_digit()) && text.parse::<i64>().is_ok()
}

pub(super) fn protections(
    switches: &raw::SwitchesSection,
    modes: &raw::ModesSection,
    checker: &mut Checker<'_>,
) -> Protections {
    let switch = |switch: Switch| match switch {
        Switch::RateLimit => &switches.rate_limit_enabled,
        Switch::CostBreaker => &switches.cost_circuit_breaker_enabled,
        Switch::Degradation => &switches.degradation_controller_enabled,
        Switch::GuestLite => &switches.guest_lite_pipeline_enabled,
        Switch::OffPeak => &switches.off_peak_ceiling_enabled,
        Switch::ModelInvocation => &switches.model_invocation_enabled,
    };
    let mode = |protection: Protection| match protection {
        Protection::RateLimit => &modes.rate_limit,
        Protection::CostBreaker => &modes.cost_circuit_breaker,
        Protection::Degradation => &modes.degradation_controller,
        Protection::GuestLite => &modes.guest_lite_pipeline,
        Protection::OffPeak => &modes.off_peak_ceiling,
    };
    let mut protections = Protections::default();
    for one in Switch::ALL {
        protections.set_switch(one, switch(one).value);
    }
    for protection in Protection::ALL {
        let (mode, switch) = (mode(protection), switch(protection.switch()));
        if mode.value == Mode::Observe && !switch.value {
            let message = format!("modes.{protection}: observe has no effect while its switch is off");
            let problem = Problem::warning(ProblemCode::SwitchedOff, message, mode.origin);
            checker.add(problem.also_at(switch.origin, "switched off here"));
        }
        protections.set_mode(protection, mode.value);
    }
    protections
}

fn ramp(ramp: &Option<raw::RampSection>, checker: &mut Checker<'_>) -> Option<Option<Ramp>> {
    let Some(section) = ramp else { return Some(None) };
    let options = RampOptions {
        from: section.from.value,
        to: section.to.value,
        start_date: section.start_date.value,
        duration: section.duration.value,
    };
    checker.checked(&[section], options.check()).map(Some)
}

pub(super) fn rollout(rollout: &raw::RolloutSection, checker: &mut Checker<'_>) -> Option<RolloutSettings> {
    let limits = ramp(&rollout.limits, checker);
    let budget = ramp(&rollout.budget, checker);
    let guest_lite = match &rollout.guest_lite {
        None => Some(None),
        Some(share) => match Experiment::new("guest_lite", share.value) {
            Ok(experiment) => Some(Some(experiment)),
            Err(error) => {
                let origin = rollout.origin_of("guest_lite").unwrap_or(rollout.origin);
                let message = format!("rollout.guest_lite: {}", error.problem());
                checker.add(Problem::error(ProblemCode::InvalidValue, message, origin));
                None
            }
        },
    };
    Some(RolloutSettings { limits: limits?, budget: budget?, guest_lite: guest_lite? })
}

pub(super) fn telemetry(telemetry: &raw::TelemetrySection, checker: &mut Checker<'_>) -> TelemetrySettings {
    if telemetry.sampling_rate.value > 100.0 {
        checker.report_invalid(telemetry, "sampling_rate", &telemetry.sampling_rate, "must be at most 100%");
    }
    if let Some(url) = &telemetry.otlp_endpoint
        && !url.value.starts_with("http://")
        && !url.value.starts_with("https://")
    {
        checker.report_invalid(telemetry, "otlp_endpoint", url, "must start with https:// or http://");
    }
    TelemetrySettings {
        access_log: telemetry.access_log.value.clone(),
        diagnostics: telemetry.diagnostics.value,
        diagnostics_level: telemetry.diagnostics_level.value,
        otlp_endpoint: text(&telemetry.otlp_endpoint),
        sampling_rate: telemetry.sampling_rate.value,
        min_traces_per_second: telemetry.min_traces_per_second.value,
        salt: telemetry.salt.as_ref().map(|secret| secret.value.clone()),
        metrics: telemetry.metrics.value,
        public_metrics: telemetry.public_metrics.value,
        records: records(&telemetry.records, checker),
    }
}

/// Less than this is used up by a few seconds of a busy gateway.
const MIN_RECORDS_SIZE: u64 = 1_000_000;

fn records(records: &raw::RecordsSection, checker: &mut Checker<'_>) -> RecordSettings {
    if records.max_size.value < MIN_RECORDS_SIZE {
        checker.report_invalid(records, "max_size", &records.max_size, "must be at least 1MB");
    }
    checker.check_positive(records, "max_age", &records.max_age);
    RecordSettings {
        enabled: records.enabled.value,
        max_size: records.max_size.value,
        max_age: records.max_age.value,
        max_rate: records.max_rate.value,
    }
}
