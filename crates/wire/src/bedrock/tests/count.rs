use crate::RequestLimits;
use crate::bedrock::{BedrockCall, BedrockOperation, CountRequest, read_count_request, write_count};
use crate::chat::RequestPart;

fn read(body: &str) -> Result<CountRequest, String> {
    let call = BedrockCall { operation: BedrockOperation::CountTokens, model: "haiku".to_owned() };
    read_count_request(&call, body.as_bytes(), &RequestLimits::default()).map_err(|error| error.to_string())
}

#[test]
fn both_kinds_of_request_are_read() {
    let invoke = read(r#"{"input":{"invokeModel":{"body":"eyJhIjoxfQ=="}}}"#);
    assert_eq!(invoke, Ok(CountRequest::Invoke(br#"{"a":1}"#.to_vec())));
    let converse = r#"{"input":{"converse":{"messages":[{"role":"user","content":[{"text":"hi"}]}]}}}"#;
    let Ok(CountRequest::Converse(request)) = read(converse) else { panic!("{converse}") };
    assert_eq!((request.model.as_str(), request.stream), ("haiku", false));
    assert_eq!(request.turns[0].parts, [RequestPart::Text("hi".to_owned())]);
    assert_eq!(&write_count(7)[..], br#"{"inputTokens":7}"#);
}

#[test]
fn what_is_neither_is_refused_by_field() {
    let neither = "input: Input should contain invokeModel with a body, or converse";
    for (body, problem) in [
        ("{}", "input: Field required"),
        (r#"{"input":[]}"#, neither),
        (r#"{"input":{}}"#, neither),
        (r#"{"input":{"invokeModel":{}}}"#, neither),
        (r#"{"input":{"invokeModel":{"body":"%"}}}"#, "input.invokeModel.body: Input should be valid base64"),
        (r#"{"input":{"converse":{}}}"#, "messages: Field required"),
        (r#"{"input":{"converse":7}}"#, "The request body must be a JSON object"),
    ] {
        assert_eq!(read(body), Err(problem.to_owned()), "{body}");
    }
}
