//! The mutation score from the results of cargo-mutants.

use anyhow::Context as _;
use serde_json::Value;
use std::fmt;

/// The number of mutants by result.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MutationScore {
    caught: u64,
    timed_out: u64,
    unviable: u64,
    missed: Vec<String>,
}

impl MutationScore {
    /// The minimum share of mutants that must be caught, in percent.
    const MIN_PERCENT: u64 = 85;

    /// Parses `outcomes.json` of cargo-mutants.
    pub(super) fn from_outcomes(outcomes: &Value) -> anyhow::Result<Self> {
        let mut score = Self::default();
        for outcome in outcomes["outcomes"].as_array().context("outcomes.json has no list of outcomes")? {
            // The unmutated baseline is an outcome, too, but not a mutant.
            let Some(name) = outcome["scenario"]["Mutant"]["name"].as_str() else {
                continue;
            };
            match outcome["summary"].as_str() {
                Some("CaughtMutant") => score.caught += 1,
                Some("Timeout") => score.timed_out += 1,
                Some("Unviable") => score.unviable += 1,
                Some("MissedMutant") => score.missed.push(name.to_owned()),
                other => {
                    anyhow::bail!("{name} ended in {other:?}, which this version of xtask does not know")
                }
            }
        }
        Ok(score)
    }

    /// The number of mutants that were run, whatever the result.
    pub(super) fn tried(&self) -> u64 {
        self.judged() + self.unviable
    }

    /// Whether enough of them were caught. False if none could be judged.
    pub(super) fn is_enough(&self) -> bool {
        self.judged() > 0 && self.detected() * 100 >= self.judged() * Self::MIN_PERCENT
    }

    /// Timeouts count as caught: tests that hang would fail in CI as well.
    fn detected(&self) -> u64 {
        self.caught + self.timed_out
    }

    fn judged(&self) -> u64 {
        self.detected() + self.missed.len() as u64
    }
}

impl fmt::Display for MutationScore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in &self.missed {
            writeln!(formatter, "missed: {name}")?;
        }
        let (detected, judged) = (self.detected(), self.judged());
        let percent = detected as f64 * 100.0 / judged.max(1) as f64;
        write!(
            formatter,
            "detected {detected} of {judged} ({percent:.1} %, minimum {} %); {} of them by timeout; \
             {} did not compile",
            Self::MIN_PERCENT,
            self.timed_out,
            self.unviable
        )
    }
}

#[cfg(test)]
mod tests {
    use super::MutationScore;
    use serde_json::{Value, json};

    fn outcome(name: &str, summary: &str) -> Value {
        json!({ "scenario": { "Mutant": { "name": name } }, "summary": summary })
    }

    #[test]
    fn time_outs_count_as_noticed_and_what_does_not_compile_is_left_out() {
        let outcomes = json!({ "outcomes": [
            { "scenario": "Baseline", "summary": "Success" },
            outcome("a", "CaughtMutant"),
            outcome("b", "Timeout"),
            outcome("c", "Unviable"),
            outcome("d", "MissedMutant"),
        ]});
        let score = MutationScore::from_outcomes(&outcomes).unwrap();
        assert_eq!(
            score,
            MutationScore { caught: 1, timed_out: 1, unviable: 1, missed: vec!["d".to_owned()] }
        );
        assert_eq!(score.tried(), 4);
        assert_eq!(
            score.to_string(),
            "missed: d\ndetected 2 of 3 (66.7 %, minimum 85 %); 1 of them by timeout; 1 did not compile"
        );
    }

    #[test]
    fn the_bar_is_met_exactly_at_its_edge() {
        let score = |caught, missed| MutationScore {
            caught,
            missed: vec![String::new(); missed],
            ..MutationScore::default()
        };
        assert!(score(85, 15).is_enough());
        assert!(!score(84, 16).is_enough());
        assert!(!score(0, 0).is_enough());
    }

    #[test]
    fn an_outcome_of_an_unknown_kind_is_an_error_and_not_a_guess() {
        assert!(MutationScore::from_outcomes(&json!({ "outcomes": [outcome("a", "Evaded")] })).is_err());
        assert!(MutationScore::from_outcomes(&json!({})).is_err());
    }
}
