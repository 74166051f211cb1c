//! Fetching of issuers' keys, from real servers on loopback.

use super::{Asked, Desk};
use crate::identity::AuthenticationRefusal;
use crate::identity::authenticator::{AuthenticationDecision, Authenticator};
use crate::identity::token::tests::signer::{
    AUDIENCE, ISSUER, KEYS, claims, entries, key_set, raw_token, rsa_entry, token,
};
use crate::identity::token::{TokenAlgorithm, TokenRefusal};
use seawall_core::runtime::Timer as _;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A server of key sets, which ends with the test.
struct KeyServer {
    address: String,
    answer: Arc<Mutex<Vec<u8>>>,
    requested: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn ok(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

impl KeyServer {
    fn start(answer: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (answer, requested) = (Arc::new(Mutex::new(answer)), Arc::new(AtomicUsize::new(0)));
        let stop = Arc::new(AtomicBool::new(false));
        let (said, count, stopped) = (Arc::clone(&answer), Arc::clone(&requested), Arc::clone(&stop));
        let thread = std::thread::Builder::new().spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let mut head = Vec::new();
                let mut buffer = [0; 1_024];
                while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut buffer) {
                        Ok(0) | Err(_) => break,
                        Ok(count) => head.extend_from_slice(&buffer[..count]),
                    }
                }
                if head.starts_with(b"GET /keys/jwks.json HTTP/1.1\r\n") {
                    count.fetch_add(1, Ordering::SeqCst);
                    let _ = stream.write_all(&said.lock().unwrap());
                }
            }
        });
        Self { address, answer, requested, stop, thread: Some(thread.unwrap()) }
    }

    fn requested(&self) -> usize {
        self.requested.load(Ordering::SeqCst)
    }

    fn authenticator(&self, node: &Desk) -> Authenticator {
        node.authenticator(&format!(
            "[callers.issuers.shop]\nissuer = {ISSUER:?}\naudience = [{AUDIENCE:?}]\n\
             algorithms = [\"RS256\", \"ES256\"]\njwks = \"http://{}/keys/jwks.json\"",
            self.address
        ))
    }
}

impl Drop for KeyServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = std::net::TcpStream::connect(&self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A token that is valid by the real clock.
fn fresh(algorithm: TokenAlgorithm) -> Asked {
    let mut claims = claims();
    claims["exp"] = json!(4_000_000_000_u64);
    Asked::new(&[("authorization", &format!("Bearer {}", token(algorithm, &claims)))])
}

fn made_up(name: &str) -> Asked {
    let header = json!({ "alg": "RS256", "kid": name }).to_string();
    let token = raw_token(TokenAlgorithm::Rs256, &header, &claims().to_string());
    Asked::new(&[("authorization", &format!("Bearer {token}"))])
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(work)
}

fn shows(authenticator: &Authenticator, requested: &Asked) -> Result<bool, AuthenticationRefusal> {
    run(authenticator.authenticate(requested.head()))
        .map(|decision| matches!(decision, AuthenticationDecision::Identified(_)))
}

#[test]
fn keys_are_fetched_when_a_token_needs_them_and_once_for_all() {
    let (node, server) = (Desk::new(), KeyServer::start(ok(&key_set(&entries()))));
    let authenticator = server.authenticator(&node);
    let requested = fresh(TokenAlgorithm::Rs256);
    let at_once = authenticator
        .try_authenticate(requested.head(), || seawall_core::runtime::Runtime::now(&authenticator.runtime));
    assert!(matches!(at_once, Ok(AuthenticationDecision::KeysNeeded(_))), "{at_once:?}");
    let all = run(async {
        let other = fresh(TokenAlgorithm::Es256);
        let (one, two) = tokio::join!(
            authenticator.authenticate(requested.head()),
            authenticator.authenticate(other.head())
        );
        [one, two].map(|decision| matches!(decision, Ok(AuthenticationDecision::Identified(_))))
    });
    assert_eq!((all, server.requested()), ([true, true], 1));
    // Invented key names cause no fetch for ten seconds.
    for name in ["one", "two"] {
        assert_eq!(shows(&authenticator, &made_up(name)), Err(TokenRefusal::KeyUnknown.into()));
    }
    assert_eq!(server.requested(), 1);
    // A new authenticator of the same settings keeps the same keys.
    let renewed = authenticator.rebuild(&node.settings("")).unwrap();
    assert!(renewed.configured.is_empty());
    assert_eq!(shows(&authenticator, &requested), Ok(true));
    assert_eq!(server.requested(), 1);
}

#[test]
fn a_gate_in_use_fetches_before_anybody_asks() {
    let (node, server) = (Desk::new(), KeyServer::start(ok(&key_set(&[rsa_entry("rsa", &KEYS.rsa)]))));
    let authenticator = server.authenticator(&node);
    authenticator.activate();
    let runtime = authenticator.runtime;
    run(async {
        for _ in 0..500 {
            let now = seawall_core::runtime::Runtime::now(&runtime);
            if let Ok(AuthenticationDecision::Identified(_)) =
                authenticator.try_authenticate(fresh(TokenAlgorithm::Rs256).head(), || now)
            {
                return;
            }
            runtime.sleep_until(runtime.monotonic() + Duration::from_millis(10)).await;
        }
        panic!("no keys came");
    });
    assert_eq!(server.requested(), 1);
}

#[test]
fn what_is_no_key_set_is_refused_and_asked_for_once() {
    let large = ok(&vec![b' '; (1 << 20) + 1]);
    let elsewhere = b"HTTP/1.1 302 Found\r\nlocation: /keys/jwks.json\r\ncontent-length: 0\r\n\r\n".to_vec();
    let error = b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n".to_vec();
    for answer in [large, elsewhere, error, ok(b"{}"), Vec::new()] {
        let (node, server) = (Desk::new(), KeyServer::start(answer));
        let authenticator = server.authenticator(&node);
        for _ in 0..2 {
            assert_eq!(
                shows(&authenticator, &fresh(TokenAlgorithm::Rs256)),
                Err(TokenRefusal::KeyUnknown.into())
            );
        }
        *server.answer.lock().unwrap() = ok(&key_set(&entries()));
        assert_eq!(
            shows(&authenticator, &fresh(TokenAlgorithm::Rs256)),
            Err(TokenRefusal::KeyUnknown.into()),
            "too soon"
        );
        assert_eq!(server.requested(), 1);
    }
}
