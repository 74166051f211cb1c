//! `seawall key`: on a data directory, through a running gateway, and for settings.

use crate::running::{Running, scratch_dir, seawall};
use anyhow::Context as _;
use seawall_testkit::free_address;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Output, Stdio};

/// The output of `seawall key` with these arguments on this data directory.
fn key(directory: &Path, arguments: &[&str]) -> anyhow::Result<Output> {
    let directory = directory.to_string_lossy();
    Ok(seawall(&[&["key"], arguments, &["--data-dir", &directory]].concat()).output()?)
}

fn json_of(output: &Output) -> anyhow::Result<Value> {
    anyhow::ensure!(output.status.success(), "{output:?}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn code_and_stderr(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_key_is_created_listed_and_revoked() -> anyhow::Result<()> {
    let directory = scratch_dir("key-made")?;
    let made = json_of(&key(&directory, &["create", "the shop", "--tier", "prime", "--json"])?)?;
    let plain = made["key"].as_str().context("no key")?;
    assert!(plain.starts_with("sw_") && plain.len() == 72, "{plain}");
    let id = made["id"].as_str().context("no id")?;

    let shown = key(&directory, &["create", "sdk", "--tier", "standard", "--aws"])?;
    let text = String::from_utf8(shown.stdout)?;
    assert!(text.contains("AWS_ACCESS_KEY_ID=SWAK") && text.contains("AWS_SECRET_ACCESS_KEY="), "{text}");
    let secret = directory.join("master-secret");
    assert_eq!(std::fs::metadata(&secret)?.permissions().mode() & 0o777, 0o600);

    let twice = code_and_stderr(&key(&directory, &["create", "sdk", "--tier", "guest"])?);
    let expected = "seawall: a key named \"sdk\" already exists: revoke it, or choose another name\n";
    assert_eq!(twice, (Some(2), expected.to_owned()));

    let list = json_of(&key(&directory, &["list", "--json"])?)?;
    let names: Vec<_> = list["keys"].as_array().context("no list")?.iter().map(|key| &key["name"]).collect();
    assert_eq!(names, ["the shop", "sdk"]);
    assert_eq!((&list["keys"][0]["id"], &list["keys"][0]["tier"]), (&json!(id), &json!("prime")));
    assert!(!list.to_string().contains(plain) && list["keys"][0]["revoked"].is_null());

    assert!(key(&directory, &["revoke", "sdk"])?.status.success());
    assert!(key(&directory, &["revoke", id])?.status.success());
    let revoked = code_and_stderr(&key(&directory, &["revoke", "sdk"])?);
    assert_eq!(revoked, (Some(2), "seawall: no key has the name or id \"sdk\"\n".to_owned()));
    let table = String::from_utf8(key(&directory, &["list"])?.stdout)?;
    assert_eq!(table.lines().count(), 3);
    assert!(table.lines().skip(1).all(|line| line.contains("  revoked  ")), "both are revoked: {table}");
    Ok(())
}

#[test]
fn listing_keys_creates_no_data_directory() -> anyhow::Result<()> {
    let directory = scratch_dir("key-nowhere")?;
    for arguments in [&["list"][..], &["revoke", "shop"]] {
        let (code, text) = code_and_stderr(&key(&directory, arguments)?);
        assert_eq!(code, Some(2));
        assert!(text.contains("the data directory does not exist"), "{text}");
    }
    assert!(!directory.exists());
    let (code, text) = code_and_stderr(&key(&directory, &["create", "a\nb", "--tier", "prime"])?);
    assert_eq!((code, text.as_str()), (Some(2), "seawall: key name: must be 1 to 64 printable characters\n"));
    Ok(())
}

/// A port without a listener.

#[test]
fn a_data_directory_in_use_is_reported() -> anyhow::Result<()> {
    let directory = scratch_dir("key-in-use")?;
    let path = directory.to_string_lossy();
    let _gateway = Running::start(&["serve", "--json", "--listen", "127.0.0.1:0", "--data-dir", &path])?;
    let admin = format!("admin.listen=127.0.0.1:{}", free_address()?.port());
    let (code, text) =
        code_and_stderr(&key(&directory, &["create", "shop", "--tier", "prime", "--set", &admin])?);
    assert_eq!(code, Some(1));
    assert!(
        text.contains("the data directory is in use by a running gateway") && text.contains("cannot reach"),
        "{text}"
    );
    assert!(text.contains("stop the gateway"), "{text}");
    Ok(())
}

/// An admin listener that answers one request, and returns that request.
fn admin(status: &str, body: &Value) -> anyhow::Result<(u16, std::thread::JoinHandle<String>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.to_string().len());
    let thread = std::thread::Builder::new().spawn(move || {
        let mut request = Vec::new();
        let Ok((mut stream, _)) = listener.accept() else { return String::new() };
        let mut buffer = [0; 4_096];
        // Each of these requests fits into the buffer with its body.
        loop {
            let count = stream.read(&mut buffer).unwrap_or(0);
            request.extend_from_slice(&buffer[..count]);
            let text = String::from_utf8_lossy(&request).into_owned();
            let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
            let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
            let is_whole = text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.len() >= length);
            if count == 0 || is_whole {
                let _ = stream.write_all(answer.as_bytes());
                return text;
            }
        }
    })?;
    Ok((port, thread))
}

/// `seawall key` with state in memory, so that the admin API is used.
fn run_against(port: u16, arguments: &[&str]) -> anyhow::Result<Output> {
    let admin = format!("admin.listen=127.0.0.1:{port}");
    let settings = ["--set", "store.kind=memory", "--set", &admin, "--set", "admin.credential=env:KEY_TEST"];
    let mut command = seawall(&[&["key"], arguments, &settings].concat());
    Ok(command.env("KEY_TEST", "operators-only").output()?)
}

#[test]
fn a_running_gateway_is_called_with_the_admin_credential() -> anyhow::Result<()> {
    let issued = json!({ "id": "0123456789abcdef", "name": "shop", "tier": "prime", "key": "sw_x" });
    let (port, thread) = admin("201 Created", &issued)?;
    let output = run_against(port, &["create", "shop", "--tier", "prime", "--json"])?;
    assert_eq!(json_of(&output)?, issued);
    let request = thread.join().unwrap_or_default();
    assert!(request.starts_with("POST /admin/keys HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\nauthorization: Bearer operators-only\r\n"), "{request}");
    assert!(request.ends_with(r#"{"name":"shop","tier":"prime","aws":false}"#), "{request}");

    let entry = json!({
        "id": "0123456789abcdef", "name": "a/b", "tier": "prime", "caller": "0123456789abcdef",
        "created": "2026-11-16T12:00:00Z", "revoked": "2026-11-16T13:00:00Z", "expires": null, "state": "revoked",
        "team": "web", "tags": { "env": "prod" }, "limits": ["60/min"], "models": [], "calls": 7, "cost_nanos": 1_000,
        "budgets": [{ "period": "month", "cap_nanos": 5_000, "posted_nanos": 1_000, "held_nanos": 0 }],
        "last_used": "2026-11-16T12:30:00Z",
    });
    let (port, thread) = admin("200 OK", &entry)?;
    assert_eq!(json_of(&run_against(port, &["revoke", "a/b", "--json"])?)?, entry);
    assert!(thread.join().unwrap_or_default().starts_with("DELETE /admin/keys/a%2Fb HTTP/1.1\r\n"));

    let list = json!({ "keys": [entry] });
    let (port, thread) = admin("200 OK", &list)?;
    assert_eq!(json_of(&run_against(port, &["list", "--json"])?)?, list);
    assert!(thread.join().unwrap_or_default().starts_with("GET /admin/keys HTTP/1.1\r\n"));
    Ok(())
}

#[test]
fn an_error_of_a_running_gateway_is_reported() -> anyhow::Result<()> {
    for (status, body, code, expected) in [
        (
            "409 Conflict",
            json!({ "error": { "kind": "conflict", "message": "a key named \"shop\" already exists" } }),
            2,
            "returned an error: a key named \"shop\" already exists",
        ),
        ("401 Unauthorized", json!({}), 2, "admin.credential was rejected"),
        ("503 Busy", json!({}), 1, "returned an error: status 503"),
        ("200 OK", json!({ "other": 1 }), 1, "not a list of keys or a key"),
    ] {
        let (port, thread) = admin(status, &body)?;
        let (seen, text) = code_and_stderr(&run_against(port, &["create", "shop", "--tier", "prime"])?);
        let _ = thread.join();
        assert_eq!(seen, Some(code), "{text}");
        assert!(text.contains(expected), "{text}");
    }
    let (code, text) = code_and_stderr(&run_against(free_address()?.port(), &["list"])?);
    assert_eq!(code, Some(1));
    assert!(text.contains("store.kind is \"memory\"") && text.contains("cannot reach"), "{text}");
    Ok(())
}

fn hashed(text: &[u8], arguments: &[&str]) -> anyhow::Result<Output> {
    let mut child = seawall(&[&["key", "hash"], arguments].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    child.stdin.take().context("no way in")?.write_all(text)?;
    Ok(child.wait_with_output()?)
}

#[test]
fn a_key_from_elsewhere_is_hashed_for_settings() -> anyhow::Result<()> {
    let expected = crate::running::caller("shop", "sk-0123456789abcdef");
    let listed = expected.split('"').nth(1).context("no hash")?;
    for text in [&b"sk-0123456789abcdef"[..], b"sk-0123456789abcdef\n", b"sk-0123456789abcdef\r\n"] {
        let output = hashed(text, &["shop", "--tier", "prime"])?;
        let stanza = format!("[callers.keys.shop]\nhash = \"{listed}\"\ntier = \"prime\"\n");
        assert_eq!(String::from_utf8(output.stdout)?, stanza);
    }
    let json = json_of(&hashed(b"sk-0123456789abcdef", &["--json"])?)?;
    assert_eq!(json, json!({ "name": "NAME", "hash": listed, "tier": "standard" }));
    for (text, expected) in [
        (&b"fifteen-letters"[..], "is too short"),
        (b"", "is too short"),
        (b"0123456789 abcdef", "contains characters that are invalid in a header"),
        (b"0123456789abcdef\n\n", "contains characters that are invalid in a header"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "is not valid UTF-8"),
    ] {
        let (code, stderr) = code_and_stderr(&hashed(text, &[])?);
        assert_eq!(code, Some(2));
        assert!(stderr.contains(expected), "{stderr}");
    }
    assert!(hashed(b"sixteen-letters!", &[])?.status.success());
    Ok(())
}
