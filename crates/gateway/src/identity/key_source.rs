//! Fetches the public keys of issuers.
//!
//! One thread does it for all, so that a fetch does not end with the request that wanted it. It looks every second whose
//! list has grown old, and at once when a token names a key that is not on its issuer's list; the ring of each issuer says
//! when that is too often. What cannot be fetched or read changes nothing: the keys that are known stay.
//!
//! It will not follow a redirect, take longer than five seconds, or read more than a mebibyte.

use super::token::{Issuer, RefreshDecision, RefreshPermit};
use crate::runtime::TokioRuntime;
use bytes::Bytes;
use seawall_core::deadline::Deadline;
use seawall_core::handle::{Runtime as _, Timer as _, within};
use seawall_core::setting::SettingError;
use seawall_provider::http1::{Limits, Request};
use seawall_provider::way::TlsOptions;
use seawall_provider::{Client, ClientOptions, Surroundings};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// How long one fetch may take, and whoever waits for it.
const LONGEST_FETCH: Duration = Duration::from_secs(5);
const MOST_BYTES: u64 = 1 << 20;
/// How often the age of every list is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// Where the keys of one issuer are found.
pub(super) struct KeySource {
    pub(super) issuer: Arc<Issuer>,
    client: Client,
    path: String,
    /// Counts the fetches that have ended, well or not.
    ended: watch::Sender<u64>,
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("KeySource").field("issuer", &self.issuer.name()).finish_non_exhaustive()
    }
}

impl KeySource {
    /// The keys at this address. Nothing is fetched yet.
    pub(super) fn new(issuer: Arc<Issuer>, url: &str, runtime: TokioRuntime) -> Result<Self, SettingError> {
        let world = Surroundings::new(runtime.timer(), Arc::new(move || runtime.now().utc));
        let is_secure = url.starts_with("https:");
        let tls = is_secure.then(|| TlsOptions::default().check(Arc::clone(&world.date))).transpose()?;
        let (server, path) = split(url);
        let usual = ClientOptions::new(server);
        let limits = Limits {
            connect: LONGEST_FETCH,
            head: LONGEST_FETCH,
            gap: LONGEST_FETCH,
            body_bytes: MOST_BYTES,
            ..usual.limits
        };
        let client = Client::new(&ClientOptions { limits, tls, ..usual }, &world)?;
        Ok(Self { issuer, client, path: path.to_owned(), ended: watch::Sender::new(0) })
    }

    /// Fetches the list and hands it to its ring.
    async fn fetch(&self, permit: RefreshPermit, runtime: TokioRuntime) {
        let until = Deadline::after(runtime.monotonic(), LONGEST_FETCH);
        if let Some(Some(json)) = within(&runtime, until, self.read()).await {
            // A list that cannot be used leaves the one before it in use.
            let _ = permit.finish(&json, runtime.monotonic());
        } else {
            drop(permit);
        }
        self.ended.send_modify(|count| *count += 1);
    }

    async fn read(&self) -> Option<Bytes> {
        let headers = [("accept", "application/json")];
        let request = Request {
            method: "GET",
            path: &self.path,
            headers: &headers,
            body: Bytes::new(),
            resend_on_stale: true,
        };
        let response = self.client.send(request).await.ok()?;
        if response.status != 200 {
            return None;
        }
        response.body.collect().await.ok()
    }
}

/// A server and a path on it.
fn split(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |at| at + 3);
    match url.get(host..).and_then(|rest| rest.find('/')) {
        Some(at) => url.split_at(host + at),
        None => (url, "/"),
    }
}

type Ask = (Arc<KeySource>, RefreshPermit);

/// Fetches keys until it is dropped.
pub(super) struct KeyFetcher {
    runtime: TokioRuntime,
    sources: Arc<Mutex<Vec<Arc<KeySource>>>>,
    asks: Option<mpsc::UnboundedSender<Ask>>,
    thread: Option<JoinHandle<()>>,
}

impl KeyFetcher {
    /// Starts the thread.
    pub(super) fn start(runtime: TokioRuntime) -> std::io::Result<Self> {
        let (asks, asked) = mpsc::unbounded_channel();
        let sources = Arc::<Mutex<Vec<Arc<KeySource>>>>::default();
        let followed = Arc::clone(&sources);
        let thread = std::thread::Builder::new().name("keys".to_owned()).spawn(move || {
            // Without a runtime no keys come, and tokens are refused.
            if let Ok(tokio) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
                tokio.block_on(tend(&followed, asked, runtime));
            }
        })?;
        Ok(Self { runtime, sources, asks: Some(asks), thread: Some(thread) })
    }

    /// Looks after these from now on.
    pub(super) fn follow(&self, sources: Vec<Arc<KeySource>>) {
        *self.sources.lock().unwrap_or_else(PoisonError::into_inner) = sources;
    }

    /// Ends when the keys of an issuer have been fetched because of a key of this name, or when that does not help.
    pub(super) async fn refresh(&self, source: &Arc<KeySource>, name: Option<&str>) {
        let Some(ring) = source.issuer.ring() else { return };
        let mut ended = source.ended.subscribe();
        match ring.wants_refresh(name, self.runtime.monotonic()) {
            RefreshDecision::Known | RefreshDecision::TooSoon => return,
            RefreshDecision::UnderWay => {}
            RefreshDecision::Fetch(permit) => {
                let Some(asks) = &self.asks else { return };
                if asks.send((Arc::clone(source), permit)).is_err() {
                    return;
                }
            }
        }
        let until = Deadline::after(self.runtime.monotonic(), LONGEST_FETCH);
        let _ = within(&self.runtime, until, ended.changed()).await;
    }
}

impl Drop for KeyFetcher {
    fn drop(&mut self) {
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn tend(
    sources: &Mutex<Vec<Arc<KeySource>>>,
    mut asked: mpsc::UnboundedReceiver<Ask>,
    runtime: TokioRuntime,
) {
    loop {
        for source in sources.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let decision = source.issuer.ring().map(|ring| ring.wants_refresh(None, runtime.monotonic()));
            if let Some(RefreshDecision::Fetch(permit)) = decision {
                start(Arc::clone(source), permit, runtime);
            }
        }
        tokio::select! {
            biased;
            ask = asked.recv() => match ask {
                Some((source, permit)) => start(source, permit, runtime),
                None => return,
            },
            () = runtime.sleep_until(runtime.monotonic() + EVERY) => {}
        }
    }
}

/// At its own pace, so that one issuer that is slow holds up no other.
#[expect(
    clippy::disallowed_methods,
    reason = "it ends with its runtime, within seconds, and is waited for by count"
)]
fn start(source: Arc<KeySource>, permit: RefreshPermit, runtime: TokioRuntime) {
    tokio::spawn(async move { source.fetch(permit, runtime).await });
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn an_address_is_a_server_and_a_path() {
        for (url, server, path) in [
            ("https://a.example/keys/jwks.json", "https://a.example", "/keys/jwks.json"),
            ("http://127.0.0.1:80/", "http://127.0.0.1:80", "/"),
            ("http://127.0.0.1:80", "http://127.0.0.1:80", "/"),
        ] {
            assert_eq!(split(url), (server, path));
        }
    }
}
