//! Routes for callers without a credential, and the model list of each caller.

use crate::running::{KEY, Running, caller};
use serde_json::Value;

const BODY: &str = r#"{"model":"manga","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;

fn ask(gateway: &Running, path: &str, body: &str) -> anyhow::Result<(u16, String)> {
    let answer = gateway.send("POST", path, "content-type: application/json\r\n", body.as_bytes())?;
    Ok((answer.status, String::from_utf8_lossy(&answer.body).into_owned()))
}

fn models(gateway: &Running, headers: &str) -> anyhow::Result<Vec<String>> {
    let answer = gateway.send("GET", "/v1/models", headers, b"")?;
    let list: Value = serde_json::from_slice(&answer.body)?;
    let names = list["data"].as_array().into_iter().flatten();
    Ok(names.filter_map(|model| model["id"].as_str().map(str::to_owned)).collect())
}

#[test]
fn a_vendors_dialect_needs_a_credential_unless_the_route_admits_guests() -> anyhow::Result<()> {
    let model = Running::model("guest-faces", "[]")?;
    let targets = ["sonnet", "haiku"];
    let closed = Running::gateway("guest-faces", &model, targets, "")?;
    for path in ["/v1/messages", "/v1/chat/completions", "/model/manga/invoke", "/model/manga/converse"] {
        let (status, body) = ask(&closed, path, BODY)?;
        assert!(status == 401 || status == 403, "{path}: {status} {body}");
        assert!(body.contains("needs a credential"), "{path}: {body}");
    }
    assert_eq!(ask(&closed, "/chat", r#"{"message":"hi"}"#)?.0, 200);
    let open = r#"routes.manga.guest_faces = ["anthropic"]"#;
    let open = Running::gateway("guest-faces-open", &model, targets, open)?;
    assert_eq!(ask(&open, "/v1/messages", BODY)?.0, 200);
    assert!(matches!(ask(&open, "/v1/chat/completions", BODY)?.0, 401));
    assert!(ask(&open, "/chat", r#"{"message":"hi"}"#)?.0 == 401);
    Ok(())
}

#[test]
fn each_caller_is_shown_the_models_that_it_may_use() -> anyhow::Result<()> {
    let model = Running::model("own-models", "[]")?;
    let more = caller("narrow", "sk-narrow-0123456789abcdef").replace(" }", ", routes = [\"second\"] }")
        + "routes.second = { targets = [\"haiku\"], faces = [\"anthropic\", \"openai\"], guest_faces = [\"openai\"] }\n";
    let gateway = Running::gateway("own-models", &model, ["sonnet", "haiku"], &more)?;
    assert_eq!(models(&gateway, &format!("x-api-key: {KEY}\r\n"))?, ["manga", "second"]);
    assert_eq!(models(&gateway, "x-api-key: sk-narrow-0123456789abcdef\r\n")?, ["second"]);
    assert_eq!(models(&gateway, "")?, ["second"]);
    assert_eq!(models(&gateway, "anthropic-version: 2023-06-01\r\n")?, Vec::<String>::new());
    Ok(())
}
