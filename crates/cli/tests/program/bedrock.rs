//! Amazon Bedrock as face and as target: a request in its dialect arrives unchanged, with its headers.

use crate::client::{Client, Way};
use crate::requests::NO_LIMITS;
use crate::running::{KEY, Running, settings};
use anyhow::Context as _;
use seawall_testkit::HttpReply;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const CLAUDE: &str = "anthropic.claude-3-haiku-20240307-v1:0";
const TITAN: &str = "amazon.titan-text-express-v1";
const LLAMA: &str = "meta.llama3-8b-instruct-v1:0";
const MISTRAL: &str = "mistral.mistral-7b-instruct-v0:2";

/// A server that records requests and answers each Bedrock operation in its format.
struct Service {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
    ends: Arc<AtomicBool>,
}

impl Service {
    fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let (requests, ends) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (recorded, is_stopped) = (Arc::clone(&requests), Arc::clone(&ends));
        std::thread::Builder::new().spawn(move || {
            for stream in listener.incoming() {
                if is_stopped.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(request) = stream.and_then(serve) {
                    recorded.lock().unwrap_or_else(PoisonError::into_inner).push(request);
                }
            }
        })?;
        Ok(Self { url, requests, ends })
    }

    /// Takes the requests recorded since the last call.
    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        // Unblocks the last accept.
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
    }
}

fn serve(mut stream: TcpStream) -> std::io::Result<String> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let (mut seen, mut buffer) = (Vec::new(), [0; 8_192]);
    let request = loop {
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
    let path = request.split(' ').nth(1).unwrap_or_default();
    let body = if path.ends_with("/converse") {
        json!({
            "output": { "message": { "role": "assistant", "content": [{ "text": "hello" }] } },
            "stopReason": "end_turn", "usage": { "inputTokens": 5, "outputTokens": 2, "totalTokens": 7 },
        })
    } else {
        json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
            "content": [{ "type": "text", "text": "hello" }],
            "usage": { "input_tokens": 5, "output_tokens": 2 },
        })
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-amzn-bedrock-service-tier: priority\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    Ok(request)
}

/// Settings with a route for each of these Bedrock models, and one whose first target is another vendor's.
fn routes(url: &str) -> String {
    let mut text = settings(url, ["instant", "instant"]) + NO_LIMITS;
    for (route, model) in [("claude", CLAUDE), ("titan", TITAN), ("llama", LLAMA), ("mistral", MISTRAL)] {
        text += &format!(
            "targets.{route} = {{ provider = \"bedrock\", base_url = \"{url}\", model = \"{model}\", region = \"us-east-1\", \
             grade = \"fast\", breaker = \"haiku\" }}\n\
             routes.{route} = {{ targets = [\"{route}\"], faces = [\"anthropic\", \"openai\", \"bedrock\"] }}\n"
        );
    }
    text += &format!(
        "models.\"{CLAUDE}\" = {{ input = \"$0.25/M\", output = \"$1.25/M\", surcharges.priority = {{ input = \"175%\", output = \"175%\" }} }}\n\
         models.\"{TITAN}\" = {{ input = \"$0.25/M\", output = \"$1.25/M\", context_window = 8000, max_output = 4096 }}\n\
         models.\"{LLAMA}\" = {{ input = \"$0.25/M\", output = \"$1.25/M\" }}\n\
         models.\"{MISTRAL}\" = {{ input = \"$0.25/M\", output = \"$1.25/M\", context_window = 8000 }}\n\
         routes.mixed = {{ targets = [\"haiku\", \"claude\"], faces = [\"anthropic\", \"openai\", \"bedrock\"] }}\n\
         routes.elsewhere = {{ targets = [\"haiku\"], faces = [\"anthropic\", \"openai\", \"bedrock\"] }}\n\
         breakers.haiku.failure_threshold = 100_000\n\
         pressure.sustained_for = \"1h\"\n\
         retry.base_delay = \"1ms\"\n\
         retry.max_delay = \"5ms\"\n"
    );
    text
}

const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "secret")];

fn posted(gateway: &Running, path: &str, headers: &str, body: &Value) -> anyhow::Result<HttpReply> {
    let headers = format!("x-api-key: {KEY}\r\n{headers}");
    gateway.send("POST", path, &headers, body.to_string().as_bytes())
}

fn message(answer: &HttpReply) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

fn invoked() -> Value {
    json!({
        "anthropic_version": "bedrock-2023-05-31", "max_tokens": 9,
        "messages": [{ "role": "user", "content": "hi" }],
    })
}

#[test]
fn headers_that_change_what_is_done_or_charged_arrive_or_are_refused_by_name() -> anyhow::Result<()> {
    let service = Service::start()?;
    let gateway = Running::gateway_in("bedrock-headers", &routes(&service.url), &KEYS)?;
    let guardrail = "X-Amzn-Bedrock-GuardrailIdentifier: gr-1\r\nX-Amzn-Bedrock-GuardrailVersion: 2\r\n\
                     X-Amzn-Bedrock-Trace: ENABLED\r\n";
    // The first target of this route does not support them, so the second is called.
    for route in ["claude", "mixed"] {
        let answer = posted(&gateway, &format!("/model/{route}/invoke"), guardrail, &invoked())?;
        assert_eq!(answer.status, 200, "{route}: {}", message(&answer));
        let requests = service.requests().concat().to_lowercase();
        for line in guardrail.to_lowercase().lines() {
            assert!(requests.contains(&format!("\r\n{line}\r\n")), "{route}: {line}: {requests}");
        }
        assert!(
            requests.contains(";x-amzn-bedrock-guardrailidentifier;x-amzn-bedrock-guardrailversion;"),
            "{requests}"
        );
    }
    for (path, body) in [
        ("/model/elsewhere/invoke", invoked()),
        (
            "/model/claude/converse",
            json!({ "messages": [{ "role": "user", "content": [{ "text": "hi" }] }] }),
        ),
    ] {
        let answer = posted(&gateway, path, guardrail, &body)?;
        let error = (answer.status, answer.header("x-amzn-errortype"));
        assert_eq!(error, (400, Some("ValidationException")), "{path}: {}", message(&answer));
        assert!(message(&answer).contains("x-amzn-bedrock-guardrailidentifier: "), "{}", message(&answer));
    }
    let strange = posted(&gateway, "/model/claude/invoke", "x-amzn-bedrock-speed: warp\r\n", &invoked())?;
    assert_eq!(strange.status, 400, "{}", message(&strange));
    assert!(service.requests().is_empty(), "the vendor was called");

    // A service tier with a price is forwarded, returned and charged; one without a price is refused.
    let plain = posted(&gateway, "/model/elsewhere/invoke", "", &invoked())?;
    assert!(plain.header("x-amzn-bedrock-service-tier").is_none(), "{}", plain.head);
    let tier = "X-Amzn-Bedrock-Service-Tier: priority\r\n";
    let answer = posted(&gateway, "/model/claude/invoke", tier, &invoked())?;
    assert_eq!(answer.status, 200, "{}", message(&answer));
    assert_eq!(answer.header("x-amzn-bedrock-service-tier"), Some("priority"), "{}", answer.head);
    // 5 tokens at $0.25/M and 2 at $1.25/M, times 1.75.
    assert_eq!(answer.header("x-seawall-cost"), Some("0.000006563"), "{}", answer.head);
    service.requests();
    let latency = "X-Amzn-Bedrock-PerformanceConfig-Latency: optimized\r\n";
    let answer = posted(&gateway, "/model/claude/invoke", latency, &invoked())?;
    assert_eq!(answer.status, 400, "{}", message(&answer));
    assert!(
        message(&answer).contains("optimized") && message(&answer).contains("no price"),
        "{}",
        message(&answer)
    );
    assert!(service.requests().is_empty(), "the vendor was called");
    Ok(())
}

#[test]
fn the_anthropic_version_header_is_forwarded() -> anyhow::Result<()> {
    let service = Service::start()?;
    let gateway = Running::gateway_in("bedrock-version", &routes(&service.url), &KEYS)?;
    let body =
        json!({ "model": "elsewhere", "max_tokens": 9, "messages": [{ "role": "user", "content": "hi" }] });
    for (header, version) in [("", "2023-06-01"), ("anthropic-version: 2099-01-01\r\n", "2099-01-01")] {
        let answer = posted(&gateway, "/v1/messages", header, &body)?;
        assert_eq!(answer.status, 200, "{}", message(&answer));
        let requests = service.requests().concat();
        assert!(requests.contains(&format!("anthropic-version: {version}\r\n")), "{requests}");
    }
    Ok(())
}

#[test]
fn converse_to_a_claude_model_goes_out_as_it_came() -> anyhow::Result<()> {
    let service = Service::start()?;
    let gateway = Running::gateway_in("bedrock-converse", &routes(&service.url), &KEYS)?;
    let body = json!({
        "additionalModelRequestFields": { "top_k": 5 },
        "guardrailConfig": { "guardrailIdentifier": "gr-1", "guardrailVersion": "1" },
        "inferenceConfig": { "maxTokens": 9 },
        "messages": [{ "role": "user", "content": [
            { "text": "What is this?" }, { "cachePoint": { "type": "default" } },
            { "document": { "format": "pdf", "name": "a", "source": { "bytes": "JVBERi0gL1BhZ2Ug" } } },
        ] }],
    });
    let answer = posted(&gateway, "/model/claude/converse", "", &body)?;
    assert_eq!(answer.status, 200, "{}", message(&answer));
    let requests = service.requests().concat();
    let (head, sent) = requests.split_once("\r\n\r\n").context("no body")?;
    assert!(head.starts_with("POST /model/anthropic.claude-3-haiku-20240307-v1%3A0/converse "), "{head}");
    assert_eq!(sent, body.to_string());
    // A request in Anthropic's dialect is forwarded in that dialect.
    let answer = posted(&gateway, "/model/claude/invoke", "", &invoked())?;
    assert_eq!(answer.status, 200, "{}", message(&answer));
    let requests = service.requests().concat();
    assert!(requests.contains("/invoke ") && requests.ends_with(&invoked().to_string()), "{requests}");
    Ok(())
}

/// A model and a gateway with routes to it.
fn through_model(test: &str) -> anyhow::Result<(Running, Running)> {
    let model = Running::start(&["model", "--listen", "127.0.0.1:0", "--json", "--pace", "instant"])?;
    let gateway = Running::gateway_in(test, &routes(&model.url), &KEYS)?;
    Ok((model, gateway))
}

#[test]
fn bodies_of_other_vendors_pass_through_and_are_charged() -> anyhow::Result<()> {
    let (model, gateway) = through_model("bedrock-opaque")?;
    let titan =
        json!({ "inputText": "What should I read next?", "textGenerationConfig": { "maxTokenCount": 20 } });
    let whole = posted(&gateway, "/model/titan/invoke", "", &titan)?;
    assert_eq!(whole.status, 200, "{}", message(&whole));
    let read: Value = serde_json::from_slice(&whole.body)?;
    assert_eq!(read["results"][0]["tokenCount"], 20, "{read}");
    assert_eq!(whole.header("x-amzn-bedrock-output-token-count"), Some("20"), "{}", whole.head);
    // 6 tokens at $0.25/M and 20 at $1.25/M.
    assert_eq!(whole.header("x-seawall-cost"), Some("0.000026500"), "{}", whole.head);

    // A stream, as a user of boto3 reads it.
    let mut session = Client::AwsPython(Way::Invoke).open(&gateway.url)?;
    let call = |model: &str, stream: bool, body: &Value| json!({ "model": model, "stream": stream, "body": body.to_string(), "key": KEY, "secret": null });
    let seen = session.sees(&call("titan", true, &titan))?;
    assert_eq!((&seen["error"], &seen["complete"]), (&Value::Null, &json!(true)), "{seen}");
    assert!(seen["pieces"].as_u64() > Some(4), "{seen}");
    assert_eq!(seen["metrics"]["outputTokenCount"], 20, "{seen}");
    let words = seen["chunks"].as_array().context("no chunks")?;
    let words: String = words.iter().filter_map(|chunk| chunk["outputText"].as_str()).collect();
    assert_eq!(read["results"][0]["outputText"], words, "{seen}");
    let bill = model.bill("haiku")?;
    assert_eq!((&bill["requests"], &bill["output_tokens"]), (&json!(2), &json!(40)), "{bill}");
    let spent = gateway.counter("seawall_cost_usd_total").unwrap_or_default();
    assert_eq!(json!(spent), bill["nano_dollars"], "{bill}");

    // A broken stream raises an exception, and never looks complete.
    for fault in [json!({ "kind": "end_early", "after": 3 }), json!({ "kind": "truncate", "after": 3 })] {
        model.set_faults(&json!([{ "fault": fault }]))?;
        let seen = session.sees(&call("titan", true, &titan))?;
        assert!(seen["error"]["kinds"].is_array() && seen["complete"] == false, "{fault}: {seen}");
    }
    model.set_faults(&json!([]))?;

    // Input without a bound is refused, and so is what no other vendor supports.
    let llama = json!({ "prompt": "What should I read next?", "max_gen_len": 20 });
    for (route, problem) in
        [("llama", "window"), ("mistral", "max_output"), ("elsewhere", "anthropic_version")]
    {
        let seen = session.sees(&call(route, false, &llama))?;
        let error = (&seen["error"]["status"], &seen["error"]["kinds"][0]);
        assert_eq!(error, (&json!(400), &json!("ValidationException")), "{route}: {seen}");
        assert!(seen["error"]["text"].as_str().is_some_and(|text| text.contains(problem)), "{route}: {seen}");
    }
    assert_eq!(gateway.counter("seawall_budget_held_usd")?, 0);
    Ok(())
}

#[test]
fn tokens_are_counted_with_tools_and_media_in_both_dialects() -> anyhow::Result<()> {
    let (model, gateway) = through_model("bedrock-count")?;
    let count = |path: &str, body: &Value, field: &str| -> anyhow::Result<u64> {
        let answer = posted(&gateway, path, "", body)?;
        anyhow::ensure!(answer.status == 200, "{path}: {}", message(&answer));
        let read: Value = serde_json::from_slice(&answer.body)?;
        read[field].as_u64().with_context(|| message(&answer))
    };
    let schema = json!({ "type": "object", "properties": { "title": { "type": "string" } } });
    let mut messages =
        json!({ "model": "claude", "messages": [{ "role": "user", "content": "What should I read next?" }] });
    let plain = count("/v1/messages/count_tokens", &messages, "input_tokens")?;
    messages["tools"] = json!([{ "name": "find", "description": "Finds a manga.", "input_schema": schema }]);
    let with_tools = count("/v1/messages/count_tokens", &messages, "input_tokens")?;
    assert!(with_tools > plain + 346, "{plain} {with_tools}");
    messages["messages"][0]["content"] = json!([
        { "type": "text", "text": "What should I read next?" },
        { "type": "image", "source": { "type": "base64", "media_type": "image/gif", "data": "R0lGODlh6APoAwAAAA==" } },
    ]);
    assert_eq!(count("/v1/messages/count_tokens", &messages, "input_tokens")?, with_tools + 1_296);

    let path = "/model/claude/count-tokens";
    let converse =
        json!({ "messages": [{ "role": "user", "content": [{ "text": "What should I read next?" }] }] });
    assert_eq!(count(path, &json!({ "input": { "converse": converse } }), "inputTokens")?, plain);
    let unknown =
        posted(&gateway, "/model/nobody/count-tokens", "", &json!({ "input": { "converse": converse } }))?;
    let error = (unknown.status, unknown.header("x-amzn-errortype"));
    assert_eq!(error, (404, Some("ResourceNotFoundException")), "{}", message(&unknown));
    let wrong = posted(&gateway, path, "", &json!({ "input": {} }))?;
    assert_eq!((wrong.status, wrong.header("x-amzn-errortype")), (400, Some("ValidationException")));

    // As a user of boto3 sees it.
    for way in [Way::Converse, Way::Invoke] {
        let mut session = Client::AwsPython(way).open(&gateway.url)?;
        let request = json!({ "count": true, "model": "claude", "key": KEY, "secret": null });
        let seen = session.sees(&request)?;
        assert_eq!((&seen["error"], &seen["input"]), (&Value::Null, &json!(plain)), "{way:?}: {seen}");
    }
    assert!(model.calls()?.is_empty(), "no model is asked");
    Ok(())
}

#[test]
fn boto3_raises_the_services_exceptions() -> anyhow::Result<()> {
    let (model, gateway) = through_model("bedrock-errors")?;
    let mut session = Client::AwsPython(Way::Converse).open(&gateway.url)?;
    let mut sees = |faults: Value| -> anyhow::Result<(Value, Value)> {
        model.set_faults(&faults)?;
        let seen = session.sees(&json!({ "model": "claude", "key": KEY, "secret": null }))?;
        Ok((seen["error"]["status"].clone(), seen["error"]["kinds"][0].clone()))
    };
    for (status, name, expected) in [
        (429, None, (429, "ThrottlingException")),
        (503, None, (503, "ServiceUnavailableException")),
        (429, Some("ModelNotReadyException"), (429, "ModelNotReadyException")),
        (408, Some("ModelTimeoutException"), (408, "ModelTimeoutException")),
        (424, Some("ModelErrorException"), (424, "ModelErrorException")),
        (400, None, (400, "ValidationException")),
    ] {
        let mut fault = json!({ "kind": "status", "status": status });
        if let Some(name) = name {
            fault["error"] = json!(name);
        }
        assert_eq!(sees(json!([{ "fault": fault }]))?, (json!(expected.0), json!(expected.1)), "{fault}");
    }
    // The client retries as often as it would with the real service, and no more often; a failure of the model itself
    // is not retried.
    for (status, most) in [(503, 3), (424, 1)] {
        model.set_faults(&json!([{ "fault": { "kind": "status", "status": status } }]))?;
        let before = gateway.counter("seawall_requests_total")?;
        session.sees(&json!({ "model": "claude", "key": KEY, "secret": null, "retries": 2 }))?;
        assert_eq!(gateway.counter("seawall_requests_total")? - before, most, "{status}");
    }
    for path in ["/model/claude/nothing", "/guardrail/a/version/1/apply"] {
        let answer = posted(&gateway, path, "", &json!({}))?;
        let error = (answer.status, answer.header("x-amzn-errortype"));
        assert_eq!(error, (404, Some("UnknownOperationException")), "{path}: {}", message(&answer));
    }
    Ok(())
}
