//! Invalid request bodies. Each is refused in the dialect of its request, and costs nothing.

use crate::running::Running;
use anyhow::Context as _;
use seawall_testkit::HttpReply;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Anthropic,
    Openai,
    Bedrock,
}

/// An endpoint, and the shape of its requests.
pub(crate) struct Endpoint {
    pub(crate) path: &'static str,
    pub(crate) dialect: Dialect,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Anthropic's and OpenAI's, which are alike as far as they are used here.
    Plain,
    /// The same without a model.
    Invoke,
    Converse,
    /// What `Converse` takes, to be counted.
    Count,
}

pub(crate) const ENDPOINTS: [Endpoint; 8] = [
    endpoint("/v1/messages", Dialect::Anthropic, Shape::Plain),
    endpoint("/v1/messages/count_tokens", Dialect::Anthropic, Shape::Plain),
    endpoint("/v1/chat/completions", Dialect::Openai, Shape::Plain),
    endpoint("/model/instant/invoke", Dialect::Bedrock, Shape::Invoke),
    endpoint("/model/instant/invoke-with-response-stream", Dialect::Bedrock, Shape::Invoke),
    endpoint("/model/instant/converse", Dialect::Bedrock, Shape::Converse),
    endpoint("/model/instant/converse-stream", Dialect::Bedrock, Shape::Converse),
    endpoint("/model/instant/count-tokens", Dialect::Bedrock, Shape::Count),
];

const fn endpoint(path: &'static str, dialect: Dialect, shape: Shape) -> Endpoint {
    Endpoint { path, dialect, shape }
}

impl Endpoint {
    /// A request with these messages, and with this output limit if there is one.
    fn body(&self, messages: &str, limit: &str) -> String {
        match self.shape {
            Shape::Plain => format!(r#"{{"model":"instant","max_tokens":{limit},"messages":{messages}}}"#),
            Shape::Invoke => format!(
                r#"{{"anthropic_version":"bedrock-2023-05-31","max_tokens":{limit},"messages":{messages}}}"#
            ),
            Shape::Converse => {
                format!(r#"{{"inferenceConfig":{{"maxTokens":{limit}}},"messages":{messages}}}"#)
            }
            Shape::Count => format!(r#"{{"input":{{"converse":{{"messages":{messages}}}}}}}"#),
        }
    }

    /// A message with this text.
    fn message(&self, text: &str) -> String {
        match self.shape {
            Shape::Plain | Shape::Invoke => format!(r#"{{"role":"user","content":{text}}}"#),
            Shape::Converse | Shape::Count => {
                format!(r#"{{"role":"user","content":[{{"text":{text}}}]}}"#)
            }
        }
    }

    pub(crate) fn good(&self) -> String {
        self.with_text(r#""hi""#)
    }

    fn with_text(&self, text: &str) -> String {
        self.body(&format!("[{}]", self.message(text)), "1")
    }

    /// Bodies that must be refused, each with a name.
    pub(crate) fn bad_bodies(&self) -> Vec<(String, Vec<u8>)> {
        let good = self.good();
        let behind_brace = good.strip_prefix('{').unwrap_or_default();
        let mut bad: Vec<(String, Vec<u8>)> = vec![
            ("nothing".into(), Vec::new()),
            ("a byte order mark".into(), format!("\u{FEFF}{good}").into()),
            ("another encoding".into(), good.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            ("bytes that are no text".into(), [b"{\"a\":\"\xFF\",", behind_brace.as_bytes()].concat()),
            ("compressed".into(), b"\x1F\x8B\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00".to_vec()),
            ("something behind it".into(), format!("{good}{good}").into()),
            ("a comma behind it".into(), format!("{good},").into()),
            ("a field twice".into(), format!(r#"{{"x":1,"x":2,{behind_brace}"#).into()),
            ("a field twice, once escaped".into(), format!(r#"{{"x":1,"\u0078":2,{behind_brace}"#).into()),
            ("NaN".into(), format!(r#"{{"temperature":NaN,{behind_brace}"#).into()),
            ("single quotes".into(), good.replace('"', "'").into()),
            ("a comment".into(), format!("/* */{good}").into()),
            ("a control character in a string".into(), self.with_text("\"a\u{1}\"").into()),
            ("half a character".into(), self.with_text(r#""\ud800""#).into()),
            ("the wrong half of a character".into(), self.with_text(r#""\udc00 a""#).into()),
            ("an escape that does not exist".into(), self.with_text(r#""\x41""#).into()),
            ("text that is a number".into(), self.with_text("1e400").into()),
            ("messages that are no list".into(), self.body(r#"{"0":{}}"#, "1").into()),
            ("messages that are nothing".into(), self.body("null", "1").into()),
            ("messages that are text".into(), self.body(r#""hi""#, "1").into()),
            ("no messages".into(), self.body("[]", "1").into()),
            (
                "messages in messages".into(),
                self.body(&format!("[[{}]]", self.message(r#""hi""#)), "1").into(),
            ),
            ("more fields than exist".into(), format!("{{{}{behind_brace}", self.fields(1000)).into()),
            (
                "brackets without end".into(),
                format!(r#"{{"x":{},{behind_brace}"#, "[".repeat(100_000)).into(),
            ),
            (
                "objects in objects".into(),
                format!(r#"{{"x":{}1{},{behind_brace}"#, r#"{"a":"#.repeat(100_000), "}".repeat(100_000))
                    .into(),
            ),
        ];
        for other in ["null", "true", "1", "-0", r#""text""#, "[]", "{}", "{", "}", "\0", " \n"] {
            bad.push((format!("only {other:?}"), other.into()));
        }
        // Truncated anywhere.
        for end in (1..good.len()).step_by(3) {
            bad.push((format!("only {end} bytes"), good.as_bytes().iter().copied().take(end).collect()));
        }
        // Token counting inspects texts and not their roles.
        if self.path != "/v1/messages/count_tokens" {
            bad.push(("text that is nothing".into(), self.with_text("null").into()));
            bad.push(("nobody who speaks".into(), good.replace(r#""role":"user","#, "").into()));
            bad.push(("a speaker without a name".into(), good.replace(r#""user""#, r#""""#).into()));
        }
        bad.push((MANY.into(), self.many(300_000).into()));
        if !self.path.ends_with("tokens") {
            let limits = ["-1", "0", "1.5", "9223372036854775808", "1e400", r#""1e9""#, "[]", "true"];
            // Anthropic's models then fill their cache without output.
            let zero_is_good = self.path == "/v1/messages" || self.path.contains("/invoke");
            for limit in limits.into_iter().filter(|limit| *limit != "0" || !zero_is_good) {
                let body = self.body(&format!("[{}]", self.message(r#""hi""#)), limit);
                bad.push((format!("a limit of {limit}"), body.into()));
            }
        }
        bad
    }

    fn many(&self, count: usize) -> String {
        let message = self.message(r#""hi""#);
        self.body(&format!("[{}]", vec![message; count].join(",")), "1")
    }

    fn fields(&self, count: usize) -> String {
        (0..count).map(|number| format!(r#""f{number}":1,"#)).collect()
    }
}

/// The problem of this rejection in this dialect, if any.
pub(crate) fn problem(answer: &HttpReply, dialect: Dialect, status: u16, name: &str) -> Option<String> {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let (code, message) = match dialect {
        Dialect::Anthropic => (body["error"]["type"].as_str(), &body["error"]["message"]),
        Dialect::Openai => (body["error"]["type"].as_str(), &body["error"]["message"]),
        Dialect::Bedrock => (answer.header("x-amzn-errortype"), &body["message"]),
    };
    let whole = match dialect {
        Dialect::Anthropic => body["type"] == "error",
        Dialect::Openai => body["error"].get("param").is_some() && body["error"].get("code").is_some(),
        Dialect::Bedrock => true,
    };
    let fits = answer.status == status
        && code == Some(name)
        && whole
        && message.as_str().is_some_and(|message| !message.is_empty())
        && answer.header("content-type") == Some("application/json");
    (!fits).then(|| format!("{} {:?} {}", answer.status, answer.head, String::from_utf8_lossy(&answer.body)))
}

const MANY: &str = "more messages than any window holds";

fn too_large(dialect: Dialect) -> (u16, &'static str) {
    match dialect {
        Dialect::Anthropic => (413, "request_too_large"),
        Dialect::Openai => (413, "invalid_request_error"),
        Dialect::Bedrock => (400, "ValidationException"),
    }
}

pub(crate) fn malformed_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Anthropic | Dialect::Openai => "invalid_request_error",
        Dialect::Bedrock => "ValidationException",
    }
}

const WITH_KEY: &str = "authorization: Bearer any\r\ncontent-type: application/json\r\n";

#[test]
fn an_unparsable_request_is_rejected_in_its_dialect_and_costs_nothing() -> anyhow::Result<()> {
    let model = Running::model("bad-input", "[]")?;
    let mut problems = Vec::new();
    for endpoint in &ENDPOINTS {
        for (name, body) in endpoint.bad_bodies() {
            let answer = model.send("POST", endpoint.path, WITH_KEY, &body);
            let answer = answer.with_context(|| format!("{} {name}", endpoint.path))?;
            let (status, error) = match name.as_str() {
                MANY => too_large(endpoint.dialect),
                _ => (400, malformed_name(endpoint.dialect)),
            };
            if let Some(problem) = problem(&answer, endpoint.dialect, status, error) {
                problems.push(format!("{} {name}: {problem}", endpoint.path));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_eq!(model.bill("instant")?, Value::Null);
    // Valid requests are still answered, everywhere.
    for endpoint in &ENDPOINTS {
        let answer = model.send("POST", endpoint.path, WITH_KEY, endpoint.good().as_bytes())?;
        assert_eq!(answer.status, 200, "{}: {}", endpoint.path, String::from_utf8_lossy(&answer.body));
    }
    Ok(())
}

#[test]
fn a_request_without_a_key_is_rejected_before_its_body_is_read() -> anyhow::Result<()> {
    let model = Running::model("no-key", "[]")?;
    for endpoint in &ENDPOINTS {
        let (status, name) = match endpoint.dialect {
            Dialect::Anthropic => (401, "authentication_error"),
            Dialect::Openai => (401, "invalid_request_error"),
            Dialect::Bedrock => (403, "UnrecognizedClientException"),
        };
        for headers in ["", "authorization: Bearer \r\n", "authorization: Basic YTpi\r\n", "x-api-key: \r\n"]
        {
            for body in [endpoint.good(), "{".to_owned()] {
                let answer = model.send("POST", endpoint.path, headers, body.as_bytes())?;
                let problem = problem(&answer, endpoint.dialect, status, name);
                assert_eq!(problem, None, "{} {headers:?}", endpoint.path);
            }
        }
    }
    Ok(())
}

#[test]
fn paths_and_models_that_do_not_exist_are_refused_in_the_words_of_their_dialect() -> anyhow::Result<()> {
    let model = Running::model("no-path", "[]")?;
    let converse = r#"{"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#;
    let (not_found, invalid) = ("ResourceNotFoundException", "ValidationException");
    let plain = |model: &str| json!({ "model": model, "max_tokens": 1, "messages": [{ "role": "user", "content": "hi" }] });
    for name in ["nobody", "../instant", "instant\r\nx: y", "ｉnstant", "instant\0", "INSTANT "] {
        let body = plain(name).to_string();
        let answer = model.send("POST", "/v1/messages", WITH_KEY, body.as_bytes())?;
        assert_eq!(problem(&answer, Dialect::Anthropic, 404, "not_found_error"), None, "{name:?}");
        let answer = model.send("POST", "/v1/chat/completions", WITH_KEY, body.as_bytes())?;
        assert_eq!(problem(&answer, Dialect::Openai, 404, "invalid_request_error"), None, "{name:?}");
    }
    for (path, status, name) in [
        ("/model/nobody/converse", 404, not_found),
        ("/model/..%2Finstant/converse", 400, invalid),
        ("/model/instant%00/converse", 400, invalid),
        ("/model/%EF%BD%89nstant/converse", 400, invalid),
        ("/model/instant/conversation", 404, "UnknownOperationException"),
        ("/model/instant", 404, "UnknownOperationException"),
        ("/model/instant%F/converse", 400, invalid),
        ("/model/%FF/converse", 400, invalid),
        ("/model//converse", 400, invalid),
    ] {
        let answer = model.send("POST", path, WITH_KEY, converse.as_bytes())?;
        assert_eq!(problem(&answer, Dialect::Bedrock, status, name), None, "{path}");
    }
    for (method, path, dialect, name) in [
        ("GET", "/v1/messages", Dialect::Anthropic, "not_found_error"),
        ("DELETE", "/v1/messages", Dialect::Anthropic, "not_found_error"),
        ("POST", "/v1/messages/", Dialect::Anthropic, "not_found_error"),
        ("POST", "/", Dialect::Anthropic, "not_found_error"),
        ("GET", "/v1/chat/completions", Dialect::Openai, "invalid_request_error"),
        ("GET", "/model/instant/converse", Dialect::Bedrock, "UnknownOperationException"),
    ] {
        let answer = model.send(method, path, WITH_KEY, plain("instant").to_string().as_bytes())?;
        assert_eq!(problem(&answer, dialect, 404, name), None, "{method} {path}");
    }
    Ok(())
}

#[test]
fn a_body_that_is_too_large_is_refused_as_such_and_its_type_does_not_matter() -> anyhow::Result<()> {
    let model = Running::model("large-body", "[]")?;
    for endpoint in ENDPOINTS.iter().step_by(2) {
        let answer = model.send("POST", endpoint.path, WITH_KEY, &vec![b' '; (32 << 20) + 1])?;
        let (status, name) = too_large(endpoint.dialect);
        assert_eq!(problem(&answer, endpoint.dialect, status, name), None, "{}", endpoint.path);
        // Clients of one vendor send no content type, so it cannot be required.
        for headers in
            ["content-type: text/html\r\n", "content-type: application/x-www-form-urlencoded\r\n", ""]
        {
            let headers = format!("x-api-key: any\r\n{headers}");
            let answer = model.send("POST", endpoint.path, &headers, endpoint.good().as_bytes())?;
            assert_eq!(answer.status, 200, "{} {headers}", endpoint.path);
        }
    }
    Ok(())
}

#[test]
fn broken_http_is_refused_and_leaves_the_model_as_it_was() -> anyhow::Result<()> {
    let model = Running::model("broken-http", "[]")?;
    let body = ENDPOINTS[0].good();
    let line = "POST /v1/messages HTTP/1.1\r\nhost: test\r\nx-api-key: any\r\n";
    let many: String = (0..1000).map(|number| format!("x-{number}: 1\r\n")).collect();
    let long = format!("x-long: {}\r\n", "a".repeat(1 << 20));
    for (name, request) in [
        ("no HTTP", "hello\r\n\r\n".to_owned()),
        ("two lengths", format!("{line}content-length: 5\r\ncontent-length: 6\r\n\r\n{body}")),
        ("a length that is none", format!("{line}content-length: -1\r\n\r\n{body}")),
        ("a chunk without a size", format!("{line}transfer-encoding: chunked\r\n\r\nxyz\r\n{body}")),
        ("a name with a space", format!("{line}x y: 1\r\n\r\n")),
        ("a thousand headers", format!("{line}{many}content-length: 0\r\n\r\n")),
        ("a header of a megabyte", format!("{line}{long}content-length: 0\r\n\r\n")),
    ] {
        // Some requests cannot even be answered: then the connection ends.
        if let Ok(answer) = model.send_raw(request.as_bytes()) {
            assert!((400..500).contains(&answer.status), "{name}: {}", answer.head);
        }
    }
    let answer = model.send("POST", "/v1/messages", WITH_KEY, body.as_bytes())?;
    assert_eq!((answer.status, model.bill("instant")?["requests"].as_u64()), (200, Some(1)));
    Ok(())
}
