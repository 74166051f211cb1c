//! The terms of a key in a request, in the notation of settings.

use super::IssueError;
use crate::identity::key_contract;
use seawall_config::{
    KeyTerms, check_team, parse_budgets, parse_duration, parse_limits, parse_models, parse_tags,
};
use seawall_core::budget::PeriodCaps;
use seawall_core::time::UtcTime;
use seawall_store::KeyContract;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Removes a term that can be given only once.
const NONE: &str = "none";

/// Terms to set. A term that is absent stays as it is, and an empty list removes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyTermsRequest {
    /// The team; `none` removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// Tags as `name=value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// How long from now the key is valid, such as `90d`; `none` for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// Budgets such as `$50/month`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budgets: Option<Vec<String>>,
    /// Rate limits such as `60/min`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Vec<String>>,
    /// Patterns of models such as `claude-*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
}

impl KeyTermsRequest {
    /// Whether no term is to be set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A contract with these terms set.
    pub(super) fn apply_to(
        &self,
        mut contract: KeyContract,
        now: UtcTime,
    ) -> Result<KeyContract, IssueError> {
        fn texts(list: &Option<Vec<String>>) -> impl Iterator<Item = &str> {
            list.iter().flatten().map(String::as_str)
        }
        let team = self.team.as_deref().filter(|team| *team != NONE);
        team.map_or(Ok(()), check_team)?;
        let parsed = key_contract(&KeyTerms {
            team: team.map(str::to_owned),
            tags: parse_tags(texts(&self.tags))?,
            expires: self.expires.as_deref().map_or(Ok(None), |expires| parse_expiry(expires, now))?,
            budgets: parse_budgets(texts(&self.budgets))?,
            limits: parse_limits(texts(&self.limits))?,
            models: parse_models(texts(&self.models))?,
        });
        if self.team.is_some() {
            contract.labels.team = parsed.labels.team;
        }
        if self.tags.is_some() {
            contract.labels.tags = parsed.labels.tags;
        }
        if self.expires.is_some() {
            contract.expires = parsed.expires;
        }
        if self.budgets.is_some() {
            contract.budgets = if parsed.budgets.is_empty() { PeriodCaps::NONE } else { parsed.budgets };
        }
        if self.limits.is_some() {
            contract.limits = parsed.limits;
        }
        if self.models.is_some() {
            contract.models = parsed.models;
        }
        Ok(contract)
    }
}

/// A request to change a key. What is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyChange {
    /// The tier of its holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Its other terms.
    #[serde(default)]
    pub terms: KeyTermsRequest,
}

/// A request to replace a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRotation {
    /// How long the old key is accepted, such as `24h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<String>,
    /// Whether the new key is a pair for AWS clients.
    #[serde(default)]
    pub aws: bool,
}

/// How long a replaced key is accepted, unless the request says otherwise.
const DEFAULT_OVERLAP: Duration = Duration::from_secs(24 * 3_600);

impl KeyRotation {
    /// How long the old key is accepted.
    pub fn overlap(&self) -> Result<Duration, IssueError> {
        let Some(text) = &self.overlap else { return Ok(DEFAULT_OVERLAP) };
        parse_duration(text)
            .ok_or_else(|| IssueError::InvalidDuration { what: "overlap", text: text.clone() })
    }
}

fn parse_expiry(text: &str, now: UtcTime) -> Result<Option<UtcTime>, IssueError> {
    if text == NONE {
        return Ok(None);
    }
    let invalid = || IssueError::InvalidDuration { what: "expires", text: text.to_owned() };
    let duration = parse_duration(text).filter(|duration| !duration.is_zero()).ok_or_else(invalid)?;
    Ok(Some(now + duration))
}
