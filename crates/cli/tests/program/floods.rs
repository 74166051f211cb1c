//! HTTP/2 flood protection: a limited number of frames that do not advance any request.

use crate::http2::{Http2, frame};
use crate::requests::{BY_DAY, NO_LIMITS, question};
use crate::running::{KEY, Running};
use anyhow::ensure;
use seawall_testkit::wait_until;
use serde_json::json;
use std::sync::atomic::Ordering;

/// `ENHANCE_YOUR_CALM`, in the encoding of [`Http2::gone`].
const CALM: usize = 1 + 11;

fn start(test: &str) -> anyhow::Result<(Running, Running)> {
    let model = Running::model(test, "[]")?;
    let gateway = Running::gateway(test, &model, ["instant", "instant"], &format!("{NO_LIMITS}{BY_DAY}"))?;
    Ok((model, gateway))
}

#[test]
fn a_flood_of_useless_frames_closes_the_connection() -> anyhow::Result<()> {
    let (_model, gateway) = start("floods-kinds")?;
    let mut ended = 0;
    for (name, kind, stream, payload) in [
        ("PRIORITY", 2, 1, &[0, 0, 0, 0, 7][..]),
        ("WINDOW_UPDATE", 8, 0, &[0, 0, 0, 1]),
        ("an unknown kind", 0xbe, 0, &[1, 2, 3]),
        ("PING", 6, 0, &[0; 8]),
        ("SETTINGS", 4, 0, &[]),
    ] {
        let mut connection = Http2::open(&gateway.url, 65_535)?;
        connection.ask("GET", "/livez", "", false)?;
        wait_until("an answer", || Ok(connection.answers.load(Ordering::SeqCst) == 1))?;
        let some = frame(kind, 0, stream, payload).repeat(200);
        // Writes fail once the connection has been ended.
        let _ = (0..100).try_for_each(|_| connection.send_raw(&some));
        wait_until(name, || Ok(connection.closed.load(Ordering::SeqCst) == 1))?;
        let why = connection.goaway_code.load(Ordering::SeqCst);
        ensure!(why == CALM, "{name}: {why}");
        ended += 1;
    }
    ensure!(gateway.counter(r#"seawall_connections_ended_total{reason="http2_flood"}"#)? == ended);
    Ok(())
}

#[test]
fn a_client_that_reads_a_long_response_frame_by_frame_is_not_a_flood() -> anyhow::Result<()> {
    let (_model, gateway) = start("floods-reader")?;
    let mut connection = Http2::open(&gateway.url, 1 << 20)?;
    let body = question(5, true).to_string();
    for asked in 1..=300 {
        let stream = connection.ask("POST", "/v1/messages", KEY, true)?;
        connection.send(stream, body.as_bytes(), true)?;
        let busy: Vec<u8> = [(8, 0, &[0, 0, 16, 0][..]), (2, stream, &[0, 0, 0, 0, 7]), (6, 0, &[0; 8])]
            .iter()
            .flat_map(|(kind, stream, payload)| frame(*kind, 0, *stream, payload).repeat(10))
            .collect();
        connection.send_raw(&busy)?;
        wait_until("an answer", || Ok(connection.answers.load(Ordering::SeqCst) == asked))?;
    }
    ensure!(connection.accepted.load(Ordering::SeqCst) == 300, "not all were answered");
    ensure!(gateway.chat(KEY, &json!({ "message": "hi" })).is_ok());
    Ok(())
}
