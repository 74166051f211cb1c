//! Pages about the components of seawall-core, generated from their own tables.

use seawall_core::breaker::BreakerProfile;
use seawall_core::failure::{ANTHROPIC, BEDROCK, DRS, FailureKind, GEMINI, OPENAI};
use seawall_core::invariant::Invariant;
use seawall_core::pressure::Pressure;

/// Every kind of failure, and the mapping of each vendor's errors to them.
pub(super) fn failures() -> String {
    let mut page = String::from(
        "# Failures\n\nHow an attempt can fail, and what each failure means. A vendor's error name decides where it is \
         known, its HTTP status otherwise.\n\n\
         | kind | origin | retryable | health of the target | not executed |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    for kind in FailureKind::ALL {
        page.push_str(&format!(
            "| `{}` | {:?} | {:?} | {:?} | {} |\n",
            kind.label(),
            kind.origin(),
            kind.retryability(),
            kind.health(),
            if kind.proves_not_executed() { "yes" } else { "no" },
        ));
    }
    page.push_str(
        "\n*SameTarget* is the same target after a backoff, or another one at once; *OtherTarget* is another target only.\n\
         Of health, *Bad* counts as a failure, *TimedOut* as slow, *Good* as a success, and *Unknown* is not counted.\n",
    );
    page.push_str("\n## By status\n\n| status | kind |\n| --- | --- |\n");
    for status in [400, 401, 402, 403, 404, 408, 409, 413, 422, 424, 429, 500, 502, 503, 504, 529] {
        page.push_str(&format!("| {status} | `{}` |\n", OPENAI.classify(status, None).kind.label()));
    }
    page.push_str("\nOther 4xx are `bad_request`, other 5xx `server_fault`, all else `unrecognized`.\n");
    for table in [&OPENAI, &ANTHROPIC, &BEDROCK, &GEMINI, &DRS] {
        page.push_str(&format!("\n## {}, by name\n\n| name | kind |\n| --- | --- |\n", table.vendor()));
        for (name, kind) in table.names() {
            page.push_str(&format!("| `{name}` | `{}` |\n", kind.label()));
        }
        for (status, kind) in table.statuses() {
            page.push_str(&format!("| status {status} | `{}` |\n", kind.label()));
        }
    }
    page
}

/// The named breaker profiles and the pressure levels.
pub(super) fn protections() -> String {
    let mut page = String::from(
        "# Breakers and pressure\n\n## Breaker profiles\n\n\
         | profile | consecutive failures | failure rate | slow threshold | window | open for | half-open stages |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for profile in BreakerProfile::ALL {
        let options = profile.options();
        page.push_str(&format!(
            "| `{}` | {} | {}% | {:?} | {:?} | {:?} | {:?} |\n",
            profile.name(),
            options.failure_threshold,
            options.failure_percent,
            options.slow_threshold,
            options.window,
            options.open_for,
            options.half_open_stages,
        ));
    }
    page.push_str(
        "\nThe rates apply from ten calls in the window, or twice the number of consecutive failures if that is more. A \
         share of 50% slow calls opens it as well.\n\n## Pressure\n\n\
         | pressure | retries per request | delay multiplier |\n| --- | --- | --- |\n",
    );
    let levels = [Pressure::Normal, Pressure::Slight, Pressure::High, Pressure::Recovery, Pressure::Open];
    for level in levels {
        page.push_str(&format!("| `{}` | {} | {} |\n", level.label(), level.retries(), level.multiplier()));
    }
    page
}

pub(super) fn invariants() -> String {
    let mut page = String::from(
        "# Invariants\n\nProperties that hold at all times, for any input. Each is a function in `seawall_core::invariant` that \
         property tests call. Those that cost next to nothing are also checked by the running gateway, which counts \
         violations in `seawall_invariant_violations_total`.\n\n| invariant | description |\n| --- | --- |\n",
    );
    for invariant in Invariant::ALL {
        page.push_str(&format!("| `{}` | {} |\n", invariant.name(), invariant.description()));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::{failures, invariants, protections};

    #[test]
    fn pages_say_what_the_code_does() {
        assert!(failures().contains("| 529 | `overloaded` |"));
        assert!(failures().contains("| `ServiceQuotaExceededException` | `quota_exhausted` |"));
        assert!(failures().contains("| `throttled` | Provider | SameTarget | Bad | yes |"));
        assert!(protections().contains("| `sonnet` | 5 | 50% | 3.8s | 60s | 60s | [1, 3, 10] |"));
        assert!(protections().contains("| `high` | 1 | 2 |"));
        assert!(invariants().contains("| `window_within_limit` | No sliding window"));
    }
}
