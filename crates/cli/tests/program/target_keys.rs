//! A target with several keys, of which the vendor rejects one: callers get their answers, and operators see it at once.

use crate::requests::{NO_LIMITS, question};
use crate::running::{KEY, Running};
use seawall_testkit::{TestDirectory, wait_until};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A vendor that knows its keys.
struct KeyedVendor {
    url: String,
    rejected: Arc<Mutex<Vec<&'static str>>>,
    ends: Arc<AtomicBool>,
}

impl KeyedVendor {
    fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let (rejected, ends) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let state = (Arc::clone(&rejected), Arc::clone(&ends));
        std::thread::Builder::new().spawn(move || {
            let (rejected, ends) = state;
            for stream in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let rejected = rejected.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // The client may close before it has read everything.
                let _ = stream.and_then(|stream| serve(stream, &rejected));
            }
        })?;
        Ok(Self { url, rejected, ends })
    }

    fn rejects(&self, keys: &[&'static str]) {
        *self.rejected.lock().unwrap_or_else(PoisonError::into_inner) = keys.to_vec();
    }
}

impl Drop for KeyedVendor {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // Unblocks the last accept.
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
    }
}

/// Reads one request and answers it, unless its key is rejected.
fn serve(mut stream: TcpStream, rejected: &[&str]) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let (mut seen, mut buffer) = (Vec::new(), [0; 8_192]);
    let text = loop {
        let count = stream.read(&mut buffer)?;
        seen.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&seen).into_owned();
        let length = text.to_lowercase();
        let length = length.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
        if count == 0 || text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.len() >= length) {
            break text;
        }
    };
    let key = text.split("x-api-key: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap_or_default();
    let (status, body) = if rejected.contains(&key) {
        let message = format!("invalid x-api-key {key}");
        let error = json!({ "type": "authentication_error", "message": message });
        ("401 Unauthorized", json!({ "type": "error", "error": error }))
    } else {
        let body = json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "instant",
            "content": [{ "type": "text", "text": "hello" }], "stop_reason": "end_turn", "stop_sequence": null,
            "usage": { "input_tokens": 5, "output_tokens": 2 },
        });
        ("200 OK", body)
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes())
}

#[test]
fn a_vendor_that_rejects_one_of_two_keys_is_seen_everywhere_after_one_request() -> anyhow::Result<()> {
    let (vendor, directory) = (KeyedVendor::start()?, TestDirectory::new()?);
    let [first, second] = ["first-vendor-key", "second-vendor-key"].map(|key| {
        directory.write(key, format!("{key}\n").as_bytes()).map(|path| path.display().to_string())
    });
    let keys = format!("api_keys = [\"file:{}\", \"file:{}\"]", first?, second?);
    let gateway = Running::gateway_with("keys", &vendor.url, ["instant", "instant"], NO_LIMITS, |text| {
        text.replacen("api_key = \"env:PATH\"", &keys, 1)
    })?;
    assert_eq!(gateway.ask(KEY, &question(1, false))?.status, 200);
    assert_eq!(gateway.get("/readyz")?, "ready\n");
    vendor.rejects(&["first-vendor-key"]);

    assert_eq!(gateway.ask(KEY, &question(1, false))?.status, 200);
    let sonnet = gateway.target("sonnet")?;
    let states = [&sonnet["keys"][0]["state"], &sonnet["keys"][1]["state"]];
    assert_eq!(states, [&json!("rejected"), &json!("usable")], "{sonnet}");
    assert_eq!((&sonnet["health"]["state"], &sonnet["credential"]), (&json!("healthy"), &json!("accepted")));
    assert_eq!(sonnet["keys"][0]["last_error"]["text"], "401 unauthorized: invalid x-api-key [redacted]");
    assert!(sonnet["keys"][0]["since"].is_string() && sonnet["keys"][1]["since"].is_null(), "{sonnet}");
    assert_eq!(gateway.get("/readyz")?, "ready\ntarget sonnet: the provider rejects API key 1 of 2\n");
    assert_eq!(gateway.counter("seawall_target_keys{target=\"sonnet\",state=\"rejected\"}")?, 1);
    assert_eq!(gateway.counter("seawall_key_rotations_total{target=\"sonnet\"}")?, 1);
    let attempts = &gateway.requests(1)?[0];
    assert_eq!((&attempts["target"], &attempts["attempts"]), (&json!("sonnet"), &json!(2)), "{attempts}");
    let logged = "target sonnet: the provider rejects API key 1 of 2; check targets.sonnet.api_keys";
    wait_until("the log says it", || Ok(gateway.errors()?.matches(logged).count() == 1))?;

    // With both keys rejected, the target is, and the other target answers.
    vendor.rejects(&["first-vendor-key", "second-vendor-key"]);
    let rejected_everywhere = gateway.ask(KEY, &question(1, false))?;
    assert_eq!(rejected_everywhere.status, 200);
    let sonnet = gateway.target("sonnet")?;
    assert_eq!(sonnet["health"]["state"], "credential_rejected", "{sonnet}");
    assert_eq!(gateway.counter("seawall_target_health{target=\"sonnet\",state=\"credential_rejected\"}")?, 1);
    let ready = gateway.get("/readyz")?;
    assert!(ready.contains("target sonnet: the provider rejects our API key\n"), "{ready}");
    assert!(ready.contains("target sonnet: the provider rejects API key 2 of 2\n"), "{ready}");
    for text in [ready, sonnet.to_string(), gateway.errors()?] {
        assert!(!text.contains("vendor-key"), "{text}");
    }
    Ok(())
}
