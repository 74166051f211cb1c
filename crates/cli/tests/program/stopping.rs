//! Connections and requests that are still open when the drain timeout has passed.

use crate::running::{KEY, Running};
use crate::serve::body;
use anyhow::ensure;
use seawall_testkit::Signal;
use std::io::Read as _;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A drain timeout of one second, and a model that hangs after the beginning of an answer.
fn gateway(name: &str, after: u32) -> anyhow::Result<(Running, Running)> {
    let model = Running::model(name, &format!(r#"[{{"fault":{{"kind":"hang","after":{after}}}}}]"#))?;
    let in_a_second = |settings: String| settings.replace("\"120s\"", "\"1s\"");
    let gateway = Running::gateway_with(name, &model.url, ["haiku", "haiku"], "", in_a_second)?;
    Ok((model, gateway))
}

fn ask(gateway: &Running, protocol: &str, stream: bool) -> anyhow::Result<std::process::Child> {
    let url = format!("{}/v1/messages", gateway.url);
    let arguments =
        ["-sSN", protocol, "-w", "\nstatus %{http_code}", "-H", &format!("x-api-key: {KEY}"), &url];
    let asking = Command::new("curl")
        .args(arguments)
        .args(["-d", &body(100, stream)])
        .stdout(Stdio::piped())
        .spawn()?;
    Ok(asking)
}

#[test]
fn requests_that_outlive_the_drain_timeout_receive_an_error_over_every_protocol() -> anyhow::Result<()> {
    for (name, protocol) in [("stop-http1", "--http1.1"), ("stop-http2", "--http2-prior-knowledge")] {
        let (model, gateway) = gateway(name, 3)?;
        let mut stream = ask(&gateway, protocol, true)?;
        let mut first = [0; 16];
        let mut out = stream.stdout.take().unwrap();
        out.read_exact(&mut first)?;
        model.set_faults(&serde_json::json!([{ "fault": { "kind": "hang", "after": 0 } }]))?;
        let whole = ask(&gateway, protocol, false)?;
        // Until both wait for the model.
        while gateway.counter("seawall_in_flight")? < 2 {}
        assert_eq!(gateway.end_with(Signal::TERM)?.code(), Some(0), "{protocol}");
        let mut rest = String::new();
        out.read_to_string(&mut rest)?;
        stream.wait()?;
        ensure!(rest.contains("event: error") && rest.contains("is shutting down"), "{protocol}: {rest}");
        let whole = String::from_utf8(whole.wait_with_output()?.stdout)?;
        ensure!(whole.contains("status 503") || whole.contains("status 529"), "{protocol}: {whole}");
    }
    Ok(())
}

#[test]
fn a_connection_without_requests_is_closed() -> anyhow::Result<()> {
    let model = Running::model("stop-silent", "[]")?;
    let gateway =
        Running::gateway("stop-silent", &model, ["haiku", "haiku"], "server.header_timeout = \"1s\"\n")?;
    let address = gateway.url.trim_start_matches("http://");
    let mut silent = TcpStream::connect(address)?;
    silent.set_read_timeout(Some(Duration::from_secs(10)))?;
    assert_eq!(silent.read(&mut [0])?, 0, "it was closed");
    Ok(())
}
