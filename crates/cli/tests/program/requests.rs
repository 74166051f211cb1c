//! Requests to a running gateway, and the views of its model and its admin API on them.

use crate::running::Running;
use anyhow::{Context as _, ensure};
use seawall_testkit::{HttpReply, exchange};
use serde_json::{Value, json};

/// Limits higher than any test needs.
pub(crate) const NO_LIMITS: &str = "limits.tiers.prime = { minute = \"100,000/min\", burst = 10, hour = \"100,000/h\", day = \"100,000/day\" }\n";

/// Switches off the night's ceiling, so that no test depends on the time of day.
pub(crate) const BY_DAY: &str = "switches.off_peak_ceiling_enabled = false\n";

/// A request in Anthropic's dialect.
pub(crate) fn question(max_tokens: u32, stream: bool) -> Value {
    json!({
        "model": "manga", "max_tokens": max_tokens, "stream": stream,
        "messages": [{ "role": "user", "content": "次は何を読もう？" }],
    })
}

impl Running {
    /// Sends a request in Anthropic's dialect and reads the whole response.
    pub(crate) fn ask(&self, key: &str, body: &Value) -> anyhow::Result<HttpReply> {
        self.send("POST", "/v1/messages", &format!("x-api-key: {key}\r\n"), body.to_string().as_bytes())
    }

    /// Sends a request to our own chat face, which always answers.
    pub(crate) fn chat(&self, key: &str, body: &Value) -> anyhow::Result<Value> {
        let headers = format!("x-api-key: {key}\r\n");
        let answer = self.send("POST", "/chat", &headers, body.to_string().as_bytes())?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        ensure!(answer.status == 200, "{}: {text}", answer.status);
        serde_json::from_str(&text).context(text)
    }

    /// The requests that a model received, the oldest first.
    pub(crate) fn calls(&self) -> anyhow::Result<Vec<Value>> {
        let mut list: Value = serde_json::from_str(&self.get("/admin/calls")?)?;
        let calls = if list.is_array() { list } else { list["calls"].take() };
        calls.as_array().cloned().context("no list of calls")
    }

    /// The number of them for this model.
    pub(crate) fn calls_of(&self, name: &str) -> anyhow::Result<usize> {
        Ok(self.calls()?.iter().filter(|call| call["model"] == name).count())
    }

    /// The admin API's response at this path.
    pub(crate) fn operators(&self, path: &str) -> anyhow::Result<Value> {
        let address = self.admin.trim_start_matches("http://");
        let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        let answer = exchange(address, head.as_bytes())?;
        ensure!(answer.status == 200, "{path}: {}", answer.status);
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// The state of this target in the admin API.
    pub(crate) fn target(&self, name: &str) -> anyhow::Result<Value> {
        let response = self.operators("/admin/targets")?;
        let targets = response["targets"].as_array().context("no targets")?;
        targets.iter().find(|target| target["name"] == name).cloned().context("no such target")
    }

    /// The phase of this target's breaker.
    pub(crate) fn phase(&self, target: &str) -> anyhow::Result<String> {
        Ok(self.target(target)?["breaker"]["phase"].as_str().unwrap_or_default().to_owned())
    }

    /// The most recently completed requests, the newest first.
    pub(crate) fn requests(&self, limit: usize) -> anyhow::Result<Vec<Value>> {
        let response = self.operators(&format!("/admin/requests?limit={limit}"))?;
        response["requests"].as_array().cloned().context("no requests")
    }
}

/// Runs all of these concurrently.
pub(crate) fn at_once<T: Send>(
    count: usize,
    one: impl Fn(usize) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Vec<T>> {
    let one = &one;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || one(number))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|done| done.map_err(|_| anyhow::anyhow!("a thread broke"))?).collect()
    })
}
