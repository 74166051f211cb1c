//! The server itself: a thread with a socket.

use super::signature::{self, SignedScope};
use super::state::{
    FakeCredentials, FakeFault, FakeNotice, FakeRegion, FakeSettings, FakeState, LoggedCall, ScriptedFault,
};
use super::{FakeResponse, Refusal, cbor, drs, query, response};
use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use seawall_core::runtime::Runtime;
use seawall_core::time::Now;
use serde_json::{Value, json};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// The connection is closed instead of a response.
#[derive(Debug, thiserror::Error)]
#[error("the fake closes the connection")]
struct Disconnected;

/// A running fake. It stops when it is dropped.
pub struct FakeCloud {
    handle: FakeCloudHandle,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

/// Reads and changes what the fake has.
#[derive(Clone)]
pub struct FakeCloudHandle {
    state: Arc<Mutex<FakeState>>,
    address: SocketAddr,
}

impl FakeCloud {
    /// Starts a fake on a free port of loopback, with this clock.
    pub fn start<R: Runtime>(runtime: R, settings: FakeSettings) -> io::Result<Self> {
        let executor = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let listener = executor.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(FakeState { settings, ..FakeState::default() }));
        let handle = FakeCloudHandle { state: Arc::clone(&state), address };
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("fake-cloud".to_owned());
        let thread = thread.spawn(move || executor.block_on(serve(listener, state, runtime, &stopped)))?;
        Ok(Self { handle, stop, thread: Some(thread) })
    }

    /// A handle that can be kept elsewhere.
    #[must_use]
    pub fn handle(&self) -> FakeCloudHandle {
        self.handle.clone()
    }
}

impl std::ops::Deref for FakeCloud {
    type Target = FakeCloudHandle;

    fn deref(&self) -> &FakeCloudHandle {
        &self.handle
    }
}

impl Drop for FakeCloud {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl FakeCloudHandle {
    /// The URL to set as the endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Accepts this key, as one of this account.
    pub fn add_key(&self, key_id: &str, secret: &str, account: &str) {
        let credentials =
            FakeCredentials { secret: secret.to_owned(), account: account.to_owned(), session_token: None };
        self.state().credentials.insert(key_id.to_owned(), credentials);
    }

    /// Lets this role be assumed, by callers that know the external id if there is one.
    pub fn add_role(&self, arn: &str, external_id: Option<&str>) {
        self.state().roles.insert(arn.to_owned(), external_id.map(str::to_owned));
    }

    /// Plays a fault for the next `times` calls of an operation of DRS, or of all.
    pub fn add_fault(&self, operation: Option<&'static str>, fault: FakeFault, times: u64) {
        self.state().faults.push(ScriptedFault { operation, fault, left: times });
    }

    /// Ends all faults.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Lets CloudWatch and SNS fail, or work again.
    pub fn set_sinks_down(&self, are_down: bool) {
        self.state().sinks_are_down = are_down;
    }

    /// Changes what an account has in a region.
    pub fn with_region<T>(
        &self,
        account: &str,
        region: &str,
        change: impl FnOnce(&mut FakeRegion) -> T,
    ) -> T {
        change(self.state().region(account, region))
    }

    /// Adds source servers with these ids.
    pub fn add_servers<'a>(&self, account: &str, region: &str, ids: impl IntoIterator<Item = &'a str>) {
        self.with_region(account, region, |region| {
            for id in ids {
                region.servers.push(json!({ "sourceServerID": id, "lastLaunchResult": "NOT_STARTED" }));
            }
        });
    }

    /// Adds `count` jobs of another client with this status.
    pub fn add_jobs(&self, account: &str, region: &str, status: &str, count: usize) {
        self.with_region(account, region, |region| {
            for _ in 0..count {
                let number = region.number();
                region.jobs.push(
                    json!({ "jobID": format!("drsjob-other-{number}"), "status": status, "type": "LAUNCH" }),
                );
                region.created.push(seawall_core::time::Timestamp::NEVER);
            }
        });
    }

    /// Every call so far that had a valid signature.
    #[must_use]
    pub fn calls(&self) -> Vec<LoggedCall> {
        self.state().calls.clone()
    }

    /// The calls of one DRS operation.
    #[must_use]
    pub fn calls_of(&self, operation: &str) -> Vec<LoggedCall> {
        self.calls().into_iter().filter(|call| call.operation == operation).collect()
    }

    /// The requests that were refused because of their signature.
    #[must_use]
    pub fn refused_signatures(&self) -> u64 {
        self.state().refused_signatures
    }

    /// The measurements that CloudWatch received.
    #[must_use]
    pub fn metrics(&self) -> Vec<Value> {
        self.state().metrics.clone()
    }

    /// The sizes of the batches in which they came.
    #[must_use]
    pub fn metric_batches(&self) -> Vec<usize> {
        self.state().metric_batches.clone()
    }

    /// The notices that SNS received.
    #[must_use]
    pub fn notices(&self) -> Vec<FakeNotice> {
        self.state().notices.clone()
    }

    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve<R: Runtime>(listener: TcpListener, state: Arc<Mutex<FakeState>>, runtime: R, stop: &Notify) {
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            biased;
            () = stop.notified() => return,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = stream else { continue };
        let (state, runtime) = (Arc::clone(&state), runtime.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (state, runtime) = (Arc::clone(&state), runtime.clone());
            async move {
                let (head, body) = request.into_parts();
                let Ok(body) = body.collect().await else { return Err(Disconnected) };
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                answer(&mut state, &head, &body.to_bytes(), runtime.now())
            }
        });
        connections.spawn(async move {
            // A connection ends because of the client or a fault; either way there is nothing to report.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn answer(state: &mut FakeState, head: &Parts, body: &[u8], now: Now) -> Result<FakeResponse, Disconnected> {
    let scope = match signature::verify(head, body, &state.credentials) {
        Ok(scope) => scope,
        Err(refusal) => {
            state.refused_signatures += 1;
            return Ok(drs::refuse(&refusal));
        }
    };
    let operation = match scope.service.as_str() {
        "sts" | "sns" => query::operation(body),
        _ => head.uri.path().rsplit('/').next().unwrap_or_default().to_owned(),
    };
    let answered = match scope.service.as_str() {
        "drs" => answer_drs(state, &scope, &operation, body, now),
        "sts" | "sns" => {
            Ok(query::answer(state, &scope, body).unwrap_or_else(|refusal| query::refuse(&refusal)))
        }
        "monitoring" => {
            Ok(cbor::put_metric_data(state, body).unwrap_or_else(|refusal| drs::refuse(&refusal)))
        }
        _ => Ok(drs::refuse(&Refusal::new(404, "UnknownOperationException", "the fake has no such service"))),
    };
    let sdk_request = head.headers.get("amz-sdk-request").and_then(|value| value.to_str().ok());
    state.calls.push(LoggedCall {
        at: now.monotonic,
        service: scope.service,
        account: scope.account,
        region: scope.region,
        operation,
        status: answered.as_ref().map_or(0, |response| response.status().as_u16()),
        sdk_request: sdk_request.unwrap_or_default().to_owned(),
    });
    answered
}

fn answer_drs(
    state: &mut FakeState,
    scope: &SignedScope,
    operation: &str,
    body: &[u8],
    now: Now,
) -> Result<FakeResponse, Disconnected> {
    if let Err(refusal) = drs::check_rate(state, scope, now) {
        return Ok(drs::refuse(&refusal));
    }
    let fault = state.take_fault(operation);
    let mut execute =
        || drs::execute(state, scope, operation, body, now).unwrap_or_else(|refusal| drs::refuse(&refusal));
    Ok(match fault {
        None => execute(),
        Some(FakeFault::Refuse { status, code, retry_after }) => {
            let message = "a fault that was asked for";
            drs::refuse(&Refusal { retry_after, ..Refusal::new(status, code, message) })
        }
        Some(FakeFault::ExecuteThenRefuse { status, code }) => {
            execute();
            drs::refuse(&Refusal::new(status, code, "a fault that was asked for"))
        }
        Some(FakeFault::ExecuteThenDisconnect) => {
            execute();
            return Err(Disconnected);
        }
        Some(FakeFault::ExecuteThenGarbage) => {
            execute();
            response(200, "application/json", "<html>")
        }
        Some(FakeFault::Disconnect) => return Err(Disconnected),
    })
}
