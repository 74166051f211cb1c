use crate::RequestLimits;
use crate::gemini::read_count_input;

#[test]
fn the_request_to_be_counted_is_the_body_or_wrapped_in_it() {
    let limits = RequestLimits::default();
    let request = r#"{"model":"models/m","contents":[{"parts":[{"text":"hi"}]}]}"#;
    let wrapped = |name: &str| format!(r#"{{"{name}":{request}}}"#);
    assert_eq!(read_count_input(request.as_bytes(), &limits).unwrap(), request);
    for name in ["generateContentRequest", "generate_content_request"] {
        assert_eq!(read_count_input(wrapped(name).as_bytes(), &limits).unwrap(), request);
    }
    for body in ["", "[]", "{}", r#"{"generateContentRequest":{}}"#, r#"{"generateContentRequest":1}"#] {
        assert!(read_count_input(body.as_bytes(), &limits).is_err(), "{body}");
    }
}
