//! Every preset of an OpenAI-compatible provider, called through a recorder in front of the simulated model: the path, the
//! credential and the field for the output limit are those of the preset.

use crate::running::{KEY, Running, caller};
use anyhow::Context as _;
use seawall_config::{KeyHeader, KeyNeed, PRESETS, PresetTest, Provider, ProviderPreset};
use seawall_core::vocabulary::OpenAiApi;
use seawall_testkit::exchange;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

const VENDOR_KEY: &str = "vendor-key-0123456789";

/// A request as the provider received it.
struct RecordedRequest {
    path: String,
    headers: Vec<(String, String)>,
    body: Value,
}

impl RecordedRequest {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Starts a recorder that passes requests to the model at this URL, and returns its own URL.
fn record(model: &str) -> anyhow::Result<(String, Receiver<RecordedRequest>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let model = model.trim_start_matches("http://").to_owned();
    let (sender, receiver) = channel();
    // It ends with the test's process.
    std::thread::Builder::new().spawn(move || {
        for stream in listener.incoming().flatten() {
            // The gateway may close a connection that it does not need.
            let _ = pass_on(stream, &model, &sender);
        }
    })?;
    Ok((url, receiver))
}

fn pass_on(stream: TcpStream, model: &str, sender: &Sender<RecordedRequest>) -> anyhow::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).context("no request line")?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").context("no length")?;
    let mut body = vec![0; length.1.parse()?];
    reader.read_exact(&mut body)?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {model}\r\nauthorization: Bearer any\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let reply = exchange(model, [head.as_bytes(), &body].concat())?;
    sender.send(RecordedRequest { path, headers, body: serde_json::from_slice(&body)? })?;
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {} OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        reply.status,
        reply.body.len()
    )?;
    Ok(stream.write_all(&reply.body)?)
}

fn compatible_presets() -> impl Iterator<Item = &'static ProviderPreset> {
    PRESETS
        .iter()
        .filter(|preset| preset.api_family == Provider::OpenAi && preset.test == PresetTest::Simulator)
}

#[test]
fn every_compatible_preset_is_called_at_its_path_with_its_key_and_its_fields() -> anyhow::Result<()> {
    let model = Running::start(&["model", "--listen", "127.0.0.1:0", "--json", "--pace", "instant"])?;
    let (url, recorded) = record(&model.url)?;
    let mut settings = String::from(
        "profile = \"gateway\"\nserver.listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\n\
         telemetry.access_log = \"none\"\nstore.kind = \"memory\"\nmodels.instant = { free = true }\n",
    );
    settings += &caller("test", KEY);
    let mut number = 0;
    for ProviderPreset { name, key, .. } in compatible_presets() {
        number += 1;
        let key = match key {
            KeyNeed::Required(_) => "api_key = \"env:VENDOR_KEY\"\n",
            _ => "",
        };
        settings += &format!(
            "[targets.{name}]\nprovider = \"{name}\"\nmodel = \"instant\"\nbase_url = \"{url}/v1\"\n{key}\
             [routes.{name}]\ntargets = [\"{name}\"]\n"
        );
    }
    assert!(number >= 12, "{number}");
    let gateway = Running::gateway_in("presets", &settings, &[("VENDOR_KEY", VENDOR_KEY)])?;
    for preset in compatible_presets() {
        let name = preset.name;
        let headers = format!("x-api-key: {KEY}\r\ncontent-type: application/json\r\n");
        let chat = json!({
            "model": name, "max_tokens": 7, "max_completion_tokens": 9,
            "messages": [{ "role": "user", "content": "hi" }],
        });
        let answer = gateway.send("POST", "/v1/chat/completions", &headers, chat.to_string().as_bytes())?;
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        let sent = recorded.recv()?;
        assert_eq!(sent.path, "/v1/chat/completions", "{name}");
        let bearer = format!("Bearer {VENDOR_KEY}");
        let expected = match (preset.key, preset.key_header) {
            (KeyNeed::Required(_), KeyHeader::Standard) => (Some(bearer.as_str()), None),
            (KeyNeed::Required(_), KeyHeader::ApiKey) => (None, Some(VENDOR_KEY)),
            _ => (None, None),
        };
        assert_eq!((sent.header("authorization"), sent.header("api-key")), expected, "{name}");
        // Of two limits the smaller one is sent, in the field that the server is known to accept.
        for field in ["max_tokens", "max_completion_tokens"] {
            let expected = if preset.output_limit_field.name() == field { json!(7) } else { Value::Null };
            assert_eq!(sent.body[field], expected, "{name}: {}", sent.body);
        }
        assert_eq!(sent.body["model"], "instant", "{name}");
        let responses = json!({ "model": name, "input": "hi" }).to_string();
        let answer = gateway.send("POST", "/v1/responses", &headers, responses.as_bytes())?;
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        let expected = match preset.openai_api {
            OpenAiApi::ChatCompletions => "/v1/chat/completions",
            _ => "/v1/responses",
        };
        assert_eq!(recorded.recv()?.path, expected, "{name}");
    }
    Ok(())
}
