//! Keys as text.

use seawall_core::money::Money;
use seawall_gateway::identity::key_management::{IssuedKey, KeyBudget, KeyEntry};
use std::fmt::Write as _;

pub(super) fn format_issued_key(issued: &IssuedKey) -> String {
    let IssuedKey { id, name, tier, key, aws } = issued;
    let mut text = format!("created key {name:?} ({tier}), id {id}; it is shown only once:\n\n");
    if let Some(key) = key {
        let _ = writeln!(text, "  {key}\n\nSend it as x-api-key, or as authorization: Bearer KEY.");
    }
    if let Some(pair) = aws {
        let _ = writeln!(text, "  AWS_ACCESS_KEY_ID={}", pair.access_key_id);
        let _ = writeln!(text, "  AWS_SECRET_ACCESS_KEY={}", pair.secret_access_key);
    }
    text
}

pub(super) fn format_table(keys: &[KeyEntry]) -> String {
    if keys.is_empty() {
        return "no keys\n".to_owned();
    }
    let mut text = format!(
        "{:16}  {:8}  {:8}  {:20}  {:>8}  {:>14}  name\n",
        "id", "tier", "state", "last used", "calls", "spent"
    );
    for KeyEntry { id, name, tier, state, last_used, calls, cost_nanos, .. } in keys {
        let (last_used, spent) =
            (last_used.as_deref().unwrap_or("-"), Money::from_nanos(*cost_nanos).to_string());
        // Writing to a string cannot fail.
        let _ =
            writeln!(text, "{id:16}  {tier:8}  {state:8}  {last_used:20}  {calls:>8}  {spent:>14}  {name}");
    }
    text
}

/// All that is known of a key.
pub(super) fn format_key(key: &KeyEntry) -> String {
    let tags: Vec<String> = key.tags.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let list = |items: &[String]| if items.is_empty() { "-".to_owned() } else { items.join(", ") };
    let models = if key.models.is_empty() { "all".to_owned() } else { key.models.join(", ") };
    let mut lines = vec![
        ("key", key.name.clone()),
        ("id", key.id.clone()),
        ("state", key.state.clone()),
        ("tier", key.tier.clone()),
        ("team", key.team.clone().unwrap_or_else(|| "-".to_owned())),
        ("tags", list(&tags)),
        ("models", models),
        ("limits", list(&key.limits)),
        ("caller", key.caller.clone()),
        ("created", key.created.clone()),
        ("expires", key.expires.clone().unwrap_or_else(|| "never".to_owned())),
    ];
    lines.extend(key.revoked.iter().map(|revoked| ("revoked", revoked.clone())));
    lines.push(("last used", key.last_used.clone().unwrap_or_else(|| "never".to_owned())));
    lines.push(("calls", key.calls.to_string()));
    lines.push(("spent", Money::from_nanos(key.cost_nanos).to_string()));
    lines.extend(key.budgets.iter().map(|budget| ("budget", format_budget(budget))));
    lines.iter().fold(String::new(), |mut text, (name, value)| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:10} {value}");
        text
    })
}

fn format_budget(budget: &KeyBudget) -> String {
    let money = Money::from_nanos;
    let KeyBudget { period, cap_nanos, posted_nanos, held_nanos, resets } = budget;
    let cap = format!("{} per {period}", money(*cap_nanos));
    let (Some(posted), Some(held)) = (posted_nanos, held_nanos) else { return cap };
    let left = money(cap_nanos.saturating_sub(*posted).saturating_sub(*held));
    let resets = resets.as_deref().unwrap_or("-");
    format!("{cap}: {} posted, {} held, {left} left; next window {resets}", money(*posted), money(*held))
}
