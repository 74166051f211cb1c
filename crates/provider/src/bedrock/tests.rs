//! Signatures against the vendor's published examples, and whose models are whose.

use super::BedrockOptions;
use super::sign::Seal;
use aws_credential_types::Credentials;
use seawall_core::time::UtcTime;
use std::time::Duration;

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

/// 30 August 2015, 12:36.
fn example_date() -> UtcTime {
    UtcTime::from_civil(2015, 8, 30) + Duration::from_secs(12 * 3_600 + 36 * 60)
}

fn example(
    method: &str,
    path: &str,
    header: Option<(&str, &str)>,
    token: Option<&str>,
) -> Vec<(String, String)> {
    let seal = Seal { region: "us-east-1", service: "service", date: example_date() };
    let credentials = Credentials::new("AKIDEXAMPLE", SECRET, token.map(str::to_owned), None, "test");
    let headers: Vec<_> =
        header.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
    let address = format!("https://example.amazonaws.com{path}");
    seal.sign(credentials, (method, &address), &headers, b"").unwrap()
}

fn value<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str()).unwrap()
}

#[test]
fn signatures_are_those_of_the_vendors_examples() {
    let token = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
    for (method, path, header, token, signed, signature) in [
        (
            "POST",
            "/",
            None,
            None,
            "host;x-amz-date",
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ),
        (
            "GET",
            "/",
            None,
            Some(token),
            "host;x-amz-date;x-amz-security-token",
            "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
        ),
        (
            "POST",
            "/",
            Some(("My-Header1", "VALUE1")),
            None,
            "host;my-header1;x-amz-date",
            "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
        ),
    ] {
        let headers = example(method, path, header, token);
        let expected = format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders={signed}, Signature={signature}"
        );
        assert_eq!(value(&headers, "authorization"), expected);
        assert_eq!(value(&headers, "x-amz-date"), "20150830T123600Z");
        if let Some(token) = token {
            assert_eq!(value(&headers, "x-amz-security-token"), token);
        }
        if let Some((name, given)) = header {
            assert_eq!(value(&headers, name), given);
        }
    }
}

#[test]
fn everything_that_is_sent_changes_the_signature() {
    let seal = |region: &'static str, date| Seal { region, service: "bedrock", date };
    let sign = |seal: Seal<'_>, path: &str, accept: &str, body: &[u8]| {
        let credentials = Credentials::new("AKIDEXAMPLE", SECRET, None, None, "test");
        let headers = [("accept".to_owned(), accept.to_owned())];
        let signed =
            seal.sign(credentials, ("POST", &format!("https://host{path}")), &headers, body).unwrap();
        value(&signed, "authorization").rsplit_once("Signature=").unwrap().1.to_owned()
    };
    let date = example_date();
    let mut signatures = vec![
        sign(seal("us-east-1", date), "/model/a%3A0/invoke", "x", b"{}"),
        sign(seal("us-east-2", date), "/model/a%3A0/invoke", "x", b"{}"),
        sign(seal("us-east-1", date + Duration::from_secs(1)), "/model/a%3A0/invoke", "x", b"{}"),
        sign(seal("us-east-1", date), "/model/a%3A1/invoke", "x", b"{}"),
        sign(seal("us-east-1", date), "/model/a:0/invoke", "x", b"{}"),
        sign(seal("us-east-1", date), "/model/a%3A0/invoke", "y", b"{}"),
        sign(seal("us-east-1", date), "/model/a%3A0/invoke", "x", b"{ }"),
    ];
    let count = signatures.len();
    signatures.sort();
    signatures.dedup();
    assert_eq!(signatures.len(), count);
}

#[test]
fn only_a_model_that_is_told_to_be_anthropics_is_asked_in_its_dialect() {
    for model in [
        "anthropic.claude-3-haiku-20240307-v1:0",
        "us.anthropic.claude-3-7-sonnet-20250219-v1:0",
        "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-v2",
        "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-3-haiku-20240307-v1:0",
    ] {
        assert!(BedrockOptions::is_anthropic(model), "{model}");
    }
    for model in [
        "amazon.nova-pro-v1:0",
        "us.meta.llama3-3-70b-instruct-v1:0",
        "meta.us.anthropic.x",
        "arn:aws:bedrock:us-east-1:1:application-inference-profile/ab12cd34",
        "arn:aws:bedrock:us-east-1:1:provisioned-model/anthropic",
        "arn:aws:bedrock:us-east-1:1:imported-model/x.anthropic",
        "anthropic",
        "",
    ] {
        assert!(!BedrockOptions::is_anthropic(model), "{model}");
    }
}
