//! What is wrong with a target, in words for `/readyz` and the diagnostics.

use seawall_core::health::TargetCondition;
use seawall_core::key_pool::KeyCondition;

/// The text for a target in this condition, behind its name; `None` if nothing is wrong.
pub(crate) fn problem_text(model: &str, condition: TargetCondition) -> Option<String> {
    let text = match condition {
        TargetCondition::Unknown | TargetCondition::Healthy => return None,
        TargetCondition::CredentialRejected => "the provider rejects our API key",
        TargetCondition::QuotaExhausted => "our quota or credit at the provider is exhausted",
        TargetCondition::UnknownModel => {
            return Some(format!("the provider does not know the model {model}"));
        }
        TargetCondition::Throttled => "the provider throttles all calls",
        TargetCondition::Unreachable => "the provider is unreachable",
        TargetCondition::Failing => "all calls fail",
        TargetCondition::Slow => "answers start too late",
    };
    Some(text.to_owned())
}

/// The texts for keys that an operator should replace or top up, of all keys of a target.
pub(crate) fn key_problems(keys: &[KeyCondition]) -> Vec<String> {
    let text = |(number, condition): (usize, &KeyCondition)| key_problem(number, keys.len(), *condition);
    (1..).zip(keys).filter_map(text).collect()
}

/// The text for one key of several.
pub(crate) fn key_problem(number: usize, keys: usize, condition: KeyCondition) -> Option<String> {
    match condition {
        KeyCondition::Usable | KeyCondition::Throttled => None,
        KeyCondition::Rejected => Some(format!("the provider rejects API key {number} of {keys}")),
        KeyCondition::QuotaExhausted => Some(format!("the quota of API key {number} of {keys} is exhausted")),
    }
}
