//! Tests of credential sources, documents and the cache.

mod cache;
mod documents;
mod profiles;

use super::{EnvironmentCredentials, StaticCredentials};
use crate::headers::SecretString;
use aws_credential_types::provider::ProvideCredentials as _;

#[tokio::test]
async fn keys_come_from_settings_and_from_the_environment() {
    let keys =
        StaticCredentials::new("id", SecretString::new("hush"), None).provide_credentials().await.unwrap();
    assert_eq!((keys.access_key_id(), keys.secret_access_key(), keys.session_token()), ("id", "hush", None));
    let whole = EnvironmentCredentials::from_fn(|name| match name {
        "AWS_ACCESS_KEY_ID" => Some("id".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some("hush".to_owned()),
        "AWS_SESSION_TOKEN" => Some("session".to_owned()),
        _ => None,
    });
    let keys = whole.provide_credentials().await.unwrap();
    let keys = (keys.access_key_id(), keys.secret_access_key(), keys.session_token());
    assert_eq!(keys, ("id", "hush", Some("session")));
    let half = EnvironmentCredentials::from_fn(|name| (name == "AWS_ACCESS_KEY_ID").then(|| "id".to_owned()));
    assert!(half.provide_credentials().await.is_err());
    let empty = EnvironmentCredentials::from_fn(|_| Some(String::new()));
    assert!(empty.provide_credentials().await.is_err());
}

#[test]
fn keys_are_not_shown() {
    let keys = StaticCredentials::new("id", SecretString::new("hush"), Some(SecretString::new("quiet")));
    let shown = format!("{keys:?}");
    assert!(!shown.contains("hush") && !shown.contains("quiet"), "{shown}");
}
