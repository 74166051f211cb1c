use crate::ApiErrorKind;
use crate::anthropic::{
    AnswerStart, AnthropicErrorBody, TextAnswer, read_answer, status_of, write_answer, write_block_start,
    write_block_stop, write_error, write_error_event, write_message_delta, write_message_start,
    write_message_stop, write_ping, write_text_delta,
};
use crate::chat::{FinishReason, Usage, UsageReport};
use bytes::BytesMut;

const USAGE: Usage = Usage { input: 25, cache_read: 4, cache_write: 3, output: 15, ..Usage::NONE };

fn start(usage: Usage) -> AnswerStart<'static> {
    AnswerStart { id: "msg_1", model: "haiku", usage }
}

fn written(write: impl FnOnce(&mut BytesMut)) -> String {
    let mut out = BytesMut::new();
    write(&mut out);
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn a_stream_is_written_as_the_vendor_writes_it() {
    let stream = written(|out| {
        write_message_start(out, &start(Usage { output: 1, ..USAGE }));
        write_block_start(out, 0);
        write_ping(out);
        write_text_delta(out, 0, "Hello");
        write_text_delta(out, 0, " \"漫画\"\n");
        write_block_stop(out, 0);
        write_message_delta(out, FinishReason::EndTurn, USAGE);
        write_message_stop(out);
    });
    assert_eq!(stream, include_str!("../../../tests/golden/stream.txt"));
}

#[test]
fn a_failed_stream_is_written_as_the_vendor_writes_it() {
    let stream = written(|out| {
        write_message_start(out, &start(Usage { input: 25, output: 1, ..Usage::default() }));
        write_error_event(
            out,
            &AnthropicErrorBody::new(ApiErrorKind::Overloaded, "Overloaded", Some("req_1")),
        );
    });
    assert_eq!(stream, include_str!("../../../tests/golden/stream_failed.txt"));
}

#[test]
fn a_whole_answer_is_written_as_the_vendor_writes_it_and_read_back() {
    let finish = FinishReason::MaxTokens;
    let text = "Hello \"漫画\"\n";
    let body = written(|out| write_answer(out, &TextAnswer { start: start(USAGE), text, finish }));
    assert_eq!(body, include_str!("../../../tests/golden/answer.json").trim_end());
    assert_eq!(
        read_answer(body.as_bytes()),
        Ok((UsageReport { usage: USAGE, output_reported: true }, finish))
    );
}

#[test]
fn every_error_kind_has_its_status_and_body() {
    let line = |error_kind: &ApiErrorKind| {
        let body =
            written(|out| write_error(out, &AnthropicErrorBody::new(*error_kind, "no", Some("req_1"))));
        format!("{} {body}\n", status_of(*error_kind))
    };
    let lines: String = ApiErrorKind::ALL.iter().map(line).collect();
    assert_eq!(lines, include_str!("../../../tests/golden/errors.txt"));
    let body = written(|out| write_error(out, &AnthropicErrorBody::new(ApiErrorKind::Internal, "no", None)));
    assert!(body.ends_with(r#""request_id":null}"#), "{body}");
}
