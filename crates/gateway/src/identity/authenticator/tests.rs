//! Authentication of requests, and gates of changed settings.

mod cost;
mod fetching;
mod threads;
mod tokens;

use super::{AuthenticationDecision, Authenticator, AuthenticatorError, caller_options};
use crate::identity::signature::{SignatureRefusal, hash_access_key};
use crate::identity::{
    AnonymousRefusal, AuthenticationRefusal, CredentialError, HttpRequestHead, KeyRefusal, hash_api_key,
};
use crate::runtime::TokioRuntime;
use crate::supervisor::Supervisor;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};
use seawall_config::{Settings, SettingsInput, load};
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_core::vocabulary::Tier;
use seawall_pipeline::callers::{CallerIdentity, CredentialKind};
use seawall_testkit::TestDirectory;
use std::net::IpAddr;
use std::time::Duration;

/// A data directory for one test, removed at its end.
struct Desk {
    directory: TestDirectory,
}

impl Desk {
    fn new() -> Self {
        Self { directory: TestDirectory::new().unwrap() }
    }

    fn file(&self, name: &str, bytes: &[u8]) -> String {
        self.directory.write(name, bytes).unwrap().to_string_lossy().into_owned()
    }

    /// Settings whose state is in the directory.
    fn settings(&self, more: &str) -> Settings {
        let text = format!(
            "profile = \"demo\"\n{more}\n[store]\ndata_dir = {:?}",
            self.directory.path().join("state")
        );
        let input = SettingsInput::from_file("test.toml", &text, UtcTime::from_civil(2026, 11, 16));
        load(&input).unwrap_or_else(|problems| panic!("{}", problems.render(false))).settings
    }

    fn try_build(&self, more: &str) -> Result<Authenticator, AuthenticatorError> {
        Authenticator::new(&self.settings(more), TokioRuntime::new(), &Supervisor::default())
    }

    fn authenticator(&self, more: &str) -> Authenticator {
        self.try_build(more).unwrap()
    }
}

fn at(utc: UtcTime) -> Now {
    Now::new(Timestamp::from_nanos(1_000), utc)
}

fn noon() -> Now {
    at(UtcTime::from_civil(2026, 11, 16) + Duration::from_secs(43_200))
}

/// A request with these headers, from this address.
struct Asked {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    address: IpAddr,
}

impl Asked {
    fn new(headers: &[(&str, &str)]) -> Self {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let uri = Uri::from_static("/v1/messages");
        Self { method: Method::POST, uri, headers: map, address: IpAddr::from([192, 0, 2, 1]) }
    }

    fn from(mut self, address: &str) -> Self {
        self.address = address.parse().unwrap();
        self
    }

    fn head(&self) -> HttpRequestHead<'_> {
        HttpRequestHead {
            method: &self.method,
            uri: &self.uri,
            headers: &self.headers,
            address: self.address,
        }
    }

    fn before(
        &self,
        authenticator: &Authenticator,
        now: Now,
    ) -> Result<AuthenticationDecision, AuthenticationRefusal> {
        authenticator.try_authenticate(self.head(), || now)
    }
}

fn identity(decision: Result<AuthenticationDecision, AuthenticationRefusal>) -> CallerIdentity {
    match decision.unwrap() {
        AuthenticationDecision::Identified(identity) => identity,
        other => panic!("{other:?}"),
    }
}

fn new_guest(decision: Result<AuthenticationDecision, AuthenticationRefusal>) -> ([u8; 32], u64, String) {
    match decision.unwrap() {
        AuthenticationDecision::NewGuest {
            identity: CallerIdentity::Guest { hash, network },
            set_cookie,
        } => (hash, network, set_cookie),
        other => panic!("{other:?}"),
    }
}

fn refusal(decision: Result<AuthenticationDecision, AuthenticationRefusal>) -> AuthenticationRefusal {
    decision.map(|decision| format!("{decision:?}")).unwrap_err()
}

/// The cookie that a browser sends back.
fn cookie(set_cookie: &str) -> String {
    set_cookie.split(';').next().unwrap().to_owned()
}

#[test]
fn a_key_is_its_hash_and_a_wrong_one_is_no_guest() {
    let node = Desk::new();
    let authenticator = node.authenticator("");
    let key = "sk-0123456789abcdef";
    let expected =
        CallerIdentity::Credential { hash: hash_api_key(key), kind: CredentialKind::Key, tier: None };
    let bearer = format!("Bearer {key}");
    for headers in [[("x-api-key", key)], [("authorization", bearer.as_str())]] {
        assert_eq!(identity(Asked::new(&headers).before(&authenticator, noon())), expected);
    }
    let damaged = Asked::new(&[("x-api-key", "sw_something")]).before(&authenticator, noon());
    assert_eq!(refusal(damaged), KeyRefusal::Malformed.into());
    let both = Asked::new(&[("x-api-key", key), ("authorization", &bearer)]).before(&authenticator, noon());
    assert_eq!(identity(both), expected);
    let other = Asked::new(&[("x-api-key", key), ("authorization", "Bearer sk-another")])
        .before(&authenticator, noon());
    assert_eq!(refusal(other), CredentialError::Several.into());
}

#[test]
fn a_guest_is_known_by_its_cookie_until_it_shows_another() {
    let node = Desk::new();
    let authenticator = node.authenticator("");
    let (hash, network, set_cookie) = new_guest(Asked::new(&[]).before(&authenticator, noon()));
    assert!(set_cookie.starts_with("seawall_guest=") && !set_cookie.contains("Secure"), "{set_cookie}");
    let again = Asked::new(&[("cookie", &cookie(&set_cookie))]);
    assert_eq!(identity(again.before(&authenticator, noon())), CallerIdentity::Guest { hash, network });
    // The same after a restart, and under other settings: the secret is in the directory.
    drop(authenticator);
    let authenticator = node.authenticator("[callers]\nguests = true\ntier_cache_ttl = \"1s\"");
    assert_eq!(identity(again.before(&authenticator, noon())), CallerIdentity::Guest { hash, network });
    let renewed = authenticator.rebuild(&node.settings("")).unwrap();
    assert_eq!(identity(again.before(&renewed, noon())), CallerIdentity::Guest { hash, network });
    let wrong = Asked::new(&[("cookie", &format!("{}x", cookie(&set_cookie)))]);
    let (other, same_network, _) = new_guest(wrong.before(&authenticator, noon()));
    assert!(other != hash && same_network == network);
    let (third, ..) = new_guest(Asked::new(&[]).before(&authenticator, noon()));
    assert!(third != other, "no two are alike");
    let over = at(noon().utc + Duration::from_secs(31 * 86_400));
    assert_ne!(new_guest(again.before(&authenticator, over)).0, hash);
}

#[test]
fn a_cookie_of_another_secret_is_another_guests() {
    let node = Desk::new();
    let own = node.file("own", &[b'k'; 32]);
    let authenticator = node.authenticator(&format!("[callers]\nguest_secret = \"file:{own}\""));
    let (_, _, set_cookie) = new_guest(Asked::new(&[]).before(&authenticator, noon()));
    let again = Asked::new(&[("cookie", &cookie(&set_cookie))]);
    assert!(matches!(again.before(&authenticator, noon()), Ok(AuthenticationDecision::Identified(_))));
    assert!(matches!(
        again.before(&node.authenticator(""), noon()),
        Ok(AuthenticationDecision::NewGuest { .. })
    ));
    let short = node.file("short", &[b'k'; 31]);
    let error = node.try_build(&format!("[callers]\nguest_secret = \"file:{short}\"")).err().unwrap();
    assert_eq!(error.to_string(), "callers.guest_secret: guest secret: must have at least 32 bytes");
    let missing = node.try_build("[callers]\nguest_secret = \"file:no/such\"").err().unwrap();
    assert_eq!(missing.to_string(), "callers.guest_secret: file:no/such: file not found");
}

#[test]
fn without_guests_a_missing_credential_is_refused_with_instructions() {
    let node = Desk::new();
    let guests = node.authenticator("");
    let (_, _, set_cookie) = new_guest(Asked::new(&[]).before(&guests, noon()));
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let authenticator = node.authenticator(&format!(
        "[callers]\nguests = false\n[callers.keys.a]\nhash = \"sha256:{hash}\"\ntier = \"prime\""
    ));
    for headers in [&[][..], &[("cookie", cookie(&set_cookie).as_str())]] {
        let refused = refusal(Asked::new(headers).before(&authenticator, noon()));
        assert_eq!(refused, AnonymousRefusal::GuestsDisabled.into());
        assert!(refused.to_string().contains("x-api-key"));
        assert_eq!(refused.log_label(), "credential_missing");
    }
}

#[test]
fn guests_are_distinguished_by_network() {
    let node = Desk::new();
    let authenticator = node.authenticator("");
    let network = |authenticator: &Authenticator, address: &str, now| {
        new_guest(Asked::new(&[]).from(address).before(authenticator, now)).1
    };
    let home = network(&authenticator, "2001:db8::1", noon());
    assert_eq!(network(&authenticator, "2001:db8::ffff:0:0:2", noon()), home, "one subscriber has 64 bits");
    assert_ne!(network(&authenticator, "2001:db8:0:1::1", noon()), home);
    assert_ne!(network(&authenticator, "192.0.2.1", noon()), network(&authenticator, "192.0.2.2", noon()));
    let wide = node.authenticator("[limits.guests_by_address]\nipv6_prefix = 48");
    assert_eq!(network(&wide, "2001:db8:0:1::1", noon()), network(&wide, "2001:db8::1", noon()));
    assert_ne!(network(&wide, "2001:db8:1::1", noon()), network(&wide, "2001:db8::1", noon()));
    // By month, so that stored numbers do not identify an address for longer.
    let next = at(UtcTime::from_civil(2026, 12, 1));
    let before = at(UtcTime::from_nanos(next.utc.as_nanos() - 1));
    let first = network(&authenticator, "192.0.2.1", before);
    assert_ne!(network(&authenticator, "192.0.2.1", next), first);
    assert_eq!(network(&authenticator, "192.0.2.1", before), first);
}

#[test]
fn only_a_trusted_proxy_is_believed_about_addresses() {
    let node = Desk::new();
    let requested = Asked::new(&[("x-forwarded-for", "203.0.113.9, 10.0.0.7")]);
    let peer = "10.1.2.3".parse().unwrap();
    assert_eq!(node.authenticator("").address(peer, &requested.headers), peer);
    let authenticator = node.authenticator("[server]\ntrusted_proxies = [\"10.0.0.0/8\"]");
    assert_eq!(authenticator.address(peer, &requested.headers).to_string(), "203.0.113.9");
}

/// The secret under which the vendor's client for Python signed the recorded request.
const MASTER: &str = "a master secret that is 32 bytes or longer";

fn signed() -> (Asked, String, Now) {
    let all: serde_json::Value = serde_json::from_str(include_str!("../signature/clients.json")).unwrap();
    let one = &all[0];
    let mut requested = Asked::new(&[]);
    for pair in one["headers"].as_array().unwrap() {
        let name: HeaderName = pair[0].as_str().unwrap().parse().unwrap();
        requested.headers.append(name, pair[1].as_str().unwrap().parse().unwrap());
    }
    requested.uri = one["target"].as_str().unwrap().parse().unwrap();
    let moment = UtcTime::from_civil(2026, 11, 16) + Duration::from_secs((2 * 60 + 36) * 60 + 1);
    (requested, one["body"].as_str().unwrap().to_owned(), at(moment))
}

#[test]
fn a_signature_waits_for_its_body_and_no_longer_than_it_must() {
    let node = Desk::new();
    let secret = node.file("master", MASTER.as_bytes());
    let authenticator = node.authenticator(&format!("[callers]\nmaster_secret = \"file:{secret}\""));
    let (requested, body, now) = signed();
    let Ok(AuthenticationDecision::SignaturePending(head)) = requested.before(&authenticator, now) else {
        panic!()
    };
    let hash = hash_access_key("SWAKABCDEFGHIJKLMNOP");
    let expected = CallerIdentity::Credential { hash, kind: CredentialKind::Signature, tier: None };
    assert_eq!(*head.claimed(), expected);
    assert_eq!(authenticator.verify_body(&head, requested.head(), body.as_bytes(), now), Ok(expected));
    let changed = authenticator.verify_body(&head, requested.head(), b"{}", now);
    assert_eq!(changed, Err(SignatureRefusal::Mismatch.into()));
    let other = node.authenticator("");
    let foreign = other.verify_body(&head, requested.head(), body.as_bytes(), now);
    assert_eq!(foreign, Err(SignatureRefusal::Mismatch.into()), "another master secret");
    let unsigned = Asked::new(&[]);
    assert!(authenticator.verify_body(&head, unsigned.head(), body.as_bytes(), now).is_err());
    // What can be checked without the body is refused without it.
    let late = at(now.utc + Duration::from_secs(301));
    assert_eq!(refusal(requested.before(&authenticator, late)), SignatureRefusal::ClockSkew.into());
    let (mut wrong, _, _) = signed();
    wrong.headers.insert("x-amz-content-sha256", HeaderValue::from_static("UNSIGNED-PAYLOAD"));
    assert_eq!(refusal(wrong.before(&authenticator, now)), SignatureRefusal::PayloadUnsigned.into());
}

#[test]
fn a_master_secret_that_can_be_guessed_is_refused() {
    let node = Desk::new();
    let short = node.file("master", &[b'm'; 31]);
    let error = node.try_build(&format!("[callers]\nmaster_secret = \"file:{short}\"")).err().unwrap();
    assert_eq!(error.to_string(), "callers.master_secret: must have at least 32 bytes");
}

#[test]
fn where_nothing_is_kept_the_master_secret_lives_as_long_as_the_gate() {
    let settings = {
        let mut settings = Desk::new().settings("");
        settings.store.kind = seawall_config::StoreKind::Memory;
        settings
    };
    let authenticator = Authenticator::new(&settings, TokioRuntime::new(), &Supervisor::default()).unwrap();
    let (hash, network, set_cookie) = new_guest(Asked::new(&[]).before(&authenticator, noon()));
    let again = Asked::new(&[("cookie", &cookie(&set_cookie))]);
    let renewed = authenticator.rebuild(&settings).unwrap();
    assert_eq!(identity(again.before(&renewed, noon())), CallerIdentity::Guest { hash, network });
    let other = Authenticator::new(&settings, TokioRuntime::new(), &Supervisor::default()).unwrap();
    assert!(matches!(again.before(&other, noon()), Ok(AuthenticationDecision::NewGuest { .. })));
    assert!(!std::path::Path::new(&settings.store.data_dir).exists());
}

#[test]
fn callers_are_known_by_the_keys_of_settings_and_of_this_run() {
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let more = format!(
        "[callers]\nguests = false\ntier_cache_ttl = \"3s\"\nlookup_timeout = \"7ms\"\n[callers.keys.a]\nhash = \"sha256:{hash}\"\ntier = \"standard\"\nroutes = [\"manga\"]"
    );
    let options = caller_options(&Desk::new().settings(&more), &[(Tier::Prime, "for now".to_owned())], None);
    assert_eq!((options.keys.len(), options.allows_guests), (2, false));
    assert_eq!(
        (options.cache_ttl, options.lookup_timeout),
        (Duration::from_secs(3), Duration::from_millis(7))
    );
    let for_now = &options.keys[&hash_api_key("for now")];
    assert_eq!((for_now.tier, &for_now.routes), (Tier::Prime, &None));
    // The hash is that of "test".
    let listed = &options.keys[&hash_api_key("test")];
    assert_eq!((listed.tier, listed.routes.as_deref()), (Tier::Standard, Some(["manga".into()].as_slice())));
}
