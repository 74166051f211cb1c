//! Fetches the public keys of issuers (JWKS).
//!
//! One thread does it for all issuers, so that a fetch does not end with the request that triggered it. It checks every
//! second which list has become stale, and fetches at once when a token names a key that is not on its issuer's list.
//! The key ring of each issuer limits the rate. A failed or invalid fetch changes nothing: the known keys stay.
//!
//! It does not follow redirects, take longer than five seconds, or read more than one mebibyte.

use super::token::{RefreshDecision, RefreshPermit, TokenIssuer};
use crate::runtime::TokioRuntime;
use crate::supervisor::{ShutdownStage, StopSignal, Supervisor, ThreadOptions};
use bytes::Bytes;
use seawall_core::deadline::Deadline;
use seawall_core::runtime::{Runtime as _, Timer as _, timeout_at};
use seawall_core::setting::SettingError;
use seawall_provider::connect::ClientTlsOptions;
use seawall_provider::http1::{HttpLimits, HttpRequest};
use seawall_provider::{Client, ClientOptions, ClientRuntime};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Timeout of a fetch, and of requests that wait for it.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_BYTES: u64 = 1 << 20;
/// How often the age of every list is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The key-set URL of one issuer.
pub(super) struct KeySource {
    pub(super) issuer: Arc<TokenIssuer>,
    client: Client,
    path: String,
    /// Counts completed fetches, successful or not.
    completed: watch::Sender<u64>,
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("KeySource").field("issuer", &self.issuer.name()).finish_non_exhaustive()
    }
}

impl KeySource {
    /// A source at this URL. Nothing is fetched yet.
    pub(super) fn new(
        issuer: Arc<TokenIssuer>,
        url: &str,
        runtime: TokioRuntime,
    ) -> Result<Self, SettingError> {
        let client_runtime = ClientRuntime::new(runtime.timer(), Arc::new(move || runtime.now().utc));
        let is_secure = url.starts_with("https:");
        let tls = is_secure
            .then(|| ClientTlsOptions::default().check(Arc::clone(&client_runtime.wall_clock)))
            .transpose()?;
        let (server, path) = split_url(url);
        let defaults = ClientOptions::new(server);
        let limits = HttpLimits {
            connect_timeout: FETCH_TIMEOUT,
            head_timeout: FETCH_TIMEOUT,
            idle_timeout: FETCH_TIMEOUT,
            max_body_bytes: MAX_BYTES,
            ..defaults.limits
        };
        let client = Client::new(&ClientOptions { limits, tls, ..defaults }, &client_runtime)?;
        Ok(Self { issuer, client, path: path.to_owned(), completed: watch::Sender::new(0) })
    }

    /// Fetches the key set and passes it to the ring.
    async fn fetch(&self, permit: RefreshPermit, runtime: TokioRuntime) {
        let until = Deadline::after(runtime.monotonic(), FETCH_TIMEOUT);
        if let Some(Some(json)) = timeout_at(&runtime, until, self.read()).await {
            // An unusable list leaves the previous one in use.
            let _ = permit.finish(&json, runtime.monotonic());
        } else {
            drop(permit);
        }
        self.completed.send_modify(|count| *count += 1);
    }

    async fn read(&self) -> Option<Bytes> {
        let headers = [("accept", "application/json")];
        let request = HttpRequest {
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

/// Splits a URL into server and path.
fn split_url(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |at| at + 3);
    match url.get(host..).and_then(|rest| rest.find('/')) {
        Some(at) => url.split_at(host + at),
        None => (url, "/"),
    }
}

type FetchRequest = (Arc<KeySource>, RefreshPermit);

/// A handle to the thread that fetches keys. The thread ends when this is dropped, and with the gateway.
pub(super) struct KeyFetcher {
    runtime: TokioRuntime,
    sources: Arc<Mutex<Vec<Arc<KeySource>>>>,
    requests: mpsc::UnboundedSender<FetchRequest>,
}

impl KeyFetcher {
    pub(super) fn start(runtime: TokioRuntime, supervisor: &Supervisor) -> std::io::Result<Self> {
        let (requests, mut incoming) = mpsc::unbounded_channel();
        let sources = Arc::<Mutex<Vec<Arc<KeySource>>>>::default();
        let shared_sources = Arc::clone(&sources);
        let options = ThreadOptions::new("key-fetcher", ShutdownStage::KeyFetcher);
        supervisor.spawn(options, move |shutdown| {
            let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            tokio.block_on(run(&shared_sources, &mut incoming, shutdown, runtime));
            // A name lookup may take longer than anybody waits.
            tokio.shutdown_background();
            Ok(())
        })?;
        Ok(Self { runtime, sources, requests })
    }

    /// Refreshes these sources from now on.
    pub(super) fn set_sources(&self, sources: Vec<Arc<KeySource>>) {
        *self.sources.lock().unwrap_or_else(PoisonError::into_inner) = sources;
    }

    /// Completes when the issuer's keys have been fetched because of a key of this name, or when a fetch would not
    /// help.
    pub(super) async fn refresh(&self, source: &Arc<KeySource>, name: Option<&str>) {
        let Some(ring) = source.issuer.ring() else { return };
        let mut ended = source.completed.subscribe();
        match ring.request_refresh(name, self.runtime.monotonic()) {
            RefreshDecision::NotNeeded | RefreshDecision::TooSoon => return,
            RefreshDecision::InProgress => {}
            RefreshDecision::Fetch(permit) => {
                if self.requests.send((Arc::clone(source), permit)).is_err() {
                    return;
                }
            }
        }
        let until = Deadline::after(self.runtime.monotonic(), FETCH_TIMEOUT);
        let _ = timeout_at(&self.runtime, until, ended.changed()).await;
    }
}

async fn run(
    sources: &Mutex<Vec<Arc<KeySource>>>,
    incoming: &mut mpsc::UnboundedReceiver<FetchRequest>,
    shutdown: &mut StopSignal,
    runtime: TokioRuntime,
) {
    loop {
        for source in sources.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let decision = source.issuer.ring().map(|ring| ring.request_refresh(None, runtime.monotonic()));
            if let Some(RefreshDecision::Fetch(permit)) = decision {
                spawn_fetch(Arc::clone(source), permit, runtime);
            }
        }
        tokio::select! {
            biased;
            _ = shutdown.requested() => return,
            request = incoming.recv() => match request {
                Some((source, permit)) => spawn_fetch(source, permit, runtime),
                None => return,
            },
            () = runtime.sleep_until(runtime.monotonic() + CHECK_INTERVAL) => {}
        }
    }
}

/// Runs as a task of its own, so that a slow issuer does not delay the others.
#[expect(
    clippy::disallowed_methods,
    reason = "it ends with its runtime, within seconds, and its completion is counted"
)]
fn spawn_fetch(source: Arc<KeySource>, permit: RefreshPermit, runtime: TokioRuntime) {
    tokio::spawn(async move { source.fetch(permit, runtime).await });
}

#[cfg(test)]
mod tests {
    use super::split_url;

    #[test]
    fn an_address_is_a_server_and_a_path() {
        for (url, server, path) in [
            ("https://a.example/keys/jwks.json", "https://a.example", "/keys/jwks.json"),
            ("http://127.0.0.1:80/", "http://127.0.0.1:80", "/"),
            ("http://127.0.0.1:80", "http://127.0.0.1:80", "/"),
        ] {
            assert_eq!(split_url(url), (server, path));
        }
    }
}
