//! `seawall demo`.

use crate::running::{scratch_dir, seawall};
use serde_json::Value;
use std::fs;

/// The disjoint outcomes of requests.
const PARTS: [&str; 7] =
    ["answered", "interrupted", "rejected_as_abuse", "rejected_unexpectedly", "lost", "hung", "truncated"];

fn number(counts: &Value, name: &str) -> u64 {
    counts[name].as_u64().unwrap_or_else(|| panic!("{name} is missing in {counts}"))
}

#[test]
fn ten_seconds_of_outages_keep_every_promise_and_the_counts_add_up() -> anyhow::Result<()> {
    // Its temporary state goes here, and must be gone at the end.
    let state = scratch_dir("demo-state")?;
    fs::create_dir(&state)?;
    let output =
        seawall(&["demo", "--seconds", "10", "--seed", "7", "--json"]).env("TMPDIR", &state).output()?;
    let (output_text, errors) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    assert_eq!(output.status.code(), Some(0), "{output_text}{errors}");
    assert_eq!((output_text.lines().count(), errors.as_str()), (1, ""), "one object and nothing else");
    let report: Value = serde_json::from_str(&output_text)?;
    assert_eq!((&report["seconds"], &report["seed"]), (&10.into(), &7.into()));
    for side in ["seawall", "plain"] {
        for who in ["customers", "abusive_client"] {
            let counts = &report[side][who];
            let parts: u64 = PARTS.iter().map(|part| number(counts, part)).sum();
            assert_eq!(number(counts, "sent"), parts, "{side}, {who}: {counts}");
            assert_eq!(
                number(counts, "sent"),
                number(&report["seawall"][who], "sent"),
                "both received the same requests"
            );
            assert!(number(counts, "falsely_complete") <= number(counts, "truncated"), "{counts}");
        }
    }
    let customers = &report["seawall"]["customers"];
    assert!(
        number(customers, "sent") > 15 && number(customers, "answered") * 2 > number(customers, "sent"),
        "{customers}"
    );
    assert!(number(customers, "answered") > number(&report["plain"]["customers"], "answered"), "{report}");
    assert!(number(&report["seawall"]["abusive_client"], "rejected_as_abuse") > 100, "{report}");
    let promises = report["promises"].as_array().map_or(&[][..], Vec::as_slice);
    assert_eq!(promises.len(), 10);
    assert!(promises.iter().all(|promise| promise["held"] == true), "{report}");
    assert_eq!(
        (report["all_held"].as_bool(), report["outages"].as_array().map(Vec::len)),
        (Some(true), Some(5))
    );
    assert_eq!(fs::read_dir(&state)?.count(), 0, "nothing is left behind");
    Ok(())
}

#[test]
fn an_invalid_length_is_invalid_input() -> anyhow::Result<()> {
    for seconds in ["9", "1201", "-1", "soon"] {
        let output = seawall(&["demo", &format!("--seconds={seconds}")]).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{seconds}: {errors}");
        assert!(errors.contains(seconds) && output.stdout.is_empty(), "{errors}");
    }
    Ok(())
}
