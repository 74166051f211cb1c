//! How users of the vendors' clients see it when an answer of `seawall model` breaks. What a client cannot see is told here
//! as well: whatever stands in front of a model has to see it instead.

use crate::client::{Client, Http, Way};
use crate::running::Running;
use serde_json::{Value, json};

/// What a user sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    /// An exception of this class.
    Raises(&'static str),
    /// Nothing that is wrong, only that there is no more.
    Ends,
    /// Nothing at all: the client's own time limit does not hold here.
    Waits,
}

use Sight::{Ends, Raises, Waits};

/// The class of the script's own exception.
const OUT_OF_PATIENCE: &str = "OutOfPatience";
/// How many pieces come before something goes wrong: the one that opens the stream, and three of four tokens each.
const PIECES: usize = 4;

/// Sights by client: Anthropic's in Python and JavaScript, OpenAI's in Python and JavaScript, Amazon's in Python in its two
/// ways, and Amazon's in JavaScript over HTTP/1.1 and HTTP/2.
type Sights = [Sight; 8];

const fn column(client: Client) -> usize {
    match client {
        Client::AnthropicPythonOne | Client::AnthropicPythonTwo => 0,
        Client::AnthropicNode => 1,
        Client::OpenaiPython => 2,
        Client::OpenaiNode => 3,
        Client::AwsPython(Way::Converse) => 4,
        Client::AwsPython(Way::Invoke) => 5,
        Client::AwsNode(_, Http::One) => 6,
        Client::AwsNode(_, Http::Two) => 7,
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

/// What each fault looks like to each client, and all the differences in one go.
fn compare(test: &str, stream: bool, faults: &[(Value, Sights)]) -> anyhow::Result<()> {
    let model = Running::model(test, "[]")?;
    let mut others = Vec::new();
    for client in Client::ALL {
        let mut session = client.open(&model.url)?;
        // Whatever it loads on its first call must not count as waiting.
        let seen = session.sees(&json!({ "stream": stream }))?;
        assert_eq!(seen["complete"], true, "{client:?}: {seen}");
        let whole = seen["text"].as_str().unwrap_or_default().to_owned();
        for (fault, sights) in faults {
            model.set_faults(&json!([{ "fault": fault }]))?;
            let before = model.bill("instant")?["output_tokens"].clone();
            let seen = session.sees(&json!({ "stream": stream, "timeout": 0.6, "patience": 1.2 }))?;
            let expected = sights[column(client)];
            if sight(&seen) != format!("{expected:?}") {
                others.push(format!("{client:?}, {fault}: not {expected:?}: {seen}"));
            }
            let text = seen["text"].as_str().unwrap_or_default();
            if fault["after"] == PIECES {
                // What came before is there, in its order, and nothing else.
                assert!(!text.is_empty() && whole.starts_with(text), "{client:?}, {fault}: {seen}");
                assert_eq!(
                    (&seen["finish"], &seen["complete"]),
                    (&Value::Null, &json!(false)),
                    "{client:?}: {seen}"
                );
            } else {
                assert_eq!(text, "", "{client:?}, {fault}: {seen}");
            }
            if fault["kind"] == "cut" && fault["after"] == PIECES {
                let after = model.bill("instant")?["output_tokens"].clone();
                assert_eq!(after.as_u64(), before.as_u64().map(|before| before + 12), "{client:?}");
            }
        }
        model.set_faults(&json!([]))?;
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
    Ok(())
}

#[test]
#[rustfmt::skip] // A table is read by its columns.
fn a_stream_that_breaks_raises_where_the_client_can_see_it() -> anyhow::Result<()> {
    let broken = Raises("Error");
    let after = |kind: &str| json!({ "kind": kind, "after": PIECES });
    compare("client-streams", true, &[
        (after("cut"), [
            Raises("RemoteProtocolError"), Raises("TypeError"), Raises("APIConnectionError"), Raises("TypeError"),
            Raises("ProtocolError"), Raises("ProtocolError"), broken, broken,
        ]),
        (json!({ "kind": "cut", "after": PIECES, "reset": true }), [
            Raises("RemoteProtocolError"), Raises("TypeError"), Raises("APIConnectionError"), Raises("TypeError"),
            Raises("ProtocolError"), Raises("ProtocolError"), broken, broken,
        ]),
        // An error that the stream itself tells of is the vendor's exception everywhere.
        (after("error"), [
            Raises("APIStatusError"), Raises("APIError"), Raises("APIError"), Raises("APIError"),
            Raises("EventStreamError"), Raises("EventStreamError"),
            Raises("ServiceUnavailableException"), Raises("ServiceUnavailableException"),
        ]),
        (after("malformed"), [
            Raises("JSONDecodeError"), Raises("SyntaxError"), Raises("JSONDecodeError"), Raises("SyntaxError"),
            Raises("ChecksumMismatch"), Raises("ChecksumMismatch"), broken, broken,
        ]),
        // Only who counts bytes notices that an event is not all there.
        (after("truncate"), [Ends, Ends, Ends, Ends, Ends, Ends, broken, broken]),
        (after("end_early"), [Ends; 8]),
        // Over HTTP/2 the time limit ends the stream as if it were complete.
        (after("hang"), [
            Raises("ReadTimeout"), Waits, Raises("APITimeoutError"), Waits,
            Raises("ReadTimeoutError"), Raises("ReadTimeoutError"), Waits, Ends,
        ]),
        // A page of HTML is a stream without events.
        (json!({ "kind": "html" }), [
            Ends, Ends, Ends, Ends, Raises("ChecksumMismatch"), Raises("ChecksumMismatch"), broken, broken,
        ]),
    ])
}

#[test]
#[rustfmt::skip] // A table is read by its columns.
fn a_whole_answer_that_breaks_raises_where_the_client_can_see_it() -> anyhow::Result<()> {
    let connection = Raises("APIConnectionError");
    let (no_json, no_syntax) = (Raises("JSONDecodeError"), Raises("SyntaxError"));
    compare("client-whole", false, &[
        (json!({ "kind": "reset" }), [
            connection, connection, connection, connection,
            Raises("ConnectionClosedError"), Raises("ConnectionClosedError"), Raises("TimeoutError"), Raises("Error"),
        ]),
        (json!({ "kind": "hang" }), [
            Raises("APITimeoutError"), Raises("APIConnectionTimeoutError"),
            Raises("APITimeoutError"), Raises("APIConnectionTimeoutError"),
            Raises("ReadTimeoutError"), Raises("ReadTimeoutError"), Raises("TimeoutError"), Raises("TimeoutError"),
        ]),
        // In the middle. Amazon's Python takes what it cannot read for an answer that says nothing.
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
        // The clients of Anthropic and OpenAI give the page as the answer; it fails at whoever looks into it.
        (json!({ "kind": "html" }), [
            Raises("AttributeError"), Raises("TypeError"), Raises("AttributeError"), Raises("TypeError"),
            Ends, no_json, no_syntax, no_syntax,
        ]),
    ])
}
