//! Bodies that no model can be asked with. Each is refused in the words of the dialect it was sent in, and costs nothing.

use crate::running::{Answer, Running};
use anyhow::Context as _;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Anthropic,
    Openai,
    Bedrock,
}

/// A place to send requests to, and what one has to look like there.
struct Endpoint {
    path: &'static str,
    dialect: Dialect,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Anthropic's and OpenAI's, which are alike as far as they are used here.
    Plain,
    /// The same without a model.
    Invoke,
    Converse,
    /// What `Converse` takes, to be counted.
    Count,
}

const ENDPOINTS: [Endpoint; 8] = [
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
    /// A request with these messages, and with this limit of output where there is one.
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

    /// A message whose text is written like this.
    fn message(&self, text: &str) -> String {
        match self.shape {
            Shape::Plain | Shape::Invoke => format!(r#"{{"role":"user","content":{text}}}"#),
            Shape::Converse | Shape::Count => {
                format!(r#"{{"role":"user","content":[{{"text":{text}}}]}}"#)
            }
        }
    }

    fn good(&self) -> String {
        self.saying(r#""hi""#)
    }

    fn saying(&self, text: &str) -> String {
        self.body(&format!("[{}]", self.message(text)), "1")
    }

    /// Bodies that must be refused, each with a name.
    fn bad_bodies(&self) -> Vec<(String, Vec<u8>)> {
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
            ("a control character in a string".into(), self.saying("\"a\u{1}\"").into()),
            ("half a character".into(), self.saying(r#""\ud800""#).into()),
            ("the wrong half of a character".into(), self.saying(r#""\udc00 a""#).into()),
            ("an escape that does not exist".into(), self.saying(r#""\x41""#).into()),
            ("text that is a number".into(), self.saying("1e400").into()),
            ("text that is nothing".into(), self.saying("null").into()),
            ("messages that are no list".into(), self.body(r#"{"0":{}}"#, "1").into()),
            ("messages that are nothing".into(), self.body("null", "1").into()),
            ("messages that are text".into(), self.body(r#""hi""#, "1").into()),
            ("no messages".into(), self.body("[]", "1").into()),
            (
                "messages in messages".into(),
                self.body(&format!("[[{}]]", self.message(r#""hi""#)), "1").into(),
            ),
            ("nobody who speaks".into(), good.replace(r#""role":"user","#, "").into()),
            ("an unknown speaker".into(), good.replace(r#""user""#, r#""clown""#).into()),
            ("more messages than any window holds".into(), self.many(300_000).into()),
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
        // Wherever it breaks off.
        for end in (1..good.len()).step_by(3) {
            bad.push((format!("only {end} bytes"), good.as_bytes().iter().copied().take(end).collect()));
        }
        if self.shape != Shape::Count {
            let limits = ["-1", "0", "1.5", "9223372036854775808", "1e400", r#""1e9""#, "[]", "true"];
            for limit in limits {
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

/// What is wrong with this refusal in this dialect.
fn problem(answer: &Answer, dialect: Dialect, status: u16, name: &str) -> Option<String> {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let (told, message) = match dialect {
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
        && told == Some(name)
        && whole
        && message.as_str().is_some_and(|message| !message.is_empty())
        && answer.header("content-type") == Some("application/json");
    (!fits).then(|| format!("{} {:?} {}", answer.status, answer.head, String::from_utf8_lossy(&answer.body)))
}

fn malformed_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Anthropic | Dialect::Openai => "invalid_request_error",
        Dialect::Bedrock => "ValidationException",
    }
}

const WITH_KEY: &str = "authorization: Bearer any\r\ncontent-type: application/json\r\n";

#[test]
fn what_cannot_be_read_is_refused_in_the_words_of_its_dialect_and_costs_nothing() -> anyhow::Result<()> {
    let model = Running::model("bad-input", "[]")?;
    let mut problems = Vec::new();
    for endpoint in &ENDPOINTS {
        for (name, body) in endpoint.bad_bodies() {
            let answer = model.send("POST", endpoint.path, WITH_KEY, &body);
            let answer = answer.with_context(|| format!("{} {name}", endpoint.path))?;
            let name_of_error = malformed_name(endpoint.dialect);
            if let Some(problem) = problem(&answer, endpoint.dialect, 400, name_of_error) {
                problems.push(format!("{} {name}: {problem}", endpoint.path));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let bill = model.bill("instant")?;
    assert_eq!((&bill["answers"], &bill["output_tokens"]), (&json!(0), &json!(0)), "{bill}");
    // And what is good is still answered, everywhere.
    for endpoint in &ENDPOINTS {
        let answer = model.send("POST", endpoint.path, WITH_KEY, endpoint.good().as_bytes())?;
        assert_eq!(answer.status, 200, "{}: {}", endpoint.path, String::from_utf8_lossy(&answer.body));
    }
    Ok(())
}
