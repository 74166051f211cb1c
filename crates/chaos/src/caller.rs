//! One caller with one request, in any dialect.
//!
//! A caller that cannot connect to one node tries the other, as a load balancer would. A request that was sent is never
//! sent again. Some callers disconnect in the middle, on purpose.

use crate::traffic::ChaosRequest;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{HeaderMap, Request};
use seawall_core::deadline::Deadline;
use seawall_core::runtime::{Timer as _, timeout_at};
use seawall_core::time::Timestamp;
use seawall_gateway::TokioRuntime;
use seawall_testkit::client::has_retry_advice;
use seawall_testkit::client::{drive, open};
use seawall_testkit::validator::{ClientDialect, ClientOutcome, ResponseValidator, TransportEnd};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;

/// Timeout for a whole answer, and for the beginning of a stream.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(35);
/// Timeout for gaps in a stream.
pub(crate) const STREAM_IDLE_TIMEOUT: Duration = Duration::from_secs(12);
/// How long a caller tries to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two attempts to connect.
const CONNECT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// The result of a request.
#[derive(Clone, Debug)]
pub(crate) struct ResponseObservation {
    /// The node that received it.
    pub(crate) node: usize,
    /// When it was sent, when the response head arrived, and when it ended.
    pub(crate) sent_at: Timestamp,
    pub(crate) head_at: Option<Timestamp>,
    pub(crate) ended_at: Timestamp,
    pub(crate) end: RequestEnd,
    /// Whether the answer ended as its dialect requires, whatever usage it reports.
    pub(crate) is_ended: bool,
    pub(crate) status: Option<u16>,
    /// The message of a rejection, for diagnosis.
    pub(crate) message: String,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestEnd {
    /// Judged by the received bytes.
    Received(ClientOutcome),
    /// The caller disconnected.
    Disconnected,
    /// No node accepted a connection.
    NoConnection,
}

/// Sends the request and reads the response to its end.
pub(crate) async fn send(
    scheduled: &ChaosRequest,
    nodes: &[SocketAddr],
    runtime: TokioRuntime,
) -> ResponseObservation {
    let Some((stream, node, sent_at)) = connect(scheduled.node, nodes, runtime).await else {
        let now = runtime.monotonic();
        let (node, end) = (scheduled.node, RequestEnd::NoConnection);
        return ResponseObservation {
            node,
            sent_at: now,
            head_at: None,
            ended_at: now,
            end,
            is_ended: false,
            status: None,
            message: String::new(),
        };
    };
    let mut pending = PendingRequest {
        runtime,
        scheduled,
        validator: ResponseValidator::new(scheduled.dialect, scheduled.is_streamed),
        head_at: None,
        status: None,
        message: Vec::new(),
    };
    let end = match open(stream).await {
        Ok((sender, connection)) => drive(connection, pending.read(sender, nodes[node])).await,
        Err(_) => Some(TransportEnd::Broken),
    };
    ResponseObservation {
        node,
        sent_at,
        head_at: pending.head_at,
        ended_at: runtime.monotonic(),
        end: end.map_or(RequestEnd::Disconnected, |ending| {
            RequestEnd::Received(pending.validator.outcome(ending))
        }),
        is_ended: pending.validator.is_ended(),
        status: pending.status,
        message: String::from_utf8_lossy(&pending.message).into_owned(),
    }
}

/// Connects to the first node that accepts, and returns when the attempt began.
async fn connect(
    first: usize,
    nodes: &[SocketAddr],
    runtime: TokioRuntime,
) -> Option<(TcpStream, usize, Timestamp)> {
    let give_up = Deadline::after(runtime.monotonic(), CONNECT_TIMEOUT);
    loop {
        for step in 0..nodes.len() {
            let node = (first + step) % nodes.len();
            let sent_at = runtime.monotonic();
            if let Ok(stream) = timeout_at(&runtime, give_up, TcpStream::connect(nodes[node])).await? {
                return Some((stream, node, sent_at));
            }
        }
        let next = runtime.monotonic() + CONNECT_RETRY_DELAY;
        if next >= give_up.moment() {
            return None;
        }
        runtime.sleep_until(next).await;
    }
}

struct PendingRequest<'a> {
    runtime: TokioRuntime,
    scheduled: &'a ChaosRequest,
    validator: ResponseValidator,
    head_at: Option<Timestamp>,
    status: Option<u16>,
    message: Vec<u8>,
}

impl PendingRequest<'_> {
    /// How the response ended, or `None` if the caller disconnected.
    async fn read(&mut self, mut sender: SendRequest<Full<Bytes>>, node: SocketAddr) -> Option<TransportEnd> {
        let (runtime, scheduled) = (self.runtime, self.scheduled);
        let after = |wait| Deadline::after(runtime.monotonic(), wait);
        let (path, body) = scheduled.path_and_body();
        let key = scheduled.caller.key();
        let request = Request::post(path).header(HOST, node.to_string());
        let request = match scheduled.dialect {
            ClientDialect::Completions => request.header(AUTHORIZATION, format!("Bearer {key}")),
            ClientDialect::Messages | ClientDialect::Converse | ClientDialect::Chat => {
                request.header("x-api-key", key)
            }
        };
        let Ok(request) = request.header(CONTENT_TYPE, "application/json").body(Full::from(body)) else {
            return Some(TransportEnd::Broken);
        };
        // A few callers disconnect before the response begins.
        let timeout =
            if scheduled.disconnects_after == Some(0) { CONNECT_RETRY_DELAY } else { RESPONSE_TIMEOUT };
        let response = match timeout_at(&runtime, after(timeout), sender.send_request(request)).await {
            None if scheduled.disconnects_after == Some(0) => return None,
            None => return Some(TransportEnd::TimedOut),
            Some(Err(_)) => return Some(TransportEnd::Broken),
            Some(Ok(response)) => response,
        };
        let status = response.status().as_u16();
        (self.head_at, self.status) = (Some(runtime.monotonic()), Some(status));
        self.validator.head(
            status,
            has_retry_advice(response.headers()) && has_error_name(scheduled.dialect, response.headers()),
        );
        let is_stream = scheduled.is_streamed && status == 200;
        let timeout = if is_stream { STREAM_IDLE_TIMEOUT } else { RESPONSE_TIMEOUT };
        let mut body = response.into_body();
        let mut read = 0;
        loop {
            match timeout_at(&runtime, after(timeout), body.frame()).await {
                None => return Some(TransportEnd::TimedOut),
                Some(None) => return Some(TransportEnd::Clean),
                Some(Some(Err(_))) => return Some(TransportEnd::Broken),
                Some(Some(Ok(frame))) => {
                    let bytes = frame.data_ref().map_or(&[][..], |data| data);
                    self.validator.body(bytes);
                    if status != 200 {
                        self.message.extend_from_slice(bytes);
                    }
                    read += bytes.len() as u64;
                    if scheduled.disconnects_after.is_some_and(|limit| read >= limit) {
                        return None;
                    }
                }
            }
        }
    }
}

/// Whether an error has its name in the header that the dialect's clients read, if there is one.
fn has_error_name(dialect: ClientDialect, headers: &HeaderMap) -> bool {
    dialect != ClientDialect::Converse || headers.contains_key("x-amzn-errortype")
}
