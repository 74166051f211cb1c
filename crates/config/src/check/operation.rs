//! Checks of the assistant, the store, protections and telemetry.

use super::Checker;
use crate::field::Keyed as _;
use crate::kind::StoreKind;
use crate::problem::{Code, Problem};
use crate::raw;
use crate::settings::{AssistantSettings, RedisSettings, RolloutSettings, StoreSettings, TelemetrySettings};
use crate::source::Located;
use seawall_core::evaluator::{Protection, Protections, Switch};
use seawall_core::rollout::{Experiment, Ramp, RampOptions};
use seawall_core::vocabulary::Mode;

fn text(text: &Option<Located<String>>) -> Option<String> {
    text.as_ref().map(|text| text.value.clone())
}

/// Maximum length of a denied text, in characters: a streamed answer is held back while it could still become one.
const LONGEST_DENIED: usize = 1_000;

/// Texts that no request may contain.
pub(super) fn denied(key: &str, texts: &[Located<String>], checker: &mut Checker<'_>) -> Vec<String> {
    for text in texts {
        let (wrong, help) = if text.value.trim().is_empty() {
            ("an empty text is part of every question", "take it out of the list")
        } else if text.value.chars().count() > LONGEST_DENIED {
            ("a text has more than 1000 characters", "write the part of it that tells it from others")
        } else {
            continue;
        };
        let message = format!("{key}: {wrong}");
        checker.add(Problem::error(Code::EmptyPattern, message, text.origin).help(help));
    }
    texts.iter().map(|text| text.value.clone()).collect()
}

pub(super) fn assistant(raw: &raw::Assistant, checker: &mut Checker<'_>) -> AssistantSettings {
    for (key, prompt) in [("ja", &raw.prompts.ja), ("en", &raw.prompts.en)] {
        if prompt.value.trim().is_empty() {
            checker.impossible(&raw.prompts, key, prompt, "the instructions are empty");
        }
    }
    if !(0.0..=1.0).contains(&raw.temperature.value) {
        checker.impossible(raw, "temperature", &raw.temperature, "must be between 0 and 1");
    }
    checker.positive(raw, "retrieval_time", &raw.retrieval_time);
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
        retrieved_items: raw.retrieved_items.value,
        retrieved_characters: raw.retrieved_characters.value,
        retrieval_time: raw.retrieval_time.value,
    }
}

pub(super) fn store(store: &raw::Store, checker: &mut Checker<'_>) -> StoreSettings {
    if store.kind.value == StoreKind::Redis && store.redis.as_ref().is_none_or(|redis| redis.url.is_none()) {
        let message = "store.kind: redis needs a URL, and there is none";
        let help = "write url = \"redis://HOST:6379\" under [store.redis]";
        checker.add(Problem::error(Code::IncompleteStore, message, store.kind.origin).help(help));
    }
    let redis = store.redis.as_ref().and_then(|redis| {
        checker.positive(redis, "operation_time", &redis.operation_time);
        let url = redis.url.as_ref()?;
        check_redis(redis, url, checker);
        Some(RedisSettings {
            url: url.value.clone(),
            ca_file: text(&redis.ca_file),
            password: redis.password.as_ref().map(|secret| secret.value.clone()),
            operation_time: redis.operation_time.value,
            cluster: redis.cluster.value,
            prefix: redis.prefix.value.clone(),
            fleet_size: redis.fleet_size.as_ref().map(|size| size.value),
        })
    });
    if store.session.turns.value == 0 {
        checker.impossible(&store.session, "turns", &store.session.turns, "must be at least 1");
    }
    checker.positive(&store.session, "keep_for", &store.session.keep_for);
    StoreSettings {
        kind: store.kind.value,
        folder: store.folder.value.clone(),
        redis,
        session_turns: store.session.turns.value,
        session_keep_for: store.session.keep_for.value,
    }
}

/// Reports what the Redis client would refuse at startup.
fn check_redis(redis: &raw::Redis, url: &Located<String>, checker: &mut Checker<'_>) {
    let rest = url.value.strip_prefix("redis://").or_else(|| url.value.strip_prefix("rediss://"));
    let Some(rest) = rest else {
        return checker.impossible(redis, "url", url, "must begin with redis:// or rediss://");
    };
    // A path is a database number, and a cluster has only database 0.
    match rest.split_once('/').map(|(_, database)| database).filter(|database| !database.is_empty()) {
        Some(database) if !is_database(database) => {
            checker.impossible(
                redis,
                "url",
                url,
                "what follows the host must be the number of a database, such as /0",
            );
        }
        Some(database) if redis.cluster.value && database.bytes().any(|digit| digit != b'0') => {
            checker.impossible(redis, "url", url, "a cluster has no database but 0");
        }
        _ => {}
    }
    if let Some(ca_file) = redis.ca_file.as_ref().filter(|_| !url.value.starts_with("rediss://")) {
        checker.impossible(redis, "ca_file", ca_file, "is only used with a rediss:// URL");
    }
    if redis.prefix.value.contains(['{', '}']) || redis.prefix.value.chars().any(char::is_control) {
        checker.impossible(redis, "prefix", &redis.prefix, "must hold no braces and no control characters");
    }
    if let Some(size) = redis.fleet_size.as_ref().filter(|size| size.value == 0) {
        checker.impossible(redis, "fleet_size", size, "must be at least 1");
    }
}

fn is_database(text: &str) -> bool {
    text.bytes().all(|digit| digit.is_ascii_digit()) && text.parse::<i64>().is_ok()
}

pub(super) fn protections(
    switches: &raw::Switches,
    modes: &raw::Modes,
    checker: &mut Checker<'_>,
) -> Protections {
    let switch = |switch: Switch| match switch {
        Switch::RateLimit => &switches.rate_limit_enabled,
        Switch::CostBreaker => &switches.cost_circuit_breaker_enabled,
        Switch::Degradation => &switches.degradation_controller_enabled,
        Switch::GuestLite => &switches.guest_lite_pipeline_enabled,
        Switch::OffPeak => &switches.off_peak_tier_ceiling_enabled,
        Switch::ModelInvocation => &switches.model_invocation_enabled,
    };
    let mode = |protection: Protection| match protection {
        Protection::RateLimit => &modes.rate_limit,
        Protection::CostBreaker => &modes.cost_circuit_breaker,
        Protection::Degradation => &modes.degradation_controller,
        Protection::GuestLite => &modes.guest_lite_pipeline,
        Protection::OffPeak => &modes.off_peak_tier_ceiling,
    };
    let mut protections = Protections::default();
    for one in Switch::ALL {
        protections.throw(one, switch(one).value);
    }
    for protection in Protection::ALL {
        let (mode, switch) = (mode(protection), switch(protection.switch()));
        if mode.value == Mode::Observe && !switch.value {
            let message = format!("modes.{protection}: it cannot be tried while its switch is off");
            let problem = Problem::warning(Code::SwitchedOff, message, mode.origin);
            checker.add(problem.also(switch.origin, "switched off here"));
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
        starts: section.starts.value,
        lasts: section.lasts.value,
    };
    checker.checked(&[section], options.check()).map(Some)
}

pub(super) fn rollout(rollout: &raw::Rollout, checker: &mut Checker<'_>) -> Option<RolloutSettings> {
    let limits = ramp(&rollout.limits, checker);
    let budget = ramp(&rollout.budget, checker);
    let guest_lite = match &rollout.guest_lite {
        None => Some(None),
        Some(share) => match Experiment::new("guest_lite", share.value) {
            Ok(experiment) => Some(Some(experiment)),
            Err(error) => {
                let origin = rollout.origin_of("guest_lite").unwrap_or(rollout.origin);
                let message = format!("rollout.guest_lite: {}", error.problem());
                checker.add(Problem::error(Code::Impossible, message, origin));
                None
            }
        },
    };
    Some(RolloutSettings { limits: limits?, budget: budget?, guest_lite: guest_lite? })
}

pub(super) fn telemetry(telemetry: &raw::Telemetry, checker: &mut Checker<'_>) -> TelemetrySettings {
    if telemetry.sampling.value > 100.0 {
        checker.impossible(telemetry, "sampling", &telemetry.sampling, "must be at most 100%");
    }
    if let Some(url) = &telemetry.otlp
        && !url.value.starts_with("http://")
        && !url.value.starts_with("https://")
    {
        checker.impossible(telemetry, "otlp", url, "must begin with https:// or http://");
    }
    TelemetrySettings {
        access_log: telemetry.access_log.value.clone(),
        otlp: text(&telemetry.otlp),
        sampling: telemetry.sampling.value,
        sampled_per_second: telemetry.sampled_per_second.value,
        salt: telemetry.salt.as_ref().map(|secret| secret.value.clone()),
        metrics: telemetry.metrics.value,
        public_metrics: telemetry.public_metrics.value,
    }
}
