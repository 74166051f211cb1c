//! Signatures against the vendor's published examples, and where keys come from.

use super::credentials::{CredentialCache, EnvironmentCredentials, StaticCredentials};
use super::sign::Seal;
use crate::headers::Secret;
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use seawall_core::time::UtcTime;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

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

#[tokio::test]
async fn keys_come_from_settings_and_from_the_environment() {
    let keys = StaticCredentials::new("id", Secret::new("hush"), None).provide_credentials().await.unwrap();
    assert_eq!((keys.access_key_id(), keys.secret_access_key(), keys.session_token()), ("id", "hush", None));
    let whole = EnvironmentCredentials::read_by(|name| match name {
        "AWS_ACCESS_KEY_ID" => Some("id".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some("hush".to_owned()),
        "AWS_SESSION_TOKEN" => Some("session".to_owned()),
        _ => None,
    });
    let keys = whole.provide_credentials().await.unwrap();
    let keys = (keys.access_key_id(), keys.secret_access_key(), keys.session_token());
    assert_eq!(keys, ("id", "hush", Some("session")));
    let half = EnvironmentCredentials::read_by(|name| (name == "AWS_ACCESS_KEY_ID").then(|| "id".to_owned()));
    assert!(half.provide_credentials().await.is_err());
    let empty = EnvironmentCredentials::read_by(|_| Some(String::new()));
    assert!(empty.provide_credentials().await.is_err());
}

#[test]
fn keys_are_not_shown() {
    let keys = StaticCredentials::new("id", Secret::new("hush"), Some(Secret::new("quiet")));
    let shown = format!("{keys:?}");
    assert!(!shown.contains("hush") && !shown.contains("quiet"), "{shown}");
}

/// Keys that hold for so long after the epoch, until there are none.
#[derive(Debug, Default)]
struct Ending {
    seconds: Mutex<Option<u64>>,
    asked: AtomicUsize,
}

impl ProvideCredentials for Ending {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        use aws_credential_types::provider::error::CredentialsError;
        self.asked.fetch_add(1, Ordering::Relaxed);
        let seconds = self.seconds.lock().unwrap().ok_or_else(|| CredentialsError::not_loaded("none"));
        let end = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        future::ProvideCredentials::ready(
            seconds.map(|seconds| Credentials::new("id", "hush", None, Some(end(seconds)), "test")),
        )
    }
}

#[tokio::test]
async fn keys_that_end_are_renewed_five_minutes_before_and_used_to_their_end() {
    let source = Arc::new(Ending::default());
    let cache = CredentialCache::new(SharedCredentialsProvider::new(
        Arc::clone(&source) as Arc<dyn ProvideCredentials>
    ));
    let at = |seconds: u64| UtcTime::from_nanos(seconds * 1_000_000_000);
    assert!(cache.present(at(0)).is_none() && cache.renew().await.is_none());
    *source.seconds.lock().unwrap() = Some(1_000);
    assert!(cache.renew().await.is_some());
    assert!(cache.present(at(699)).is_some() && cache.present(at(700)).is_none());
    *source.seconds.lock().unwrap() = None;
    assert!(cache.renew().await.is_none());
    assert!(cache.remaining(at(999)).is_some() && cache.remaining(at(1_000)).is_none());
    assert_eq!(source.asked.load(Ordering::Relaxed), 3);
}
