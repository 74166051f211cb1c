//! Pages of documentation about the decisions for a chat message: its routing, and its fallback.

use crate::fallback::{message, shows_popular};
use crate::intent::Intent;
use crate::router::{RoutingReason, RoutingSituation, route};
use seawall_core::evaluator::{RequestPurpose, RoutingNote};
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::hours::Hours;
use seawall_core::strategy::{FailureClass, FallbackCause, FallbackKind, StrategyOptions};
use seawall_core::vocabulary::{Ceiling, Language, Rung, Tier};
use std::time::Duration;

/// The columns of the routing grid: a heading, the situation, and whether it is the evening peak.
fn shown_callers() -> Vec<(&'static str, RoutingSituation, bool)> {
    let prime = RoutingSituation::of(Some(Tier::Prime));
    let standard = RoutingSituation::of(Some(Tier::Standard));
    let guest = RoutingSituation::of(Some(Tier::Guest));
    vec![
        ("prime", prime, true),
        ("standard, cart", RoutingSituation { has_cart: true, ..standard }, true),
        ("standard", standard, false),
        ("standard, peak", standard, true),
        ("guest", guest, false),
        ("guest, no classifier", RoutingSituation { classifier_available: false, ..guest }, false),
        ("guest, lite off", RoutingSituation { guest_lite: false, ..guest }, false),
    ]
}

/// The router's rules, and their results for every caller and every intent.
#[must_use]
pub fn routing(evening_peak: &Hours, off_peak: &Hours) -> String {
    let mut page = format!(
        "# Routing\n\nThe priority, ceiling and retrieval of a request before load, budget and switches are considered; the lowest \
         ceiling applies. The evening peak is {evening_peak}.\n\n\
         | rule | priority | ceiling | template first | retrieval for | meaning |\n\
         | --- | --- | --- | --- | --- | --- |\n"
    );
    for reason in RoutingReason::ALL {
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
        "\nA ceiling of *none* means canned and cached answers only. A caller whose tier could not be determined is a guest.\n\
         \n## By caller and intent\n\nThe ceiling, with *+* where retrieval is used.\n\n| intent |",
    );
    let callers = shown_callers();
    page.push_str(&callers.iter().map(|(name, ..)| format!(" {name} |")).collect::<String>());
    page.push_str(&format!("\n| --- |{}\n", " --- |".repeat(callers.len())));
    for intent in Intent::ALL {
        page.push_str(&format!("| `{intent}` |"));
        for (_, situation, in_peak) in &callers {
            let route = route(&RoutingSituation { intent: Some(intent), ..*situation }, *in_peak);
            page.push_str(&format!(" {}{} |", route.ceiling, if route.use_retrieval { " +" } else { "" }));
        }
        page.push('\n');
    }
    page.push_str("\nA request without an intent has the intent `unknown`.\n\n## By purpose\n\n| purpose | priority |\n| --- | --- |\n");
    for purpose in RequestPurpose::ALL {
        let situation = RoutingSituation { purpose, ..RoutingSituation::of(Some(Tier::Standard)) };
        let priority = match purpose {
            RequestPurpose::Caller => "set by the rule".to_owned(),
            RequestPurpose::Background | RequestPurpose::HealthCheck => {
                route(&situation, false).priority.to_string()
            }
        };
        page.push_str(&format!("| `{purpose}` | {priority} |\n"));
    }
    page.push_str("\n## Notes\n\n| note | meaning |\n| --- | --- |\n");
    for note in RoutingNote::ALL {
        page.push_str(&format!("| `{note}` | {} |\n", note.text()));
    }
    page.push_str(&format!(
        "\n## Off-peak\n\nFrom {off_peak} the ceiling is a fast model, and a canned or cached answer is preferred. The \
         list of exempt tiers and priorities is empty by default.\n"
    ));
    page
}

/// The value of each failure, its fallback, and the message to the caller.
#[must_use]
pub fn strategy() -> String {
    let options = StrategyOptions::default();
    let mut page = String::from(
        "# Failure strategy\n\n## Failure classes\n\n\
         | class | kinds | interactive retries | background retries | alerts | fallback |\n\
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
        "\nThe current pressure may allow fewer.\n\n## Fallbacks\n\n\
         The cache lookup may take {:?}. After a model has timed out, another one is called only if {:?} or more are left.\n\n\
         | fallback | action |\n| --- | --- |\n",
        options.cache_timeout, options.min_for_fast
    ));
    for kind in FallbackKind::ALL {
        let popular = if shows_popular(kind) { " Popular titles are shown with the answer." } else { "" };
        page.push_str(&format!("| `{kind}` | {}{popular} |\n", kind.text()));
    }
    page.push_str("\n| failure of the strong model | fallback | rungs |\n| --- | --- | --- |\n");
    for (name, cause, left) in shown_causes() {
        let Ok(strategy) = options.check() else { continue };
        let decision = strategy.choose(&cause, Rung::StrongModel, Ceiling::Strong, left);
        let rungs: Vec<_> = decision.rungs.iter().map(|rung| format!("`{rung}`")).collect();
        page.push_str(&format!("| {name} | `{}` | {} |\n", decision.kind, rungs.join(", ")));
    }
    page.push_str("\n## Messages to the caller\n\n| fallback | language | text |\n| --- | --- | --- |\n");
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

fn shown_causes() -> Vec<(&'static str, FallbackCause, Duration)> {
    let failed = |kind| FallbackCause::Failed(Failure::of(kind));
    let enough = Duration::from_secs(1);
    vec![
        ("its breaker is open", FallbackCause::BreakerOpen, enough),
        ("it timed out", failed(FailureKind::TimedOut), enough),
        ("it timed out, and little time is left", failed(FailureKind::TimedOut), Duration::ZERO),
        ("it is throttled", failed(FailureKind::Throttled), enough),
        ("the queue is full", FallbackCause::QueueRefused, enough),
        ("it failed", failed(FailureKind::ServerFault), enough),
        ("the request is invalid", failed(FailureKind::BadRequest), enough),
        ("a guardrail blocked it", failed(FailureKind::Filtered), enough),
        ("anything else", FallbackCause::Unexpected, enough),
    ]
}

fn yes_or_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use super::{routing, strategy};
    use seawall_core::hours::HoursOptions;

    #[test]
    fn pages_say_what_the_code_chooses() {
        let in_japan = |start, end| HoursOptions::full_hours(start, end, 9 * 60).check().unwrap();
        let page = routing(&in_japan(19, 23), &in_japan(23, 8));
        assert!(page.contains("The evening peak is 19:00-23:00 UTC+09:00."));
        assert!(page.contains("| `faq` | strong + | strong + | strong + | fast + | none | none | fast + |"));
        assert!(
            page.contains("| `background` | bulk |")
                && page.contains("From 23:00-08:00 UTC+09:00 the ceiling")
        );
        let page = strategy();
        assert!(page.contains("| `timed_out` | `timed_out` | 1 | 5 | yes | `model_timeout` |"));
        assert!(page.contains("| a guardrail blocked it | `guardrail_block` | `apology` |"));
        assert!(
            page.contains("The cache lookup may take 50ms.") && page.contains("| `throttled`, queued | ja |")
        );
    }
}
