//! The cost of a request with many callers, and the memory per caller.
//!
//! Creating a million callers over sockets would take longer than measuring them, so requests run the whole path
//! without a socket. Each caller is a credential of one issuer; all are seen once, then drawn at random, alternating
//! with a path that only ever saw one caller. The state of the callers is the only difference.

use crate::decisions::Sequence;
use crate::measure::{Case, Measurement, resident_bytes, run_alternating};
use crate::whole_path::requests;
use anyhow::{Context as _, ensure};
use seawall_pipeline::{CallerIdentity, CredentialKind, Tier};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;

/// Requests per case and round.
const REQUESTS: u32 = 200_000;

/// How long to measure.
#[derive(clap::Args)]
pub(crate) struct CallersArguments {
    /// Rounds; every case runs once in each.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How many callers are many.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    callers: u32,
    /// Prints JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct CallersResult {
    pub(crate) callers: u32,
    /// Nanoseconds per request with a single caller.
    pub(crate) one_ns: f64,
    /// Nanoseconds per request with many callers.
    pub(crate) many_ns: f64,
    /// The median of the ratios within each round.
    pub(crate) ratio: f64,
    /// Resident memory per caller that sent one request.
    pub(crate) bytes: f64,
}

pub(crate) fn run(arguments: &CallersArguments) -> anyhow::Result<ExitCode> {
    let result = measure(arguments.rounds, arguments.callers)?;
    if arguments.json {
        println!("{}", serde_json::to_string(&result)?);
    } else {
        println!("one caller {:>24.0} ns\nmany callers {:>22.0} ns", result.one_ns, result.many_ns);
        println!("many ÷ one {:>24.2}\nbytes per caller {:>18.1}", result.ratio, result.bytes);
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(rounds: u32, callers: u32) -> anyhow::Result<CallersResult> {
    let (mut one, mut many) = (requests()?, requests()?);
    // Fixed allocations happen during the first requests and must not be attributed to callers.
    for id in 0..1_000 {
        ensure!(one(id, proven(0)) && many(id, proven(0)), "a request was not answered");
    }
    let before = resident_bytes().context("cannot read the resident memory")?;
    for caller in 0..callers {
        ensure!(many(1_000 + u64::from(caller), proven(caller.into())), "a request was not answered");
    }
    let after = resident_bytes().context("cannot read the resident memory")?;
    let bytes = after.saturating_sub(before) as f64 / f64::from(callers);
    let cases = vec![drawn("one", 1, Box::new(one)), drawn("many", callers, Box::new(many))];
    match &run_alternating(cases, rounds)[..] {
        [one, many] => {
            let (one_ns, many_ns, ratio) = (one.median(), many.median(), Measurement::ratio_to(many, one));
            Ok(CallersResult { callers, one_ns, many_ns, ratio, bytes })
        }
        _ => anyhow::bail!("a case is missing"),
    }
}

/// Requests of callers drawn at random, for any number of callers.
fn drawn<'a>(
    name: &'static str,
    callers: u32,
    mut ask: Box<dyn FnMut(u64, CallerIdentity) -> bool + 'a>,
) -> Case<'a> {
    let (mut draws, mut id) = (Sequence(0x9E37_79B9_7F4A_7C15), 1 << 40);
    let run = move |requests: u32| {
        let answered = (0..requests).filter(|_| {
            id += 1;
            ask(id, proven(draws.below(callers)))
        });
        answered.count() as u64
    };
    Case { name, decisions: REQUESTS, run: Box::new(run) }
}

/// A caller of one issuer. The hash is as evenly distributed as a real one, and cheaper.
fn proven(caller: u64) -> CallerIdentity {
    let mut spread = Sequence(caller.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03);
    let mut hash = [0; 32];
    for word in hash.chunks_exact_mut(8) {
        word.copy_from_slice(&spread.next().wrapping_mul(0xBF58_476D_1CE4_E5B9).to_le_bytes());
    }
    CallerIdentity::Credential { hash, kind: CredentialKind::Token, tier: Some(Tier::Prime) }
}

#[cfg(test)]
mod tests {
    use super::{drawn, measure, proven};
    use seawall_pipeline::CallerIdentity;
    use std::collections::BTreeSet;

    #[test]
    fn callers_differ() {
        let hash = |caller| match proven(caller) {
            CallerIdentity::Credential { hash, .. } => hash,
            CallerIdentity::Guest { .. } => [0; 32],
        };
        assert_eq!((0..10_000).map(hash).collect::<BTreeSet<_>>().len(), 10_000);
    }

    #[test]
    fn answers_are_counted_and_so_is_what_was_not_answered() {
        let mut case = drawn("odd", 100, Box::new(|id, _| id % 2 == 1));
        assert_eq!((case.run)(10), 5);
    }

    #[test]
    fn many_callers_are_measured_beside_one() {
        let result = measure(1, 1_000).unwrap();
        assert!(result.one_ns > 0.0 && result.many_ns > 0.0 && result.ratio.is_finite());
        assert_eq!(result.callers, 1_000);
    }
}
