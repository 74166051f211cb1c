use crate::ApiErrorKind;
use crate::bedrock::{BedrockCall, BedrockOperation, PathError, read_path, write_path};
use proptest::prelude::{prop_assert_eq, proptest};
use proptest::sample::select;

fn complaint(model: &str) -> &'static str {
    match read_path(&format!("/model/{model}/converse")) {
        Err(PathError::Model { problem }) => problem,
        other => panic!("{model}: {other:?}"),
    }
}

#[test]
fn each_operation_has_its_path() {
    for (name, operation, is_stream) in [
        ("invoke", BedrockOperation::Invoke, false),
        ("invoke-with-response-stream", BedrockOperation::InvokeStream, true),
        ("converse", BedrockOperation::Converse, false),
        ("converse-stream", BedrockOperation::ConverseStream, true),
        ("count-tokens", BedrockOperation::CountTokens, false),
    ] {
        let path = format!("/model/m%3A0/{name}");
        assert_eq!(read_path(&path), Ok(BedrockCall { operation, model: "m:0".to_owned() }));
        assert_eq!(write_path(operation, "m:0"), path);
        assert_eq!(operation.is_stream(), is_stream);
    }
}

#[test]
fn other_paths_are_unknown() {
    for path in [
        "",
        "/",
        "/model",
        "/model/",
        "/model/m",
        "/model/m/",
        "/model/m/invoke/",
        "/model/m/Invoke",
        "/model/a/b/invoke",
        "/v1/model/m/invoke",
        "model/m/invoke",
        "/model/m/%69nvoke",
        "/model/m/invoke?x=1",
        "/model/../invoke/converse",
    ] {
        assert_eq!(read_path(path), Err(PathError::Unknown), "{path}");
    }
    assert_eq!(PathError::Unknown.api_error_kind(), ApiErrorKind::UnknownPath);
}

#[test]
fn names_of_models_are_decoded_once() {
    let arn = "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.anthropic.claude-sonnet-4-v1:0";
    let encoded = arn.replace(':', "%3A").replace('/', "%2f");
    for (encoded, model) in [
        ("anthropic.claude-v2:1", "anthropic.claude-v2:1"),
        ("anthropic.claude-v2%3a1", "anthropic.claude-v2:1"),
        (&encoded, arn),
        ("%61", "a"),
    ] {
        assert_eq!(read_path(&format!("/model/{encoded}/invoke")).unwrap().model, model);
    }
    assert_eq!(write_path(BedrockOperation::Invoke, "a b/ü~"), "/model/a%20b%2F%C3%BC~/invoke");
}

#[test]
fn names_that_cannot_be_names_are_refused() {
    let escape = "Invalid percent-encoding";
    let letters = "String should contain only letters, digits and _ - . : /";
    let parts = "Path segments should not be empty, . or ..";
    for (model, problem) in [
        ("", "String should have at least 1 character"),
        ("%", escape),
        ("a%3", escape),
        ("a%3g", escape),
        ("%+3", escape),
        ("a%00b", letters),
        ("a%0D%0Ab", letters),
        ("a%7F", letters),
        ("a b", letters),
        ("a%20b", letters),
        ("a%5Cb", letters),
        ("%253A", letters),
        ("%FF", letters),
        ("%D0%B0", letters),
        ("клод", letters),
        ("..", parts),
        (".", parts),
        ("%2e%2e", parts),
        ("%2e%2e%2fadmin", parts),
        ("a%2F..%2Fb", parts),
        ("a%2F%2Fb", parts),
        ("%2Fa", parts),
        ("a%2F", parts),
    ] {
        assert_eq!(complaint(model), problem, "{model}");
    }
    assert_eq!(read_path(&format!("/model/{}/invoke", "a".repeat(2048))).unwrap().model.len(), 2048);
    assert!(read_path(&format!("/model/{}/invoke", "%61".repeat(2048))).is_ok());
    for model in ["a".repeat(2049), "%61".repeat(2049), "%".repeat(6145)] {
        assert_eq!(complaint(&model), "String should have at most 2048 bytes");
    }
    assert_eq!(PathError::Model { problem: "" }.api_error_kind(), ApiErrorKind::Malformed);
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        model in "[a-zA-Z0-9_.:-]{0,20}[a-z](/[a-z][a-zA-Z0-9_.:-]{0,20}){0,3}",
        operation in select(BedrockOperation::ALL.to_vec()),
    ) {
        prop_assert_eq!(read_path(&write_path(operation, &model)), Ok(BedrockCall { operation, model }));
    }

    #[test]
    fn arbitrary_paths_never_panic(path in "(/model/)?.{0,60}(/invoke)?") {
        if let Ok(call) = read_path(&path) {
            prop_assert_eq!(read_path(&write_path(call.operation, &call.model)), Ok(call));
        }
    }
}
