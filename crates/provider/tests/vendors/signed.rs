//! Signatures against a server that verifies them, such as ministack with `AUTH=true` for a user created there (it does
//! not verify those of its root). Ignored by default: it needs that server at the address in `SEAWALL_SIGNED_AT`, and
//! the user's key in the standard environment variables; and, for roles, one that this user may assume in
//! `SEAWALL_SIGNED_ROLE`, with the external ID `pier 7`.

use crate::support::{ask, options, refusal, run};
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use seawall_core::failure::FailureKind;
use seawall_core::time::UtcTime;
use seawall_provider::http1::TokioTimer;
use seawall_provider::{
    BedrockOptions, BedrockTarget, Client, ClientOptions, ClientRuntime, CredentialOptions, Environment,
    EnvironmentCredentials, SecretString, StaticCredentials,
};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[expect(clippy::disallowed_methods, reason = "the server compares the signature's date with the real one")]
fn today() -> UtcTime {
    UtcTime::from_nanos(0) + SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

fn target(
    url: &str,
    credentials: SharedCredentialsProvider,
    date: fn() -> UtcTime,
    converse: bool,
) -> BedrockTarget {
    let around = ClientRuntime::new(TokioTimer::new(), Arc::new(date));
    let limits = options(([127, 0, 0, 1], 1).into()).limits;
    let mut client = ClientOptions { limits, ..ClientOptions::new(url) };
    client.limits.head_timeout = Duration::from_secs(10);
    let options = BedrockOptions {
        region: "us-east-1".to_owned(),
        // With a colon, which is encoded for the path and once more for the signature.
        model: "anthropic.claude-3-haiku-20240307-v1:0".to_owned(),
        converse,
        credentials,
        headers: vec![("x-amzn-bedrock-trace".to_owned(), "DISABLED".to_owned())],
    };
    BedrockTarget::new(Client::new(&client, &around).unwrap(), &options).unwrap()
}

#[test]
#[ignore = "needs a server that checks signatures"]
fn a_server_that_checks_signatures_takes_ours_and_refuses_a_wrong_one() {
    let url = std::env::var("SEAWALL_SIGNED_AT").unwrap();
    let ours = || SharedCredentialsProvider::new(EnvironmentCredentials::from_process());
    let wrong = || {
        let id = std::env::var("AWS_ACCESS_KEY_ID").unwrap();
        SharedCredentialsProvider::new(StaticCredentials::new(id, SecretString::new("wrong"), None))
    };
    run(async {
        for converse in [false, true] {
            for stream in [false, true] {
                let answer = ask(&target(&url, ours(), today, converse), stream).await;
                assert!(answer.unwrap_or_else(|failure| panic!("{failure:?}")).1.is_ok());
            }
            let failure = refusal(&target(&url, wrong(), today, converse), false).await;
            assert_eq!(failure.kind, FailureKind::Unauthorized);
            let long_ago = || UtcTime::from_civil(2020, 1, 1);
            let failure = refusal(&target(&url, ours(), long_ago, converse), false).await;
            assert_eq!(failure.kind, FailureKind::Unauthorized);
        }
    });
}

#[test]
#[ignore = "needs a server that checks signatures"]
fn a_role_is_assumed_at_a_server_that_checks_signatures() {
    let url = std::env::var("SEAWALL_SIGNED_AT").unwrap();
    let role = std::env::var("SEAWALL_SIGNED_ROLE").unwrap();
    let source = |external_id: &str| {
        let url = url.clone();
        let environment = Environment::from_fn(move |name| match name {
            "AWS_ENDPOINT_URL_STS" => Some(url.clone()),
            name => std::env::var(name).ok(),
        });
        let options = CredentialOptions {
            region: "us-east-1".to_owned(),
            role: Some(role.clone()),
            external_id: Some(external_id.to_owned()),
            tls: None,
            environment,
        };
        options.check(&ClientRuntime::new(TokioTimer::new(), Arc::new(today))).unwrap()
    };
    run(async {
        let keys = source("pier 7").provide_credentials().await.unwrap();
        assert!(keys.access_key_id().starts_with("ASIA") && keys.session_token().is_some());
        let left = keys.expiry().unwrap().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let now = today().as_nanos() / 1_000_000_000;
        assert!((now + 3_500..now + 3_700).contains(&left), "{left} {now}");
        let answer = ask(&target(&url, source("pier 7"), today, false), false).await;
        assert!(answer.unwrap_or_else(|failure| panic!("{failure:?}")).1.is_ok());
        let refused = source("pier 8").provide_credentials().await;
        assert!(format!("{:?}", refused.unwrap_err()).contains("AccessDenied"));
        let failure = refusal(&target(&url, source("pier 8"), today, false), false).await;
        assert_eq!(failure.kind, FailureKind::Unauthorized);
    });
}
