//! A secret that was written in the wrong place is never shown.

use super::reading::{read, today};
use seawall_config::{SettingsInput, load};

/// A secret without any recognisable prefix. It must not be shown.
const PLAIN: &str = "hunter2-and-some-more";
/// Secrets with the prefixes of well-known vendors.
const MARKED: [&str; 5] = [
    "sk-ant-api03-hunter2hunter2hunter2",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.aHVudGVyMg",
    "AKIAHUNTER2HUNTER2X7",
    "ghp_hunter2hunter2hunter2hunter2",
    "AIzaSyHunter2Hunter2Hunter2Hunter2",
];

fn rendered_problems(input: &SettingsInput) -> String {
    let problems = match load(input) {
        Ok(loaded) => loaded.warnings,
        Err(problems) => problems,
    };
    assert!(!problems.is_empty(), "no problem is reported for {input:?}");
    [problems.render(false), problems.render(true), problems.to_json().to_string()].concat()
}

#[test]
fn a_secret_is_redacted_wherever_it_was_written() {
    for line in [
        "targets.sonnet.api_key = { value = \"SECRET\" }",
        "targets.sonnet.api_key = { values = [\"x\", { a = \"SECRET\" }] }",
        "targets.sonnet.api_key.value = \"SECRET\"",
        "callers.keys.shop = { hash = { value = \"SECRET\" }, tier = \"prime\" }",
        "callers.keys.shop = { hash = \"sha256:SECRET\", tier = \"prime\" }",
        "callers.keys.shop = \"SECRET\"",
        "callers.keys = [\"SECRET\"]",
        "targets.sonnet = \"SECRET\"",
        "targets.sonnet.authorization = \"Bearer SECRET\"",
        "targets.sonnet.headers = { x-custom = \"SECRET\" }",
        "targets.sonnet.headers.x-custom = \"SECRET\"",
        "targets.sonnet.api_keys = [\"SECRET\"]",
        "targets.sonnet.keyy = \"SECRET\"",
        "private_key_pem = \"SECRET\"",
        "pwd = \"SECRET\"",
        "auth = \"SECRET\"",
        "anthropic = \"SECRET\"",
        "telemetry.salt = \"x\" # it was SECRET",
        "admin.credential = true # it was SECRET",
        "key: \"SECRET\"",
        "key: SECRET",
        "api_keys: [SECRET]",
        "key \"SECRET\"",
        "key \"SECRET\" = 1",
    ] {
        let text = line.replace("SECRET", PLAIN);
        let rendered = rendered_problems(&SettingsInput::from_file("seawall.toml", &text, today()));
        assert!(!rendered.contains("hunter2"), "{line}\n{rendered}");
    }
}

#[test]
fn variables_and_arguments_keep_secrets_as_well_as_files_do() {
    let pair = |name: &str| vec![(name.to_owned(), PLAIN.to_owned())];
    for name in
        ["SEAWALL__CALLERS__KEYS__SHOP", "SEAWALL__CALLERS__KEYS", "SEAWALL__AUTH", "SEAWALL__TARGETS"]
    {
        let rendered = rendered_problems(&SettingsInput {
            environment: pair(name),
            today: today(),
            ..SettingsInput::default()
        });
        assert!(!rendered.contains("hunter2"), "{name}\n{rendered}");
    }
    for name in ["callers.keys.shop", "auth", "two words", "targets.sonnet"] {
        let rendered = rendered_problems(&SettingsInput {
            arguments: pair(name),
            today: today(),
            ..SettingsInput::default()
        });
        assert!(!rendered.contains("hunter2"), "{name}\n{rendered}");
    }
}

#[test]
fn text_that_looks_like_a_secret_is_redacted_everywhere() {
    for secret in MARKED {
        for line in [
            "server.listen = \"SECRET\"",
            "targets.sonnet.model = \"SECRET\"",
            "targets.sonnet.breaker = \"x SECRET\"",
            "telemetry.otlp_endpoint = \"https//x/SECRET\"",
            "profile = \"SECRET\"",
            "routes.manga.targets = [\"SECRET\"]",
            "SECRET = 1",
            "[callers.keys.SECRET]\ntier = \"prime\"",
            "targets.sonnet.api_key = \"file:SECRET\"",
            "budget.day = SECRET",
        ] {
            let text = line.replace("SECRET", secret);
            let rendered = rendered_problems(&SettingsInput::from_file("seawall.toml", &text, today()));
            let middle = &secret[8..16];
            assert!(!rendered.contains(middle), "{text}\n{rendered}");
        }
    }
}

#[test]
fn a_mistake_that_is_no_secret_is_still_shown() {
    for (line, shown) in [
        ("server.lisen = \"127.0.0.1:80\"", "server.lisen = \"127.0.0.1:80\""),
        ("server.listen = \"sk-short\"", "\"sk-short\""),
        ("targets.sonnet.model = \"eyJ\"", "\"eyJ\""),
        ("targets.sonnet.model = \"task-force-alpha-sierra-tango\"", "task-force-alpha-sierra-tango"),
        ("targets.sonnet.model = \"claude-sonnet-4-5-20250929-v1:0\"", "claude-sonnet-4-5-20250929-v1:0"),
        ("budget.day = \"AKIAX\"", "AKIAX"),
        ("budget.dax = 5", "budget.dax = 5"),
    ] {
        let rendered = read(line).unwrap_err().to_string();
        assert!(rendered.contains(shown), "{line}\n{rendered}");
    }
}

#[test]
fn a_message_is_truncated_to_the_maximum_length() {
    let long = "x".repeat(50_000);
    for text in
        [format!("server.listen = \"{long}\""), format!("{long} = 1"), format!("profile = \"{long}\"")]
    {
        let problems = read(&text).unwrap_err();
        for problem in problems.list() {
            assert!(problem.message.len() < 1_100, "{}", problem.message.len());
            assert!(problem.help.as_ref().is_none_or(|help| help.len() < 1_100));
        }
    }
}
