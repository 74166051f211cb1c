//! A gateway in this process, and a client that sends raw bytes.

use seawall_config::{LoadedSettings, SettingsInput, load};
use seawall_core::time::UtcTime;
use seawall_gateway::identity::hash_api_key;
use seawall_gateway::{RunningGateway, ServeError, ServeOptions, Supervisor, serve};
use seawall_testkit::{HttpReply, exchange};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;

pub(crate) const KEY: &str = "sk-test-0123456789abcdef";

/// Settings with two targets that refuse every connection, followed by `more`, which must not leave a table open.
pub(crate) fn settings(more: &str) -> Arc<LoadedSettings> {
    settings_at("http://127.0.0.1:9", more)
}

/// The same with targets at this address.
pub(crate) fn settings_at(url: &str, more: &str) -> Arc<LoadedSettings> {
    let hash = hex::encode(hash_api_key(KEY));
    let target = format!(r#"{{ provider = "anthropic", base_url = "{url}", region = "none", model = "m" }}"#);
    let text = format!(
        r#"
        profile = "mangaassist"
        server.listen = "127.0.0.1:0"
        server.cores = 1
        server.drain_timeout = "1s"
        store.kind = "memory"
        telemetry.access_log = "none"
        models.m = {{ input = "$3/M", output = "$15/M", context_window = 200000 }}
        targets.sonnet = {target}
        targets.haiku = {target}
        callers.keys.test = {{ hash = "sha256:{hash}", tier = "prime" }}
        {more}
        "#
    );
    let text = if more.contains("admin.listen") { text } else { text + "admin.listen = \"127.0.0.1:0\"\n" };
    let loaded = load(&SettingsInput::from_file("test.toml", &text, UtcTime::from_civil(2026, 11, 16)));
    Arc::new(loaded.unwrap_or_else(|problems| panic!("{problems}")))
}

/// Starts a gateway with these settings.
pub(crate) fn try_start(loaded: &Arc<LoadedSettings>) -> Result<Gateway, ServeError> {
    let settings = loaded.settings.clone();
    let listening = serve(ServeOptions {
        settings: Arc::new(settings),
        simulated: None,
        keys: Vec::new(),
        supervisor: Supervisor::default(),
        diagnostics: None,
    })?;
    listening.publish_settings(&Arc::new(loaded.input.clone()));
    Ok(Gateway { data: listening.address(), admin: listening.admin_address(), listening: Some(listening) })
}

pub(crate) fn start(more: &str) -> Gateway {
    try_start(&settings(more)).unwrap()
}

/// A gateway; stopped when dropped.
pub(crate) struct Gateway {
    pub(crate) data: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) listening: Option<RunningGateway>,
}

impl Gateway {
    /// An admin request without a credential.
    pub(crate) fn ask(&self, path: &str) -> HttpReply {
        send(self.admin, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
    }

    /// The same, with a JSON response that must succeed.
    pub(crate) fn json(&self, path: &str) -> Value {
        let reply = self.ask(path);
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")), "{path}");
        reply.json().unwrap()
    }

    /// A model request, which no target answers.
    pub(crate) fn call(&self) -> HttpReply {
        let body = r#"{"model":"manga","max_tokens":5,"messages":[{"role":"user","content":"秘密の言葉"}]}"#;
        send(
            self.data,
            &format!(
                "POST /v1/messages HTTP/1.1\r\nhost: test\r\nx-api-key: {KEY}\r\ncontent-length: {}\r\n\
                 connection: close\r\n\r\n{body}",
                body.len()
            ),
        )
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.shut_down();
        }
    }
}

/// The status and the error type of a rejection.
pub(crate) fn error(reply: &HttpReply) -> (u16, String) {
    let body = reply.json().unwrap();
    assert!(body["error"]["message"].is_string(), "{body}");
    (reply.status, body["error"]["kind"].as_str().unwrap_or_default().to_owned())
}

/// Sends these bytes and reads until the connection is closed.
pub(crate) fn send(address: SocketAddr, bytes: &str) -> HttpReply {
    exchange(address, bytes).unwrap()
}
