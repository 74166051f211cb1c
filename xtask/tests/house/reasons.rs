//! Every reason that the metrics can report is explained in the page for operators.

use super::read;

/// Rows of the metrics page whose values the admin page explains.
const EXPLAINED: [&str; 3] = [
    "`reason` of rejected requests",
    "`reason` of interrupted requests",
    "`reason` of `seawall_retry_stops_total`",
];

/// The values of these rows that have no row in the admin page.
fn unexplained(metrics: &str, admin: &str) -> Vec<String> {
    let values = metrics.lines().flat_map(|line| {
        let row = EXPLAINED.iter().find_map(|name| line.strip_prefix("| ")?.strip_prefix(name));
        row.into_iter().flat_map(|values| values.split('`').skip(1).step_by(2))
    });
    let has_row = |value: &str| admin.lines().any(|line| line.starts_with(&format!("| `{value}` |")));
    values.filter(|value| !has_row(value)).map(str::to_owned).collect()
}

#[test]
fn every_reason_is_explained_to_operators() -> anyhow::Result<()> {
    let metrics = read("docs/metrics.md")?;
    for name in EXPLAINED {
        assert!(metrics.contains(&format!("| {name} |")), "the metrics page has no row {name}");
    }
    assert_eq!(unexplained(&metrics, &read("docs/admin.md")?), [""; 0], "add them to docs/admin.md");
    Ok(())
}

#[test]
fn a_reason_without_a_row_is_found() {
    let metrics =
        "| `reason` of rejected requests | `malformed`, `revoked` |\n| `outcome` of queues | `left` |";
    assert_eq!(unexplained(metrics, "| `malformed` | invalid | correct it |"), ["revoked"]);
}
