//! `seawall model`.

use crate::client::Client;
use crate::running::{Running, file, seawall};
use serde_json::Value;

const NO_FAULTS: &str = "[]";

#[test]
fn every_client_gets_an_answer_that_is_billed_as_it_says() -> anyhow::Result<()> {
    let model = Running::model("answer", NO_FAULTS)?;
    for (client, before) in Client::ANTHROPIC.into_iter().zip(0_u64..) {
        let seen = client.sees(&model.url, "any", "instant", "answer", 0)?;
        assert!(seen["text"].as_str().is_some_and(|text| text.starts_with("This is a simulator")), "{seen}");
        assert_eq!((&seen["finish"], &seen["output"]), (&"max_tokens".into(), &40.into()), "{client:?}");
        let bill = model.bill("instant")?;
        assert_eq!(bill["answers"], before + 1, "{bill}");
        assert_eq!(bill["output_tokens"], 40 * (before + 1), "{bill}");
    }
    Ok(())
}

#[test]
fn every_client_gets_a_stream_to_its_end() -> anyhow::Result<()> {
    let model = Running::model("stream", NO_FAULTS)?;
    for client in Client::ANTHROPIC {
        let seen = client.sees(&model.url, "any", "instant", "stream", 0)?;
        assert!(seen["text"].as_str().is_some_and(|text| text.starts_with("This is a simulator")), "{seen}");
        assert_eq!((&seen["complete"], &seen["error"]), (&true.into(), &Value::Null), "{client:?}: {seen}");
        assert_eq!((&seen["finish"], &seen["output"]), (&"max_tokens".into(), &40.into()), "{client:?}");
    }
    Ok(())
}

#[test]
fn a_throttled_client_comes_back_when_told_to_and_is_answered() -> anyhow::Result<()> {
    let throttled = r#"[{"every":2,"fault":{"kind":"status","status":429,"retry_after":"50ms"}}]"#;
    let model = Running::model("throttled", throttled)?;
    for (client, before) in Client::ANTHROPIC.into_iter().zip(0_u64..) {
        let seen = client.sees(&model.url, "any", "instant", "answer", 1)?;
        assert_eq!(seen["output"], 40, "{client:?}: {seen}");
        let bill = model.bill("instant")?;
        assert_eq!((&bill["requests"], &bill["answers"]), (&(2 * before + 2).into(), &(before + 1).into()));
    }
    Ok(())
}

#[test]
fn a_cut_stream_raises_in_every_client() -> anyhow::Result<()> {
    let model = Running::model("cut", r#"[{"fault":{"kind":"cut","after":4}}]"#)?;
    for client in Client::ANTHROPIC {
        let seen = client.sees(&model.url, "any", "instant", "stream", 0)?;
        assert_ne!(seen["error"], Value::Null, "{client:?}: {seen}");
        assert_eq!((&seen["complete"], seen["text"] == ""), (&false.into(), false), "{client:?}: {seen}");
    }
    // Two events of four tokens each, for each client.
    assert_eq!(model.bill("instant")?["output_tokens"], 8 * 3);
    Ok(())
}

#[test]
fn a_stream_that_ends_early_in_good_order_is_not_noticed_by_clients() -> anyhow::Result<()> {
    // Which is why whatever stands in front of a model has to notice it.
    let model = Running::model("early", r#"[{"fault":{"kind":"end_early","after":4}}]"#)?;
    for client in Client::ANTHROPIC {
        let seen = client.sees(&model.url, "any", "instant", "stream", 0)?;
        assert_eq!((&seen["complete"], &seen["error"]), (&false.into(), &Value::Null), "{client:?}: {seen}");
    }
    Ok(())
}

#[test]
fn an_error_inside_a_stream_raises_the_vendors_error() -> anyhow::Result<()> {
    let model = Running::model("error", r#"[{"fault":{"kind":"error","after":4}}]"#)?;
    for client in Client::ANTHROPIC {
        let seen = client.sees(&model.url, "any", "instant", "stream", 0)?;
        assert_eq!(
            (&seen["complete"], &seen["error"]["code"]),
            (&false.into(), &"overloaded_error".into()),
            "{client:?}: {seen}"
        );
        let text = seen["error"]["text"].as_str().unwrap_or_default();
        assert!(text.contains("overloaded_error"), "{client:?}: {seen}");
    }
    Ok(())
}

#[test]
fn a_signal_ends_it_with_success() -> anyhow::Result<()> {
    for signal in ["-TERM", "-INT"] {
        let status = Running::model("signal", NO_FAULTS)?.end_with(signal)?;
        assert_eq!(status.code(), Some(0), "{signal}");
    }
    Ok(())
}

#[test]
fn input_that_makes_no_sense_is_refused_with_exit_code_two() -> anyhow::Result<()> {
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
fn an_address_that_is_taken_is_a_failure_of_its_own() -> anyhow::Result<()> {
    let model = Running::model("taken", NO_FAULTS)?;
    let address = model.url.trim_start_matches("http://");
    let output = seawall(&["model", "--listen", address]).output()?;
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(complaint.starts_with(&format!("seawall: cannot listen on {address}")), "{complaint}");
    Ok(())
}
