//! Requests and answers survive a round trip, except for what a dialect cannot express.

use crate::strategies::{answer, json, request};
use bytes::BytesMut;
use proptest::prelude::{prop_assert_eq, proptest};
use seawall_wire::chat::UsageReport;
use seawall_wire::chat::{
    AnswerPart, ChatAnswer, ChatRequest, FinishReason, Image, RequestPart, Role, ToolCall, ToolChoice, Turn,
};
use seawall_wire::{RequestError, RequestLimits, anthropic, openai};

/// What remains of a request in Anthropic's dialect.
fn in_anthropic(mut request: ChatRequest) -> ChatRequest {
    request.max_output = request.max_output.or(Some(4_096));
    request.stream_usage = request.stream;
    if request.tools.is_empty() {
        request.tool_choice = ToolChoice::Auto;
    }
    request
}

/// What remains of a request in OpenAI's dialect.
fn in_openai(mut request: ChatRequest) -> ChatRequest {
    request.stream_usage &= request.stream;
    if request.tools.is_empty() {
        request.tool_choice = ToolChoice::Auto;
    }
    for turn in &mut request.turns {
        // A stable sort: tool calls come last.
        turn.parts
            .sort_by_key(|part| turn.role == Role::Assistant && matches!(part, RequestPart::ToolCall(_)));
        for part in &mut turn.parts {
            if let RequestPart::ToolResult { is_error, .. } = part {
                *is_error = false;
            }
        }
    }
    request
}

fn via_anthropic(request: &ChatRequest) -> Result<ChatRequest, RequestError> {
    let mut out = BytesMut::new();
    anthropic::write_chat_request(&mut out, request)?;
    anthropic::read_chat_request(&out, &RequestLimits::default())
}

fn via_openai(request: &ChatRequest) -> Result<ChatRequest, RequestError> {
    let mut out = BytesMut::new();
    openai::write_chat_request(&mut out, request)?;
    openai::read_chat_request(&out, &RequestLimits::default())
}

fn answer_in_anthropic(mut answer: ChatAnswer) -> ChatAnswer {
    if answer.finish == FinishReason::Other {
        answer.finish = FinishReason::EndTurn;
    }
    answer
}

pub(crate) fn finish_in_openai(finish: FinishReason) -> FinishReason {
    match finish {
        FinishReason::StopSequence | FinishReason::PauseTurn | FinishReason::Other => FinishReason::EndTurn,
        FinishReason::ContextWindowExceeded => FinishReason::MaxTokens,
        finish => finish,
    }
}

fn answer_in_openai(mut answer: ChatAnswer) -> ChatAnswer {
    let text: String = answer.parts.iter().filter_map(text_of).collect();
    answer.parts.retain(|part| text_of(part).is_none());
    if !text.is_empty() {
        answer.parts.insert(0, AnswerPart::Text(text));
    }
    answer.finish = finish_in_openai(answer.finish);
    answer
}

fn text_of(part: &AnswerPart) -> Option<&str> {
    match part {
        AnswerPart::Text(text) => Some(text),
        AnswerPart::ToolCall(_) => None,
    }
}

proptest! {
    #[test]
    fn a_request_survives_but_for_what_a_dialect_cannot_say(request in request()) {
        prop_assert_eq!(via_anthropic(&request), Ok(in_anthropic(request.clone())));
        prop_assert_eq!(via_openai(&request), Ok(in_openai(request.clone())));
        let there = via_anthropic(&via_openai(&request).unwrap());
        prop_assert_eq!(&there, &Ok(in_anthropic(in_openai(request))));
        // A second conversion changes nothing.
        prop_assert_eq!(&via_anthropic(there.as_ref().unwrap()), &there);
    }

    #[test]
    fn what_is_written_is_also_understood_by_the_lean_readers(request in request()) {
        let mut out = BytesMut::new();
        anthropic::write_chat_request(&mut out, &request).unwrap();
        let head = anthropic::read_request(&out, &RequestLimits::default()).unwrap();
        prop_assert_eq!((&head.model, head.turns, head.stream), (&request.model, request.turns.len(), request.stream));
        prop_assert_eq!(head.max_output, request.max_output.unwrap_or(anthropic::DEFAULT_MAX_OUTPUT));
        out.clear();
        openai::write_chat_request(&mut out, &request).unwrap();
        let head = openai::read_request(&out, &RequestLimits::default()).unwrap();
        prop_assert_eq!((&head.model, head.max_output, head.stream), (&request.model, request.max_output, request.stream));
        prop_assert_eq!(head.include_usage, request.stream && request.stream_usage);
    }

    #[test]
    fn an_answer_survives_but_for_what_a_dialect_cannot_say(answer in answer()) {
        let mut out = BytesMut::new();
        anthropic::write_chat_answer(&mut out, &answer);
        let read = anthropic::read_chat_answer(&out).unwrap();
        let report = UsageReport { usage: read.usage, output_reported: true };
        prop_assert_eq!(anthropic::read_answer(&out), Ok((report, read.finish)));
        prop_assert_eq!(&read, &answer_in_anthropic(answer.clone()));
        out.clear();
        openai::write_chat_answer(&mut out, &answer, 1_700_000_000);
        let read = openai::read_chat_answer(&out).unwrap();
        let report = UsageReport { usage: read.usage, output_reported: true };
        prop_assert_eq!(openai::read_answer(&out), Ok((report, read.finish)));
        prop_assert_eq!(&read, &answer_in_openai(answer));
    }
}

fn asking(parts: Vec<RequestPart>, role: Role) -> ChatRequest {
    ChatRequest { model: "m".into(), turns: vec![Turn { role, parts }], ..ChatRequest::default() }
}

#[test]
fn untranslatable_content_is_refused_with_its_path() {
    let image = || RequestPart::Image(Image::Url("https://x/".into()));
    let call = || RequestPart::ToolCall(ToolCall { id: "c".into(), name: "f".into(), input: json("{}") });
    let result = |parts| RequestPart::ToolResult { call: "c".into(), parts, is_error: false };
    let from_model = "messages.0: Not supported by the target model: images in assistant messages";
    for (request, in_anthropic, in_openai) in [
        (asking(vec![image()], Role::Assistant), from_model, from_model),
        (
            asking(vec![call()], Role::User),
            "messages.0: Not supported by the target model: tool calls outside of assistant messages",
            "messages.0: Not supported by the target model: tool calls outside of assistant messages",
        ),
        (
            asking(vec![result(vec![])], Role::Assistant),
            "messages.0: Not supported by the target model: tool results outside of user messages",
            "messages.0: Not supported by the target model: tool results in assistant messages",
        ),
        (
            asking(vec![result(vec![call()])], Role::User),
            "messages.0: Not supported by the target model: tool calls outside of assistant messages",
            "messages.0: Not supported by the target model: tool results with content other than text",
        ),
        (
            asking(vec![result(vec![image()])], Role::User),
            "",
            "messages.0: Not supported by the target model: tool results with content other than text",
        ),
    ] {
        let told = |outcome: Result<ChatRequest, RequestError>| {
            outcome.err().map(|e| e.to_string()).unwrap_or_default()
        };
        assert_eq!(told(via_anthropic(&request)), in_anthropic);
        assert_eq!(told(via_openai(&request)), in_openai);
    }
}

#[test]
fn empty_texts_and_non_finite_numbers_are_dropped() {
    let mut request =
        asking(vec![RequestPart::Text("hi".into()), RequestPart::Text(String::new())], Role::User);
    request.turns.push(Turn { role: Role::Assistant, parts: vec![RequestPart::Text(String::new())] });
    request.system = vec![String::new(), "be brief".into()];
    request.temperature = Some(f64::NAN);
    request.top_p = Some(f64::INFINITY);
    for read in [via_anthropic(&request).unwrap(), via_openai(&request).unwrap()] {
        assert_eq!(read.turns, asking(vec![RequestPart::Text("hi".into())], Role::User).turns);
        assert_eq!((read.system, read.temperature, read.top_p), (vec!["be brief".to_owned()], None, None));
    }
}
