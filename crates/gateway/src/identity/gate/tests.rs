//! Authentication of requests, and gates of changed settings.

mod cost;
mod fetching;
mod threads;
mod tokens;

use super::{Gate, GateError, Shown, caller_options};
use crate::identity::signature::{SignatureRefusal, credential_of_access_key};
use crate::identity::{KeyRefusal, NobodyRefusal, ProofError, Refusal, RequestHead, credential_of_key};
use crate::runtime::TokioRuntime;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};
use seawall_config::{Input, Settings, load};
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_core::vocabulary::Tier;
use seawall_pipeline::callers::{ProofKind, Proven};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A state directory for one test, removed at its end.
struct Desk {
    folder: PathBuf,
}

impl Desk {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("seawall-gate-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self { folder }
    }

    fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_string_lossy().into_owned()
    }

    /// Settings whose state is in the directory.
    fn settings(&self, more: &str) -> Settings {
        let text = format!("profile = \"demo\"\n{more}\n[store]\nfolder = {:?}", self.folder.join("state"));
        let input = Input::of_file("test.toml", &text, UtcTime::from_civil(2026, 11, 16));
        load(&input).unwrap_or_else(|problems| panic!("{}", problems.render(false))).settings
    }

    fn try_gate(&self, more: &str) -> Result<Gate, GateError> {
        Gate::new(&self.settings(more), TokioRuntime::new())
    }

    fn gate(&self, more: &str) -> Gate {
        self.try_gate(more).unwrap()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
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

    fn head(&self) -> RequestHead<'_> {
        RequestHead { method: &self.method, uri: &self.uri, headers: &self.headers, address: self.address }
    }

    fn before(&self, gate: &Gate, now: Now) -> Result<Shown, Refusal> {
        gate.inspect(self.head(), || now)
    }
}

fn proven(shown: Result<Shown, Refusal>) -> Proven {
    match shown.unwrap() {
        Shown::Proven(proven) => proven,
        other => panic!("{other:?}"),
    }
}

fn new_guest(shown: Result<Shown, Refusal>) -> ([u8; 32], u64, String) {
    match shown.unwrap() {
        Shown::NewGuest { proven: Proven::Guest { hash, network }, set_cookie } => {
            (hash, network, set_cookie)
        }
        other => panic!("{other:?}"),
    }
}

fn refusal(shown: Result<Shown, Refusal>) -> Refusal {
    shown.map(|shown| format!("{shown:?}")).unwrap_err()
}

/// The cookie that a browser sends back.
fn cookie(set_cookie: &str) -> String {
    set_cookie.split(';').next().unwrap().to_owned()
}

#[test]
fn a_key_is_its_hash_and_a_wrong_one_is_no_guest() {
    let desk = Desk::new();
    let gate = desk.gate("");
    let key = "sk-0123456789abcdef";
    let expected = Proven::Credential { hash: credential_of_key(key), proof: ProofKind::Key, tier: None };
    let bearer = format!("Bearer {key}");
    for headers in [[("x-api-key", key)], [("authorization", bearer.as_str())]] {
        assert_eq!(proven(Asked::new(&headers).before(&gate, noon())), expected);
    }
    let damaged = Asked::new(&[("x-api-key", "sw_something")]).before(&gate, noon());
    assert_eq!(refusal(damaged), KeyRefusal::Shape.into());
    let both = Asked::new(&[("x-api-key", key), ("authorization", &bearer)]).before(&gate, noon());
    assert_eq!(proven(both), expected);
    let other =
        Asked::new(&[("x-api-key", key), ("authorization", "Bearer sk-another")]).before(&gate, noon());
    assert_eq!(refusal(other), ProofError::TwoKinds.into());
}

#[test]
fn a_guest_is_known_by_its_cookie_until_it_shows_another() {
    let desk = Desk::new();
    let gate = desk.gate("");
    let (hash, network, set_cookie) = new_guest(Asked::new(&[]).before(&gate, noon()));
    assert!(set_cookie.starts_with("seawall_guest=") && !set_cookie.contains("Secure"), "{set_cookie}");
    let again = Asked::new(&[("cookie", &cookie(&set_cookie))]);
    assert_eq!(proven(again.before(&gate, noon())), Proven::Guest { hash, network });
    // The same after a restart, and under other settings: the secret is in the directory.
    drop(gate);
    let gate = desk.gate("[callers]\nguests = true\ntier_cache = \"1s\"");
    assert_eq!(proven(again.before(&gate, noon())), Proven::Guest { hash, network });
    let renewed = gate.renewed(&desk.settings("")).unwrap();
    assert_eq!(proven(again.before(&renewed, noon())), Proven::Guest { hash, network });
    let wrong = Asked::new(&[("cookie", &format!("{}x", cookie(&set_cookie)))]);
    let (other, same_network, _) = new_guest(wrong.before(&gate, noon()));
    assert!(other != hash && same_network == network);
    let (third, ..) = new_guest(Asked::new(&[]).before(&gate, noon()));
    assert!(third != other, "no two are alike");
    let over = at(noon().utc + Duration::from_secs(31 * 86_400));
    assert_ne!(new_guest(again.before(&gate, over)).0, hash);
}

#[test]
fn a_cookie_of_another_secret_is_another_guests() {
    let desk = Desk::new();
    let own = desk.file("own", &[b'k'; 32]);
    let gate = desk.gate(&format!("[callers]\nguest_secret = \"file:{own}\""));
    let (_, _, set_cookie) = new_guest(Asked::new(&[]).before(&gate, noon()));
    let again = Asked::new(&[("cookie", &cookie(&set_cookie))]);
    assert!(matches!(again.before(&gate, noon()), Ok(Shown::Proven(_))));
    assert!(matches!(again.before(&desk.gate(""), noon()), Ok(Shown::NewGuest { .. })));
    let short = desk.file("short", &[b'k'; 31]);
    let error = desk.try_gate(&format!("[callers]\nguest_secret = \"file:{short}\"")).err().unwrap();
    assert_eq!(error.to_string(), "callers.guest_secret: guest secret: must have at least 32 bytes");
    let missing = desk.try_gate("[callers]\nguest_secret = \"file:no/such\"").err().unwrap();
    assert_eq!(missing.to_string(), "callers.guest_secret: file:no/such: there is no such file");
}

#[test]
fn where_no_guests_may_ask_somebody_without_proof_is_told_what_to_send() {
    let desk = Desk::new();
    let guests = desk.gate("");
    let (_, _, set_cookie) = new_guest(Asked::new(&[]).before(&guests, noon()));
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let gate = desk.gate(&format!(
        "[callers]\nguests = false\n[callers.keys.a]\nhash = \"sha256:{hash}\"\ntier = \"prime\""
    ));
    for headers in [&[][..], &[("cookie", cookie(&set_cookie).as_str())]] {
        let refused = refusal(Asked::new(headers).before(&gate, noon()));
        assert_eq!(refused, NobodyRefusal::NoGuests.into());
        assert!(refused.to_string().contains("x-api-key"));
        assert_eq!(refused.logged(), "credentials_missing");
    }
}

#[test]
fn guests_are_told_apart_by_network() {
    let desk = Desk::new();
    let gate = desk.gate("");
    let network =
        |gate: &Gate, address: &str, now| new_guest(Asked::new(&[]).from(address).before(gate, now)).1;
    let home = network(&gate, "2001:db8::1", noon());
    assert_eq!(network(&gate, "2001:db8::ffff:0:0:2", noon()), home, "one subscriber has 64 bits");
    assert_ne!(network(&gate, "2001:db8:0:1::1", noon()), home);
    assert_ne!(network(&gate, "192.0.2.1", noon()), network(&gate, "192.0.2.2", noon()));
    let wide = desk.gate("[limits.guests_by_address]\nipv6_prefix = 48");
    assert_eq!(network(&wide, "2001:db8:0:1::1", noon()), network(&wide, "2001:db8::1", noon()));
    assert_ne!(network(&wide, "2001:db8:1::1", noon()), network(&wide, "2001:db8::1", noon()));
    // By month, so that stored numbers do not identify an address for longer.
    let next = at(UtcTime::from_civil(2026, 12, 1));
    let before = at(UtcTime::from_nanos(next.utc.as_nanos() - 1));
    let first = network(&gate, "192.0.2.1", before);
    assert_ne!(network(&gate, "192.0.2.1", next), first);
    assert_eq!(network(&gate, "192.0.2.1", before), first);
}

#[test]
fn only_a_trusted_proxy_is_believed_about_addresses() {
    let desk = Desk::new();
    let asked = Asked::new(&[("x-forwarded-for", "203.0.113.9, 10.0.0.7")]);
    let peer = "10.1.2.3".parse().unwrap();
    assert_eq!(desk.gate("").address(peer, &asked.headers), peer);
    let gate = desk.gate("[server]\ntrusted_proxies = [\"10.0.0.0/8\"]");
    assert_eq!(gate.address(peer, &asked.headers).to_string(), "203.0.113.9");
}

/// The secret under which the vendor's client for Python signed the recorded request.
const MASTER: &str = "a master secret that is 32 bytes or longer";

fn signed() -> (Asked, String, Now) {
    let all: serde_json::Value = serde_json::from_str(include_str!("../signature/clients.json")).unwrap();
    let one = &all[0];
    let mut asked = Asked::new(&[]);
    for pair in one["headers"].as_array().unwrap() {
        let name: HeaderName = pair[0].as_str().unwrap().parse().unwrap();
        asked.headers.append(name, pair[1].as_str().unwrap().parse().unwrap());
    }
    asked.uri = one["target"].as_str().unwrap().parse().unwrap();
    let moment = UtcTime::from_civil(2026, 11, 16) + Duration::from_secs((2 * 60 + 36) * 60 + 1);
    (asked, one["body"].as_str().unwrap().to_owned(), at(moment))
}

#[test]
fn a_signature_waits_for_its_body_and_no_longer_than_it_must() {
    let desk = Desk::new();
    let secret = desk.file("master", MASTER.as_bytes());
    let gate = desk.gate(&format!("[callers]\nmaster_secret = \"file:{secret}\""));
    let (asked, body, now) = signed();
    let Ok(Shown::Signed(head)) = asked.before(&gate, now) else { panic!() };
    let hash = credential_of_access_key("SWAKABCDEFGHIJKLMNOP");
    let expected = Proven::Credential { hash, proof: ProofKind::Signature, tier: None };
    assert_eq!(*head.claimed(), expected);
    assert_eq!(gate.verify_body(&head, asked.head(), body.as_bytes(), now), Ok(expected));
    let changed = gate.verify_body(&head, asked.head(), b"{}", now);
    assert_eq!(changed, Err(SignatureRefusal::Wrong.into()));
    let other = desk.gate("");
    let foreign = other.verify_body(&head, asked.head(), body.as_bytes(), now);
    assert_eq!(foreign, Err(SignatureRefusal::Wrong.into()), "another master secret");
    let unsigned = Asked::new(&[]);
    assert!(gate.verify_body(&head, unsigned.head(), body.as_bytes(), now).is_err());
    // What can be checked without the body is refused without it.
    let late = at(now.utc + Duration::from_secs(301));
    assert_eq!(refusal(asked.before(&gate, late)), SignatureRefusal::DateFar.into());
    let (mut wrong, _, _) = signed();
    wrong.headers.insert("x-amz-content-sha256", HeaderValue::from_static("UNSIGNED-PAYLOAD"));
    assert_eq!(refusal(wrong.before(&gate, now)), SignatureRefusal::PayloadUnsigned.into());
}

#[test]
fn a_master_secret_that_can_be_guessed_is_refused() {
    let desk = Desk::new();
    let short = desk.file("master", &[b'm'; 31]);
    let error = desk.try_gate(&format!("[callers]\nmaster_secret = \"file:{short}\"")).err().unwrap();
    assert_eq!(error.to_string(), "callers.master_secret: it must have at least 32 bytes");
}

#[test]
fn where_nothing_is_kept_the_master_secret_lives_as_long_as_the_gate() {
    let settings = {
        let mut settings = Desk::new().settings("");
        settings.store.kind = seawall_config::StoreKind::Memory;
        settings
    };
    let gate = Gate::new(&settings, TokioRuntime::new()).unwrap();
    let (hash, network, set_cookie) = new_guest(Asked::new(&[]).before(&gate, noon()));
    let again = Asked::new(&[("cookie", &cookie(&set_cookie))]);
    let renewed = gate.renewed(&settings).unwrap();
    assert_eq!(proven(again.before(&renewed, noon())), Proven::Guest { hash, network });
    let other = Gate::new(&settings, TokioRuntime::new()).unwrap();
    assert!(matches!(again.before(&other, noon()), Ok(Shown::NewGuest { .. })));
    assert!(!std::path::Path::new(&settings.store.folder).exists());
}

#[test]
fn callers_are_known_by_the_keys_of_settings_and_of_this_run() {
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let more = format!(
        "[callers]\nguests = false\ntier_cache = \"3s\"\ndirectory_time = \"7ms\"\n[callers.keys.a]\nhash = \"sha256:{hash}\"\ntier = \"standard\"\nroutes = [\"manga\"]"
    );
    let options = caller_options(&Desk::new().settings(&more), &[(Tier::Prime, "for now".to_owned())], None);
    assert_eq!((options.keys.len(), options.guests), (2, false));
    assert_eq!(
        (options.believe_for, options.find_within),
        (Duration::from_secs(3), Duration::from_millis(7))
    );
    let for_now = &options.keys[&credential_of_key("for now")];
    assert_eq!((for_now.tier, &for_now.routes), (Tier::Prime, &None));
    // The hash is that of "test".
    let listed = &options.keys[&credential_of_key("test")];
    assert_eq!((listed.tier, listed.routes.as_deref()), (Tier::Standard, Some(["manga".into()].as_slice())));
}
