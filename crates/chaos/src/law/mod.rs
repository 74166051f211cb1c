//! The invariants that must hold whatever faults occurred.
//!
//! Each invariant is checked against the recorded events and the persisted ledgers and logs, and lists its violations.
//! An invariant without any relevant event holds, and its counts show that.

mod limits;
mod requests;
mod restarts;
#[cfg(test)]
mod tests;

use crate::history::{Life, Seen};
use crate::ledger::{Priced, Written};
use crate::model::Billed;
use seawall_core::time::Timestamp;
use std::fmt;

/// Violations shown per invariant.
const SHOWN: usize = 8;
/// The most that a call with an unknown end may cost beyond what was delivered of it, in nano-dollars.
const DEAREST_CALL: u64 = 6_000_000;
/// The most that is posted for a call that exceeds its limits in this schedule.
const DEAREST_OVERRUN: u64 = 400_000_000;
/// Allowed growth of open file descriptors of a node over the run, without connections to models, of which it pools
/// some.
const MORE_DESCRIPTORS: u64 = 12;
/// Allowed growth of a node's memory after a fifth of the run: a quarter, and this.
const MORE_MEMORY: u64 = 8 << 20;

/// Allowed growth of a node's memory during an attack by unauthenticated clients: what their connections and its other
/// callers need, but not what they send.
const STRANGERS_MEMORY: u64 = 48 << 20;

/// The input of all invariants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) zero: Option<Timestamp>,
    pub(crate) seen: Seen,
    /// The last ledger state of each node: posted and held.
    pub(crate) books: Vec<Option<(u64, u64)>>,
    /// The persisted ledger of each node.
    pub(crate) written: Vec<Written>,
    /// The access log of each node.
    pub(crate) priced: Vec<Priced>,
    /// The bill of each model.
    pub(crate) billed: Vec<Billed>,
    /// Unexpected output of processes.
    pub(crate) said: Vec<String>,
    /// The processes that lived to the end.
    pub(crate) lives_at_the_end: Vec<u32>,
}

/// An invariant, and whether it held.
#[derive(Clone, Debug)]
pub(crate) struct Law {
    name: &'static str,
    /// The numbers it was checked against.
    counts: String,
    against: Vec<String>,
}

impl Law {
    fn new(name: &'static str, counts: String, against: Vec<String>) -> Self {
        Self { name, counts, against }
    }

    pub(crate) fn held(&self) -> bool {
        self.against.is_empty()
    }
}

impl fmt::Display for Law {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.held() { "held  " } else { "BROKEN" };
        writeln!(out, "{mark}  {}: {}", self.name, self.counts)?;
        for line in self.against.iter().take(SHOWN) {
            writeln!(out, "          {line}")?;
        }
        let more = self.against.len().saturating_sub(SHOWN);
        if more > 0 { writeln!(out, "          and {more} more") } else { Ok(()) }
    }
}

/// All invariants.
pub(crate) fn judged(evidence: &Evidence) -> Vec<Law> {
    let mut laws = requests::laws(evidence);
    laws.push(limits::law(evidence));
    laws.push(restarts::law(evidence));
    laws.push(within_the_cap(evidence));
    laws.push(nothing_held(evidence));
    laws.push(all_billed_is_posted(evidence));
    laws.push(all_posted_is_explained(evidence));
    laws.push(ledgers_agree(evidence));
    laws.push(exact_prices(evidence));
    laws.push(memory(evidence));
    laws.push(strangers(evidence));
    laws.push(descriptors(evidence));
    laws.push(programs(evidence));
    laws
}

fn within_the_cap(evidence: &Evidence) -> Law {
    let seen = &evidence.seen;
    let fullest = seen.fullest;
    let counts = format!("{} readings, at most {}.{} % of it", seen.readings, fullest / 10, fullest % 10);
    let mut against = seen.overdrawn.clone();
    if seen.readings == 0 {
        against.push("the books were never read".to_owned());
    }
    Law::new("posted and held, but for overruns, are within the cap", counts, against)
}

fn nothing_held(evidence: &Evidence) -> Law {
    let mut against = Vec::new();
    for (node, books) in evidence.books.iter().enumerate() {
        match books {
            None => against.push(format!("the books of node {node} cannot be read")),
            Some((_, 0)) => {}
            Some((_, held)) => against.push(format!("node {node} holds {held}")),
        }
    }
    for (node, written) in evidence.written.iter().enumerate() {
        if written.left_open > 0 {
            against.push(format!("node {node} has stopped with {} calls open", written.left_open));
        }
    }
    Law::new("nothing is held in the end", format!("{} nodes", evidence.books.len()), against)
}

fn billed(evidence: &Evidence) -> u64 {
    evidence.billed.iter().fold(0, |sum, billed| sum.saturating_add(billed.nano_dollars))
}

fn posted(evidence: &Evidence) -> u64 {
    evidence.written.iter().fold(0, |sum, written| sum.saturating_add(written.posted))
}

fn all_billed_is_posted(evidence: &Evidence) -> Law {
    // Reservations cannot cover a vendor that bills more than a request allows.
    let dishonest: u64 = evidence.billed.iter().map(|billed| billed.dishonest.1).sum();
    let (billed, posted) = (billed(evidence).saturating_sub(dishonest), posted(evidence));
    let against = (billed > posted).then(|| format!("{} are missing", billed - posted));
    let counts = format!("models billed {billed}, nodes posted {posted}");
    Law::new("what models bill is posted", counts, against.into_iter().collect())
}

/// The amount posted beyond the bill is for calls whose end is unknown: those are charged at their worst case.
fn all_posted_is_explained(evidence: &Evidence) -> Law {
    let beyond = posted(evidence).saturating_sub(billed(evidence));
    let unfinished: u64 = evidence.billed.iter().map(|billed| billed.unfinished).sum();
    let (left, lost) = requests::left_and_lost(evidence);
    let dishonest: u64 = evidence.billed.iter().map(|billed| billed.dishonest.0).sum();
    let explained = (unfinished + left + lost).saturating_mul(DEAREST_CALL);
    let explained = explained.saturating_add(dishonest.saturating_mul(DEAREST_OVERRUN));
    let counts = format!(
        "{beyond} beyond the bill; {unfinished} calls unfinished, {left} callers left, {lost} lost to kills"
    );
    let is_partial = evidence.billed.iter().any(|billed| billed.is_partial);
    let against =
        (beyond > explained && !is_partial).then(|| format!("at most {explained} can be explained"));
    Law::new("what is posted beyond the bill is explained", counts, against.into_iter().collect())
}

fn ledgers_agree(evidence: &Evidence) -> Law {
    let mut against = Vec::new();
    for (node, (books, written)) in evidence.books.iter().zip(&evidence.written).enumerate() {
        if let Some((posted, _)) = books
            && *posted != written.posted
        {
            against.push(format!("node {node} posted {posted}, its ledger has {}", written.posted));
        }
    }
    let counts = format!("{} ledgers", evidence.written.len());
    Law::new("ledgers have what books posted", counts, against)
}

fn exact_prices(evidence: &Evidence) -> Law {
    let answers: u64 = evidence.priced.iter().map(|priced| priced.answers).sum();
    let against = evidence.priced.iter().flat_map(|priced| priced.wrong.clone()).collect();
    Law::new("an answer costs what it used", format!("{answers} answers of one attempt"), against)
}

fn last_lives(evidence: &Evidence) -> impl Iterator<Item = &Life> {
    evidence.seen.lives.iter().filter(|life| evidence.lives_at_the_end.contains(&life.id))
}

fn memory(evidence: &Evidence) -> Law {
    let mebibytes = |bytes: u64| bytes >> 20;
    let (mut counts, mut against) = (Vec::new(), Vec::new());
    for life in last_lives(evidence) {
        let (Some(early), late) = life.memory else { continue };
        let text = format!("node {}: {} MiB, then {} MiB", life.node, mebibytes(early), mebibytes(late));
        if late > early + early / 4 + MORE_MEMORY {
            against.push(text.clone());
        }
        counts.push(text);
    }
    let counts = if counts.is_empty() { "no process was old enough".to_owned() } else { counts.join("; ") };
    Law::new("memory does not grow", counts, against)
}

fn strangers(evidence: &Evidence) -> Law {
    let seen = &evidence.seen.strangers;
    let most = seen.iter().map(|seen| seen.grown >> 20).max().unwrap_or(0);
    let asked: u32 = seen.iter().map(|seen| seen.asked).sum();
    let counts = format!("{} times, at most {most} MiB; {asked} answers meanwhile", seen.len());
    let mut against: Vec<String> = seen.iter().flat_map(|seen| seen.unanswered.clone()).collect();
    for seen in seen.iter().filter(|seen| seen.grown > STRANGERS_MEMORY) {
        against.push(format!("node {} grew by {} MiB", seen.node, seen.grown >> 20));
    }
    Law::new("strangers take no memory and keep nobody waiting", counts, against)
}

fn descriptors(evidence: &Evidence) -> Law {
    let (mut counts, mut against) = (Vec::new(), Vec::new());
    for life in last_lives(evidence) {
        let (first, Some(last)) = life.descriptors else { continue };
        let text = format!("node {}: {first}, then {last}", life.node);
        if last > first + MORE_DESCRIPTORS {
            against.push(text.clone());
        }
        counts.push(text);
    }
    Law::new("descriptors are given back", counts.join("; "), against)
}

fn programs(evidence: &Evidence) -> Law {
    let mut against = evidence.seen.misdeeds.clone();
    for said in &evidence.said {
        against.extend(said.lines().filter(|line| line.contains("panicked")).map(str::to_owned));
    }
    let lives = evidence.seen.lives.len();
    let (stops, kills) = (evidence.seen.stops.len(), evidence.seen.kills.len());
    let counts = format!("{lives} processes of nodes, {stops} told to stop, {kills} killed");
    Law::new("no program panics, dies or refuses to stop", counts, against)
}
