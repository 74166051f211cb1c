//! Printed settings can be parsed again, and variables are equivalent to files.

use super::reading::{accepted, base_profile, read, today};
use super::strategies::{choices, dotted, overlay, variable};
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};
use seawall_config::{
    Activation, LoadedSettings, Problems, SettingSource, SettingsInput, diff, load, show,
    unimplemented_settings,
};

fn with_variable(name: String, value: &str) -> Result<LoadedSettings, Problems> {
    load(&SettingsInput {
        environment: vec![(name, value.to_owned())],
        arguments: base_profile(""),
        today: today(),
        ..SettingsInput::default()
    })
}

fn codes(problems: &Problems) -> Vec<&'static str> {
    problems.list().iter().map(|problem| problem.code.name()).collect()
}

/// Both are accepted and equal, or both are refused for the same reasons.
#[track_caller]
fn assert_same(
    left: &Result<LoadedSettings, Problems>,
    right: &Result<LoadedSettings, Problems>,
    what: &str,
) {
    match (left, right) {
        (Ok(left), Ok(right)) => assert_eq!(left.settings, right.settings, "{what}"),
        (Err(left), Err(right)) => assert_eq!(codes(left), codes(right), "{what}\n{left}\n{right}"),
        (Ok(_), Err(problems)) | (Err(problems), Ok(_)) => panic!("{what}: only one is accepted\n{problems}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn shown_settings_parse_as_the_same(text in overlay()) {
        let Ok(loaded) = read(&text) else { return Ok(()) };
        for with_origins in [false, true] {
            let shown = show(&loaded, with_origins);
            let again = read(&shown);
            prop_assert!(again.is_ok(), "{}\n{}", again.unwrap_err(), shown);
            let again = again.unwrap();
            prop_assert_eq!(&again.settings, &loaded.settings);
            prop_assert_eq!(show(&again, false), show(&loaded, false));
            prop_assert!(diff(&loaded, &again).is_empty());
        }
    }
}

#[test]
fn the_property_is_not_vacuous_because_most_single_changes_are_valid() {
    let (mut accepted, mut all) = (0, 0);
    for choice in choices() {
        for value in &choice.values {
            all += 1;
            accepted += usize::from(read(&format!("{} = {value}", dotted(&choice.steps))).is_ok());
        }
    }
    assert!(all > 500 && accepted * 2 > all, "{accepted} of {all}");
}

#[test]
fn a_variable_is_equivalent_to_a_line_of_a_file() {
    for choice in choices() {
        // A new name that the environment cannot spell becomes another name.
        if choice.steps.iter().any(|step| step == "one two" || step == "新しい") {
            continue;
        }
        for value in &choice.values {
            let what = format!("{} = {value}", dotted(&choice.steps));
            let in_file = read(&what);
            let name = variable(&choice.steps);
            assert_same(&in_file, &with_variable(name.clone(), value), &what);
            assert_same(&in_file, &with_variable(name.to_lowercase(), value), &what);
            // Without quotes, as is usual for variables.
            let is_plain = value.starts_with('"') && !value.contains('\\');
            if is_plain {
                assert_same(&in_file, &with_variable(name.clone(), value.trim_matches('"')), &what);
            }
            let arguments = vec![(dotted(&choice.steps), value.clone())];
            let arguments = base_profile("").into_iter().chain(arguments).collect();
            let argued = load(&SettingsInput { arguments, today: today(), ..SettingsInput::default() });
            assert_same(&in_file, &argued, &what);
        }
    }
}

#[test]
fn later_layers_override_earlier_ones_and_each_value_knows_its_origin() {
    let input = SettingsInput {
        file: Some(SettingSource::file(
            "shop.toml",
            "profile = \"demo\"\n\n[budget]\nday = \"$1/day\"\ncaller_day = \"$1/day\"\n[queue]\ncapacity = 5\n",
        )),
        environment: vec![
            ("SEAWALL__BUDGET__DAY".into(), "$2/day".into()),
            ("SEAWALL__QUEUE__CAPACITY".into(), "6".into()),
            ("SEAWALL_QUEUE_CAPACITY".into(), "not ours".into()),
            ("PATH".into(), "not ours".into()),
        ],
        arguments: vec![("queue.capacity".into(), "7".into())],
        today: today(),
        price_file: None,
    };
    let shown = show(&load(&input).unwrap(), true);
    for line in [
        "capacity = 7 # --set queue.capacity",
        "day = \"$2/day\" # SEAWALL__BUDGET__DAY",
        "caller_day = \"$1/day\" # shop.toml:5",
        "data_dir = \"seawall-demo\" # profile demo",
        "kind = \"embedded\" # profile gateway",
        "free = false # default",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
}

#[test]
fn the_value_none_removes_entries_and_optional_keys() {
    let loaded = accepted(
        "targets.sonnet = \"none\"\nroutes.manga.targets = [\"haiku\"]\nretry.budget.max_rate = \"none\"",
    );
    assert_eq!(loaded.settings.targets.keys().collect::<Vec<_>>(), ["haiku"]);
    assert_eq!(loaded.settings.retry.budget.rate_cap, None);
    assert!(!show(&loaded, false).contains("[targets.sonnet]"));
    // A higher layer can set again what a lower one removed.
    let input = SettingsInput {
        file: Some(SettingSource::file("a.toml", "targets.sonnet = \"none\"\n")),
        environment: vec![("SEAWALL__TARGETS__SONNET".into(), "{ provider = 'simulated', model = 'anthropic.claude-3-haiku-20240307-v1:0', grade = 'fast', breaker = 'haiku' }".into())],
        arguments: base_profile(""),
        today: today(),
        ..SettingsInput::default()
    };
    let loaded = load(&input).unwrap();
    assert_eq!(loaded.settings.targets["sonnet"].region, None);
}

#[test]
fn every_layer_can_select_the_profile_and_the_last_one_wins() {
    let data_dir = |input: &SettingsInput| load(input).unwrap().settings.store.data_dir;
    let variable = |name: &str| vec![("SEAWALL__PROFILE".to_owned(), name.to_owned())];
    let file = SettingsInput::from_file("a.toml", "profile = \"demo\"", today());
    assert_eq!(data_dir(&file), "seawall-demo");
    let over = SettingsInput { environment: variable("mangaassist"), ..file };
    assert_eq!(data_dir(&over), "seawall-data");
    let arguments = vec![("profile".to_owned(), "demo".to_owned())];
    assert_eq!(data_dir(&SettingsInput { arguments, ..over }), "seawall-demo");
}

#[test]
fn a_difference_names_the_key_both_values_and_its_activation() {
    let old = accepted("");
    let new = accepted(
        "[server]\nlisten = \"127.0.0.1:9000\"\n[budget]\nday = \"$100/day\"\n[targets.sonnet]\nrole_arn = \"r\"\n[retry.budget]\nmax_rate = \"none\"",
    );
    let changes: Vec<String> = diff(&old, &new)
        .iter()
        .map(|change| {
            let shown = |text: &Option<String>| text.clone().unwrap_or("-".to_owned());
            format!(
                "{} {} {} {}",
                change.key,
                shown(&change.old),
                shown(&change.new),
                change.activation.name()
            )
        })
        .collect();
    assert_eq!(
        changes,
        [
            "budget.day \"$5,000/day\" \"$100/day\" live",
            "retry.budget.max_rate \"100/min\" - live",
            "server.listen \"127.0.0.1:7700\" \"127.0.0.1:9000\" restart",
            "targets.sonnet.role_arn - \"r\" live",
        ]
    );
    assert!(diff(&old, &accepted("queue.ttl = \"30000ms\"")).is_empty());
    assert!(diff(&old, &new).iter().any(|change| change.activation == Activation::Restart));
}

#[test]
fn unimplemented_settings_are_reported() {
    let keys = |text: &str| -> Vec<String> {
        unimplemented_settings(&accepted(text)).into_iter().map(|change| change.key).collect()
    };
    assert_eq!(keys(""), Vec::<String>::new());
    // A value equal to the profile's is not reported, and neither is one that takes effect.
    assert_eq!(keys("framing.max_duration = \"120s\"\nbudget.day = \"$100/day\""), Vec::<String>::new());
    let text = "switches.degradation_controller_enabled = false\nmodels.\"a.b\" = { input = \"$1/M\", output = \"$2/M\", context_window = 9 }";
    let expected = ["switches.degradation_controller_enabled"];
    assert_eq!(keys(text), expected);
    // Settings that write every key are compared with the default profile.
    let shown = show(&accepted(text), false);
    assert_eq!(keys(&shown), expected);
    let change = &diff(&accepted(""), &accepted("framing.flush_interval = \"90ms\""))[0];
    assert_eq!(
        (change.key.as_str(), change.activation),
        ("framing.flush_interval", Activation::NotImplemented)
    );
}

#[test]
fn two_variables_for_one_key_are_refused_whatever_their_case() {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let environment = vec![pair("SEAWALL__BUDGET__DAY", "$10/day"), pair("seawall__Budget__day", "$20/day")];
    let problems =
        load(&SettingsInput { environment, today: today(), ..SettingsInput::default() }).unwrap_err();
    assert_eq!(codes(&problems), ["duplicate"], "{problems}");
    assert!(problems.to_string().contains("environment variable SEAWALL__BUDGET__DAY"), "{problems}");
}
