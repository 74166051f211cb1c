use crate::gemini::{
    DEFAULT_VERSION, GeminiCall, is_vendor_path, path_for, read_count_path, read_path, requests_sse,
};
use proptest::prelude::{any, prop_assert_eq, proptest};

fn call(model: &str, stream: bool) -> GeminiCall {
    GeminiCall { model: model.to_owned(), stream }
}

#[test]
fn both_versions_and_both_operations_are_calls() {
    for (path, expected) in [
        ("/v1beta/models/gemini-3.8-flash:generateContent", call("gemini-3.8-flash", false)),
        ("/v1/models/gemini-3.8-flash:streamGenerateContent", call("gemini-3.8-flash", true)),
        ("/v1beta/models/a%2Fb%3Ac:generateContent", call("a/b:c", false)),
        ("/v1beta/models/a/b:0:generateContent", call("a/b:0", false)),
        ("/v1beta/models/%E6%BC%AB:generateContent", call("漫", false)),
        // Decoded once.
        ("/v1beta/models/a%252Fb:generateContent", call("a%2Fb", false)),
    ] {
        assert_eq!(read_path(path).unwrap().unwrap(), expected, "{path}");
    }
    for path in [
        "/v1beta/models/gemini",
        "/v1beta/models/gemini:countTokens",
        "/v1beta/models/gemini%3AgenerateContent",
        "/v1beta/models/gemini:generateContent/",
        "/v1beta/tunedModels/t:generateContent",
        "/v2/models/gemini:generateContent",
        "/v1/chat/completions",
        "",
    ] {
        assert!(read_path(path).is_none(), "{path}");
    }
}

#[test]
fn a_bad_model_name_is_refused_with_its_reason() {
    let long = "m".repeat(257);
    for (model, problem) in [
        ("", "model: String should have at least 1 character"),
        ("%4", "model: Invalid percent-encoding"),
        ("%zz", "model: Invalid percent-encoding"),
        ("%FF", "model: Input should be valid UTF-8"),
        ("a%0Ab", "model: String should not contain control characters"),
        ("a/../b", "model: Path segments should not be empty, . or .."),
        ("a%2F%2E%2E", "model: Path segments should not be empty, . or .."),
        ("/a", "model: Path segments should not be empty, . or .."),
        (&long, "model: String should have at most 256 bytes"),
        (&long.repeat(4), "model: String should have at most 256 bytes"),
    ] {
        let error = read_path(&format!("/v1/models/{model}:generateContent")).unwrap().unwrap_err();
        assert_eq!(error.to_string(), problem, "{model}");
    }
}

#[test]
fn a_stream_of_events_has_to_be_requested() {
    for (query, is_sse) in [
        ("alt=sse", true),
        ("key=k&alt=SSE", true),
        ("$alt=sse", true),
        ("", false),
        ("alt=json", false),
        ("x=alt=sse", false),
    ] {
        assert_eq!(requests_sse(query), is_sse, "{query}");
    }
}

#[test]
fn token_counts_have_paths_of_their_own() {
    let counted = |path| read_count_path(path).map(Result::ok);
    assert_eq!(counted("/v1beta/models/a%2Fb:countTokens"), Some(Some("a/b".to_owned())));
    assert_eq!(counted("/v1/models/a:countTokens"), Some(Some("a".to_owned())));
    assert_eq!(counted("/v1/models/%zz:countTokens"), Some(None));
    assert_eq!(counted("/v1/models/a:generateContent"), None);
    assert_eq!(counted("/v1/models/a"), None);
    for (path, is_ours) in [
        ("/v1beta/models", true),
        ("/v1beta/models/a:embedContent", true),
        ("/v1/models/a:embedContent", true),
        ("/v1/models/a", false),
        ("/v1betas", false),
    ] {
        assert_eq!(is_vendor_path(path), is_ours, "{path}");
    }
}

#[test]
fn a_model_is_named_with_or_without_its_prefix() {
    assert_eq!(path_for("models/gemini-2.5-pro", false), path_for("gemini-2.5-pro", false));
}

proptest! {
    #[test]
    fn a_written_path_is_read_back(model in "[^/\\p{Cc}]{1,20}(/[a-z]{1,5})?", stream: bool) {
        let path = [DEFAULT_VERSION, &path_for(&model, stream)].concat();
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        prop_assert_eq!(requests_sse(query), stream);
        if matches!(model.split('/').next(), Some("." | ".." | "models")) {
            return Ok(());
        }
        prop_assert_eq!(read_path(path).unwrap().unwrap(), call(&model, stream));
    }

    #[test]
    fn any_path_is_answered(path in any::<String>()) {
        let _ = read_path(&path);
        let _ = read_path(&format!("/v1beta/models/{path}:generateContent"));
    }
}
