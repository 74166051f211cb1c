//! `seawall config`.

use crate::running::{file, seawall};
use anyhow::{Context as _, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

fn config(arguments: &[&str]) -> anyhow::Result<Said> {
    let output = seawall(&[&["config"], arguments].concat()).output()?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes);
    Ok(Said { code: output.status.code(), out: text(output.stdout)?, err: text(output.stderr)? })
}

fn fine(arguments: &[&str]) -> anyhow::Result<String> {
    let output = config(arguments)?;
    ensure!(output.code == Some(0), "{arguments:?}: {:?}: {}{}", output.code, output.out, output.err);
    Ok(output.out)
}

fn examples() -> anyhow::Result<Vec<PathBuf>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let files = fs::read_dir(&directory).with_context(|| format!("no {}", directory.display()))?;
    let files = files.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(files.into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "toml")).collect())
}

#[test]
fn every_example_can_be_used_without_a_warning() -> anyhow::Result<()> {
    let examples = examples()?;
    assert!(examples.len() >= 5, "{examples:?}");
    for path in examples {
        let output = config(&["check", "--without-secrets", &path.to_string_lossy()])?;
        assert_eq!(
            (output.code, output.err.as_str()),
            (Some(0), ""),
            "{}: {}{}",
            path.display(),
            output.out,
            output.err
        );
    }
    Ok(())
}

#[test]
fn what_is_shown_of_an_example_is_the_same_settings_again() -> anyhow::Result<()> {
    for path in examples()? {
        let name = path.file_name().context("no name")?.to_string_lossy().into_owned();
        let shown = file(&format!("shown-{name}"), &fine(&["show", "--origin", &path.to_string_lossy()])?)?;
        assert_eq!(
            fine(&["diff", &path.to_string_lossy(), &shown.to_string_lossy()])?,
            "no differences\n",
            "{name}"
        );
    }
    Ok(())
}

#[test]
fn mistakes_are_shown_all_at_once_for_people_and_for_programs() -> anyhow::Result<()> {
    let wrong = file("two-mistakes.toml", "[budget]\nday = 100\n[limits.tiers.gold]\nminute = \"1/min\"\n")?;
    let name = wrong.to_string_lossy().into_owned();
    let output = config(&["check", &name])?;
    assert_eq!((output.code, output.out.as_str()), (Some(2), ""));
    assert!(output.err.contains(&format!("{name}:2:7")) && output.err.contains("2 errors"), "{}", output.err);
    assert!(!output.err.contains('\u{1b}'), "no colours outside a terminal");
    let output = config(&["check", "--json", &name])?;
    assert_eq!((output.code, output.err.as_str()), (Some(2), ""));
    let found: Value = serde_json::from_str(&output.out)?;
    assert_eq!(found["valid"], false);
    let problems = found["problems"].as_array().context("no list")?;
    assert_eq!(problems.len(), 2, "{found}");
    assert_eq!(
        (&problems[0]["locations"][0]["line"], &problems[0]["severity"]),
        (&2.into(), &"error".into()),
        "{found}"
    );
    Ok(())
}

/// Settings that `config check` accepts start; those that it refuses end `serve` with the same code and message.
#[test]
fn config_check_finds_everything_that_prevents_startup() -> anyhow::Result<()> {
    let redis = |more: &str| {
        format!(
            "budget.per_node = true\n[store]\nkind = \"redis\"\ndata_dir = \"nowhere\"\n[store.redis]\n{more}\n"
        )
    };
    let unset = "password = \"env:SEAWALL_TEST_NOT_SET\"";
    let cases = [
        (
            redis(&format!("url = \"redis://127.0.0.1:1\"\n{unset}")),
            "store.redis.password: env:SEAWALL_TEST_NOT_SET: the environment variable is not set",
        ),
        (redis(&format!("url = \"rediss://127.0.0.1:1\"\n{unset}")), "the environment variable is not set"),
        (
            redis("url = \"rediss://127.0.0.1:1\"\nca_file = \"no/such/file\""),
            "store.redis.ca_file: no/such/file",
        ),
        (
            redis("url = \"rediss://127.0.0.1:1\"\nca_file = \"/dev/null\""),
            "store.redis.ca_file: /dev/null: no PEM certificate found",
        ),
        (
            redis("url = \"redis://127.0.0.1:1\"\nprefix = \"{a}\""),
            "store.redis.prefix: must not contain braces",
        ),
        (redis("url = \"redis://127.0.0.1:1/many\""), "must be a database number"),
        (
            "admin.credential = \"env:SEAWALL_TEST_NOT_SET\"\n".to_owned(),
            "admin.credential: env:SEAWALL_TEST_NOT_SET",
        ),
        ("callers.master_secret = \"env:SEAWALL_TEST_NOT_SET\"\n".to_owned(), "callers.master_secret: env:"),
        (
            "callers.guest_secret = \"file:no/such/file\"\n".to_owned(),
            "callers.guest_secret: file:no/such/file",
        ),
        (
            "[server.tls]\ncertificate = \"no/such/file\"\nkey = \"env:PATH\"\n".to_owned(),
            "server.tls.certificate: no/such/file",
        ),
    ];
    for (number, (text, words)) in cases.iter().enumerate() {
        let state = crate::running::scratch_dir(&format!("would-start-{number}"))?;
        let text = format!("profile = \"demo\"\n{text}").replace("nowhere", &state.to_string_lossy());
        let path = file(&format!("would-start-{number}.toml"), &text)?;
        let name = path.to_string_lossy().into_owned();
        let output = config(&["check", &name])?;
        assert_eq!(output.code, Some(2), "{text}: {}{}", output.out, output.err);
        assert!(output.err.contains(words), "{text}: {}", output.err);
        let listen = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
        let data = state.to_string_lossy().into_owned();
        let served = seawall(&["serve", "--config", &name, "--data-dir", &data]).args(listen).output()?;
        let error = String::from_utf8(served.stderr)?;
        assert_eq!(served.status.code(), Some(2), "{text}: {error}");
        assert!(error.contains(words) && !error.contains("panicked"), "{text}: {error}");
        let json = config(&["check", "--json", &name])?;
        let found: Value = serde_json::from_str(&json.out)?;
        assert_eq!((json.code, &found["valid"]), (Some(2), &Value::from(false)), "{found}");
        assert!(found["problems"].to_string().contains(words), "{found}");
    }
    Ok(())
}

#[test]
fn the_environment_overrides_the_file_and_an_argument_overrides_both() -> anyhow::Result<()> {
    let path = file("overruled.toml", "server.listen = \"127.0.0.1:1111\"\n")?;
    let shown = |arguments: &[&str]| -> anyhow::Result<String> {
        let mut command = seawall(&["config", "show", "--origin"]);
        command.arg(&path).args(arguments).env("SEAWALL__SERVER__LISTEN", "127.0.0.1:2222");
        let text = String::from_utf8(command.output()?.stdout)?;
        Ok(text.lines().find(|line| line.starts_with("listen = ")).unwrap_or_default().to_owned())
    };
    assert_eq!(shown(&[])?, "listen = \"127.0.0.1:2222\" # SEAWALL__SERVER__LISTEN");
    let last = shown(&["--set", "server.listen=127.0.0.1:3333"])?;
    assert!(last.starts_with("listen = \"127.0.0.1:3333\" # "), "{last}");
    Ok(())
}

#[test]
fn a_secret_is_never_printed() -> anyhow::Result<()> {
    let text = "profile = \"mangaassist\"\n\
                targets.sonnet = { provider = \"anthropic\", api_key = \"sk-ant-very-secret\", region = \"none\" }\n";
    let path = file("literal-secret.toml", text)?;
    for arguments in [&["check"][..], &["check", "--json"], &["show"]] {
        let output = config(&[arguments, &[&path.to_string_lossy()]].concat())?;
        assert_eq!(output.code, Some(2));
        assert!(!(output.out + &output.err).contains("very-secret"), "{arguments:?}");
    }
    Ok(())
}

#[test]
fn differences_show_what_needs_a_restart_and_what_is_unimplemented() -> anyhow::Result<()> {
    let text = fine(&["diff", "mangaassist", "demo"])?;
    assert!(
        text.contains("store.data_dir: \"seawall-data\" -> \"seawall-demo\"  (needs a restart)\n"),
        "{text}"
    );
    assert!(text.contains("targets.sonnet.provider: \"bedrock\" -> \"simulated\"\n"), "{text}");
    let one = file("diff-cores.toml", "server.cores = 1\nframing.max_output_tokens = 900\n")?;
    let one = one.to_string_lossy();
    let text = fine(&["diff", "mangaassist", &one])?;
    assert!(text.contains("server.cores: \"all\" -> 1  (needs a restart)\n"), "{text}");
    assert!(text.contains("framing.max_output_tokens: 1024 -> 900  (not implemented)\n"), "{text}");
    let list: Value = serde_json::from_str(&fine(&["diff", "--json", "mangaassist", &one])?)?;
    let marks = |key: &str| {
        let found = list.as_array()?.iter().find(|one| one["key"] == key)?;
        Some((found["needs_restart"].as_bool()?, found["implemented"].as_bool()?))
    };
    assert_eq!(marks("server.cores"), Some((true, true)));
    assert_eq!(marks("framing.max_output_tokens"), Some((false, false)));
    Ok(())
}

#[test]
fn schema_and_reference_are_the_ones_in_the_documentation() -> anyhow::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    assert_eq!(fine(&["schema"])?, fs::read_to_string(docs.join("settings.schema.json"))?);
    assert!(fs::read_to_string(docs.join("settings.md"))?.ends_with(&fine(&["reference"])?));
    Ok(())
}
