use super::{
    BedrockEmbeddingModel, EmbeddingsRequest, VectorEncoding, read_embeddings, read_embeddings_head,
    read_embeddings_request, write_embeddings,
};
use crate::chat::Usage;
use crate::dialect::{DialectId, ModelOperation, RequestHead as _, RequestOptions};
use crate::{RequestError, RequestLimits};
use bytes::Bytes;
use proptest::prelude::{any, prop, proptest};
use proptest::{prop_assert, prop_assert_eq};
use seawall_core::vocabulary::OutputLimitField;

fn limits() -> RequestLimits {
    RequestLimits::default()
}

fn sent(body: &str, target: DialectId, model: &str) -> Result<String, String> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let head = read_embeddings_head(&body, &limits()).map_err(|error| error.to_string())?;
    assert_eq!((head.operation(), head.max_output(), head.stream()), (ModelOperation::Embed, Some(0), false));
    let limits = limits();
    let options = RequestOptions {
        model,
        limit: Some(0),
        limit_field: OutputLimitField::MaxTokens,
        betas: &[],
        limits: &limits,
    };
    let sent = head.pass_through(&body, target, &options).expect("it is never translated as a chat");
    sent.map(|body| String::from_utf8(body.to_vec()).unwrap()).map_err(|error| error.to_string())
}

#[test]
fn an_openai_compatible_server_gets_the_request_with_its_own_model_name() {
    let body = r#"{"input":["a", "b"],"model":"embed","dimensions":8,"user":"u"}"#;
    let expected = r#"{"input":["a", "b"],"model":"text-embedding-3-small","dimensions":8,"user":"u"}"#;
    assert_eq!(sent(body, DialectId::OPENAI_CHAT, "text-embedding-3-small").as_deref(), Ok(expected));
    assert_eq!(sent(body, DialectId::OPENAI_CHAT, "embed").as_deref(), Ok(body));
    let tokens = r#"{"input":[[1,2],[3]],"model":"embed"}"#;
    assert_eq!(sent(tokens, DialectId::OPENAI_CHAT, "embed").as_deref(), Ok(tokens));
}

#[test]
fn models_on_bedrock_get_their_own_format_or_an_error_that_names_what_they_lack() {
    let (one, two) = (r#"{"input":"\u6f2b\u753b","model":"e"}"#, r#"{"input":["a","b"],"model":"e"}"#);
    let short = r#"{"input":["a"],"model":"e","dimensions":256}"#;
    for (body, model, expected) in [
        (one, "amazon.titan-embed-text-v2:0", Ok(r#"{"inputText":"漫画"}"#)),
        (short, "amazon.titan-embed-text-v2:0", Ok(r#"{"inputText":"a","dimensions":256}"#)),
        (
            two,
            "amazon.titan-embed-text-v2:0",
            Err("input: Not supported by the target model: more than one text per request"),
        ),
        (
            short,
            "amazon.titan-embed-text-v1",
            Err("dimensions: Not supported by the target model: vectors of another length"),
        ),
        (two, "us.cohere.embed-v4:0", Ok(r#"{"texts":["a","b"],"input_type":"search_document"}"#)),
        (
            short,
            "cohere.embed-v4:0",
            Ok(r#"{"texts":["a"],"input_type":"search_document","output_dimension":256}"#),
        ),
        (
            r#"{"input":"a","model":"e","input_type":"search_query"}"#,
            "cohere.embed-multilingual-v3",
            Ok(r#"{"texts":["a"],"input_type":"search_query"}"#),
        ),
        (
            r#"{"input":[[1,2]],"model":"e"}"#,
            "cohere.embed-v4:0",
            Err("input.0: Not supported by the target model: token numbers; send the text itself"),
        ),
        (
            one,
            "anthropic.claude-3-haiku-20240307-v1:0",
            Err("input: Not supported by the target model: embeddings"),
        ),
    ] {
        let result = sent(body, DialectId::BEDROCK_INVOKE, model);
        assert_eq!(result.as_deref().map_err(String::as_str), expected, "{model} {body}");
    }
    let many = format!(r#"{{"input":[{}],"model":"e"}}"#, vec![r#""a""#; 97].join(","));
    assert!(
        sent(&many, DialectId::BEDROCK_INVOKE, "cohere.embed-v4:0")
            .unwrap_err()
            .contains("more than 96 texts")
    );
    for target in DialectId::ALL {
        let carries = [DialectId::OPENAI_CHAT, DialectId::BEDROCK_INVOKE].contains(&target);
        assert_eq!(sent(one, target, "amazon.titan-embed-text-v2:0").is_ok(), carries, "{target:?}");
    }
}

#[test]
fn an_invalid_request_is_rejected_by_field() {
    for (body, expected) in [
        (r#"{"input":"a"}"#, "model: Field required"),
        (r#"{"model":"e"}"#, "input: Field required"),
        (r#"{"model":"e","input":""}"#, "input: Input should not be empty"),
        (r#"{"model":"e","input":[ ]}"#, "input: at least one text is required"),
        (r#"{"model":"e","input":7}"#, "input: Input should be a valid string or a list"),
        (
            r#"{"model":"e","input":"a","encoding_format":"int8"}"#,
            "encoding_format: Input should be 'float' or 'base64'",
        ),
    ] {
        let error: RequestError = read_embeddings_head(body.as_bytes(), &limits()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let wrong = br#"{"model":"e","input":"a","dimensions":-1}"#;
    let error = read_embeddings_request(wrong, &limits()).unwrap_err();
    assert_eq!(error.to_string(), "dimensions: Input should be a positive integer");
}

#[test]
fn an_answer_from_bedrock_is_written_as_openai_writes_it() {
    let vectors = vec![vec![0.25_f32, -1.0], vec![0.5, 2.0]];
    for (encoding, field) in
        [(VectorEncoding::Float, ""), (VectorEncoding::Base64, r#","encoding_format":"base64""#)]
    {
        let request = format!(r#"{{"model":"embed","input":["a","b"]{field}}}"#);
        let head = read_embeddings_head(request.as_bytes(), &limits()).unwrap();
        assert_eq!(head.encoding, encoding);
        for model in [BedrockEmbeddingModel::CohereV3, BedrockEmbeddingModel::CohereV4] {
            // Cohere counts tokens in a header only.
            let usage = Usage { input: 7, ..Usage::NONE };
            let body = model.write_answer(&vectors, 7);
            let answer = head.read_operation_answer(DialectId::BEDROCK_INVOKE, &body, Some(usage));
            let answer = answer.unwrap().unwrap();
            assert_eq!((answer.report.usage, answer.report.output_reported), (usage, true));
            assert_eq!(read_embeddings(&answer.body).unwrap(), vectors, "{model:?}");
            let read: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!((&read["model"], &read["object"]), (&"embed".into(), &"list".into()));
            assert_eq!(read["usage"], serde_json::json!({"prompt_tokens": 7, "total_tokens": 7}));
            assert_eq!(
                (&read["data"][1]["index"], &read["data"][1]["object"]),
                (&1.into(), &"embedding".into())
            );
        }
        let body = BedrockEmbeddingModel::TitanV2.write_answer(&vectors[..1], 3);
        let answer = head.read_operation_answer(DialectId::BEDROCK_INVOKE, &body, None).unwrap().unwrap();
        assert_eq!(answer.report.usage.input, 3);
        assert_eq!(read_embeddings(&answer.body).unwrap(), &vectors[..1]);
        // An answer of an OpenAI-compatible server passes through.
        let body = write_embeddings(&vectors, encoding, "text-embedding-3-small", 9);
        let answer = head.read_operation_answer(DialectId::OPENAI_CHAT, &body, None).unwrap().unwrap();
        assert_eq!((answer.report.usage.input, answer.body.as_ptr()), (9, body.as_ptr()));
    }
}

#[test]
fn an_unreadable_answer_is_an_error() {
    let head = read_embeddings_head(br#"{"model":"e","input":"a"}"#, &limits()).unwrap();
    for body in
        ["", "{", "[]", "{}", r#"{"data":7}"#, r#"{"error":{"message":"no"}}"#, r#"{"embedding":["x"]}"#]
    {
        let body = Bytes::copy_from_slice(body.as_bytes());
        for target in [DialectId::OPENAI_CHAT, DialectId::BEDROCK_INVOKE] {
            assert!(head.read_operation_answer(target, &body, None).unwrap().is_err(), "{target:?} {body:?}");
        }
    }
}

proptest! {
    #[test]
    fn vectors_survive_both_encodings(
        vectors in prop::collection::vec(prop::collection::vec(-1e3_f32..1e3, 0..9), 0..5),
        tokens in any::<u32>(),
    ) {
        for encoding in [VectorEncoding::Float, VectorEncoding::Base64] {
            let body = write_embeddings(&vectors, encoding, "m", tokens.into());
            prop_assert_eq!(&read_embeddings(&body).unwrap(), &vectors);
        }
    }

    #[test]
    fn any_bytes_are_an_error_or_a_request(bytes in prop::collection::vec(any::<u8>(), 0..64), text in "\\PC*") {
        for body in [&bytes[..], text.as_bytes()] {
            drop(read_embeddings_head(body, &limits()));
            drop(read_embeddings_request(body, &limits()));
            drop(read_embeddings(body));
            drop(BedrockEmbeddingModel::read_answer(body));
        }
    }

    #[test]
    fn a_request_survives_bedrocks_formats(texts in prop::collection::vec("\\PC*", 1..5), dimensions in prop::option::of(1_u32..2_000)) {
        for (model, count) in [
            (BedrockEmbeddingModel::TitanV2, 1),
            (BedrockEmbeddingModel::CohereV4, texts.len()),
        ] {
            let is_cohere = model == BedrockEmbeddingModel::CohereV4;
            let input_type = is_cohere.then(|| "clustering".to_owned());
            let request = EmbeddingsRequest { texts: texts[..count].to_vec(), dimensions, input_type };
            let body = model.write_request(&request).unwrap();
            prop_assert_eq!(&model.read_request(&body, &limits()).unwrap(), &request);
            let empty = model.read_request(b"{}", &limits());
            prop_assert!(empty.is_err());
        }
    }
}
