//! What is asked and what is answered: known to the responder, which sends it, and to the load, which checks it.

use serde_json::{Value, json};
use std::fmt::Write as _;

/// Events in a streamed answer.
const EVENTS: usize = 43;

/// Which kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Answered in one piece.
    Plain,
    /// Answered with all its events at once.
    Burst,
    /// Answered event by event.
    Paced,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Burst => "burst",
            Self::Paced => "paced",
        }
    }
}

/// What marks a request for a stream in its body.
pub(crate) const STREAM_MARK: &[u8] = b"\"stream\":true";

/// What marks a request for a paced one.
pub(crate) const PACED_MARK: &[u8] = b"\"user_id\":\"paced\"";

/// Callers whose keys take turns. Enough that a gateway cannot live off one caller's record in its cache.
pub(crate) const CALLERS: usize = 10_000;

/// The key of a caller. All have the same length, so that the load can write the next over the last.
pub(crate) fn key(caller: usize) -> String {
    format!("sk-bench-{caller:012}")
}

/// A whole request as bytes, for the first caller.
pub(crate) fn request(kind: Kind, host: &str) -> Vec<u8> {
    let stream = match kind {
        Kind::Plain => "",
        Kind::Burst => "\"stream\":true,",
        Kind::Paced => "\"stream\":true,\"metadata\":{\"user_id\":\"paced\"},",
    };
    let question = "What makes the tide come in twice a day, and why not at the same hours? ".repeat(2);
    let body = format!(
        "{{\"model\":\"manga\",{stream}\"max_tokens\":256,\"messages\":[{{\"role\":\"user\",\"content\":\"{question}\"}}]}}"
    );
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: {host}\r\nx-api-key: {}\r\nanthropic-version: 2023-06-01\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        key(0),
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// The body of the answer, without framing.
pub(crate) fn body(kind: Kind) -> Vec<u8> {
    match kind {
        Kind::Plain => plain().into_bytes(),
        Kind::Burst | Kind::Paced => events().concat().into_bytes(),
    }
}

/// The answer as it goes over the wire.
pub(crate) fn response(kind: Kind) -> Vec<u8> {
    let mut text = "HTTP/1.1 200 OK\r\nserver: responder\r\n".to_owned();
    // Writing to a string cannot fail.
    match kind {
        Kind::Plain => {
            let body = plain();
            let _ = write!(
                text,
                "content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
        }
        Kind::Burst | Kind::Paced => {
            text.push_str("content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
            events().iter().for_each(|event| text.push_str(&chunk(event)));
            text.push_str("0\r\n\r\n");
        }
    }
    text.into_bytes()
}

/// A streamed answer in the pieces that a model would write: the head with the first event, each further event, the
/// end.
pub(crate) fn paced_parts() -> Vec<Vec<u8>> {
    let whole = response(Kind::Paced);
    let mut lengths: Vec<usize> = events().iter().map(|event| chunk(event).len()).collect();
    lengths.push(5);
    let head = whole.len() - lengths.iter().sum::<usize>();
    if let Some(first) = lengths.first_mut() {
        *first += head;
    }
    let mut rest = &whole[..];
    let mut cut = |length: usize| {
        let (part, others) = rest.split_at(length);
        rest = others;
        part.to_vec()
    };
    lengths.into_iter().map(&mut cut).collect()
}

fn chunk(event: &str) -> String {
    format!("{:x}\r\n{event}\r\n", event.len())
}

fn plain() -> String {
    let said = "The Moon pulls the sea towards it, and the Earth turns beneath. ".repeat(3);
    json!({
        "id": "msg_01bench", "type": "message", "role": "assistant", "model": "strong",
        "content": [{ "type": "text", "text": said }], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": { "input_tokens": 42, "output_tokens": 48 },
    })
    .to_string()
}

fn events() -> Vec<String> {
    let event = |name: &str, data: &Value| format!("event: {name}\ndata: {data}\n\n");
    let start = json!({ "type": "message_start", "message": {
        "id": "msg_01bench", "type": "message", "role": "assistant", "model": "strong", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": { "input_tokens": 42, "output_tokens": 1 },
    }});
    let block =
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } });
    let said = "The Moon pulls the sea towards it, the Earth turns beneath it, and so a coast will pass the swell of water twice a day. ";
    let delta = json!({
        "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": said },
    });
    let mut events = vec![event("message_start", &start), event("content_block_start", &block)];
    events.resize(EVENTS - 3, event("content_block_delta", &delta));
    events.push(event("content_block_stop", &json!({ "type": "content_block_stop", "index": 0 })));
    let end = json!({
        "type": "message_delta", "delta": { "stop_reason": "end_turn", "stop_sequence": null },
        "usage": { "output_tokens": 912 },
    });
    events.push(event("message_delta", &end));
    events.push(event("message_stop", &json!({ "type": "message_stop" })));
    events
}

#[cfg(test)]
mod tests {
    use super::{Kind, STREAM_MARK, body, events, request, response};

    #[test]
    fn the_answers_have_the_sizes_that_the_page_on_performance_names() {
        assert_eq!(events().len(), 43);
        assert!((350..450).contains(&body(Kind::Plain).len()), "{}", body(Kind::Plain).len());
        assert!((9_300..10_100).contains(&body(Kind::Burst).len()), "{}", body(Kind::Burst).len());
        assert!(response(Kind::Burst).ends_with(b"\r\n0\r\n\r\n"));
    }

    #[test]
    fn only_a_request_for_a_stream_carries_the_mark() {
        let has_mark = |kind| request(kind, "h").windows(STREAM_MARK.len()).any(|part| part == STREAM_MARK);
        assert!(has_mark(Kind::Burst) && !has_mark(Kind::Plain));
    }
}
