//! A new user's first minutes: `init`, `prices` and `import`, with an empty home and nothing but the program.

use crate::running::{Running, scratch_dir, seawall};
use anyhow::Context as _;
use seawall_testkit::exchange;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output};

/// `seawall` in an empty home, with nothing in its environment but these variables.
pub(crate) fn new_user(directory: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Command {
    let mut command = seawall(arguments);
    command.env_clear().current_dir(directory).env("HOME", directory).envs(variables.iter().copied());
    command
}

fn output(mut command: Command) -> anyhow::Result<(Option<i32>, String, String)> {
    let Output { status, stdout, stderr } = command.output()?;
    Ok((status.code(), String::from_utf8(stdout)?, String::from_utf8(stderr)?))
}

fn directory(name: &str) -> anyhow::Result<std::path::PathBuf> {
    let directory = scratch_dir(name)?;
    fs::create_dir_all(&directory)?;
    Ok(directory)
}

/// A gateway that a new user has set up in front of a model, with keys for two vendors; and the first key.
pub(crate) fn set_up(name: &str, model: &Running) -> anyhow::Result<(Running, String)> {
    let home = directory(name)?;
    let openai = format!("{}/v1", model.url);
    let variables = [
        ("ANTHROPIC_API_KEY", "sk-ant-0123456789"),
        ("ANTHROPIC_BASE_URL", model.url.as_str()),
        ("OPENAI_API_KEY", "sk-0123456789"),
        ("OPENAI_BASE_URL", &openai),
    ];
    let arguments = ["init", "--yes", "--json", "--listen", "127.0.0.1:0"];
    let (code, out, err) = output(new_user(&home, &variables, &arguments))?;
    anyhow::ensure!(code == Some(0), "{err}");
    let report: Value = serde_json::from_str(&out)?;
    let key = report["key"].as_str().context("init printed no key")?.to_owned();
    assert!(report["providers"].to_string().contains("ANTHROPIC_API_KEY"), "{report}");
    let written = fs::read_to_string(home.join("seawall.toml"))?;
    assert!(!written.contains("0123456789") && !written.contains(&key), "{written}");
    let serve = ["serve", "--json", "--config", "seawall.toml", "--admin-listen", "127.0.0.1:0"];
    Ok((Running::started(new_user(&home, &variables, &serve))?, key))
}

fn ask(
    gateway: &Running,
    path: &str,
    key: &str,
    body: &Value,
) -> anyhow::Result<(u16, Value, Option<String>)> {
    let address = gateway.url.trim_start_matches("http://");
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let reply = exchange(address, request)?;
    let cost = reply.header("x-seawall-cost").map(str::to_owned);
    Ok((reply.status, serde_json::from_slice(&reply.body)?, cost))
}

#[test]
fn what_init_writes_serves_models_of_both_vendors_by_their_own_names() -> anyhow::Result<()> {
    let model = Running::start(&["model", "--listen", "127.0.0.1:0", "--json", "--pace", "instant"])?;
    let (gateway, key) = set_up("first-mile", &model)?;
    let messages = json!([{ "role": "user", "content": "Hello" }]);
    for name in ["claude-haiku-4-5", "anthropic/claude-haiku-4-5", "gpt-4o-mini", "openai/gpt-4o-mini"] {
        let request = json!({ "model": name, "max_tokens": 50, "messages": messages });
        for path in ["/v1/chat/completions", "/v1/messages"] {
            let (status, answer, cost) = ask(&gateway, path, &key, &request)?;
            assert_eq!(status, 200, "{name} at {path}: {answer}");
            // All of them are in the catalogue.
            assert!(cost.is_some_and(|cost| cost.starts_with("0.0")), "{name} at {path}");
        }
    }
    let unknown = json!({ "model": "mistral-large", "messages": messages });
    assert_eq!(ask(&gateway, "/v1/chat/completions", &key, &unknown)?.0, 404);
    let wrong = ask(&gateway, "/v1/chat/completions", "sk-made-up-0123456789", &unknown)?;
    assert_eq!(wrong.0, 401, "{}", wrong.1);
    Ok(())
}

#[test]
fn init_explains_what_it_cannot_use_and_never_overwrites_by_accident() -> anyhow::Result<()> {
    let home = directory("init-alone")?;
    let variables = [
        ("ANTHROPIC_API_KEY", "two words"),
        ("OPENAI_API_KEY", "sk-0123456789"),
        // Nothing listens on port 9.
        ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1"),
        ("AWS_PROFILE", "shop"),
    ];
    let (code, out, err) = output(new_user(&home, &variables, &["init", "--yes"]))?;
    assert_eq!(code, Some(0), "{err}");
    for part in [
        "not used: ANTHROPIC_API_KEY: is not a key",
        "not used: openai: http://127.0.0.1:9/v1 cannot be reached",
        "not used: AWS credentials: profile shop does not exist",
        "no provider found: the file has a simulated model",
        "no budget is set",
        "seawall serve --config seawall.toml",
        "claude",
        "codex",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(!out.contains("two words"), "{out}");
    let checked = output(new_user(&home, &[], &["config", "check", "seawall.toml"]))?;
    assert_eq!(checked.0, Some(0), "{}", checked.2);
    fs::write(home.join("seawall.toml"), "# mine\n")?;
    let (code, _, err) = output(new_user(&home, &[], &["init", "--yes"]))?;
    assert_eq!(code, Some(2));
    assert!(err.contains("already exists; use --force to overwrite it"), "{err}");
    assert_eq!(fs::read_to_string(home.join("seawall.toml"))?, "# mine\n");
    let (code, _, err) = output(new_user(&home, &[], &["init", "--yes", "--force", "--budget", "ten"]))?;
    assert_eq!(code, Some(2), "{err}");
    assert_eq!(fs::read_to_string(home.join("seawall.toml"))?, "# mine\n");
    let (code, out, err) =
        output(new_user(&home, &[], &["init", "--yes", "--force", "--budget", "$10/day"]))?;
    assert_eq!(code, Some(0), "{err}");
    assert!(fs::read_to_string(home.join("seawall.toml"))?.contains("day = \"$10/day\""), "{out}");
    Ok(())
}

#[test]
fn prices_can_be_listed_shown_and_checked() -> anyhow::Result<()> {
    let home = directory("prices")?;
    let run = |arguments: &[&str]| output(new_user(&home, &[], arguments));
    let (code, out, _) = run(&["prices"])?;
    assert!(
        code == Some(0) && out.contains("claude-sonnet-5-5") && out.contains("models, dollars per million")
    );
    let (code, out, _) = run(&["prices", "list", "--provider", "groq", "--json"])?;
    let rows: Value = serde_json::from_str(&out)?;
    assert!(
        code == Some(0)
            && rows.as_array().is_some_and(|rows| rows.iter().all(|row| row["provider"] == "groq"))
    );
    let (_, out, _) = run(&["prices", "show", "claude-haiku-4-5-20251001"])?;
    assert!(out.contains("input                 $1.00") && out.contains("source"), "{out}");
    let (code, _, err) = run(&["prices", "show", "no-such-model"])?;
    assert!(code == Some(2) && err.contains("no model \"no-such-model\""), "{err}");
    fs::write(home.join("bad.json"), r#"{"m":{"litellm_provider":"xai","input_cost_per_token":-1}}"#)?;
    let (code, _, err) = run(&["prices", "check", "--file", "bad.json"])?;
    assert!(code == Some(2) && err.contains("m: input_cost_per_token"), "{err}");
    // A file overrides the catalogue, and adds what it does not have.
    let file = r#"{"xai/new-model":{"litellm_provider":"xai","input_cost_per_token":1e-6,"output_cost_per_token":2e-6}}"#;
    fs::write(home.join("prices.json"), file)?;
    let settings = "[prices]\nfile = \"prices.json\"\n[budget]\nday = \"$1/day\"\n\
                    [targets.x]\nprovider = \"xai\"\nmodel = \"new-model\"\n[routes.x]\ntargets = [\"x\"]\n";
    fs::write(home.join("seawall.toml"), settings)?;
    let (code, out, err) = run(&["prices", "check", "--config", "seawall.toml"])?;
    assert!(code == Some(0) && out.contains("x: new-model, priced by the price file"), "{out}{err}");
    // Its rows have no date, so it is as old as its last change.
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    fs::File::options().write(true).open(home.join("prices.json"))?.set_modified(old)?;
    let (code, out, err) = run(&["prices", "check", "--config", "seawall.toml"])?;
    assert!(code == Some(1) && err.contains("the price file: older than 90 days"), "{out}{err}");
    let (_, _, err) = run(&["config", "check", "--without-secrets", "seawall.toml"])?;
    assert!(err.contains("warning[stale-catalogue]: targets.x.model: the price of \"new-model\""), "{err}");
    assert!(err.contains("prices.file, which was last changed"), "{err}");
    let any = settings.replace("new-model", "*").replace("routes.x", "routes.\"grok-*\"");
    fs::write(home.join("seawall.toml"), any)?;
    let (_, _, err) = run(&["config", "check", "--without-secrets", "seawall.toml"])?;
    assert!(err.contains("targets.x.model: the prices of its models are from prices.file"), "{err}");
    fs::write(home.join("seawall.toml"), settings)?;
    fs::write(home.join("prices.json"), "[]")?;
    let (code, _, err) = run(&["config", "check", "--without-secrets", "seawall.toml"])?;
    assert!(code == Some(2) && err.contains("prices.file: cannot use \"prices.json\""), "{err}");
    Ok(())
}

#[test]
fn a_configuration_of_litellm_becomes_settings() -> anyhow::Result<()> {
    let home = directory("import")?;
    let yaml = "model_list:\n  - model_name: fast\n    litellm_params: {model: groq/openai/gpt-oss-20b, api_key: os.environ/GROQ_API_KEY}\n\
                general_settings: {master_key: sk-secret-master}\n";
    fs::write(home.join("config.yaml"), yaml)?;
    let arguments = ["import", "litellm", "config.yaml", "--output", "seawall.toml"];
    let (code, _, err) = output(new_user(&home, &[], &arguments))?;
    assert_eq!(code, Some(0), "{err}");
    assert!(
        err.contains("not taken over: general_settings.master_key") && !err.contains("sk-secret"),
        "{err}"
    );
    assert!(err.contains("1 route and 1 target taken over, 1 item not"), "{err}");
    let checked =
        new_user(&home, &[("GROQ_API_KEY", "gsk-0123456789")], &["config", "check", "seawall.toml"]);
    assert_eq!(output(checked)?.0, Some(0));
    let (code, _, err) = output(new_user(&home, &[], &arguments))?;
    assert!(code == Some(2) && err.contains("already exists"), "{err}");
    fs::write(home.join("config.yaml"), "nothing: here\n")?;
    let (code, _, err) = output(new_user(&home, &[], &["import", "litellm", "config.yaml"]))?;
    assert!(code == Some(2) && err.contains("has no model_list"), "{err}");
    Ok(())
}

#[test]
fn keys_that_are_made_in_the_directory_of_the_settings_open_the_gateway_that_serves_them()
-> anyhow::Result<()> {
    let home = directory("found-settings")?;
    let init = ["init", "--yes", "--json", "--listen", "127.0.0.1:0", "--data-dir", "own data"];
    let (code, out, err) = output(new_user(&home, &[], &init))?;
    assert_eq!(code, Some(0), "{err}");
    let first: Value = serde_json::from_str(&out)?;
    let written = fs::read_to_string(home.join("seawall.toml"))?;
    assert!(written.contains("data_dir = \"own data\""), "{written}");
    let (code, out, err) = output(new_user(&home, &[], &["key", "create", "second", "--json"]))?;
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("using the settings in seawall.toml"), "{err}");
    let second: Value = serde_json::from_str(&out)?;
    assert!(!home.join("seawall-demo").exists() && home.join("own data").exists());
    let (_, out, _) = output(new_user(&home, &[], &["key", "list"]))?;
    assert!(out.contains("first") && out.contains("second"), "{out}");
    let serve = ["serve", "--json", "--admin-listen", "127.0.0.1:0"];
    let gateway = Running::started(new_user(&home, &[], &serve))?;
    let body = json!({ "model": "simulated", "messages": [{ "role": "user", "content": "Hello" }] });
    for key in [&first["key"], &second["key"]] {
        let key = key.as_str().context("no key was printed")?;
        assert_eq!(ask(&gateway, "/v1/chat/completions", key, &body)?.0, 200);
    }
    let (_, out, err) = output(new_user(&home, &[], &["config", "check"]))?;
    assert!(out.starts_with("seawall.toml: ok"), "{out}{err}");
    // A named profile is that profile, whatever files there are.
    let (_, out, err) = output(new_user(&home, &[], &["config", "check", "--profile", "demo"]))?;
    assert!(out.starts_with("settings: ok") && err.is_empty(), "{out}{err}");
    // A file that was found and is wrong is an error and not ignored.
    fs::write(home.join("seawall.toml"), "server.listen = 1\n")?;
    let (code, _, err) = output(new_user(&home, &[], &["serve"]))?;
    assert!(code == Some(2) && err.contains("seawall.toml:1"), "{err}");
    Ok(())
}

/// What `serve` prints when it is ready.
fn ready_text(home: &Path, settings: &str) -> anyhow::Result<String> {
    fs::write(home.join("seawall.toml"), settings)?;
    let mut command = new_user(home, &[], &["serve"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut process = seawall_testkit::ChildProcess::start(&mut command)?;
    let mut text = String::new();
    for line in BufReader::new(process.take_stdout().context("no output")?).lines() {
        let line = line?;
        // The last line of the report.
        let is_last = line.contains("import openai");
        text += &line;
        text.push('\n');
        if is_last {
            break;
        }
    }
    Ok(text)
}

#[test]
fn the_startup_report_shows_only_what_works_with_the_settings() -> anyhow::Result<()> {
    let home = directory("ready-text")?;
    let common =
        "server.listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\ntelemetry.access_log = \"none\"\n";
    let gateway = "[targets.simulated]\nprovider = \"simulated\"\nmodel = \"sonnet\"\n[models.sonnet]\nfree = true\n\
                   [routes.simulated]\ntargets = [\"simulated\"]\n";
    let text = ready_text(&home, &format!("{common}{gateway}"))?;
    assert!(text.contains("(Anthropic, OpenAI, Bedrock, Gemini; models: simulated)"), "{text}");
    assert!(text.contains("file seawall.toml, found in this directory"), "{text}");
    assert!(!text.contains("/chat"), "{text}");
    let demo = format!("profile = \"demo\"\n{common}");
    let text = ready_text(&home, &demo)?;
    assert!(text.contains("Gemini, /chat; models: manga)") && text.contains("/chat -d"), "{text}");
    // Without guests, the chat needs the key, too.
    let text = ready_text(&home, &format!("{demo}callers.guests = false\n"))?;
    assert!(text.contains("/chat -H 'x-api-key: ") && !text.contains("/chat -d"), "{text}");
    Ok(())
}
