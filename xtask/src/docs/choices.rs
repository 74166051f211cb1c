//! Pages about the decisions of seawall-core for a request: its route, and its fallback.

use seawall_core::failure::{Failure, FailureKind};
use seawall_core::hours::OffPeakOptions;
use seawall_core::router::{Purpose, RouteNote, RouteReason, RouteSituation, RouterOptions, route};
use seawall_core::strategy::{FailureClass, FallbackKind, Language, StrategyOptions, Trouble, message};
use seawall_core::vocabulary::{Ceiling, Intent, Rung, Tier};
use std::time::Duration;

/// The columns of the routing grid: a heading, the situation, and whether it is the evening peak.
fn shown_callers() -> Vec<(&'static str, RouteSituation, bool)> {
    let prime = RouteSituation::of(Some(Tier::Prime));
    let standard = RouteSituation::of(Some(Tier::Standard));
    let guest = RouteSituation::of(Some(Tier::Guest));
    vec![
        ("prime", prime, true),
        ("standard, cart", RouteSituation { has_cart: true, ..standard }, true),
        ("standard", standard, false),
        ("standard, peak", standard, true),
        ("guest", guest, false),
        ("guest, no classifier", RouteSituation { classifier_available: false, ..guest }, false),
        ("guest, lite off", RouteSituation { guest_lite: false, ..guest }, false),
    ]
}

/// The router's rules, and their results for every caller and every intent.
pub(super) fn routing() -> String {
    let options = RouterOptions::default();
    let peak = options.evening_peak.check().map(|hours| hours.to_string()).unwrap_or_default();
    let night = OffPeakOptions::default().check().map(|rule| rule.hours().to_string()).unwrap_or_default();
    let mut page = format!(
        "# Routing\n\nWhat a request is worth before load, money and switches have their say; the lowest ceiling of all \
         holds. The evening peak is {peak}.\n\n\
         | rule | priority | ceiling | template first | looks things up for | meaning |\n\
         | --- | --- | --- | --- | --- | --- |\n"
    );
    for reason in RouteReason::ALL {
        let rule = reason.rule();
        let intents = if rule.retrieval_for.len() == Intent::ALL.len() {
            "everything".to_owned()
        } else {
            rule.retrieval_for.iter().map(|intent| format!("`{intent}`")).collect::<Vec<_>>().join(", ")
        };
        page.push_str(&format!(
            "| `{reason}` | {} | {} | {} | {} | {} |\n",
            rule.priority,
            rule.ceiling,
            yes_or_no(rule.template_first),
            if intents.is_empty() { "nothing" } else { &intents },
            rule.text,
        ));
    }
    page.push_str(
        "\nA ceiling of *none* means prepared and kept answers only. A caller whose tier could not be found is a guest.\n\
         \n## By caller and intent\n\nThe ceiling, with *+* where things are looked up.\n\n| intent |",
    );
    let callers = shown_callers();
    page.push_str(&callers.iter().map(|(name, ..)| format!(" {name} |")).collect::<String>());
    page.push_str(&format!("\n| --- |{}\n", " --- |".repeat(callers.len())));
    for intent in Intent::ALL {
        page.push_str(&format!("| `{intent}` |"));
        for (_, situation, in_peak) in &callers {
            let route = route(&RouteSituation { intent: Some(intent), ..*situation }, *in_peak);
            page.push_str(&format!(" {}{} |", route.ceiling, if route.use_retrieval { " +" } else { "" }));
        }
        page.push('\n');
    }
    page.push_str("\nAn intent that nobody said is `unknown`.\n\n## By purpose\n\n| purpose | priority |\n| --- | --- |\n");
    for purpose in Purpose::ALL {
        let situation = RouteSituation { purpose, ..RouteSituation::of(Some(Tier::Standard)) };
        let priority = match purpose {
            Purpose::Caller => "as the rule says".to_owned(),
            Purpose::Background | Purpose::HealthCheck => route(&situation, false).priority.to_string(),
        };
        page.push_str(&format!("| `{purpose}` | {priority} |\n"));
    }
    page.push_str("\n## Notes\n\n| note | meaning |\n| --- | --- |\n");
    for note in RouteNote::ALL {
        page.push_str(&format!("| `{note}` | {} |\n", note.text()));
    }
    page.push_str(&format!(
        "\n## Off-peak\n\nFrom {night} nobody gets more than a fast model, and a prepared or kept answer comes first. The \
         list of exempt tiers and priorities is empty unless set.\n"
    ));
    page
}

/// The value of each failure, its fallback, and the message to the caller.
pub(super) fn strategy() -> String {
    let options = StrategyOptions::default();
    let mut page = String::from(
        "# Failure strategy\n\n## What a failure is worth\n\n\
         | class | kinds | retries, somebody waits | retries, nobody waits | alerts | fallback |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for class in FailureClass::ALL {
        let row = class.row();
        let kinds = FailureKind::ALL.iter().filter(|kind| FailureClass::of(**kind) == class);
        let kinds: Vec<_> = kinds.map(|kind| format!("`{}`", kind.label())).collect();
        page.push_str(&format!(
            "| `{class}` | {} | {} | {} | {} | `{}` |\n",
            kinds.join(", "),
            row.interactive_retries,
            row.background_retries,
            yes_or_no(row.alerts),
            row.fallback,
        ));
    }
    page.push_str(&format!(
        "\nThe present pressure may allow fewer.\n\n## What comes instead\n\n\
         The cache gets {:?}. After a model that took too long, another is asked only with {:?} or more left.\n\n\
         | fallback | what is done |\n| --- | --- |\n",
        options.cache_within, options.least_for_fast
    ));
    for kind in FallbackKind::ALL {
        page.push_str(&format!("| `{kind}` | {} |\n", kind.text()));
    }
    page.push_str("\n| trouble of the strong model | fallback | rungs |\n| --- | --- | --- |\n");
    for (name, trouble, left) in shown_troubles() {
        let Ok(strategy) = options.check() else { continue };
        let decision = strategy.choose(&trouble, Rung::StrongModel, Ceiling::Strong, left);
        let rungs: Vec<_> = decision.rungs.iter().map(|rung| format!("`{rung}`")).collect();
        page.push_str(&format!("| {name} | `{}` | {} |\n", decision.kind, rungs.join(", ")));
    }
    page.push_str("\n## What the caller reads\n\n| fallback | language | text |\n| --- | --- | --- |\n");
    for kind in FallbackKind::ALL {
        for language in Language::ALL {
            let text = message(kind, language, false);
            page.push_str(&format!("| `{kind}` | {language} | {text} |\n"));
            let queued = message(kind, language, true);
            if queued != text {
                page.push_str(&format!("| `{kind}`, queued | {language} | {queued} |\n"));
            }
        }
    }
    page
}

fn shown_troubles() -> Vec<(&'static str, Trouble, Duration)> {
    let failed = |kind| Trouble::Failed(Failure::of(kind));
    let enough = Duration::from_secs(1);
    vec![
        ("its breaker is open", Trouble::BreakerOpen, enough),
        ("it took too long", failed(FailureKind::TimedOut), enough),
        ("it took too long, and little time is left", failed(FailureKind::TimedOut), Duration::ZERO),
        ("it throttles", failed(FailureKind::Throttled), enough),
        ("the queue has no place", Trouble::QueueRefused, enough),
        ("it failed", failed(FailureKind::ServerFault), enough),
        ("the request is at fault", failed(FailureKind::BadRequest), enough),
        ("a guardrail blocked it", failed(FailureKind::Filtered), enough),
        ("anything else", Trouble::Unexpected, enough),
    ]
}

fn yes_or_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use super::{routing, strategy};

    #[test]
    fn pages_say_what_the_code_chooses() {
        let page = routing();
        assert!(page.contains("The evening peak is 19:00-23:00 UTC+09:00."));
        assert!(page.contains("| `faq` | strong + | strong + | strong + | fast + | none | none | fast + |"));
        assert!(
            page.contains("| `background` | bulk |") && page.contains("From 23:00-08:00 UTC+09:00 nobody")
        );
        let page = strategy();
        assert!(page.contains("| `timed_out` | `timed_out` | 1 | 5 | yes | `model_timeout` |"));
        assert!(page.contains("| a guardrail blocked it | `guardrail_block` | `apology` |"));
        assert!(page.contains("The cache gets 50ms.") && page.contains("| `throttled`, queued | ja |"));
    }
}
