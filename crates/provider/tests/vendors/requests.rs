//! The exact bytes that each target sends.

use crate::support::{LIMITS, around, beside, credentials, listen, question, read, run, say, target};
use aws_credential_types::provider::SharedCredentialsProvider;
use seawall_core::failure::FailureKind;
use seawall_core::vocabulary::OpenAiApi;
use seawall_model::engine::Pace;
use seawall_provider::{
    AnthropicKey, AnthropicOptions, AnthropicTarget, BedrockOptions, BedrockTarget, Call, Client,
    ClientOptions, EnvironmentCredentials, GeminiKey, GeminiOptions, GeminiTarget, OpenAiOptions,
    OpenAiTarget, SecretString, Target, UpstreamResponse,
};
use seawall_wire::dialect::DialectId;
use std::net::SocketAddr;

/// The head of a target's request, line by line, and the body.
async fn sent(
    make: impl FnOnce(Client) -> Box<dyn Target>,
    base: &str,
    stream: bool,
) -> (Vec<String>, String) {
    let (listener, address) = listen().await;
    let options = ClientOptions { limits: LIMITS, ..ClientOptions::new(format!("http://{address}{base}")) };
    let target = make(Client::new(&options, &around()).unwrap());
    let words = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let call = target.call(question(target.dialect(), stream));
    let ((_held, request), answer) = tokio::join!(say(&listener, words), call);
    assert!(answer.is_ok());
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let head = head.replace(&address.to_string(), "SERVER").replace(&body.len().to_string(), "LENGTH");
    (head.lines().map(str::to_owned).collect(), body.to_owned())
}

fn key() -> SecretString {
    SecretString::new("hush")
}

#[test]
fn anthropic_is_asked_with_its_own_header_or_with_a_token() {
    run(async {
        let make = |client| -> Box<dyn Target> {
            let options = AnthropicOptions::new(AnthropicKey::ApiKey(key()));
            Box::new(AnthropicTarget::new(client, &options).unwrap())
        };
        let (head, body) = sent(make, "", false).await;
        let expected = [
            "POST /v1/messages HTTP/1.1",
            "host: SERVER",
            "content-type: application/json",
            "x-api-key: hush",
            "anthropic-version: 2023-06-01",
            "content-length: LENGTH",
        ];
        assert_eq!(head, expected);
        assert_eq!(body, question(DialectId::ANTHROPIC_MESSAGES, false).body);

        let make = |client| -> Box<dyn Target> {
            let mut options = AnthropicOptions::new(AnthropicKey::Bearer(key()));
            options.version = "2099-01-01".to_owned();
            options.headers = vec![("anthropic-beta".to_owned(), "one,two".to_owned())];
            Box::new(AnthropicTarget::new(client, &options).unwrap())
        };
        let (head, _) = sent(make, "/proxy/anthropic/", true).await;
        let expected = [
            "POST /proxy/anthropic/v1/messages HTTP/1.1",
            "host: SERVER",
            "content-type: application/json",
            "authorization: Bearer hush",
            "anthropic-version: 2099-01-01",
            "anthropic-beta: one,two",
            "content-length: LENGTH",
        ];
        assert_eq!(head, expected);
    });
}

#[test]
fn features_in_trial_are_named_behind_those_of_settings() {
    let betas = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    let named = |extra: &[(&str, &str)], betas: Vec<String>| {
        let mut options = AnthropicOptions::new(AnthropicKey::None);
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        options.headers = extra.iter().map(owned).collect();
        run(async move {
            let (listener, address) = listen().await;
            let client = Client::new(&crate::support::options(address), &around()).unwrap();
            let target = AnthropicTarget::new(client, &options).unwrap();
            let call = Call { betas, ..question(DialectId::ANTHROPIC_MESSAGES, false) };
            let words = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            tokio::select! {
                biased;
                answer = target.call(call) => Err(answer.err().unwrap().failure.kind),
                (_, request) = say(&listener, words) => {
                    assert!(!request.contains("x-api-key") && !request.contains("authorization"));
                    let line = request.lines().find(|line| line.to_ascii_lowercase().starts_with("anthropic-beta"));
                    Ok(line.map(str::to_owned))
                }
            }
        })
    };
    let line = |text: &str| Ok(Some(text.to_owned()));
    assert_eq!(named(&[], vec![]), Ok(None));
    assert_eq!(named(&[], betas(&["one-2025-01-01", "two!"])), line("anthropic-beta: one-2025-01-01,two!"));
    let settings = [("Anthropic-Beta", "always")];
    assert_eq!(named(&settings, betas(&["one"])), line("Anthropic-Beta: always,one"));
    let longest = "a".repeat(100);
    assert_eq!(named(&[], betas(&[&longest])), line(&format!("anthropic-beta: {longest}")));
    assert!(named(&[], vec!["a".to_owned(); 20]).is_ok());
    for wrong in [
        vec!["a".to_owned(); 21],
        vec!["a".repeat(101)],
        betas(&[""]),
        betas(&["a b"]),
        betas(&["a,b"]),
        betas(&["a\r\nx-key: b"]),
        betas(&["é"]),
        betas(&["fine", "a;b"]),
    ] {
        assert_eq!(named(&[], wrong.clone()), Err(FailureKind::BadRequest), "{wrong:?}");
    }
}

#[test]
fn beta_features_are_not_sent_to_other_vendors() {
    run(async {
        for dialect in [DialectId::OPENAI_CHAT, DialectId::BEDROCK_INVOKE, DialectId::BEDROCK_CONVERSE] {
            let (listener, address) = listen().await;
            let target = target(dialect, crate::support::options(address));
            let call = Call { betas: vec!["a b".to_owned()], ..question(dialect, false) };
            let words = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            let ((_held, request), answer) = tokio::join!(say(&listener, words), target.call(call));
            assert!(answer.is_ok() && !request.contains("beta"), "{request}");
        }
    });
}

#[test]
fn a_callers_error_carries_the_models_own_message() {
    beside(Pace::Instant, vec![], async |address: SocketAddr, _| {
        for dialect in DialectId::ALL {
            let target = target(dialect, crate::support::options(address));
            let error = target.call(Call::new("{}".into(), false)).await.err().unwrap();
            assert_eq!(error.failure.kind, FailureKind::BadRequest, "{dialect:?}");
            assert!(
                error.message.is_some_and(|message| message.ends_with(": Field required")),
                "{dialect:?}"
            );
        }
    });
}

#[test]
fn the_usage_of_an_invocation_is_reported_in_headers() {
    beside(Pace::Instant, vec![], async |address: SocketAddr, _| {
        for dialect in DialectId::ALL {
            let target = target(dialect, crate::support::options(address));
            let answer = target.call(question(dialect, false)).await;
            let Ok(UpstreamResponse::Unstreamed { body, report: told }) = answer else {
                panic!("it is whole")
            };
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let count = |name: &str| body["usage"][name].as_u64();
            let expected = (dialect == DialectId::BEDROCK_INVOKE)
                .then(|| (count("input_tokens").unwrap(), count("output_tokens").unwrap()));
            let told = told.and_then(|told| told.usage);
            assert_eq!(told.map(|usage| (usage.input, usage.output)), expected, "{dialect:?}");
        }
    });
}

#[test]
fn openai_is_asked_below_its_base_and_for_usage() {
    run(async {
        let make = |client| -> Box<dyn Target> {
            let mut options = OpenAiOptions::new(Some(key()));
            options.headers = vec![("openai-organization".to_owned(), "harbour".to_owned())];
            Box::new(OpenAiTarget::new(client, &options).unwrap())
        };
        let (head, body) = sent(make, "/v1", true).await;
        let expected = [
            "POST /v1/chat/completions HTTP/1.1",
            "host: SERVER",
            "content-type: application/json",
            "authorization: Bearer hush",
            "openai-organization: harbour",
            "content-length: LENGTH",
        ];
        assert_eq!(head, expected);
        assert!(body.contains(r#""stream_options":{"include_usage":true}"#), "{body}");

        // A self-hosted server needs no key, and may not support the option.
        let make = |client| -> Box<dyn Target> {
            let options = OpenAiOptions { include_usage: false, ..OpenAiOptions::new(None) };
            Box::new(OpenAiTarget::new(client, &options).unwrap())
        };
        let (head, body) = sent(make, "/v1", true).await;
        assert!(!head.iter().any(|line| line.starts_with("authorization")), "{head:?}");
        assert_eq!(body, question(DialectId::OPENAI_CHAT, true).body);
        // Without a stream the option is not needed.
        let make = |client| -> Box<dyn Target> {
            Box::new(OpenAiTarget::new(client, &OpenAiOptions::new(None)).unwrap())
        };
        let (_, body) = sent(make, "/v1", false).await;
        assert_eq!(body, question(DialectId::OPENAI_CHAT, false).body);
    });
}

#[test]
fn openai_is_asked_in_the_api_of_the_request_if_the_server_has_it() {
    run(async {
        let [chat, responses] = [DialectId::OPENAI_CHAT, DialectId::RESPONSES];
        for (api, default, accepted) in [
            (OpenAiApi::Both, chat, &[chat, responses][..]),
            (OpenAiApi::ChatCompletions, chat, &[chat]),
            (OpenAiApi::Responses, responses, &[responses]),
        ] {
            let (listener, address) = listen().await;
            let options = ClientOptions::new(format!("http://{address}/v1"));
            let client = Client::new(&options, &around()).unwrap();
            let target =
                OpenAiTarget::new(client, &OpenAiOptions { api, ..OpenAiOptions::new(None) }).unwrap();
            assert_eq!(target.dialect(), default);
            for dialect in DialectId::ALL {
                assert_eq!(target.accepts(dialect), accepted.contains(&dialect), "{api} {dialect:?}");
            }
            for dialect in [chat, responses] {
                let sent = if accepted.contains(&dialect) { dialect } else { default };
                let call = Call { dialect: Some(dialect), ..question(sent, true) };
                let words = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 0\r\n\r\n";
                let ((_held, request), answer) = tokio::join!(say(&listener, words), target.call(call));
                assert!(answer.is_ok(), "{api} {dialect:?}");
                let path = sent.path("haiku", true);
                assert!(request.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{request}");
                assert_eq!(request.contains("include_usage"), sent == chat, "{request}");
            }
        }
    });
}

#[test]
fn gemini_is_asked_by_path_with_a_key_or_a_token() {
    run(async {
        let hidden = SecretString::new("hush");
        let project = "/v1/projects/p/locations/l/publishers/google";
        for (base, stream, key, path, credential) in [
            (
                "",
                false,
                GeminiKey::ApiKey(hidden.clone()),
                "/v1beta/models/gemini-2.5-pro:generateContent",
                Some("x-goog-api-key: hush"),
            ),
            ("/v1", true, GeminiKey::None, "/v1/models/gemini-2.5-pro:streamGenerateContent?alt=sse", None),
            (
                project,
                true,
                GeminiKey::Bearer(hidden.clone()),
                "/v1/projects/p/locations/l/publishers/google/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
                Some("authorization: Bearer hush"),
            ),
        ] {
            let make = |client| -> Box<dyn Target> {
                let options = GeminiOptions::new(key.clone());
                Box::new(GeminiTarget::new(client, "gemini-2.5-pro", &options).unwrap())
            };
            let (head, body) = sent(make, base, stream).await;
            let post = format!("POST {path} HTTP/1.1");
            let before = [post.as_str(), "host: SERVER", "content-type: application/json"];
            let expected: Vec<_> =
                before.into_iter().chain(credential).chain(["content-length: LENGTH"]).collect();
            assert_eq!(head, expected);
            assert_eq!(body, question(DialectId::GEMINI, stream).body);
        }
    });
}

fn bedrock_options(credentials: SharedCredentialsProvider, converse: bool) -> BedrockOptions {
    BedrockOptions {
        region: "eu-west-1".to_owned(),
        model: "arn:aws:bedrock:eu-west-1:1:inference-profile/x".to_owned(),
        converse,
        credentials,
        headers: vec![],
    }
}

#[test]
fn bedrock_is_asked_by_path_with_a_signature() {
    run(async {
        let model = "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Fx";
        for (converse, stream, operation, accept) in [
            (false, false, "invoke", "application/json"),
            (false, true, "invoke-with-response-stream", "application/vnd.amazon.eventstream"),
            (true, false, "converse", "application/json"),
            (true, true, "converse-stream", "application/vnd.amazon.eventstream"),
        ] {
            let make = |client| -> Box<dyn Target> {
                Box::new(BedrockTarget::new(client, &bedrock_options(credentials(), converse)).unwrap())
            };
            let (head, _) = sent(make, "", stream).await;
            let expected = [
                format!("POST {model}/{operation} HTTP/1.1"),
                "host: SERVER".to_owned(),
                "content-type: application/json".to_owned(),
                format!("accept: {accept}"),
                "x-amz-date: 20260701T000000Z".to_owned(),
            ];
            assert_eq!(head[..5], expected);
            let seal = "authorization: AWS4-HMAC-SHA256 \
                        Credential=AKIDEXAMPLE/20260701/eu-west-1/bedrock/aws4_request, \
                        SignedHeaders=accept;content-type;host;x-amz-date;x-amz-security-token, Signature=";
            assert!(head[5].starts_with(seal), "{}", head[5]);
            assert_eq!(head[6], "x-amz-security-token: session");
        }
    });
}

#[test]
fn bedrock_is_asked_in_either_dialect_and_signs_the_headers_of_one_call() {
    run(async {
        for (usually_converse, dialect, operation) in
            [(false, DialectId::BEDROCK_CONVERSE, "converse"), (true, DialectId::BEDROCK_INVOKE, "invoke")]
        {
            let (listener, address) = listen().await;
            let client = Client::new(&crate::support::options(address), &around()).unwrap();
            let mut options = bedrock_options(credentials(), usually_converse);
            options.headers = vec![("x-amzn-bedrock-trace".to_owned(), "ENABLED".to_owned())];
            let target = BedrockTarget::new(client, &options).unwrap();
            assert!(target.accepts(dialect) && target.dialect() != dialect);
            assert!(!target.accepts(DialectId::ANTHROPIC_MESSAGES));
            let guardrail = ("x-amzn-bedrock-guardrailidentifier", "gr-1".into());
            let call = Call {
                dialect: Some(dialect),
                headers: vec![guardrail],
                ..question(DialectId::BEDROCK_INVOKE, false)
            };
            let words = "HTTP/1.1 200 OK\r\nx-amzn-bedrock-service-tier: flex\r\ncontent-length: 2\r\n\r\n{}";
            let ((_held, request), answer) = tokio::join!(say(&listener, words), target.call(call.clone()));
            assert!(request.lines().next().unwrap().contains(&format!("/{operation} ")), "{request}");
            assert!(request.contains("\r\nx-amzn-bedrock-guardrailidentifier: gr-1\r\n"), "{request}");
            let signed = "SignedHeaders=accept;content-type;host;x-amz-date;x-amz-security-token;\
                          x-amzn-bedrock-guardrailidentifier;x-amzn-bedrock-trace,";
            assert!(request.contains(signed), "{request}");
            let Ok(UpstreamResponse::Unstreamed { report: told, .. }) = answer else { panic!("it is whole") };
            let tier = told.map(|told| told.headers);
            let expected = vec![("x-amzn-bedrock-service-tier", "flex".to_owned())];
            assert_eq!(tier, (dialect == DialectId::BEDROCK_INVOKE).then_some(expected));
            // A call cannot override what the settings define for all calls.
            let twice = Call { headers: vec![("x-amzn-bedrock-trace", "DISABLED".into())], ..call };
            let error = target.call(twice).await.err().unwrap();
            assert_eq!(error.failure.kind, FailureKind::BadRequest);
            assert_eq!(
                error.message.as_deref(),
                Some("x-amzn-bedrock-trace: is set by the gateway and cannot be overridden")
            );
        }
    });
}

#[test]
fn the_version_that_a_caller_names_takes_the_place_of_ours() {
    run(async {
        let (listener, address) = listen().await;
        let target = target(DialectId::ANTHROPIC_MESSAGES, crate::support::options(address));
        let call = Call {
            anthropic_version: Some("2099-01-01".into()),
            ..question(DialectId::ANTHROPIC_MESSAGES, false)
        };
        let words = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        let ((_held, request), answer) = tokio::join!(say(&listener, words), target.call(call.clone()));
        assert!(answer.is_ok() && request.contains("anthropic-version: 2099-01-01\r\n"), "{request}");
        assert!(!request.contains("2023-06-01"), "{request}");
        let wrong = Call { anthropic_version: Some("a\r\nx: y".into()), ..call };
        assert_eq!(target.call(wrong).await.err().unwrap().failure.kind, FailureKind::BadRequest);
    });
}

#[test]
fn without_keys_nothing_is_asked() {
    run(async {
        let (_listener, address) = listen().await;
        let nothing = SharedCredentialsProvider::new(EnvironmentCredentials::from_fn(|_| None));
        let client = Client::new(&crate::support::options(address), &around()).unwrap();
        let target = BedrockTarget::new(client, &bedrock_options(nothing, true)).unwrap();
        let failure = target.call(question(target.dialect(), false)).await.err().unwrap().failure;
        assert_eq!((failure.kind, failure.not_executed), (FailureKind::Unauthorized, true));
    });
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_asked() {
    let client = || Client::new(&ClientOptions::new("http://localhost"), &around()).unwrap();
    for (options, problem) in [
        (
            BedrockOptions { region: String::new(), ..bedrock_options(credentials(), true) },
            "region: \"\" is not a valid region name",
        ),
        (
            BedrockOptions { region: "eu/1".to_owned(), ..bedrock_options(credentials(), true) },
            "region: \"eu/1\" is not a valid region name",
        ),
        (
            BedrockOptions { model: String::new(), ..bedrock_options(credentials(), true) },
            "model: must not be empty",
        ),
    ] {
        assert_eq!(BedrockTarget::new(client(), &options).err().unwrap().to_string(), problem);
    }
    let options = AnthropicOptions::new(AnthropicKey::ApiKey(SecretString::new("hush\nhush")));
    let refusal = AnthropicTarget::new(client(), &options).err().unwrap().to_string();
    assert_eq!(refusal, "headers: x-api-key: the header value contains a control character");
    let secure = Client::new(&ClientOptions::new("https://localhost"), &around()).err().unwrap();
    assert_eq!(secure.to_string(), "tls: required for an https URL");
    assert_eq!(BedrockOptions::default_url("eu-west-1"), "https://bedrock-runtime.eu-west-1.amazonaws.com");
    assert_eq!(
        BedrockOptions::default_url("cn-north-1"),
        "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"
    );
}

#[test]
fn the_simulated_model_understands_a_base_path_of_openais() {
    beside(Pace::Instant, vec![], async |address: SocketAddr, _| {
        let target = target(DialectId::OPENAI_CHAT, crate::support::options(address));
        let Call { body, .. } = question(DialectId::OPENAI_CHAT, false);
        let answer = target.call(Call::new(body, false)).await.unwrap_or_else(|_| panic!("refused"));
        let (whole, _) = read(answer).await;
        assert!(String::from_utf8_lossy(&whole).contains("chat.completion"));
    });
}
