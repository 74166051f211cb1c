//! Corrections of posted amounts.

use crate::running::{Gateway, send, settings_at, try_start};
use seawall_testkit::HttpReply;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;

/// A vendor that reports an absurd token usage. Returns its address.
#[expect(clippy::disallowed_methods, reason = "a vendor runs beside the gateway, until the test ends")]
fn boastful() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let body = r#"{"type":"message","id":"msg_1","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":18446744073709551615}}"#;
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            // The whole request arrives at once.
            let _ = connection.read(&mut [0; 65_536]);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            let _ = write!(connection, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    });
    format!("http://{address}")
}

fn correct(gateway: &Gateway, body: &str) -> HttpReply {
    let head = "POST /admin/spend/corrections HTTP/1.1\r\nhost: localhost\r\nconnection: close";
    send(gateway.admin, &format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
}

fn posted(gateway: &Gateway) -> u64 {
    gateway.json("/admin/spend")["posted_nanos"].as_u64().unwrap()
}

#[test]
fn an_absurd_usage_report_is_capped_and_an_operator_corrects_it_durably() {
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("operators-corrections");
    let _ = std::fs::remove_dir_all(&folder);
    let mut loaded = settings_at(&boastful(), "");
    {
        let settings = &mut Arc::make_mut(&mut loaded).settings;
        settings.store.kind = seawall_config::StoreKind::Embedded;
        settings.store.data_dir = folder.display().to_string();
    }
    let gateway = try_start(&loaded).unwrap();
    assert_eq!(gateway.call().status, 200);
    // The context window at $15 a million tokens, and the input; not $18 billion.
    let claimed = posted(&gateway);
    assert_eq!(claimed, 200_000 * 15_000 + 9 * 3_000);
    let line = &gateway.json("/admin/requests")["requests"][0];
    assert_eq!((&line["alarm"], &line["usage_capped"]), (&"overrun".into(), &true.into()), "{line}");
    let targets = gateway.json("/admin/targets");
    let overruns = targets["targets"].as_array().unwrap().iter().map(|one| one["overruns"]["count"].as_u64());
    assert_eq!(overruns.sum::<Option<u64>>(), Some(1), "{targets}");
    let [tier, caller] = ["tier", "caller"].map(|name| line[name].as_str().unwrap().to_owned());
    let order = |charged: u64, reason: &str| {
        format!(
            r#"{{"caller":"{caller}","tier":"{tier}","charged_nanos":{charged},"cost_nanos":57000,"reason":"{reason}"}}"#
        )
    };
    assert_eq!(correct(&gateway, &order(claimed, "")).status, 400);
    assert_eq!(correct(&gateway, &order(claimed + 1, "more than there is")).status, 409);
    assert_eq!(posted(&gateway), claimed);
    let done = correct(&gateway, &order(claimed, "the invoice says so"));
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(done.json().unwrap()["cost_nanos"], 57_000);
    assert_eq!((posted(&gateway), gateway.json("/admin/spend")["overrun_nanos"].as_u64()), (57_000, Some(0)));
    drop(gateway);
    // The correction survives a restart, and the order is in the audit trail.
    let gateway = try_start(&loaded).unwrap();
    assert_eq!(posted(&gateway), 57_000);
    drop(gateway);
    std::fs::remove_dir_all(&folder).unwrap();
}
