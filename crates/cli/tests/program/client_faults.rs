//! Broken answers of `seawall model` as users of the vendors' clients see them. The table includes faults that a client
//! cannot detect: a gateway in front of a model must detect them instead.

use crate::client::{Client, Http, Session, Way};
use crate::running::Running;
use serde_json::{Value, json};

/// What a user observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    /// An exception of this class.
    Raises(&'static str),
    /// No error, only a premature end.
    Ends,
    /// Nothing at all: the client's own timeout has no effect here.
    Waits,
}

use Sight::{Ends, Raises, Waits};

/// The class of the script's own exception.
const OUT_OF_PATIENCE: &str = "OutOfPatience";
/// Pieces before the fault: the one that opens the stream, and three of four tokens each.
const PIECES: usize = 4;
const TOKENS: u64 = 12;

/// Observations by client: Anthropic's in Python and JavaScript, OpenAI's in Python and JavaScript, Amazon's in Python
/// with its two operations, and Amazon's in JavaScript over HTTP/1.1 and HTTP/2.
type Sights = [Sight; 8];

const fn column(client: Client) -> usize {
    match client {
        Client::AnthropicPythonOne | Client::AnthropicPythonTwo => 0,
        Client::AnthropicNode => 1,
        Client::OpenaiPython
        | Client::ResponsesPython
        | Client::LangchainResponses
        | Client::PydanticResponses => 2,
        Client::OpenaiNode | Client::ResponsesNode | Client::Vercel => 3,
        Client::AwsPython(Way::Converse) => 4,
        Client::AwsPython(Way::Invoke) => 5,
        Client::AwsNode(_, Http::One) => 6,
        Client::AwsNode(_, Http::Two) => 7,
        Client::GeminiPython | Client::GeminiNode => unreachable!(),
    }
}

fn sight(seen: &Value) -> String {
    let kinds: Vec<_> =
        seen["error"]["kinds"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match kinds.first() {
        None if seen["complete"] == true => "complete".into(),
        None => format!("{Ends:?}"),
        Some(_) if kinds.contains(&OUT_OF_PATIENCE) => format!("{Waits:?}"),
        Some(kind) => format!("Raises({kind:?})"),
    }
}

/// Observes each fault through a client, and returns the differences from the table.
fn compare(
    client: Client,
    session: &mut Session,
    model: &Running,
    stream: bool,
    faults: &[(Value, Sights)],
) -> anyhow::Result<Vec<String>> {
    model.set_faults(&json!([]))?;
    // Lazy loading on the first call must not count as waiting.
    let seen = session.sees(&json!({ "stream": stream }))?;
    assert_eq!(seen["complete"], true, "{client:?}: {seen}");
    let whole = seen["text"].as_str().unwrap_or_default().to_owned();
    let mut others = Vec::new();
    for (fault, sights) in faults {
        model.set_faults(&json!([{ "fault": fault }]))?;
        let before = output_on_bill(model)?;
        let seen = session.sees(&json!({ "stream": stream, "timeout": 0.6, "patience": 1.2 }))?;
        let expected = sights[column(client)];
        let (text, is_cut) = (seen["text"].as_str().unwrap_or_default(), fault["kind"] == "cut");
        // The text before the fault is complete and in order, with nothing added; but some clients discard buffered
        // text when a connection breaks.
        let fits = if fault["after"] == PIECES {
            whole.starts_with(text) && (is_cut || !text.is_empty())
        } else {
            text.is_empty()
        };
        if sight(&seen) != format!("{expected:?}") || !fits || seen["finish"] != Value::Null {
            others.push(format!("{client:?}, {fault}: not {expected:?}: {seen}"));
        }
        if is_cut && matches!(client, Client::AwsNode(_, Http::Two)) {
            // This confirms that HTTP/2 was used.
            let text = seen["error"]["text"].as_str().unwrap_or_default();
            assert!(text.contains("ERR_HTTP2"), "{client:?}: {seen}");
        }
        if is_cut && stream {
            assert_eq!(output_on_bill(model)?, before + TOKENS, "{client:?}, {fault}");
        }
    }
    Ok(others)
}

fn output_on_bill(model: &Running) -> anyhow::Result<u64> {
    Ok(model.bill("instant")?["output_tokens"].as_u64().unwrap_or(0))
}

#[test]
fn an_upstream_failure_raises_in_the_client() -> anyhow::Result<()> {
    let model = Running::model("client-faults", "[]")?;
    let mut others = Vec::new();
    for client in Client::ALL {
        // One process for all calls: starting a client takes longer than most of what it does.
        let mut session = client.open(&model.url)?;
        others.extend(compare(client, &mut session, &model, true, &streams())?);
        others.extend(compare(client, &mut session, &model, false, &whole_answers())?);
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
    Ok(())
}

#[rustfmt::skip] // A table is read by its columns.
fn streams() -> Vec<(Value, Sights)> {
    let broken = Raises("Error");
    let after = |kind: &str| json!({ "kind": kind, "after": PIECES });
    vec![
        (after("cut"), [
            Raises("RemoteProtocolError"), Raises("TypeError"), Raises("APIConnectionError"), Raises("TypeError"),
            Raises("ProtocolError"), Raises("ProtocolError"), broken, broken,
        ]),
        (json!({ "kind": "cut", "after": PIECES, "reset": true }), [
            Raises("RemoteProtocolError"), Raises("TypeError"), Raises("APIConnectionError"), Raises("TypeError"),
            Raises("ProtocolError"), Raises("ProtocolError"), broken, broken,
        ]),
        // An error event in the stream is the vendor's exception everywhere.
        (after("error"), [
            Raises("APIStatusError"), Raises("APIError"), Raises("APIError"), Raises("APIError"),
            Raises("EventStreamError"), Raises("EventStreamError"),
            Raises("ServiceUnavailableException"), Raises("ServiceUnavailableException"),
        ]),
        (after("malformed"), [
            Raises("JSONDecodeError"), Raises("SyntaxError"), Raises("JSONDecodeError"), Raises("SyntaxError"),
            Raises("ChecksumMismatch"), Raises("ChecksumMismatch"), broken, broken,
        ]),
        // Only clients that check lengths notice a truncated event.
        (after("truncate"), [Ends, Ends, Ends, Ends, Ends, Ends, broken, broken]),
        (after("end_early"), [Ends; 8]),
        // Over HTTP/2 the timeout ends the stream as if it were complete.
        (after("hang"), [
            Raises("ReadTimeout"), Waits, Raises("APITimeoutError"), Waits,
            Raises("ReadTimeoutError"), Raises("ReadTimeoutError"), Waits, Ends,
        ]),
        // A page of HTML is a stream without events.
        (json!({ "kind": "html" }), [
            Ends, Ends, Ends, Ends, Raises("ChecksumMismatch"), Raises("ChecksumMismatch"), broken, broken,
        ]),
    ]
}

#[rustfmt::skip] // A table is read by its columns.
fn whole_answers() -> Vec<(Value, Sights)> {
    let connection = Raises("APIConnectionError");
    let (no_json, no_syntax) = (Raises("JSONDecodeError"), Raises("SyntaxError"));
    vec![
        (json!({ "kind": "reset" }), [
            connection, connection, connection, connection,
            Raises("ConnectionClosedError"), Raises("ConnectionClosedError"), Raises("TimeoutError"), Raises("Error"),
        ]),
        (json!({ "kind": "hang" }), [
            Raises("APITimeoutError"), Raises("APIConnectionTimeoutError"),
            Raises("APITimeoutError"), Raises("APIConnectionTimeoutError"),
            Raises("ReadTimeoutError"), Raises("ReadTimeoutError"), Raises("TimeoutError"), Raises("TimeoutError"),
        ]),
        // In the middle. Amazon's Python treats unparsable data as an empty answer.
        (json!({ "kind": "cut", "after": 1 }), [
            connection, Raises("TypeError"), connection, Raises("TypeError"),
            Ends, Raises("ResponseStreamingError"), Raises("Error"), Raises("Error"),
        ]),
        (json!({ "kind": "truncate", "after": 0 }), [
            no_json, no_syntax, no_json, no_syntax, Ends, no_json, no_syntax, no_syntax,
        ]),
        (json!({ "kind": "end_early", "after": 1 }), [
            no_json, no_syntax, no_json, no_syntax, Ends, no_json, no_syntax, no_syntax,
        ]),
        (json!({ "kind": "malformed", "after": 1 }), [
            no_json, no_syntax, no_json, no_syntax, Ends, no_json, no_syntax, no_syntax,
        ]),
        // The clients of Anthropic and OpenAI return the page as the answer; the first access to it fails.
        (json!({ "kind": "html" }), [
            Raises("AttributeError"), Raises("TypeError"), Raises("AttributeError"), Raises("TypeError"),
            Ends, no_json, no_syntax, no_syntax,
        ]),
    ]
}
