//! The benchmark's answers: sent by the responder and verified by the load.

use super::requests::{BenchDialect, BenchRequestKind};
use bytes::{Bytes, BytesMut};
use seawall_wire::bedrock::{STREAM_CONTENT_TYPE, write_chunk, write_event_frame};
use serde_json::{Value, json};

/// Events per streamed answer.
const EVENTS: usize = 43;

/// The text of a plain answer.
pub(crate) const ANSWER_TEXT: &str = "The Moon pulls the sea towards it, and the Earth turns beneath. \
                               The Moon pulls the sea towards it, and the Earth turns beneath. \
                               The Moon pulls the sea towards it, and the Earth turns beneath. ";

/// The text of each delta of a stream.
const DELTA: &str = "The Moon pulls the sea towards it, the Earth turns beneath it, and so a coast will pass the swell of water twice a day. ";

/// The body of the answer, without HTTP framing.
pub(crate) fn body(dialect: BenchDialect, kind: BenchRequestKind) -> Vec<u8> {
    match kind {
        BenchRequestKind::Plain => plain(dialect).into_bytes(),
        BenchRequestKind::Burst | BenchRequestKind::Paced => events(dialect).concat(),
    }
}

/// The answer on the wire, in the chunks that a model would write. Only a paced answer has more than one: the head with
/// the first event, each further event, the end.
pub(crate) fn chunks(dialect: BenchDialect, kind: BenchRequestKind) -> Vec<Vec<u8>> {
    let start = "HTTP/1.1 200 OK\r\nserver: responder\r\n";
    if kind == BenchRequestKind::Plain {
        let body = plain(dialect);
        // Bedrock reports the usage of an invocation in headers.
        let usage = match dialect {
            BenchDialect::Invoke => {
                "x-amzn-bedrock-input-token-count: 42\r\nx-amzn-bedrock-output-token-count: 48\r\n"
            }
            _ => "",
        };
        let head =
            format!("{start}{usage}content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        return vec![format!("{head}{body}").into_bytes()];
    }
    let kind_of_content = match dialect {
        BenchDialect::Anthropic | BenchDialect::Openai => "text/event-stream",
        BenchDialect::Invoke | BenchDialect::Converse => STREAM_CONTENT_TYPE,
    };
    let mut chunks: Vec<Vec<u8>> = events(dialect)
        .into_iter()
        .map(|event| [format!("{:x}\r\n", event.len()).into_bytes(), event, b"\r\n".to_vec()].concat())
        .collect();
    chunks.push(b"0\r\n\r\n".to_vec());
    let head = format!("{start}content-type: {kind_of_content}\r\ntransfer-encoding: chunked\r\n\r\n");
    if let Some(first) = chunks.first_mut() {
        first.splice(0..0, head.into_bytes());
    }
    if kind == BenchRequestKind::Burst { vec![chunks.concat()] } else { chunks }
}

fn plain(dialect: BenchDialect) -> String {
    match dialect {
        BenchDialect::Anthropic | BenchDialect::Invoke => json!({
            "id": "msg_01bench", "type": "message", "role": "assistant", "model": "strong",
            "content": [{ "type": "text", "text": ANSWER_TEXT }], "stop_reason": "end_turn", "stop_sequence": null,
            "usage": { "input_tokens": 42, "output_tokens": 48 },
        }),
        BenchDialect::Openai => json!({
            "id": "chatcmpl-bench", "object": "chat.completion", "created": 1_763_200_000, "model": "strong",
            "choices": [{
                "index": 0, "message": { "role": "assistant", "content": ANSWER_TEXT, "refusal": null },
                "finish_reason": "stop",
            }],
            "usage": { "prompt_tokens": 42, "completion_tokens": 48, "total_tokens": 90 },
        }),
        BenchDialect::Converse => json!({
            "output": { "message": { "role": "assistant", "content": [{ "text": ANSWER_TEXT }] } },
            "stopReason": "end_turn", "usage": { "inputTokens": 42, "outputTokens": 48, "totalTokens": 90 },
            "metrics": { "latencyMs": 512 },
        }),
    }
    .to_string()
}

/// The events of a stream, each framed as in its dialect.
fn events(dialect: BenchDialect) -> Vec<Vec<u8>> {
    match dialect {
        BenchDialect::Anthropic => {
            let event = |(name, data): (&str, Value)| format!("event: {name}\ndata: {data}\n\n").into_bytes();
            messages_events().into_iter().map(event).collect()
        }
        BenchDialect::Openai => completion_events(),
        BenchDialect::Invoke => {
            let mut events = messages_events();
            if let Some((_, last)) = events.last_mut() {
                last["amazon-bedrock-invocationMetrics"] = json!({
                    "inputTokenCount": 42, "outputTokenCount": 912, "invocationLatency": 512,
                    "firstByteLatency": 100,
                });
            }
            events
                .iter()
                .map(|(_, data)| framed(|out| write_chunk(out, data.to_string().as_bytes())))
                .collect()
        }
        BenchDialect::Converse => {
            let event = |(name, data): (&'static str, Value)| {
                framed(|out| write_event_frame(out, name, Bytes::from(data.to_string())))
            };
            converse_events().into_iter().map(event).collect()
        }
    }
}

fn framed(write: impl FnOnce(&mut BytesMut)) -> Vec<u8> {
    let mut out = BytesMut::new();
    write(&mut out);
    out.to_vec()
}

fn messages_events() -> Vec<(&'static str, Value)> {
    let start = json!({ "type": "message_start", "message": {
        "id": "msg_01bench", "type": "message", "role": "assistant", "model": "strong", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": { "input_tokens": 42, "output_tokens": 1 },
    }});
    let block =
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } });
    let delta = json!({
        "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": DELTA },
    });
    let mut events = vec![("message_start", start), ("content_block_start", block)];
    events.resize(EVENTS - 3, ("content_block_delta", delta));
    events.push(("content_block_stop", json!({ "type": "content_block_stop", "index": 0 })));
    let end = json!({
        "type": "message_delta", "delta": { "stop_reason": "end_turn", "stop_sequence": null },
        "usage": { "output_tokens": 912 },
    });
    events.push(("message_delta", end));
    events.push(("message_stop", json!({ "type": "message_stop" })));
    events
}

fn completion_events() -> Vec<Vec<u8>> {
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({
            "id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1_763_200_000, "model": "strong",
            "choices": choices, "usage": usage,
        });
        format!("data: {chunk}\n\n").into_bytes()
    };
    let choice = |delta: Value, reason: Value| {
        chunk(json!([{ "index": 0, "delta": delta, "finish_reason": reason }]), Value::Null)
    };
    let mut events = vec![choice(json!({ "role": "assistant", "content": "" }), Value::Null)];
    events.resize(EVENTS - 3, choice(json!({ "content": DELTA }), Value::Null));
    events.push(choice(json!({}), json!("stop")));
    let usage = json!({ "prompt_tokens": 42, "completion_tokens": 912, "total_tokens": 954 });
    events.push(chunk(json!([]), usage));
    events.push(b"data: [DONE]\n\n".to_vec());
    events
}

fn converse_events() -> Vec<(&'static str, Value)> {
    let mut events = vec![("messageStart", json!({ "role": "assistant" }))];
    let delta = json!({ "contentBlockIndex": 0, "delta": { "text": DELTA } });
    events.resize(EVENTS - 3, ("contentBlockDelta", delta));
    events.push(("contentBlockStop", json!({ "contentBlockIndex": 0 })));
    events.push(("messageStop", json!({ "stopReason": "end_turn" })));
    let usage = json!({
        "usage": { "inputTokens": 42, "outputTokens": 912, "totalTokens": 954 }, "metrics": { "latencyMs": 512 },
    });
    events.push(("metadata", usage));
    events
}

#[cfg(test)]
mod tests {
    use super::{body, chunks, events};
    use crate::proxy::requests::{BenchDialect, BenchRequestKind};

    #[test]
    fn the_answers_have_the_sizes_that_the_page_on_performance_names() {
        for dialect in BenchDialect::ALL {
            assert_eq!(events(dialect).len(), 43);
        }
        let length = |kind| body(BenchDialect::Anthropic, kind).len();
        assert!((350..450).contains(&length(BenchRequestKind::Plain)), "{}", length(BenchRequestKind::Plain));
        assert!(
            (9_300..10_100).contains(&length(BenchRequestKind::Burst)),
            "{}",
            length(BenchRequestKind::Burst)
        );
    }

    #[test]
    fn a_paced_answer_is_the_burst_in_pieces() {
        for dialect in BenchDialect::ALL {
            let (burst, paced) =
                (chunks(dialect, BenchRequestKind::Burst), chunks(dialect, BenchRequestKind::Paced));
            assert_eq!((burst.len(), paced.len()), (1, 44));
            assert_eq!(burst.concat(), paced.concat());
            assert!(burst.concat().ends_with(b"\r\n0\r\n\r\n"));
            assert_eq!(chunks(dialect, BenchRequestKind::Plain).len(), 1);
        }
    }
}
