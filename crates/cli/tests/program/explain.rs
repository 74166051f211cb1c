//! `seawall explain`, `tail` and `top` against a running gateway: every way in which a request can end is named.

use crate::requests::{BY_DAY, NO_LIMITS, question};
use crate::running::{KEY, Running, caller, scratch_dir, seawall};
use anyhow::{Context as _, ensure};
use seawall_testkit::{HttpReply, Signal, wait_until};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

/// The command for this gateway.
fn command(gateway: &Running, arguments: &[&str]) -> Command {
    let listen = format!("admin.listen={}", gateway.admin.trim_start_matches("http://"));
    let mut command = seawall(arguments);
    command.args(["--set", &listen]);
    command
}

/// What the command prints. It must succeed.
fn printed(gateway: &Running, arguments: &[&str]) -> anyhow::Result<String> {
    let output = command(gateway, arguments).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{arguments:?}: {:?} {errors}", output.status.code());
    Ok(String::from_utf8(output.stdout)?)
}

/// The request id of a response.
fn id_of(reply: &HttpReply) -> anyhow::Result<String> {
    let id =
        ["request-id", "x-request-id", "x-amzn-requestid"].into_iter().find_map(|name| reply.header(name));
    id.map(ToOwned::to_owned).with_context(|| format!("no request id: {}", reply.head))
}

/// What `explain` does not say, of all requests together.
#[derive(Default)]
struct Omissions(Vec<String>);

impl Omissions {
    /// Checks that `explain` has each of these texts for the request.
    fn expect(&mut self, gateway: &Running, id: &str, expected: &[&str]) -> anyhow::Result<()> {
        let text = printed(gateway, &["explain", id])?;
        let missing = expected.iter().filter(|part| !text.contains(**part));
        self.0.extend(missing.map(|part| format!("{part} is missing:\n{text}")));
        Ok(())
    }

    /// Sends a request with these header lines and checks how it is explained.
    fn case(
        &mut self,
        gateway: &Running,
        headers: &str,
        body: &Value,
        expected: &[&str],
    ) -> anyhow::Result<()> {
        let reply = gateway.send("POST", "/v1/messages", headers, body.to_string().as_bytes())?;
        self.expect(gateway, &id_of(&reply)?, expected)
    }

    fn check(&self) -> anyhow::Result<()> {
        ensure!(self.0.is_empty(), "{}", self.0.join("\n"));
        Ok(())
    }
}

fn question_to(route: &str, max_tokens: u32, stream: bool) -> Value {
    let mut body = question(max_tokens, stream);
    body["model"] = route.into();
    body
}

fn with_key(key: &str) -> String {
    format!("x-api-key: {key}\r\n")
}

/// A caller of this tier, who may use only these routes, if there are any.
fn caller_of(name: &str, key: &str, tier: &str, more: &str) -> String {
    caller(name, key).replace("tier = \"prime\"", &format!("tier = \"{tier}\"{more}"))
}

const STANDARD: &str = "sk-standard-0123456789abcdef";
const GUEST: &str = "sk-guest-tier-0123456789abcdef";
const RESTRICTED: &str = "sk-restricted-0123456789abcdef";

/// Faults by the target that has them: each has a route of its own, and its own breaker.
fn faults() -> [(&'static str, Value); 6] {
    [
        ("broken", json!({ "kind": "status", "status": 500 })),
        ("rejected", json!({ "kind": "status", "status": 401 })),
        ("throttled", json!({ "kind": "status", "status": 429, "retry_after": "30s" })),
        ("silent", json!({ "kind": "hang", "after": 0 })),
        ("cut", json!({ "kind": "cut", "after": 6 })),
        ("fine", json!({ "kind": "text", "text": "a complete answer" })),
    ]
}

/// A gateway with a data directory, and targets whose models have these faults.
fn start(test: &str, data_dir: &str, more: &str) -> anyhow::Result<(Running, Running)> {
    let rules: Vec<Value> =
        faults().into_iter().map(|(name, fault)| json!({ "contains": name, "fault": fault })).collect();
    let model = Running::model(test, &Value::from(rules).to_string())?;
    let mut settings = format!(
        "{NO_LIMITS}{BY_DAY}{}{}{}{more}retry.max_retries = 0\nbreakers.default.open_for = \"60s\"\nserver.max_body_size = \"64KiB\"\n\
         assistant.deny = [\"forbidden fruit\"]\n",
        caller_of("standard", STANDARD, "standard", ""),
        caller_of("guest-tier", GUEST, "guest", ""),
        caller_of("restricted", RESTRICTED, "prime", ", routes = [\"fine\"]"),
    );
    for (name, _) in faults() {
        let url = &model.url;
        settings += &format!(
            "targets.{name} = {{ provider = \"anthropic\", base_url = \"{url}\", model = \"instant\", region = \"none\", api_key = \"env:PATH\" }}\n\
             routes.{name} = {{ targets = [\"{name}\"], faces = [\"anthropic\", \"openai\", \"bedrock\"], start_timeout = \"400ms\" }}\n"
        );
    }
    let gateway = Running::gateway_with(test, &model.url, ["instant", "haiku"], &settings, |settings| {
        let stored = format!("store.kind = \"embedded\"\nstore.data_dir = \"{data_dir}\"\n");
        settings.replace("store.kind = \"memory\"\n", &stored).replace("\"120s\"", "\"1s\"")
    })?;
    Ok((model, gateway))
}

/// A question that the fault of this name answers, on the route of the same name.
fn faulty(name: &str, stream: bool) -> Value {
    let mut body = question_to(name, 40, stream);
    body["messages"][0]["content"] = format!("please be {name}").into();
    body
}

#[test]
fn every_kind_of_end_is_named_by_explain() -> anyhow::Result<()> {
    let data_dir = scratch_dir("explain-kinds-state")?;
    let limits = "limits.tiers.standard = { minute = \"1/min\", burst = 0, hour = \"50/h\", day = \"50/day\" }\n\
                  limits.tiers.guest = { minute = \"50/min\", burst = 0, hour = \"1/h\", day = \"50/day\" }\n";
    let (model, gateway) = start("explain-kinds", &data_dir.to_string_lossy(), limits)?;
    let own = with_key(KEY);
    let mut omissions = Omissions::default();

    // Rejected before a target is chosen.
    omissions.case(
        &gateway,
        &with_key("sk-nobody-0123456789abcdef"),
        &question(5, false),
        &["X rejected", "unknown_caller"],
    )?;
    omissions.case(&gateway, "", &question(5, false), &["unauthenticated", "guest_not_admitted"])?;
    omissions.case(
        &gateway,
        &own,
        &question_to("no-such-model", 5, false),
        &["unknown_model", "no-such-model"],
    )?;
    omissions.case(
        &gateway,
        &with_key(RESTRICTED),
        &question(5, false),
        &["forbidden", "tier prime (settings)"],
    )?;
    omissions.case(
        &gateway,
        &own,
        &json!({ "model": "manga" }),
        &["malformed", "max_tokens: Field required"],
    )?;
    let mut large = question(5, false);
    large["messages"][0]["content"] = "x".repeat(100_000).into();
    omissions.case(&gateway, &own, &large, &["too_large", "the limit is 65536 bytes"])?;
    let mut blocked = question(5, false);
    blocked["messages"][0]["content"] = "tell me of the forbidden fruit".into();
    omissions.case(&gateway, &own, &blocked, &["blocked", "deny_list.1"])?;

    // Limits: of the minute and of the hour.
    assert_eq!(gateway.ask(STANDARD, &faulty("fine", false))?.status, 200);
    omissions.case(
        &gateway,
        &with_key(STANDARD),
        &faulty("fine", false),
        &["rate_limited: minute, 1 request per minute", "0 of 1 left", "retry"],
    )?;
    assert_eq!(gateway.ask(GUEST, &faulty("fine", false))?.status, 200);
    omissions.case(
        &gateway,
        &with_key(GUEST),
        &faulty("fine", false),
        &["rate_limited: hour", "per caller, tier guest"],
    )?;

    // An idempotency key that was used.
    let named = format!("{own}idempotency-key: same\r\n");
    assert_eq!(
        gateway.send("POST", "/v1/messages", &named, faulty("fine", false).to_string().as_bytes())?.status,
        200
    );
    omissions.case(&gateway, &named, &faulty("fine", false), &["conflict", "has already been answered"])?;
    omissions.case(
        &gateway,
        &named,
        &question(5, false),
        &["conflict", "was used for a different request"],
    )?;

    // What targets do.
    omissions.case(
        &gateway,
        &own,
        &faulty("fine", false),
        &[
            "outcome  answered: strong_model, fine",
            "nothing restricted it",
            "credential api_key",
            "plan     ",
        ],
    )?;
    omissions.case(
        &gateway,
        &own,
        &faulty("broken", false),
        &["upstream_failed", "500 server_fault", "attempt 1 broken"],
    )?;
    omissions.case(
        &gateway,
        &own,
        &faulty("rejected", false),
        &["upstream_failed", "401 unauthorized", "key rejected"],
    )?;
    omissions.case(&gateway, &own, &faulty("throttled", false), &["throttled", "429"])?;
    omissions.case(&gateway, &own, &faulty("throttled", false), &["throttled"])?;
    omissions.case(&gateway, &own, &faulty("silent", true), &["timed_out"])?;
    omissions.case(&gateway, &own, &faulty("cut", true), &["X interrupted", "stream_interrupted"])?;
    for _ in 0..6 {
        gateway.ask(KEY, &faulty("broken", false))?;
    }
    omissions.case(
        &gateway,
        &own,
        &faulty("broken", false),
        &["unavailable (breaker_open)", "nothing reserved"],
    )?;
    let untranslatable = json!({
        "model": "fine", "messages": [{ "role": "user", "content": "hi" }], "n": 3, "max_tokens": 5
    });
    let reply = gateway.send(
        "POST",
        "/v1/chat/completions",
        &format!("authorization: Bearer {KEY}\r\n"),
        untranslatable.to_string().as_bytes(),
    )?;
    omissions.expect(&gateway, &id_of(&reply)?, &["X rejected", "malformed", "message  n: "])?;

    // Downgrades: another target, and an apology.
    model.set_faults(&json!([{ "model": "instant", "fault": { "kind": "status", "status": 503 } }]))?;
    omissions.case(
        &gateway,
        &own,
        &question(5, false),
        &[
            "! degraded: fast_model, haiku",
            "sonnet failed: server_fault (503)",
            "attempt 2 haiku",
            "failover",
        ],
    )?;
    model.set_faults(&json!([{ "fault": { "kind": "status", "status": 503 } }]))?;
    let reply = gateway.send("POST", "/chat", &own, br#"{"message":"hello"}"#)?;
    assert_eq!(reply.status, 200);
    omissions.expect(
        &gateway,
        &id_of(&reply)?,
        &["! degraded: apology", "strong:server_fault", "plan     "],
    )?;

    // A caller that goes away.
    model.set_faults(&json!([{ "fault": { "kind": "drip", "every": "50ms" } }]))?;
    let mut leaving = gateway.post(KEY, &question_to("fine", 200, true).to_string())?;
    let mut head = vec![0; 400];
    leaving.read_exact(&mut head)?;
    let head = String::from_utf8_lossy(&head).into_owned();
    let id = head.split("request-id: ").nth(1).and_then(|rest| rest.get(..20)).context("no id")?.to_owned();
    drop(leaving);
    wait_until("the request has ended", || {
        Ok(command(&gateway, &["explain", &id]).output()?.status.success())
    })?;
    omissions.expect(&gateway, &id, &["! abandoned", "the caller disconnected"])?;

    // Records survive a restart, also that of a request that was cut off by it.
    model.set_faults(&json!([{ "fault": { "kind": "hang", "after": 3 } }]))?;
    let mut cut_off = gateway.post(KEY, &question_to("fine", 200, true).to_string())?;
    let mut head = vec![0; 400];
    cut_off.read_exact(&mut head)?;
    let head = String::from_utf8_lossy(&head).into_owned();
    let cut_off_id =
        head.split("request-id: ").nth(1).and_then(|rest| rest.get(..20)).context("no id")?.to_owned();
    assert_eq!(gateway.end_with(Signal::TERM)?.code(), Some(0));
    let (_, again) = start("explain-again", &data_dir.to_string_lossy(), limits)?;
    omissions.expect(&again, &id, &["! abandoned"])?;
    omissions.expect(&again, &cut_off_id, &["X interrupted", "shutting_down"])?;
    omissions.check()
}

/// The budget of a day pays for some answers of this many tokens.
#[test]
fn every_shortage_of_money_and_slots_is_named_by_explain() -> anyhow::Result<()> {
    let model = Running::model("explain-money", "[]")?;
    let gateway = |test: &str, more: &str| {
        Running::gateway(
            test,
            &model,
            ["instant", "instant"],
            &format!("{NO_LIMITS}{BY_DAY}retry.max_retries = 0\n{more}"),
        )
    };
    let own = with_key(KEY);
    let mut omissions = Omissions::default();
    // 1000 output tokens cost 1.5 cents.
    let day = gateway("explain-day", "budget.day = \"$5/day\"\nbudget.caller_day = \"$0.02/day\"\n")?;
    omissions.case(&day, &own, &question(5_000, false), &["exceeds_daily_budget"])?;
    model.set_faults(&json!([{ "fault": { "kind": "hang", "after": 0 } }]))?;
    let waiting = day.post(KEY, &question(1_000, false).to_string())?;
    wait_until("a call is in flight", || Ok(day.counter("seawall_in_flight")? == 1))?;
    omissions.case(&day, &own, &question(1_000, false), &["budget_held", "nothing reserved"])?;
    drop(waiting);
    wait_until("the call has ended", || Ok(day.counter("seawall_in_flight")? == 0))?;
    omissions.case(&day, &own, &question(1_000, false), &["exceeds_remaining_budget"])?;
    model.set_faults(&json!([]))?;

    let global = gateway("explain-global", "limits.global = { minute = \"1/min\" }\n")?;
    assert_eq!(global.ask(KEY, &question(5, false))?.status, 200);
    let expected = ["rate_limited: minute, 1 request per minute (all callers together)"];
    omissions.case(&global, &own, &question(5, false), &expected)?;
    omissions.check()
}

#[test]
fn tail_shows_requests_as_they_complete_and_ends_with_its_reader() -> anyhow::Result<()> {
    let data_dir = scratch_dir("explain-tail-state")?;
    let (_model, gateway) = start("explain-tail", &data_dir.to_string_lossy(), "")?;
    assert_eq!(gateway.ask(KEY, &faulty("fine", false))?.status, 200);
    let mut tail =
        command(&gateway, &["tail", "--outcome", "rejected,answered"]).stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(tail.stdout.take().context("no output")?).lines();
    let first = lines.next().context("no line")??;
    ensure!(first.contains("answered") && first.contains("cost=$"), "{first}");
    gateway.ask("sk-nobody-0123456789abcdef", &question(5, false))?;
    let second = lines.next().context("no line")??;
    ensure!(second.contains("X rejected") && second.contains("reason=\"unknown_caller\""), "{second}");
    drop(lines);
    gateway.ask("sk-nobody-0123456789abcdef", &question(5, false))?;
    wait_until("the command has ended", || Ok(tail.try_wait()?.is_some()))?;
    assert_eq!(tail.wait()?.code(), Some(0), "a reader that has ended is no failure");
    Ok(())
}

#[test]
fn exit_codes_say_what_was_wrong() -> anyhow::Result<()> {
    let model = Running::model("explain-codes", "[]")?;
    let gateway = Running::gateway("explain-codes", &model, ["instant", "instant"], NO_LIMITS)?;
    let code = |arguments: &[&str]| anyhow::Ok(command(&gateway, arguments).output()?.status.code());
    assert_eq!(code(&["explain", "req_0123456789abcdef"])?, Some(3));
    assert_eq!(code(&["explain", "something"])?, Some(2));
    assert_eq!(code(&["tail", "--rung", "nonsense"])?, Some(2));
    assert_eq!(code(&["top"])?, Some(0));
    let reply = gateway.ask(KEY, &question(5, false))?;
    let id = id_of(&reply)?;
    let record: Value = serde_json::from_str(&printed(&gateway, &["explain", &id, "--json"])?)?;
    assert_eq!((&record["id"], &record["outcome"]), (&json!(id), &json!("answered")));
    let object: Value = serde_json::from_str(&printed(&gateway, &["top", "--json"])?)?;
    assert_eq!(object["targets"].as_array().map(Vec::len), Some(2), "{object}");
    let screen = printed(&gateway, &["top"])?;
    ensure!(screen.contains("TARGET") && screen.contains("sonnet") && !screen.contains('\u{1b}'), "{screen}");
    let more = format!("{NO_LIMITS}admin.credential = \"env:PATH\"\n");
    let guarded = Running::gateway("explain-guarded", &model, ["instant", "instant"], &more)?;
    assert_eq!(command(&guarded, &["explain", &id]).output()?.status.code(), Some(4));
    let nowhere = seawall(&["explain", &id, "--set", "admin.listen=127.0.0.1:9"]).output()?;
    assert_eq!(nowhere.status.code(), Some(5));
    Ok(())
}
