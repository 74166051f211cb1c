//! What was agreed for an API key, prepared for requests.

use seawall_core::budget::PeriodCaps;
use seawall_core::time::UtcTime;
use seawall_store::{KeyContract, KeyLabels};
use std::sync::Arc;

/// The terms of an API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerContract {
    /// The name of the key, for messages to its holder and for operators.
    pub name: Box<str>,
    /// The team and the tags, by which spending is reported.
    pub labels: Arc<KeyLabels>,
    /// The number of the team; 0 without a team.
    pub team: u64,
    /// Budgets of the key.
    pub budgets: PeriodCaps,
    /// The name of the group with the rate limits of the key, if it has any.
    pub limit_group: Option<Box<str>>,
    /// Patterns of the models and routes that may be used; all if there are none.
    pub models: Box<[Box<str>]>,
    /// When the key expires.
    pub expires: Option<UtcTime>,
}

impl CallerContract {
    /// The terms of a key with this name.
    #[must_use]
    pub fn new(name: &str, contract: &KeyContract) -> Self {
        Self {
            name: name.into(),
            team: contract.labels.team.as_deref().map_or(0, team_number),
            labels: Arc::new(contract.labels.clone()),
            budgets: contract.budgets,
            limit_group: limit_group_name(&contract.limits),
            models: contract.models.clone().into(),
            expires: contract.expires,
        }
    }

    /// Whether a model or route of this name may be used.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|pattern| matches_pattern(pattern, name))
    }
}

/// The name of the group that all keys with these rate limits share. Each key has counts of its own in it.
#[must_use]
pub fn limit_group_name(limits: &[Box<str>]) -> Option<Box<str>> {
    (!limits.is_empty()).then(|| format!("key {}", limits.join(" ")).into())
}

/// The number of a team, which identifies its budgets in the ledger. Never 0.
#[must_use]
pub fn team_number(name: &str) -> u64 {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(name.as_bytes());
    digest.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte)).max(1)
}

/// Whether a name matches a pattern, in which `*` stands for any text.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let Some(end) = parts.pop() else { return false };
    for part in parts {
        let Some(found) = left.find(part) else { return false };
        left = &left[found + part.len()..];
    }
    left.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::{limit_group_name, matches_pattern, team_number};
    use proptest::prelude::{prop_assert, proptest};

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, expected) in [
            ("claude-*", "claude-sonnet-5", true),
            ("claude-*", "claude-", true),
            ("claude-*", "gpt-5", false),
            ("*", "", true),
            ("*-mini", "gpt-5-mini", true),
            ("*-mini", "gpt-5-mini-2", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
            ("gpt-5", "gpt-5", true),
            ("gpt-5", "gpt-5-mini", false),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn keys_with_the_same_limits_share_a_group() {
        assert_eq!(limit_group_name(&[]), None);
        let limits = ["1000/h".into(), "60/min".into()];
        assert_eq!(limit_group_name(&limits).as_deref(), Some("key 1000/h 60/min"));
        assert_ne!(team_number("web"), team_number("ops"));
    }

    proptest! {
        #[test]
        fn a_pattern_matches_what_it_was_made_from(parts in proptest::collection::vec("[ab]{0,3}", 1..5), fills in proptest::collection::vec("[abc]{0,3}", 4)) {
            let name: String = parts.iter().enumerate().map(|(at, part)| {
                let fill = if at + 1 < parts.len() { fills[at].as_str() } else { "" };
                format!("{part}{fill}")
            }).collect();
            prop_assert!(matches_pattern(&parts.join("*"), &name));
        }
    }
}
