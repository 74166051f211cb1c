//! Pages about the components of seawall-core, generated from their own tables.

use seawall_core::breaker::BreakerProfile;
use seawall_core::failure::{ANTHROPIC, BEDROCK, DRS, FailureKind, OPENAI};
use seawall_core::invariant::Law;
use seawall_core::pressure::Pressure;

/// Every kind of failure, and the mapping of each vendor's errors to them.
pub(super) fn failures() -> String {
    let mut page = String::from(
        "# Failures\n\nWhat an attempt can end in, and what that means. A vendor's error name decides where it is \
         known, its HTTP status otherwise.\n\n\
         | kind | whose fault | trying again helps | health of the target | proves it did not run |\n\
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
        "\n*Here* is the same target after a wait, or another at once; *Elsewhere* is another target only.\n\
         Of health, *Bad* counts as failed, *Cut* as slow, *Good* as answered, and *Unknown* not at all.\n",
    );
    page.push_str("\n## By status\n\n| status | kind |\n| --- | --- |\n");
    for status in [400, 401, 402, 403, 404, 408, 409, 413, 422, 424, 429, 500, 502, 503, 504, 529] {
        page.push_str(&format!("| {status} | `{}` |\n", OPENAI.classify(status, None).kind.label()));
    }
    page.push_str("\nOther 4xx are `bad_request`, other 5xx `server_fault`, all else `unrecognised`.\n");
    for table in [&OPENAI, &ANTHROPIC, &BEDROCK, &DRS] {
        page.push_str(&format!("\n## {}, by name\n\n| name | kind |\n| --- | --- |\n", table.vendor()));
        for (name, kind) in table.names() {
            page.push_str(&format!("| `{name}` | `{}` |\n", kind.label()));
        }
    }
    page
}

/// The named breaker profiles and the pressure levels.
pub(super) fn protections() -> String {
    let mut page = String::from(
        "# Breakers and pressure\n\n## Breaker profiles\n\n\
         | profile | failures in a row | failed share | slow after | window | open for | stages |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for profile in BreakerProfile::ALL {
        let options = profile.options();
        page.push_str(&format!(
            "| `{}` | {} | {}% | {:?} | {:?} | {:?} | {:?} |\n",
            profile.name(),
            options.failure_threshold,
            options.failure_percent,
            options.slow_after,
            options.window,
            options.open_for,
            options.stages,
        ));
    }
    page.push_str(
        "\nThe shares count from ten calls in the window, or twice the failures in a row where that is more. A share of \
         slow calls of 50% opens it as well.\n\n## Pressure\n\n\
         | pressure | retries of one request | waits times |\n| --- | --- | --- |\n",
    );
    let levels = [Pressure::Normal, Pressure::Slight, Pressure::High, Pressure::Recovery, Pressure::Open];
    for level in levels {
        page.push_str(&format!("| `{}` | {} | {} |\n", level.label(), level.retries(), level.multiplier()));
    }
    page
}

/// The invariants.
pub(super) fn laws() -> String {
    let mut page = String::from(
        "# Laws\n\nWhat holds at every moment, whatever the input. Each is a function in `seawall_core::invariant` that \
         property tests call.\n\n| law | promise |\n| --- | --- |\n",
    );
    for law in Law::ALL {
        page.push_str(&format!("| `{}` | {} |\n", law.name(), law.promise()));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::{failures, laws, protections};

    #[test]
    fn pages_say_what_the_code_does() {
        assert!(failures().contains("| 529 | `overloaded` |"));
        assert!(failures().contains("| `ServiceQuotaExceededException` | `quota_exhausted` |"));
        assert!(failures().contains("| `throttled` | Provider | Here | Bad | yes |"));
        assert!(protections().contains("| `sonnet` | 5 | 50% | 3.8s | 60s | 60s | [1, 3, 10] |"));
        assert!(protections().contains("| `high` | 1 | 2 |"));
        assert!(laws().contains("| `window_within_limit` | No window"));
    }
}
