//! `seawall tail`.

use crate::CommandError;
use crate::gateway_client::{ClientError, GatewayArguments, GatewayClient};
use crate::output::write_line;
use crate::record_text::{
    Attention, clock_time, column, items, number_of, reason, request_cost, seconds, short_caller, text_of,
};
use anyhow::anyhow;
use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use seawall_core::time::UtcTime;
use seawall_gateway::TokioRuntime;
use seawall_pipeline::Runtime as _;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// The pause between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Records per poll.
const PAGE: usize = 500;
/// How many of the newest ids are remembered, so that no request is shown twice.
const REMEMBERED: usize = 2_000;

#[derive(Args)]
pub(crate) struct TailArguments {
    /// Outcomes, separated by commas: answered, degraded, interrupted, abandoned, rejected.
    #[arg(long, value_name = "LIST")]
    outcome: Option<String>,
    /// Caller, by its pseudonym in the log.
    #[arg(long, value_name = "HEX")]
    caller: Option<String>,
    /// Name of the caller's key.
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    /// Target that answered or was called.
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Rung that answered.
    #[arg(long, value_name = "NAME")]
    rung: Option<String>,
    /// Begin this far in the past, or at this time: 15m, 2026-11-16T13:09:41Z.
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Begin with this many of the newest requests.
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=1000))]
    last: u16,
    #[command(flatten)]
    gateway: GatewayArguments,
}

impl TailArguments {
    /// The filters as query parameters, each with its `&` before it.
    fn filters(&self) -> String {
        // A comma separates the items of a list.
        const ENCODED: &AsciiSet =
            &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b',').remove(b':');
        [
            ("outcome", &self.outcome),
            ("caller", &self.caller),
            ("key", &self.key),
            ("target", &self.target),
            ("rung", &self.rung),
        ]
        .into_iter()
        .filter_map(|(name, value)| {
            Some(format!("&{name}={}", utf8_percent_encode(value.as_ref()?, ENCODED)))
        })
        .collect()
    }
}

pub(crate) fn run(arguments: &TailArguments) -> Result<(), CommandError> {
    let client = arguments.gateway.client()?;
    let mut output = TailOutput {
        json: arguments.gateway.json,
        uses_colours: arguments.gateway.uses_colours(),
        seen: VecDeque::new(),
    };
    let ended = follow(arguments, &client, &mut output, TokioRuntime::new());
    match ended {
        // The program that read the lines has ended.
        Err(TailEnd::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(TailEnd::Output(error)) => {
            Err(CommandError::Failed(anyhow!(error).context("cannot write to standard output")))
        }
        Err(TailEnd::Client(error)) => Err(error.into()),
        Ok(never) => match never {},
    }
}

/// Why following ended.
enum TailEnd {
    Client(ClientError),
    Output(io::Error),
}

impl From<io::Error> for TailEnd {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

fn follow(
    arguments: &TailArguments,
    client: &GatewayClient,
    output: &mut TailOutput,
    clock: TokioRuntime,
) -> Result<std::convert::Infallible, TailEnd> {
    let filters = arguments.filters();
    let since = arguments.since.as_ref().map(|since| format!("&since={since}")).unwrap_or_default();
    // A gateway that cannot be reached at first is an error; later it is waited for.
    let first = match since.is_empty() {
        true => client.get(&format!("/admin/requests?limit={}{filters}", arguments.last.max(1))),
        false => client.get(&format!("/admin/requests?limit={PAGE}&after=oldest{since}{filters}")),
    };
    let first = first.map_err(TailEnd::Client)?;
    let mut cursor = if since.is_empty() {
        for record in items(&first, "requests").iter().take(arguments.last.into()).rev() {
            output.record(record)?;
        }
        text_of(&first, "follow", "oldest").to_owned()
    } else {
        items(&first, "requests").iter().try_for_each(|record| output.record(record))?;
        text_of(&first, "next", "oldest").to_owned()
    };
    let mut lost_since: Option<UtcTime> = None;
    let mut is_full = items(&first, "requests").len() == PAGE && !since.is_empty();
    loop {
        if !is_full {
            // There is nothing else to do meanwhile.
            std::thread::park_timeout(POLL_INTERVAL);
        }
        // Begun in the past, a page holds what the filters let through since then.
        let page = match client.get(&format!("/admin/requests?limit={PAGE}&after={cursor}{since}{filters}")) {
            Ok(page) => page,
            Err(ClientError::Unreachable(_) | ClientError::Failed(_)) => {
                is_full = false;
                lost_since.get_or_insert(clock.now().utc);
                continue;
            }
            Err(error) => return Err(TailEnd::Client(error)),
        };
        if let Some(from) = lost_since.take() {
            output.gap(Some(from), clock.now().utc)?;
        } else if page["gap"] == true {
            output.gap(None, clock.now().utc)?;
        }
        let records = items(&page, "requests");
        is_full = records.len() == PAGE;
        records.iter().try_for_each(|record| output.record(record))?;
        cursor = text_of(&page, "next", &cursor).to_owned();
    }
}

/// Writes lines, and remembers what was written.
struct TailOutput {
    json: bool,
    uses_colours: bool,
    seen: VecDeque<String>,
}

impl TailOutput {
    fn record(&mut self, record: &Value) -> io::Result<()> {
        let id = text_of(record, "id", "");
        if self.seen.iter().rev().any(|seen| seen == id) && record.get("repeats").is_none() {
            return Ok(());
        }
        if self.seen.len() == REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(id.to_owned());
        let line = if self.json { record.to_string() } else { line(record, self.uses_colours) };
        write_line(&line)
    }

    fn gap(&self, from: Option<UtcTime>, until: UtcTime) -> io::Result<()> {
        let (from, until) = (from.map(format_second), format_second(until));
        write_line(&if self.json {
            json!({ "gap": { "from": from, "until": until } }).to_string()
        } else {
            let from = from.map_or_else(|| "records expired".to_owned(), |from| clock_time(&from).to_owned());
            format!("-- gap {from}..{} --", clock_time(&until))
        })
    }
}

/// A time by RFC 3339, to the second.
fn format_second(time: UtcTime) -> String {
    let (year, month, day) = time.civil();
    let second = time.as_nanos() / 1_000_000_000 % 86_400;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// A record as a line: fixed columns, then names and values.
pub(crate) fn line(record: &Value, uses_colours: bool) -> String {
    let outcome = text_of(record, "outcome", "-");
    let severity = Attention::of_outcome(outcome);
    let columns = [
        column(clock_time(text_of(record, "time", "-")), 13),
        severity.paint(&format!("{} {}", severity.mark(), column(outcome, 11)), uses_colours),
        column(text_of(record, "face", "-"), 9),
        column(text_of(record, "tier", "-"), 8),
        column(&short_caller(text_of(record, "caller", "-")), 8),
        column(text_of(record, "rung", "-"), 12),
        column(text_of(record, "target", "-"), 10),
    ];
    let mut values = Vec::new();
    if outcome != "answered"
        && let Some(reason) = reason(record)
    {
        values.push(format!("reason={}", json!(reason)));
    }
    if let Some(repeats) = record["repeats"].as_u64() {
        values.push(format!("repeats={repeats}"));
    }
    if let Some(retry) = record["retry_after_ms"].as_u64() {
        values.push(format!("retry={}s", retry.div_ceil(1_000)));
    }
    values.push(format!("tries={}", number_of(record, "attempts")));
    if let Some(first) = record["first_content_us"].as_u64() {
        values.push(format!("first={}s", seconds(first)));
    }
    values.push(format!("total={}s", seconds(number_of(record, "duration_us"))));
    values.push(format!("cost={}", request_cost(number_of(record, "cost_nanos"))));
    values.push(format!("id={}", text_of(record, "id", "-")));
    format!("{}  {}", columns.join(" "), values.join(" "))
}

#[cfg(test)]
mod tests {
    use super::line;
    use serde_json::json;

    #[test]
    fn a_line_has_fixed_columns_and_then_names_with_values() {
        let answered = json!({
            "time": "2026-11-16T13:12:07.412Z", "id": "req_1", "outcome": "answered", "face": "openai", "tier": "standard",
            "caller": "9f3c41d07ab2e655", "rung": "fast_model", "target": "haiku", "attempts": 1,
            "first_content_us": 310_000, "duration_us": 920_000, "cost_nanos": 310_000,
        });
        assert_eq!(
            line(&answered, false),
            "13:12:07.412Z   answered    openai    standard 9f3c..55 fast_model   haiku       \
             tries=1 first=0.31s total=0.92s cost=$0.000310 id=req_1"
        );
        let rejected = json!({
            "time": "2026-11-16T13:12:07.418Z", "id": "req_2", "outcome": "rejected", "reason": "rate_limited", "face": "openai",
            "limit": "minute", "limits": { "allowance": "10 requests per minute (per caller, tier guest)" },
            "retry_after_ms": 11_400, "repeats": 311, "target": "漫画エンジンの目標",
        });
        assert_eq!(
            line(&rejected, false),
            "13:12:07.418Z X rejected    openai    -        -        -            漫画エンジ  \
             reason=\"rate_limited: minute, 10 requests per minute (per caller, tier guest)\" repeats=311 retry=12s tries=0 \
             total=0.00s cost=$0.000000 id=req_2"
        );
        assert!(line(&rejected, true).contains("\u{1b}[31mX rejected"));
    }
}
