//! The profiles are complete and agree with `core`; the schema and the reference contain every key.

use super::reading::{accepted, read, today};
use seawall_config::{
    CoreCount, LogDestination, ProblemCode, Provider, RatePeriod, RateValue, RuntimeLayout, SectionShape,
    SettingsInput, StoreKind, ValueShape, load, profile_names, profile_text, reference, schema, shape, show,
};
use seawall_core::breaker::BreakerProfile;
use seawall_core::budget::{BudgetOptions, CostOptions, LeaseSizeOptions};
use seawall_core::cache_policy::{CacheAgeOptions, CacheStoreOptions, SingleFlightOptions};
use seawall_core::credit::RetryBudgetOptions;
use seawall_core::deadline::{Phases, RungReserves, TimeLimitOptions};
use seawall_core::evaluator::Protections;
use seawall_core::framing::FramingOptions;
use seawall_core::history::TokenLimitsOptions;
use seawall_core::hours::{HoursOptions, OffPeakOptions};
use seawall_core::ladder::{ClassifierOptions, LadderOptions, SignalWindowOptions};
use seawall_core::money::{ModelPriceOptions, Money};
use seawall_core::pressure::PressureOptions;
use seawall_core::queue::QueueOptions;
use seawall_core::quota::{CalendarPeriod, Quota, QuotaGroup, QuotaUnit, RetryAfterPolicy};
use seawall_core::retry::{HedgeOptions, RetryOptions};
use seawall_core::strategy::StrategyOptions;
use seawall_core::tokens::OverheadOptions;
use seawall_core::vocabulary::Tier;
use serde_json::Value;
use std::time::Duration;

#[test]
fn without_a_file_the_default_profile_is_used_without_problems() {
    let loaded = load(&SettingsInput { today: today(), ..SettingsInput::default() }).unwrap();
    let warnings: Vec<_> = loaded.warnings.list().iter().map(|problem| problem.code).collect();
    assert_eq!(warnings, [ProblemCode::NoTargets], "{}", loaded.warnings);
    assert_eq!(loaded.settings, accepted("profile = \"gateway\"").settings);
    let settings = &loaded.settings;
    assert!(!settings.callers.guests && settings.routes.is_empty() && settings.targets.is_empty());
    assert_eq!(
        (settings.limits.tiers.clone(), settings.limits.guests_by_address.clone()),
        ([None, None, None], None)
    );
    assert_eq!(settings.budget.limits.day_cap(0), Money::MAX);
    assert_eq!(settings.server.listen.ip().to_string(), "127.0.0.1");
    let demo = accepted("profile = \"demo\"");
    assert!(demo.warnings.is_empty(), "{}", demo.warnings);
    assert!(demo.settings.targets.values().all(|target| target.provider == Provider::Simulated));
    assert_eq!(
        (demo.settings.store.kind, demo.settings.store.data_dir.as_str()),
        (StoreKind::Embedded, "seawall-demo")
    );
}

#[test]
fn the_default_profile_sets_every_key_of_every_section() {
    let shown = show(&accepted("profile = \"gateway\""), true);
    let mut header = "";
    for line in shown.lines() {
        if line.starts_with('[') {
            header = line;
        }
        // A price may leave out what costs nothing extra.
        assert!(!line.ends_with("# default") || header.starts_with("[models."), "{header} {line}");
        assert!(
            !line.contains(" = ")
                || line.starts_with("profile")
                || line.ends_with("# profile gateway")
                || line.ends_with("# default"),
            "{line}"
        );
    }
}

#[test]
fn the_default_profile_equals_the_defaults_of_core() {
    let settings = accepted("").settings;
    for profile in BreakerProfile::ALL {
        assert_eq!(settings.breakers[profile.name()], profile.options().check().unwrap(), "{profile:?}");
    }
    // And the profile's `default`.
    assert_eq!(settings.breakers.len(), BreakerProfile::ALL.len() + 1);
    assert_eq!(settings.retry.interactive_options, RetryOptions::interactive());
    assert_eq!(settings.retry.background_options, RetryOptions::background());
    assert_eq!(settings.retry.interactive, RetryOptions::interactive().check().unwrap());
    assert_eq!(settings.retry.background, RetryOptions::background().check().unwrap());
    assert_eq!(settings.retry.budget, RetryBudgetOptions::default());
    assert_eq!(settings.retry.hedge, HedgeOptions::default());
    assert_eq!(settings.pressure, PressureOptions::default().check().unwrap());
    assert_eq!(settings.deadlines.limits, TimeLimitOptions::default().check().unwrap());
    assert_eq!(settings.deadlines.reserves.total(), RungReserves::chat().total());
    let whole =
        seawall_core::deadline::Deadline::after(seawall_core::time::Timestamp::ZERO, Duration::from_secs(3));
    assert_eq!(settings.deadlines.reserves.first(whole), RungReserves::chat().first(whole));
    for rung in 0..5 {
        assert_eq!(settings.deadlines.reserves.at(rung, whole), RungReserves::chat().at(rung, whole));
    }
    assert_eq!(settings.deadlines.strategy, StrategyOptions::default().check().unwrap());
    assert_eq!(settings.deadlines.phases, Phases::default());
    assert_eq!(settings.queue, QueueOptions::default().check().unwrap());
    assert_eq!(settings.budget.limits, BudgetOptions::default().check().unwrap());
    assert_eq!(settings.budget.cost, CostOptions::default().check().unwrap());
    assert_eq!(settings.budget.lease, LeaseSizeOptions::default().check().unwrap());
    assert_eq!(settings.tokens.limits, TokenLimitsOptions::default().check().unwrap());
    assert_eq!(settings.tokens.overhead, OverheadOptions::default());
    assert_eq!(settings.degradation.ladder, LadderOptions::default().check().unwrap());
    assert_eq!(settings.degradation.window, SignalWindowOptions::default());
    assert_eq!(settings.classifier.watch, ClassifierOptions::default());
    assert_eq!(settings.classifier.timeout, Duration::from_millis(20));
    let in_japan = |start, end| HoursOptions::full_hours(start, end, 9 * 60);
    assert_eq!(settings.hours.evening_peak, in_japan(19, 23).check().unwrap());
    assert_eq!(settings.hours.off_peak, OffPeakOptions::of(in_japan(23, 8)).check().unwrap());
    let ages = CacheAgeOptions::default().check().unwrap();
    assert_eq!(settings.cache.ages, ages);
    assert_eq!(settings.cache.storage, CacheStoreOptions::default().check(ages).unwrap());
    assert_eq!(settings.cache.single_flight, SingleFlightOptions::default());
    assert_eq!(*settings.framing.options(), FramingOptions::default());
    assert_eq!(settings.protections, Protections::default());
    assert_eq!(
        (settings.rollout.limits, settings.rollout.budget, settings.rollout.guest_lite),
        (None, None, None)
    );
}

#[test]
fn an_evening_and_a_night_that_overlap_are_refused_by_the_names_of_both() {
    let hours = |evening: (u32, u32), night: (u32, u32)| {
        read(&format!(
            "router.evening_peak = {{ start = \"{:02}:00\", end = \"{:02}:00\" }}\n\
             off_peak = {{ start = \"{:02}:00\", end = \"{:02}:00\" }}\n",
            evening.0, evening.1, night.0, night.1
        ))
        .map(|loaded| loaded.settings.hours)
    };
    assert_eq!(hours((19, 23), (23, 8)).unwrap(), accepted("").settings.hours);
    assert!(hours((8, 23), (23, 8)).is_ok());
    for (evening, night) in [((19, 23), (22, 8)), ((7, 23), (23, 8)), ((1, 2), (23, 8))] {
        let error = hours(evening, night).unwrap_err().to_string();
        assert!(error.contains("evening_peak") && error.contains("off_peak"), "{error}");
    }
    let error = hours((18, 24), (23, 8)).unwrap_err().to_string();
    let problem = "off_peak (23:00-08:00 UTC+09:00) overlaps router.evening_peak (18:00-24:00 UTC+09:00)";
    assert!(error.contains(problem), "{error}");
}

fn tier(name: &str, [minute, burst, hour, day]: [u32; 4]) -> QuotaGroup {
    let quotas = vec![
        Quota::sliding("minute", QuotaUnit::Request, minute, Duration::from_secs(60), burst).unwrap(),
        Quota::sliding("hour", QuotaUnit::Request, hour, Duration::from_secs(3_600), 0).unwrap(),
        Quota::calendar("day", QuotaUnit::Request, day, CalendarPeriod::Day).unwrap(),
    ];
    QuotaGroup::new(name, quotas).unwrap()
}

fn smooth(name: &str, limit: u32, burst: u32) -> QuotaGroup {
    let quota = Quota::rate(name, QuotaUnit::Request, limit, Duration::from_secs(1), burst).unwrap();
    QuotaGroup::new(name, vec![quota]).unwrap()
}

#[test]
fn the_default_limits_are_as_documented() {
    let limits = accepted("").settings.limits;
    let tiers = [
        tier("prime", [60, 10, 500, 15_000]),
        tier("standard", [30, 5, 200, 5_000]),
        tier("guest", [10, 2, 50, 5_000]),
    ];
    assert_eq!(limits.tiers, tiers.map(Some));
    assert_eq!(limits.guests_by_address, Some(tier("guests_by_address", [50, 10, 250, 25_000])));
    let global = vec![
        Quota::sliding("minute", QuotaUnit::Request, 50_000, Duration::from_secs(60), 0).unwrap(),
        Quota::rate("second", QuotaUnit::Request, 5_000, Duration::from_secs(1), 7_500).unwrap(),
        Quota::calendar("month", QuotaUnit::Request, 50_000_000, CalendarPeriod::Month).unwrap(),
    ];
    assert_eq!(limits.global, QuotaGroup::new("global", global).unwrap());
    assert_eq!(limits.account, smooth("account", 10_000, 10_000));
    assert_eq!(limits.stage, smooth("stage", 5_000, 7_500));
    assert_eq!(limits.connect, smooth("connect", 500, 1_000));
    assert_eq!(limits.message, smooth("message", 2_000, 4_000));
    assert_eq!(limits.ipv6_prefix, 64);
    assert_eq!(limits.retry_after, RetryAfterPolicy::default());
}

#[test]
fn the_default_models_server_and_store_are_as_documented() {
    let settings = accepted("").settings;
    let dollars = Money::from_dollars;
    let sonnet = ModelPriceOptions::new("anthropic.claude-3-sonnet-20240229-v1:0", dollars(3), dollars(15));
    let cents = |text| Money::parse(text).unwrap();
    let haiku =
        ModelPriceOptions::new("anthropic.claude-3-haiku-20240307-v1:0", cents("0.25"), cents("1.25"));
    assert_eq!(settings.models.prices, [haiku, sonnet]);
    assert!(settings.models.price_list().find("anthropic.claude-3-haiku-20240307-v1:0", today()).is_ok());
    assert_eq!(settings.models.context_windows.values().collect::<Vec<_>>(), [&200_000, &200_000]);
    assert_eq!(settings.routes["manga"].targets, ["sonnet", "haiku"]);
    assert_eq!(settings.routes["manga"].start_timeout, Duration::from_secs(30));
    let server = &settings.server;
    assert_eq!(
        (server.listen.to_string(), server.runtime, server.cores),
        ("127.0.0.1:7700".into(), RuntimeLayout::PerCore, CoreCount::All)
    );
    assert_eq!(
        [server.max_body_size, server.max_depth, server.max_fields, server.max_items],
        [32 << 20, 64, 64, 10_000]
    );
    assert_eq!((server.max_guest_body_size, server.body_memory), (256 << 10, None));
    let shares = [server.body_memory_per_caller, server.body_memory_per_address];
    assert_eq!(shares.map(|share| share.of(100)), [50, 50]);
    let times = [
        server.header_timeout,
        server.body_timeout,
        server.idle_timeout,
        server.send_timeout,
        server.drain_timeout,
    ];
    assert_eq!(times.map(|time| time.as_secs()), [60, 30, 60, 30, 120]);
    assert_eq!([server.max_connections, server.max_connections_per_address], [10_000, 1_000]);
    assert_eq!((settings.store.kind, settings.assistant.max_history_turns), (StoreKind::Embedded, 10));
    assert_eq!(settings.callers.tier_cache_ttl, Duration::from_secs(10));
    assert_eq!(settings.callers.lookup_timeout, Duration::from_millis(50));
    assert_eq!(settings.telemetry.access_log, LogDestination::Stdout);
}

#[test]
fn settings_are_parsed_as_written() {
    let settings = accepted(
        "[callers.keys.shop]\nhash = \"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"\ntier = \"prime\"\nroutes = [\"manga\"]\n\
         [routes.manga]\nrequests = \"1,000/min\"\ntokens = \"5,000,000/day\"\n\
         [budget]\nper_node = true\n\
         [store]\nkind = \"redis\"\nredis = { url = \"redis://cache:6379\", cluster = true }\n\
         [switches]\nguest_lite_pipeline_enabled = false\n\
         [rollout]\nguest_lite = \"10%\"\nlimits = { from = 2.0, to = 1, start_date = 2026-11-01, duration = \"28d\" }\n",
    )
    .settings;
    let key = &settings.callers.keys["shop"];
    assert_eq!((key.hash[0], key.hash[31], key.tier), (0x9f, 0x08, Tier::Prime));
    let route = &settings.routes["manga"];
    assert_eq!(route.requests, Some(RateValue { limit: 1_000, per: RatePeriod::Minute }));
    assert_eq!(route.quotas.as_ref().unwrap().quotas().len(), 2);
    let redis = settings.store.redis.unwrap();
    assert_eq!(
        (redis.operation_timeout, redis.cluster, redis.prefix.as_str()),
        (Duration::from_millis(25), true, "seawall")
    );
    assert!(settings.rollout.limits.is_some() && settings.rollout.guest_lite.is_some());
    assert_ne!(settings.protections, Protections::default());
}

#[test]
fn a_model_causes_a_warning_ninety_days_before_it_retires() {
    let retiring = |day: &str| {
        let text = format!("[models.\"anthropic.claude-3-haiku-20240307-v1:0\"]\nretires = {day}");
        read(&text).map(|loaded| loaded.has_warnings())
    };
    assert!(retiring("2026-11-16").is_err());
    assert!(retiring("2026-11-17").unwrap());
    assert!(retiring("2027-02-14").unwrap());
    assert!(!retiring("2027-02-15").unwrap());
}

/// Violations of the schema, for the subset of JSON Schema that ours uses.
fn misfits(schema: &Value, value: &toml::Value, path: &str, out: &mut Vec<String>) {
    if let Some(options) = schema["anyOf"].as_array() {
        let fits = |option: &&Value| {
            let mut inner = Vec::new();
            misfits(option, value, path, &mut inner);
            inner.is_empty()
        };
        if !options.iter().any(|option| fits(&option)) {
            out.push(format!("{path} fits nothing"));
        }
        return;
    }
    if let Some(only) = schema.get("const") {
        if value.as_str() != only.as_str() {
            out.push(format!("{path} is not {only}"));
        }
        return;
    }
    let kind = match value {
        toml::Value::Table(_) => "object",
        toml::Value::Array(_) => "array",
        toml::Value::Integer(_) => "integer",
        toml::Value::Float(_) => "number",
        toml::Value::Boolean(_) => "boolean",
        _ => "string",
    };
    if schema["type"] != kind && !(schema["type"] == "number" && kind == "integer") {
        out.push(format!("{path} is {kind}, not {}", schema["type"]));
    }
    if let (Some(words), Some(word)) = (schema["enum"].as_array(), value.as_str())
        && !words.iter().any(|known| known == word)
    {
        out.push(format!("{path} is not among its words"));
    }
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                let path = format!("{path}.{key}");
                let inner = schema["properties"].get(key).or(schema.get("additionalProperties"));
                match inner {
                    Some(Value::Bool(false)) | None => out.push(format!("{path} is not in the schema")),
                    Some(inner) => misfits(inner, value, &path, out),
                }
            }
        }
        toml::Value::Array(items) => items.iter().for_each(|item| misfits(&schema["items"], item, path, out)),
        _ => {}
    }
}

#[test]
fn all_profiles_fit_the_schema_and_mistakes_do_not() {
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let check = |text: &str| {
        let mut out = Vec::new();
        misfits(&schema, &toml::Value::Table(text.parse().unwrap()), "", &mut out);
        out
    };
    for name in profile_names() {
        assert_eq!(check(profile_text(name).unwrap()), [""; 0], "{name}");
        let shown =
            show(&accepted(&format!("profile = {:?}", if name == "none" { "demo" } else { name })), false);
        assert_eq!(check(&shown), [""; 0], "{name}");
    }
    assert_eq!(check("[server]\nlisen = 1"), [".server.lisen is not in the schema"]);
    assert_eq!(check("[server]\nruntime = \"x\""), [".server.runtime is not among its words"]);
    assert_eq!(check("[queue]\ncapacity = \"x\""), [".queue.capacity is string, not \"integer\""]);
    assert_eq!(check("targets.x = 5"), [".targets.x fits nothing"]);
}

fn every_schema(schema: &Value, each: &mut dyn FnMut(&Value)) {
    each(schema);
    for inner in schema["properties"].as_object().into_iter().flat_map(|properties| properties.values()) {
        every_schema(inner, each);
    }
    for inner in schema["anyOf"].as_array().into_iter().flatten() {
        every_schema(inner, each);
    }
    for inner in [schema.get("additionalProperties"), schema.get("items")].into_iter().flatten() {
        if inner.is_object() {
            every_schema(inner, each);
        }
    }
}

#[test]
fn every_object_of_the_schema_is_closed_and_every_key_is_described() {
    every_schema(&schema(), &mut |one| {
        if one["type"] == "object" {
            assert!(one.get("additionalProperties").is_some(), "{one}");
        }
        for (key, property) in one["properties"].as_object().into_iter().flatten() {
            assert!(property["description"].as_str().is_some_and(|text| text.len() > 5), "{key}");
        }
    });
    let listen = &schema()["properties"]["server"]["properties"]["listen"];
    assert_eq!((&listen["type"], &listen["examples"][0]), (&"string".into(), &"127.0.0.1:7700".into()));
    assert!(listen["pattern"].as_str().is_some_and(|pattern| pattern.starts_with('^')));
}

#[test]
fn the_reference_has_every_key_with_its_value_in_the_default_profile() {
    fn walk(shape: &SectionShape, page: &str) {
        for key in &shape.keys {
            match &key.shape {
                ValueShape::Scalar(_) | ValueShape::List(_) => {
                    assert!(page.contains(&format!("\n| `{}` |", key.name)), "{}", key.name);
                }
                ValueShape::Section(section) | ValueShape::Named(section) => walk(section, page),
            }
        }
    }
    let page = reference();
    walk(shape(), &page);
    for line in [
        "## `[targets.NAME]`",
        "| `day` | daily amount | `\"unlimited\"` | Daily budget of all callers together, UTC; `unlimited` for no budget. |",
        "| `listen` | socket address | `\"127.0.0.1:7700\"` | Listen address for callers. Port 0 selects a free port. *restart* |",
        "| `credential` | secret reference | not set | Bearer token that requests to the admin API must present. |",
        "| `otlp_endpoint` | URL | not set | OTLP endpoint for traces. *not implemented* |",
        "| `concurrency` | integer | `100` by default | Maximum number of concurrent calls. |",
    ] {
        assert!(page.lines().any(|shown| shown == line), "{line}");
    }
}
