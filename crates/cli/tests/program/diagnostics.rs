//! The diagnostic log: one line for each change that matters to an operator, and no secret.

use crate::requests::{BY_DAY, NO_LIMITS, question};
use crate::running::{KEY, Running, caller, scratch_dir};
use anyhow::ensure;
use seawall_testkit::{Signal, exchange, wait_until};
use serde_json::{Value, json};

/// Breakers with a short open time.
const BREAKER: &str =
    "retry.max_retries = 0\nbreakers.sonnet.open_for = \"1s\"\nbreakers.haiku.open_for = \"1s\"\n";

fn admin(gateway: &Running, method: &str, path: &str, body: &str) -> anyhow::Result<Value> {
    let address = gateway.admin.trim_start_matches("http://");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    Ok(serde_json::from_slice(&exchange(address, head.as_bytes())?.body)?)
}

#[test]
fn breakers_keys_and_draining_leave_one_line_each() -> anyhow::Result<()> {
    let state = scratch_dir("diagnostics-state")?;
    let model = Running::model("diagnostics", r#"[{"fault":{"kind":"status","status":500}}]"#)?;
    // A failure that only one caller has caused is probed by that caller alone.
    let other = "sk-other-0123456789abcdef";
    let more = format!("{NO_LIMITS}{BY_DAY}{BREAKER}{}", caller("other", other));
    let gateway =
        Running::gateway_with("diagnostics", &model.url, ["instant", "instant"], &more, |settings| {
            settings.replace(
                "store.kind = \"memory\"",
                &format!("store = {{ kind = \"embedded\", data_dir = '{}' }}", state.display()),
            )
        })?;
    let count_messages =
        |words: &str| -> anyhow::Result<usize> { Ok(gateway.errors()?.matches(words).count()) };
    wait_until("the breakers open", || {
        gateway.ask(KEY, &question(5, false))?;
        gateway.ask(other, &question(5, false))?;
        Ok(count_messages("target sonnet: breaker opened: consecutive_failures\n")? == 1)
    })?;
    model.set_faults(&json!([]))?;
    wait_until("they close", || {
        gateway.ask(KEY, &question(5, false))?;
        gateway.ask(other, &question(5, false))?;
        Ok(count_messages("target sonnet: breaker closed\n")? == 1)
    })?;
    ensure!(count_messages("target sonnet: breaker half-open\n")? >= 1, "{}", gateway.errors()?);
    let created = admin(&gateway, "POST", "/admin/keys", r#"{"name":"shop","tier":"prime"}"#)?;
    let id = created["id"].as_str().unwrap_or_default();
    admin(&gateway, "DELETE", "/admin/keys/shop", "")?;
    gateway.signal(Signal::TERM)?;
    wait_until("it is drained", || Ok(count_messages("seawall: drained in ")? == 1))?;
    let log = gateway.errors()?;
    for line in [
        format!("seawall: key {id} created (tier prime)\n"),
        format!("seawall: key {id} revoked (tier prime)\n"),
        "seawall: SIGTERM received: draining requests, for at most 2m\n".to_owned(),
    ] {
        ensure!(log.matches(&line).count() == 1, "{line}: {log}");
    }
    ensure!(!log.contains(created["key"].as_str().unwrap_or("none")) && !log.contains(KEY), "{log}");
    ensure!(gateway.wait()?.success());
    Ok(())
}
