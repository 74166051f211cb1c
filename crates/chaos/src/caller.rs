//! One caller with one request, in any dialect.
//!
//! A caller that cannot connect to one node tries the other, as a load balancer would. A request that was sent is never
//! sent again. Some callers disconnect in the middle, on purpose.

use crate::traffic::Arrival;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{HeaderMap, Request};
use seawall_core::deadline::Deadline;
use seawall_core::handle::{Timer as _, within};
use seawall_core::time::Timestamp;
use seawall_demo::client::{driven, open};
use seawall_demo::has_hint;
use seawall_demo::judge::{Dialect, Ending, Judge, Verdict};
use seawall_gateway::TokioRuntime;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;

/// Timeout for a whole answer, and for the beginning of a stream.
pub(crate) const WHOLE: Duration = Duration::from_secs(35);
/// Timeout for gaps in a stream.
pub(crate) const SILENCE: Duration = Duration::from_secs(12);
/// How long a caller tries to connect.
const KNOCKS: Duration = Duration::from_secs(10);
/// The pause between two attempts to connect.
const KNOCK_AGAIN: Duration = Duration::from_millis(50);

/// The result of a request.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    /// The node that received it.
    pub(crate) node: usize,
    /// When it was sent, when the response head arrived, and when it ended.
    pub(crate) put: Timestamp,
    pub(crate) head: Option<Timestamp>,
    pub(crate) over: Timestamp,
    pub(crate) end: End,
    /// Whether the answer ended as its dialect requires, whatever usage it reports.
    pub(crate) is_ended: bool,
    pub(crate) status: Option<u16>,
    /// The message of a rejection, for diagnosis.
    pub(crate) words: String,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Judged by the received bytes.
    Judged(Verdict),
    /// The caller disconnected.
    Left,
    /// No node accepted a connection.
    NobodyThere,
}

/// Sends the request and reads the response to its end.
pub(crate) async fn ask(arrival: &Arrival, nodes: &[SocketAddr], runtime: TokioRuntime) -> Got {
    let Some((stream, node, put)) = knock(arrival.node, nodes, runtime).await else {
        let now = runtime.monotonic();
        let (node, end) = (arrival.node, End::NobodyThere);
        return Got {
            node,
            put: now,
            head: None,
            over: now,
            end,
            is_ended: false,
            status: None,
            words: String::new(),
        };
    };
    let mut asking = Asking {
        runtime,
        arrival,
        judge: Judge::new(arrival.dialect, arrival.is_streamed),
        head: None,
        status: None,
        words: Vec::new(),
    };
    let end = match open(stream).await {
        Ok((sender, connection)) => driven(connection, asking.read(sender, nodes[node])).await,
        Err(_) => Some(Ending::Broken),
    };
    Got {
        node,
        put,
        head: asking.head,
        over: runtime.monotonic(),
        end: end.map_or(End::Left, |ending| End::Judged(asking.judge.end(ending))),
        is_ended: asking.judge.is_ended(),
        status: asking.status,
        words: String::from_utf8_lossy(&asking.words).into_owned(),
    }
}

/// Connects to the first node that accepts, and returns when the attempt began.
async fn knock(
    first: usize,
    nodes: &[SocketAddr],
    runtime: TokioRuntime,
) -> Option<(TcpStream, usize, Timestamp)> {
    let give_up = Deadline::after(runtime.monotonic(), KNOCKS);
    loop {
        for step in 0..nodes.len() {
            let node = (first + step) % nodes.len();
            let put = runtime.monotonic();
            if let Ok(stream) = within(&runtime, give_up, TcpStream::connect(nodes[node])).await? {
                return Some((stream, node, put));
            }
        }
        let next = runtime.monotonic() + KNOCK_AGAIN;
        if next >= give_up.moment() {
            return None;
        }
        runtime.sleep_until(next).await;
    }
}

struct Asking<'a> {
    runtime: TokioRuntime,
    arrival: &'a Arrival,
    judge: Judge,
    head: Option<Timestamp>,
    status: Option<u16>,
    words: Vec<u8>,
}

impl Asking<'_> {
    /// How the response ended, or `None` if the caller disconnected.
    async fn read(&mut self, mut sender: SendRequest<Full<Bytes>>, node: SocketAddr) -> Option<Ending> {
        let (runtime, arrival) = (self.runtime, self.arrival);
        let after = |wait| Deadline::after(runtime.monotonic(), wait);
        let (path, body) = arrival.written();
        let key = arrival.who.key();
        let request = Request::post(path).header(HOST, node.to_string());
        let request = match arrival.dialect {
            Dialect::Completions => request.header(AUTHORIZATION, format!("Bearer {key}")),
            Dialect::Messages | Dialect::Converse | Dialect::Chat => request.header("x-api-key", key),
        };
        let Ok(request) = request.header(CONTENT_TYPE, "application/json").body(Full::from(body)) else {
            return Some(Ending::Broken);
        };
        // A few callers disconnect before the response begins.
        let patience = if arrival.leaves_after == Some(0) { KNOCK_AGAIN } else { WHOLE };
        let response = match within(&runtime, after(patience), sender.send_request(request)).await {
            None if arrival.leaves_after == Some(0) => return None,
            None => return Some(Ending::Silent),
            Some(Err(_)) => return Some(Ending::Broken),
            Some(Ok(response)) => response,
        };
        let status = response.status().as_u16();
        (self.head, self.status) = (Some(runtime.monotonic()), Some(status));
        self.judge
            .head(status, has_hint(response.headers()) && is_named(arrival.dialect, response.headers()));
        let is_stream = arrival.is_streamed && status == 200;
        let patience = if is_stream { SILENCE } else { WHOLE };
        let mut body = response.into_body();
        let mut read = 0;
        loop {
            match within(&runtime, after(patience), body.frame()).await {
                None => return Some(Ending::Silent),
                Some(None) => return Some(Ending::Clean),
                Some(Some(Err(_))) => return Some(Ending::Broken),
                Some(Some(Ok(frame))) => {
                    let bytes = frame.data_ref().map_or(&[][..], |data| data);
                    self.judge.body(bytes);
                    if status != 200 {
                        self.words.extend_from_slice(bytes);
                    }
                    read += bytes.len() as u64;
                    if arrival.leaves_after.is_some_and(|most| read >= most) {
                        return None;
                    }
                }
            }
        }
    }
}

/// Whether an error has its name in the header that the dialect's clients read, if there is one.
fn is_named(dialect: Dialect, headers: &HeaderMap) -> bool {
    dialect != Dialect::Converse || headers.contains_key("x-amzn-errortype")
}
