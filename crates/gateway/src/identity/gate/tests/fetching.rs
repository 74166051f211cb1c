//! Fetching of issuers' keys, from real servers on loopback.

use super::{Asked, Desk};
use crate::identity::Refusal;
use crate::identity::gate::{Gate, Shown};
use crate::identity::token::tests::signer::{
    AUDIENCE, ISSUER, KEYS, claims, entries, key_set, raw_token, rsa_entry, token,
};
use crate::identity::token::{Algorithm, TokenRefusal};
use seawall_core::handle::Timer as _;
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
    asked: Arc<AtomicUsize>,
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
        let (answer, asked) = (Arc::new(Mutex::new(answer)), Arc::new(AtomicUsize::new(0)));
        let stop = Arc::new(AtomicBool::new(false));
        let (said, count, stopped) = (Arc::clone(&answer), Arc::clone(&asked), Arc::clone(&stop));
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
        Self { address, answer, asked, stop, thread: Some(thread.unwrap()) }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn gate(&self, desk: &Desk) -> Gate {
        desk.gate(&format!(
            "[callers.issuers.shop]\nissuer = {ISSUER:?}\naudience = [{AUDIENCE:?}]\n\
             algorithms = [\"RS256\", \"ES256\"]\nkeys = \"http://{}/keys/jwks.json\"",
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
fn fresh(algorithm: Algorithm) -> Asked {
    let mut claims = claims();
    claims["exp"] = json!(4_000_000_000_u64);
    Asked::new(&[("authorization", &format!("Bearer {}", token(algorithm, &claims)))])
}

fn made_up(name: &str) -> Asked {
    let header = json!({ "alg": "RS256", "kid": name }).to_string();
    let token = raw_token(Algorithm::Rs256, &header, &claims().to_string());
    Asked::new(&[("authorization", &format!("Bearer {token}"))])
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(work)
}

fn shows(gate: &Gate, asked: &Asked) -> Result<bool, Refusal> {
    run(gate.show(asked.head())).map(|shown| matches!(shown, Shown::Proven(_)))
}

#[test]
fn keys_are_fetched_when_a_token_needs_them_and_once_for_all() {
    let (desk, server) = (Desk::new(), KeyServer::start(ok(&key_set(&entries()))));
    let gate = server.gate(&desk);
    let asked = fresh(Algorithm::Rs256);
    let at_once = gate.inspect(asked.head(), || seawall_core::handle::Runtime::now(&gate.runtime));
    assert!(matches!(at_once, Ok(Shown::NeedsKeys(_))), "{at_once:?}");
    let all = run(async {
        let other = fresh(Algorithm::Es256);
        let (one, two) = tokio::join!(gate.show(asked.head()), gate.show(other.head()));
        [one, two].map(|shown| matches!(shown, Ok(Shown::Proven(_))))
    });
    assert_eq!((all, server.asked()), ([true, true], 1));
    // Invented key names cause no fetch for ten seconds.
    for name in ["one", "two"] {
        assert_eq!(shows(&gate, &made_up(name)), Err(TokenRefusal::KeyUnknown.into()));
    }
    assert_eq!(server.asked(), 1);
    // A new gate of the same settings keeps the same keys.
    let renewed = gate.renewed(&desk.settings("")).unwrap();
    assert!(renewed.made.is_empty());
    assert_eq!(shows(&gate, &asked), Ok(true));
    assert_eq!(server.asked(), 1);
}

#[test]
fn a_gate_in_use_fetches_before_anybody_asks() {
    let (desk, server) = (Desk::new(), KeyServer::start(ok(&key_set(&[rsa_entry("rsa", &KEYS.rsa)]))));
    let gate = server.gate(&desk);
    gate.take_effect();
    let runtime = gate.runtime;
    run(async {
        for _ in 0..500 {
            let now = seawall_core::handle::Runtime::now(&runtime);
            if let Ok(Shown::Proven(_)) = gate.inspect(fresh(Algorithm::Rs256).head(), || now) {
                return;
            }
            runtime.sleep_until(runtime.monotonic() + Duration::from_millis(10)).await;
        }
        panic!("no keys came");
    });
    assert_eq!(server.asked(), 1);
}

#[test]
fn what_is_no_key_set_is_refused_and_asked_for_once() {
    let large = ok(&vec![b' '; (1 << 20) + 1]);
    let elsewhere = b"HTTP/1.1 302 Found\r\nlocation: /keys/jwks.json\r\ncontent-length: 0\r\n\r\n".to_vec();
    let error = b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n".to_vec();
    for answer in [large, elsewhere, error, ok(b"{}"), Vec::new()] {
        let (desk, server) = (Desk::new(), KeyServer::start(answer));
        let gate = server.gate(&desk);
        for _ in 0..2 {
            assert_eq!(shows(&gate, &fresh(Algorithm::Rs256)), Err(TokenRefusal::KeyUnknown.into()));
        }
        *server.answer.lock().unwrap() = ok(&key_set(&entries()));
        assert_eq!(shows(&gate, &fresh(Algorithm::Rs256)), Err(TokenRefusal::KeyUnknown.into()), "too soon");
        assert_eq!(server.asked(), 1);
    }
}
