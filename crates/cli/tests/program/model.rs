//! `seawall model`.

use crate::running::{Running, file, seawall};
use seawall_testkit::Signal;

const NO_FAULTS: &str = "[]";

#[test]
fn a_signal_ends_it_with_success() -> anyhow::Result<()> {
    for signal in [Signal::TERM, Signal::INT] {
        let status = Running::model("signal", NO_FAULTS)?.end_with(signal)?;
        assert_eq!(status.code(), Some(0), "{signal:?}");
    }
    Ok(())
}

#[test]
fn invalid_input_is_refused_with_exit_code_two() -> anyhow::Result<()> {
    let broken = file("broken-faults.json", r#"[{"every":0,"fault":{"kind":"reset"}}]"#)?;
    for (arguments, expected) in [
        (&["model", "--pace", "slow"][..], "possible values: real, instant"),
        (&["model", "--listen", "nowhere"], "invalid"),
        (&["model", "--faults", "no-such-file"], "seawall: cannot read no-such-file"),
        (&["model", "--faults", &broken.to_string_lossy()], "faults.every: must be at least 1"),
        (&["modle"], "unrecognized subcommand"),
    ] {
        let output = seawall(arguments).output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
        assert!(complaint.contains(expected), "{arguments:?}: {complaint}");
    }
    Ok(())
}

#[test]
fn an_address_in_use_is_a_failure_and_not_invalid_input() -> anyhow::Result<()> {
    let model = Running::model("taken", NO_FAULTS)?;
    let address = model.url.trim_start_matches("http://");
    let output = seawall(&["model", "--listen", address]).output()?;
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(complaint.starts_with(&format!("seawall: cannot listen on {address}")), "{complaint}");
    Ok(())
}
