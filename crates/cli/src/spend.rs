//! `seawall spend`.

use crate::CommandError;
use crate::admin;
use crate::settings::{Overrides, SettingsLoader};
use anyhow::{Context as _, anyhow};
use clap::Args;
use seawall_core::money::Money;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Shows what was spent, from the ledger of a running gateway.
#[derive(Args)]
pub(crate) struct SpendCommand {
    /// What to break the spend down by.
    #[arg(long, value_name = "WHAT", default_value = "key",
          value_parser = ["key", "team", "tier", "model", "target", "route", "tag", "day"])]
    by: String,
    /// First day (2026-11-01), or how long ago (7d). Default: today. Days are in UTC.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Settings file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// Print JSON.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV; amounts are in nano-dollars.
    #[arg(long)]
    csv: bool,
}

pub(crate) fn run(command: &SpendCommand) -> Result<(), CommandError> {
    let is_plain =
        |text: &String| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    if let Some(since) = command.since.as_ref().filter(|since| !is_plain(since)) {
        let problem = anyhow!("--since {since:?}: write a date such as 2026-11-01, or a duration such as 7d");
        return Err(CommandError::InvalidInput(problem));
    }
    let settings =
        SettingsLoader::new(command.config.as_deref(), &command.overrides).load_or_fail()?.settings;
    let since = command.since.as_ref().map_or_else(String::new, |since| format!("&since={since}"));
    let path = format!("/admin/spend?by={}{since}", command.by);
    let answer = admin::send_request(&settings, "GET", &path, b"").map_err(CommandError::Failed)?;
    let body: Value = serde_json::from_slice(&answer.body)
        .context("the admin API returned no JSON")
        .map_err(CommandError::Failed)?;
    if answer.status != 200 {
        let message =
            body["error"]["message"].as_str().unwrap_or("the admin API refused the request").to_owned();
        let error = anyhow!("{message} (status {})", answer.status);
        return Err(if answer.status == 400 {
            CommandError::InvalidInput(error)
        } else {
            CommandError::Failed(error)
        });
    }
    let text = if command.json {
        format!("{body:#}\n")
    } else if command.csv {
        csv(&body)
    } else {
        table(&body)
    };
    io::stdout()
        .write_all(text.as_bytes())
        .context("cannot write to standard output")
        .map_err(CommandError::Failed)
}

fn number(row: &Value, field: &str) -> u64 {
    row[field].as_u64().unwrap_or(0)
}

/// A row's name: a caller without a key has only its pseudonym.
fn name(row: &Value) -> String {
    let text = row["name"].as_str().or_else(|| row["caller"].as_str()).unwrap_or("-");
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

fn rows(body: &Value) -> &[Value] {
    body["rows"].as_array().map_or(&[], Vec::as_slice)
}

fn table(body: &Value) -> String {
    let mut text = format!(
        "{:>16}  {:>8}  {:>12}  {:>12}  {}\n",
        "cost",
        "calls",
        "input",
        "output",
        body["by"].as_str().unwrap_or("")
    );
    let mut line = |cost: u64, row: &Value, name: &str| {
        let cost = Money::from_nanos(cost).to_string();
        let input = number(row, "input_tokens")
            + number(row, "cache_read_tokens")
            + number(row, "cache_write_tokens");
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{cost:>16}  {:>8}  {input:>12}  {:>12}  {name}",
            number(row, "calls"),
            number(row, "output_tokens")
        );
    };
    for row in rows(body) {
        line(number(row, "cost_nanos"), row, &name(row));
    }
    let unattributed = body["unattributed_nanos"].as_u64().unwrap_or(0);
    if unattributed > 0 {
        line(unattributed, &Value::Null, "(unattributed)");
    }
    line(number(&body["total"], "cost_nanos"), &body["total"], "total");
    let _ = writeln!(
        text,
        "since {} (UTC), as of {}",
        body["since"].as_str().unwrap_or("-"),
        body["until"].as_str().unwrap_or("-")
    );
    text
}

fn csv(body: &Value) -> String {
    let mut text =
        "name,id,calls,cost_nanos,input_tokens,cache_read_tokens,cache_write_tokens,output_tokens\r\n"
            .to_owned();
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    for row in rows(body) {
        let id = row["key"].as_str().or_else(|| row["caller"].as_str()).unwrap_or("");
        let numbers = [
            "calls",
            "cost_nanos",
            "input_tokens",
            "cache_read_tokens",
            "cache_write_tokens",
            "output_tokens",
        ]
        .map(|field| number(row, field).to_string());
        // Writing to a string cannot fail.
        let _ = write!(text, "{},{},{}\r\n", quoted(&name(row)), quoted(id), numbers.join(","));
    }
    let unattributed = body["unattributed_nanos"].as_u64().unwrap_or(0);
    if unattributed > 0 {
        let _ = write!(text, "\"(unattributed)\",\"\",,{unattributed},,,,\r\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{csv, table};
    use serde_json::json;

    #[test]
    fn rows_and_what_is_unattributed_add_up_to_the_total() {
        let row = json!({"name": "a \"b\"\u{7}", "key": "00ff", "calls": 2, "cost_nanos": 1_500_000_000_u64,
                         "input_tokens": 5, "cache_read_tokens": 1, "cache_write_tokens": 0, "output_tokens": 7});
        let body = json!({"by": "key", "since": "2026-11-01", "until": "2026-11-18T00:00:00Z", "rows": [row],
                          "unattributed_nanos": 500_000_000, "total": {"calls": 3, "cost_nanos": 2_000_000_000_u64}});
        let text = table(&body);
        for part in ["$1.50", "$0.50", "(unattributed)", "$2.00", "total", "since 2026-11-01"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let csv = csv(&body);
        assert!(csv.contains("\"a \"\"b\"\" \",\"00ff\",2,1500000000,5,1,0,7\r\n"), "{csv}");
        assert!(csv.contains("\"(unattributed)\",\"\",,500000000,"), "{csv}");
    }
}
