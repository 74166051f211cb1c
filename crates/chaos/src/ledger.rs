//! Ledgers and logs of nodes, read after they have ended.

use anyhow::Context as _;
use seawall_core::budget::BudgetOptions;
use seawall_core::money::Money;
use seawall_core::runtime::Runtime as _;
use seawall_gateway::TokioRuntime;
use seawall_model::engine::Profile;
use seawall_store::Ledger as _;
use seawall_store::embedded::{EmbeddedOptions, EmbeddedStore};
use serde_json::Value;
use std::fs;
use std::path::Path;

const NANOS_PER_CENT: u64 = 10_000_000;

/// The persisted ledger of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PersistedLedger {
    /// The day's posted cost, in nano-dollars.
    pub(crate) posted: u64,
    /// Reservations that were still open when the last process ended.
    pub(crate) left_open: u64,
}

/// Reads the ledger in this directory.
pub(crate) async fn read_ledger(
    directory: &Path,
    cents: u64,
    runtime: TokioRuntime,
) -> anyhow::Result<PersistedLedger> {
    let day = Money::from_nanos(cents.saturating_mul(NANOS_PER_CENT));
    let limits = BudgetOptions { day, caller_day: day, ..BudgetOptions::default() }.check()?;
    let now = runtime.now();
    let opened = EmbeddedStore::open(directory, EmbeddedOptions::new(limits), now)
        .with_context(|| format!("cannot open {}", directory.display()))?;
    let totals = opened.store.day(now.utc.day()).await?;
    let posted = totals.tiers.iter().fold(0_u64, |sum, tier| sum.saturating_add(tier.cost.as_nanos()));
    Ok(PersistedLedger { posted, left_open: opened.report.charged.len() as u64 })
}

/// Answers of a single attempt in an access log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PriceCheck {
    /// Their number.
    pub(crate) answers: u64,
    /// Those whose posted cost differs from the price of their usage.
    pub(crate) wrong: Vec<String>,
}

/// Compares every answer in this log with the model's prices.
pub(crate) fn check_prices(log: &Path) -> anyhow::Result<PriceCheck> {
    check_prices_in(&fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display()))?)
}

fn check_prices_in(lines: &str) -> anyhow::Result<PriceCheck> {
    let mut check = PriceCheck::default();
    for text in lines.lines() {
        let Ok(line) = serde_json::from_str::<Value>(text) else {
            // A process that was killed in the middle of a line left half of it, with the next line appended.
            continue;
        };
        let number = |key: &str| line[key].as_u64().unwrap_or_default();
        let tokens = |kind: &str| line["tokens"][kind].as_u64().unwrap_or_default();
        let model = line["target"].as_str().and_then(Profile::named);
        let (Some(model), "answered" | "degraded", 1) =
            (model, line["outcome"].as_str().unwrap_or_default(), number("attempts"))
        else {
            continue;
        };
        let price = tokens("input").saturating_mul(model.input_price);
        let price = price.saturating_add(tokens("output").saturating_mul(model.output_price));
        check.answers += 1;
        if price != number("cost_nanos") {
            check.wrong.push(format!("expected cost {price}: {text}"));
        }
    }
    Ok(check)
}

#[cfg(test)]
mod tests {
    use super::check_prices_in;

    #[test]
    fn answers_of_one_attempt_are_held_against_the_price_list() {
        let lines = r#"{"outcome":"answered","target":"haiku","attempts":1,"tokens":{"input":10,"output":2},"cost_nanos":5000}
{"outcome":"answered","target":"sonnet","attempts":1,"tokens":{"input":10,"output":2},"cost_nanos":60001}
{"outcome":"answered","target":"sonnet","attempts":2,"tokens":{"input":10,"output":2},"cost_nanos":999}
{"outcome":"interrupted","target":"sonnet","attempts":1,"tokens":{"input":10,"output":2},"cost_nanos":5}
{"outcome":"answ
{"outcome":"answered","attempts":0,"tokens":{"input":0,"output":0},"cost_nanos":0}
"#;
        let check = check_prices_in(lines).unwrap();
        assert_eq!((check.answers, check.wrong.len()), (2, 1));
        assert!(check.wrong[0].starts_with("expected cost 60000: {"), "{:?}", check.wrong);
    }
}
