//! The invariants that must hold whatever faults occurred.
//!
//! Each invariant is checked against the recorded events and the persisted ledgers and logs, and lists its violations.
//! An invariant without any relevant event holds, and its counts show that.

mod limits;
mod requests;
mod restarts;
#[cfg(test)]
mod tests;

use crate::history::{Observations, ProcessLifetime};
use crate::ledger::{PersistedLedger, PriceCheck};
use crate::model::ModelBill;
use seawall_core::time::Timestamp;
use std::fmt;

/// Violations shown per invariant.
const MAX_SHOWN: usize = 8;
/// The most that a call with an unknown end may cost beyond what was delivered of it, in nano-dollars.
const MAX_CALL_COST: u64 = 6_000_000;
/// The most that is posted for a call that exceeds its limits in this schedule.
const MAX_OVERRUN_COST: u64 = 400_000_000;
/// Allowed growth of open file descriptors of a node over the run, without connections to models, of which it pools
/// some.
const MAX_DESCRIPTOR_GROWTH: u64 = 12;
/// Allowed growth of a node's memory after a fifth of the run: a quarter, and this.
const MAX_MEMORY_GROWTH: u64 = 8 << 20;

/// Allowed growth of a node's memory during an attack by unauthenticated clients: what their connections and its other
/// callers need, but not what they send.
const MAX_ATTACK_MEMORY: u64 = 48 << 20;

/// The input of all invariants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) observations: Observations,
    /// The last ledger state of each node: posted and held.
    pub(crate) ledgers: Vec<Option<(u64, u64)>>,
    /// The persisted ledger of each node.
    pub(crate) persisted: Vec<PersistedLedger>,
    /// The access log of each node.
    pub(crate) prices: Vec<PriceCheck>,
    /// The bill of each model.
    pub(crate) bills: Vec<ModelBill>,
    /// Unexpected output of processes.
    pub(crate) stderr: Vec<String>,
    /// The processes that lived to the end.
    pub(crate) final_processes: Vec<u32>,
}

/// An invariant, and whether it held.
#[derive(Clone, Debug)]
pub(crate) struct InvariantResult {
    name: &'static str,
    /// The numbers it was checked against.
    counts: String,
    violations: Vec<String>,
}

impl InvariantResult {
    fn new(name: &'static str, counts: String, violations: Vec<String>) -> Self {
        Self { name, counts, violations }
    }

    pub(crate) fn held(&self) -> bool {
        self.violations.is_empty()
    }
}

impl fmt::Display for InvariantResult {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.held() { "held  " } else { "BROKEN" };
        writeln!(out, "{mark}  {}: {}", self.name, self.counts)?;
        for line in self.violations.iter().take(MAX_SHOWN) {
            writeln!(out, "          {line}")?;
        }
        let more = self.violations.len().saturating_sub(MAX_SHOWN);
        if more > 0 { writeln!(out, "          and {more} more") } else { Ok(()) }
    }
}

/// All invariants.
pub(crate) fn check_all(evidence: &Evidence) -> Vec<InvariantResult> {
    let mut results = requests::check(evidence);
    results.push(limits::check(evidence));
    results.push(restarts::check(evidence));
    results.push(within_budget(evidence));
    results.push(nothing_held(evidence));
    results.push(all_billed_is_posted(evidence));
    results.push(all_posted_is_explained(evidence));
    results.push(ledgers_agree(evidence));
    results.push(exact_prices(evidence));
    results.push(memory(evidence));
    results.push(unauthenticated_clients(evidence));
    results.push(descriptors(evidence));
    results.push(processes(evidence));
    results
}

fn within_budget(evidence: &Evidence) -> InvariantResult {
    let observations = &evidence.observations;
    let max_budget_use = observations.max_budget_use;
    let counts = format!(
        "{} readings, at most {}.{} % of it",
        observations.readings,
        max_budget_use / 10,
        max_budget_use % 10
    );
    let mut violations = observations.overdrawn.clone();
    if observations.readings == 0 {
        violations.push("the metrics were never read".to_owned());
    }
    InvariantResult::new("posted and held, without overruns, are within the budget", counts, violations)
}

fn nothing_held(evidence: &Evidence) -> InvariantResult {
    let mut violations = Vec::new();
    for (node, ledger) in evidence.ledgers.iter().enumerate() {
        match ledger {
            None => violations.push(format!("the metrics of node {node} cannot be read")),
            Some((_, 0)) => {}
            Some((_, held)) => violations.push(format!("node {node} holds {held}")),
        }
    }
    for (node, persisted) in evidence.persisted.iter().enumerate() {
        if persisted.left_open > 0 {
            violations.push(format!("node {node} stopped with {} open reservations", persisted.left_open));
        }
    }
    InvariantResult::new(
        "no reservation is left at the end",
        format!("{} nodes", evidence.ledgers.len()),
        violations,
    )
}

fn billed(evidence: &Evidence) -> u64 {
    evidence.bills.iter().fold(0, |sum, bill| sum.saturating_add(bill.nano_dollars))
}

fn posted(evidence: &Evidence) -> u64 {
    evidence.persisted.iter().fold(0, |sum, persisted| sum.saturating_add(persisted.posted))
}

fn all_billed_is_posted(evidence: &Evidence) -> InvariantResult {
    // Reservations cannot cover a vendor that bills more than a request allows.
    let false_billing: u64 = evidence.bills.iter().map(|bill| bill.false_billing.1).sum();
    let (billed, posted) = (billed(evidence).saturating_sub(false_billing), posted(evidence));
    let violations = (billed > posted).then(|| format!("{} nano-dollars are missing", billed - posted));
    let counts = format!("models billed {billed}, nodes posted {posted}");
    InvariantResult::new("everything that models bill is posted", counts, violations.into_iter().collect())
}

/// The amount posted beyond the bill is for calls whose end is unknown: those are charged at their maximum cost.
fn all_posted_is_explained(evidence: &Evidence) -> InvariantResult {
    let excess = posted(evidence).saturating_sub(billed(evidence));
    let unfinished: u64 = evidence.bills.iter().map(|bill| bill.unfinished).sum();
    let (disconnected, lost) = requests::disconnected_and_killed(evidence);
    let false_billing: u64 = evidence.bills.iter().map(|bill| bill.false_billing.0).sum();
    let explained = (unfinished + disconnected + lost).saturating_mul(MAX_CALL_COST);
    let explained = explained.saturating_add(false_billing.saturating_mul(MAX_OVERRUN_COST));
    let counts = format!(
        "{excess} beyond the bill; {unfinished} calls unfinished, {disconnected} callers disconnected, {lost} lost to kills"
    );
    let is_partial = evidence.bills.iter().any(|bill| bill.is_partial);
    let violations =
        (excess > explained && !is_partial).then(|| format!("at most {explained} can be explained"));
    InvariantResult::new(
        "every amount posted beyond the bill is explained",
        counts,
        violations.into_iter().collect(),
    )
}

fn ledgers_agree(evidence: &Evidence) -> InvariantResult {
    let mut violations = Vec::new();
    for (node, (ledger, persisted)) in evidence.ledgers.iter().zip(&evidence.persisted).enumerate() {
        if let Some((posted, _)) = ledger
            && *posted != persisted.posted
        {
            violations.push(format!("node {node} posted {posted}, its ledger has {}", persisted.posted));
        }
    }
    let counts = format!("{} ledgers", evidence.persisted.len());
    InvariantResult::new("persisted ledgers match the posted amounts", counts, violations)
}

fn exact_prices(evidence: &Evidence) -> InvariantResult {
    let answers: u64 = evidence.prices.iter().map(|check| check.answers).sum();
    let violations = evidence.prices.iter().flat_map(|check| check.wrong.clone()).collect();
    InvariantResult::new(
        "the cost of an answer matches its usage",
        format!("{answers} answers of one attempt"),
        violations,
    )
}

fn final_processes(evidence: &Evidence) -> impl Iterator<Item = &ProcessLifetime> {
    evidence.observations.processes.iter().filter(|process| evidence.final_processes.contains(&process.id))
}

fn memory(evidence: &Evidence) -> InvariantResult {
    let mebibytes = |bytes: u64| bytes >> 20;
    let (mut counts, mut violations) = (Vec::new(), Vec::new());
    for process in final_processes(evidence) {
        let (Some(before), after) = process.memory else { continue };
        let text = format!("node {}: {} MiB, then {} MiB", process.node, mebibytes(before), mebibytes(after));
        if after > before + before / 4 + MAX_MEMORY_GROWTH {
            violations.push(text.clone());
        }
        counts.push(text);
    }
    let counts = if counts.is_empty() { "no process ran long enough".to_owned() } else { counts.join("; ") };
    InvariantResult::new("memory does not grow", counts, violations)
}

fn unauthenticated_clients(evidence: &Evidence) -> InvariantResult {
    let attacks = &evidence.observations.attacks;
    let max_growth = attacks.iter().map(|attack| attack.memory_growth >> 20).max().unwrap_or(0);
    let requests: u32 = attacks.iter().map(|attack| attack.requests).sum();
    let counts = format!("{} times, at most {max_growth} MiB; {requests} requests meanwhile", attacks.len());
    let mut violations: Vec<String> = attacks.iter().flat_map(|attack| attack.failures.clone()).collect();
    for attack in attacks.iter().filter(|attack| attack.memory_growth > MAX_ATTACK_MEMORY) {
        violations.push(format!("node {} grew by {} MiB", attack.node, attack.memory_growth >> 20));
    }
    InvariantResult::new("unauthenticated clients use no memory and delay no caller", counts, violations)
}

fn descriptors(evidence: &Evidence) -> InvariantResult {
    let (mut counts, mut violations) = (Vec::new(), Vec::new());
    for process in final_processes(evidence) {
        let (first, Some(last)) = process.descriptors else { continue };
        let text = format!("node {}: {first}, then {last}", process.node);
        if last > first + MAX_DESCRIPTOR_GROWTH {
            violations.push(text.clone());
        }
        counts.push(text);
    }
    InvariantResult::new("file descriptors are released", counts.join("; "), violations)
}

fn processes(evidence: &Evidence) -> InvariantResult {
    let mut violations = evidence.observations.process_failures.clone();
    for output in &evidence.stderr {
        violations.extend(output.lines().filter(|line| line.contains("panicked")).map(str::to_owned));
    }
    let processes = evidence.observations.processes.len();
    let (stops, kills) = (evidence.observations.stops.len(), evidence.observations.kills.len());
    let counts = format!("{processes} processes of nodes, {stops} stopped, {kills} killed");
    InvariantResult::new("no process panics, dies or fails to stop", counts, violations)
}
