//! Keys with terms: budgets, rate limits, models, expiry and replacement, through a gateway that runs.

use crate::running::{Running, scratch_dir, seawall};
use anyhow::Context as _;
use seawall_testkit::{Signal, wait_until};
use serde_json::Value;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const REQUEST: &str =
    r#"{"model":"manga","max_tokens":100,"messages":[{"role":"user","content":"Which volume is next?"}]}"#;

fn start(test: &str, model: &Running, data_dir: &Path, more: &str) -> anyhow::Result<Running> {
    let more = format!("store.data_dir = '{}'\n{more}", data_dir.display());
    Running::gateway_with(test, &model.url, ["instant", "instant"], &more, |settings| {
        // The model bills `instant` at the price of the fast model.
        let instant = "models.instant = { input = \"$0.25/M\", output = \"$1.25/M\" }";
        settings
            .replace("store.kind = \"memory\"", "store.kind = \"embedded\"")
            .replace("models.instant = { input = \"$3/M\", output = \"$15/M\" }", instant)
    })
}

/// Runs a command against a gateway and returns its JSON.
fn run(gateway: &Running, arguments: &[&str]) -> anyhow::Result<Value> {
    let admin = format!("admin.listen={}", gateway.admin.trim_start_matches("http://"));
    let settings = gateway.settings_path().to_string_lossy().into_owned();
    let ending = ["--config", &settings, "--set", &admin, "--json"];
    let output = seawall(&[arguments, &ending].concat()).output()?;
    anyhow::ensure!(output.status.success(), "{arguments:?}: {output:?}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn create(gateway: &Running, terms: &[&str]) -> anyhow::Result<String> {
    let issued = run(gateway, &[&["key", "create", "shop"], terms].concat())?;
    Ok(issued["key"].as_str().context("no key")?.to_owned())
}

fn ask(gateway: &Running, key: &str) -> anyhow::Result<String> {
    let mut answer = String::new();
    gateway.post(key, REQUEST)?.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_key_stops_at_its_budget_by_name_and_its_spend_is_the_bill() -> anyhow::Result<()> {
    let (model, data_dir) = (Running::model("key-budget", "[]")?, scratch_dir("key-budget-state")?);
    let gateway = start("key-budget", &model, &data_dir, "")?;
    let terms = ["--team", "web", "--tag", "env=prod", "--budget", "$0.001/month"];
    let key = create(&gateway, &terms)?;
    let mut answered = 0;
    let refusal = loop {
        let answer = ask(&gateway, &key)?;
        if !answer.starts_with("HTTP/1.1 200") {
            break answer;
        }
        answered += 1;
        anyhow::ensure!(answered < 100, "nothing stops it");
    };
    assert!(answered >= 3, "{answered}");
    let budget = r#"budget of key \"shop\" ($0.001 per month)"#;
    assert!(refusal.contains(budget), "{refusal}");

    let bill = model.bill("instant")?["nano_dollars"].as_u64().context("no bill")?;
    for (by, name) in
        [("key", "shop"), ("team", "web"), ("tag", "env=prod"), ("route", "manga"), ("tier", "standard")]
    {
        let spend = run(&gateway, &["spend", "--by", by])?;
        let row = &spend["rows"][0];
        assert_eq!((row["name"].as_str(), row["cost_nanos"].as_u64()), (Some(name), Some(bill)), "{spend}");
        assert_eq!(spend["total"]["cost_nanos"].as_u64(), Some(bill));
        assert_eq!(row["calls"].as_u64(), Some(answered));
    }
    let shown = run(&gateway, &["key", "show", "shop"])?;
    assert_eq!(shown["budgets"][0]["posted_nanos"].as_u64(), Some(bill));
    assert_eq!((shown["calls"].as_u64(), shown["cost_nanos"].as_u64()), (Some(answered), Some(bill)));

    // A killed process forgets nothing of it, and a higher budget lets the key go on.
    gateway.end_with(Signal::KILL)?;
    let gateway = start("key-budget", &model, &data_dir, "")?;
    let refusal = ask(&gateway, &key)?;
    assert!(refusal.contains(budget), "{refusal}");
    run(&gateway, &["key", "update", "shop", "--budget", "$5/month"])?;
    assert!(ask(&gateway, &key)?.starts_with("HTTP/1.1 200"));
    Ok(())
}

#[test]
fn a_team_and_a_tier_have_budgets_that_their_keys_share() -> anyhow::Result<()> {
    let (model, data_dir) = (Running::model("team-budget", "[]")?, scratch_dir("team-budget-state")?);
    let more =
        "callers.teams.web = { budgets = [\"$0.0004/day\"] }\nbudget.tiers.guest = [\"$0.0004/hour\"]\n";
    let gateway = start("team-budget", &model, &data_dir, more)?;
    for (terms, expected) in [
        (&["--team", "web"][..], r#"budget of team \"web\" ($0.0004 per day)"#),
        (&["--tier", "guest"], r#"budget of tier \"guest\" ($0.0004 per hour)"#),
    ] {
        let keys: Vec<String> = (0..2)
            .map(|number| {
                let name = format!("{}{number}", terms[1]);
                let issued = run(&gateway, &[&["key", "create", &name], terms].concat())?;
                Ok(issued["key"].as_str().context("no key")?.to_owned())
            })
            .collect::<anyhow::Result<_>>()?;
        let mut refusal = String::new();
        for round in 0..40 {
            refusal = ask(&gateway, &keys[round % 2])?;
            if !refusal.starts_with("HTTP/1.1 200") {
                break;
            }
        }
        assert!(refusal.contains(expected), "{refusal}");
        let other = ask(&gateway, &keys[0])? + &ask(&gateway, &keys[1])?;
        assert_eq!(other.matches(expected).count(), 2, "{other}");
    }
    Ok(())
}

#[test]
fn the_rate_limit_of_a_key_survives_a_kill() -> anyhow::Result<()> {
    let (model, data_dir) = (Running::model("key-limit", "[]")?, scratch_dir("key-limit-state")?);
    let gateway = start("key-limit", &model, &data_dir, "")?;
    let key = create(&gateway, &["--limit", "3/h", "--limit", "1000/day"])?;
    for _ in 0..3 {
        assert!(ask(&gateway, &key)?.starts_with("HTTP/1.1 200"));
    }
    gateway.end_with(Signal::KILL)?;
    let gateway = start("key-limit", &model, &data_dir, "")?;
    let refusal = ask(&gateway, &key)?;
    assert!(refusal.starts_with("HTTP/1.1 429"), "{refusal}");
    assert!(refusal.contains("3 requests per hour (this API key)"), "{refusal}");
    // A second key with the same limits has counts of its own.
    let other = run(&gateway, &["key", "create", "other", "--limit", "1000/day", "--limit", "3/h"])?;
    assert!(ask(&gateway, other["key"].as_str().context("no key")?)?.starts_with("HTTP/1.1 200"));
    Ok(())
}

#[test]
fn a_key_is_replaced_under_load_without_a_rejected_request() -> anyhow::Result<()> {
    let (model, data_dir) = (Running::model("key-rotate", "[]")?, scratch_dir("key-rotate-state")?);
    let gateway = start(
        "key-rotate",
        &model,
        &data_dir,
        "limits.tiers.standard = { minute = \"10,000/min\", burst = 10000, hour = \"100,000/h\", day = \"100,000/day\" }\nbudget.caller_day = \"$50/day\"\n",
    )?;
    let old = create(&gateway, &["--budget", "$5/month"])?;
    let is_over = AtomicBool::new(false);
    let rejected = std::thread::scope(|scope| -> anyhow::Result<Vec<String>> {
        let load = scope.spawn(|| {
            let mut rejected = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                match ask(&gateway, &old) {
                    Ok(answer) if answer.starts_with("HTTP/1.1 200") => {}
                    Ok(answer) => rejected.push(answer),
                    Err(error) => rejected.push(error.to_string()),
                }
            }
            rejected
        });
        let rotated = run(&gateway, &["key", "rotate", "shop", "--overlap", "24h"]);
        let answers = rotated.and_then(|rotated| {
            let new = rotated["key"].as_str().context("no key")?.to_owned();
            (0..20).map(|_| ask(&gateway, &new)).collect::<anyhow::Result<Vec<_>>>()
        });
        is_over.store(true, Ordering::Relaxed);
        let mut rejected = load.join().map_err(|_| anyhow::anyhow!("the load panicked"))?;
        rejected.extend(answers?.into_iter().filter(|answer| !answer.starts_with("HTTP/1.1 200")));
        Ok(rejected)
    })?;
    assert_eq!(rejected, Vec::<String>::new());
    // Without an overlap, every older key is rejected at once.
    let newest = run(&gateway, &["key", "rotate", "shop", "--overlap", "0s"])?;
    let refusal = ask(&gateway, &old)?;
    assert!(refusal.starts_with("HTTP/1.1 401") && refusal.contains("has expired"), "{refusal}");
    assert!(ask(&gateway, newest["key"].as_str().context("no key")?)?.starts_with("HTTP/1.1 200"));
    let keys = run(&gateway, &["key", "list"])?;
    let states: Vec<_> =
        keys["keys"].as_array().context("no list")?.iter().map(|key| key["state"].as_str()).collect();
    assert_eq!(states, [Some("expired"), Some("expired"), Some("active")]);
    Ok(())
}

#[test]
fn expired_revoked_and_restricted_keys_are_rejected_for_what_they_are() -> anyhow::Result<()> {
    let (model, data_dir) = (Running::model("key-terms", "[]")?, scratch_dir("key-terms-state")?);
    let gateway = start("key-terms", &model, &data_dir, "")?;
    let short_lived = create(&gateway, &["--expires", "1s"])?;
    wait_until("the key has expired", || Ok(ask(&gateway, &short_lived)?.contains("has expired")))?;
    let listed = |key: &str| gateway.send("GET", "/v1/models", &format!("x-api-key: {key}\r\n"), b"");
    assert_eq!(listed(&short_lived)?.status, 401, "it does not even learn which models there are");
    let restricted = run(&gateway, &["key", "create", "restricted", "--models", "claude-*,gpt-*"])?;
    let restricted = restricted["key"].as_str().context("no key")?;
    let refusal = ask(&gateway, restricted)?;
    assert!(refusal.starts_with("HTTP/1.1 403"), "{refusal}");
    run(&gateway, &["key", "update", "restricted", "--models", "man*"])?;
    assert!(ask(&gateway, restricted)?.starts_with("HTTP/1.1 200"));
    run(&gateway, &["key", "revoke", "restricted"])?;
    let refusal = ask(&gateway, restricted)?;
    assert!(refusal.starts_with("HTTP/1.1 401") && refusal.contains("revoked"), "{refusal}");
    for wrong in [["--budget", "$5"], ["--limit", "60"], ["--tag", "env"], ["--expires", "soon"]] {
        let refused = run(&gateway, &["key", "create", "wrong", wrong[0], wrong[1]]);
        let problem = refused.err().context("accepted")?.to_string();
        assert!(problem.contains("status: ExitStatus(unix_wait_status(512))"), "{problem}");
    }
    Ok(())
}

#[test]
fn a_breakdown_of_what_does_not_exist_is_refused_by_what_is_wrong() -> anyhow::Result<()> {
    let (model, data_dir) = (Running::model("spend-input", "[]")?, scratch_dir("spend-input-state")?);
    let gateway = start("spend-input", &model, &data_dir, "")?;
    for (since, expected) in [
        ("soon", "neither a date"),
        ("2026-02-30", "neither a date"),
        ("2031-01-01", "not in the future"),
        ("500d", "at most 400 days ago"),
        ("7d&by=team", "write a date"),
        ("%37d", "write a date"),
    ] {
        let problem = run(&gateway, &["spend", "--since", since]).err().context("accepted")?.to_string();
        let is_usage_error = problem.contains("unix_wait_status(512)");
        assert!(is_usage_error && problem.contains(expected), "{since}: {problem}");
    }
    for since in ["1.5d", "0s", "399d", "2026-11-01"] {
        let spend = run(&gateway, &["spend", "--by", "day", "--since", since]);
        // A fixed date is out of range one day.
        assert!(spend.is_ok() || since.contains('-'), "{since}: {spend:?}");
    }
    for query in [
        "by=",
        "by=nobody",
        "by=key&by=team",
        "since=7d&by=key&nonsense=1",
        "since=7d",
        "by=key&caller=00000000000000ff",
    ] {
        let mut connection = std::net::TcpStream::connect(gateway.admin.trim_start_matches("http://"))?;
        use std::io::Write as _;
        write!(
            connection,
            "GET /admin/spend?{query} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"
        )?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        assert!(answer.starts_with("HTTP/1.1 400"), "{query}: {answer}");
    }
    Ok(())
}
