//! One caller with one question, in any dialect.
//!
//! A caller who finds nobody at one node knocks at the other, as whatever spreads requests over nodes would. A question
//! that was put is never put again. Some go away in the middle, on purpose.

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

/// How long an answer in one piece may take, and the beginning of a stream.
pub(crate) const WHOLE: Duration = Duration::from_secs(35);
/// How long a stream may be silent.
pub(crate) const SILENCE: Duration = Duration::from_secs(12);
/// How long a caller knocks where nobody listens.
const KNOCKS: Duration = Duration::from_secs(10);
/// How long a caller waits before knocking again.
const KNOCK_AGAIN: Duration = Duration::from_millis(50);

/// What became of a question.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    /// Which node had it.
    pub(crate) node: usize,
    /// When it was put, when the head of the answer came, and when it was over.
    pub(crate) put: Timestamp,
    pub(crate) head: Option<Timestamp>,
    pub(crate) over: Timestamp,
    pub(crate) end: End,
    /// Whether the answer ended as its dialect has it, whatever usage it reports.
    pub(crate) is_ended: bool,
    pub(crate) status: Option<u16>,
    /// The words of a refusal, to be shown to who looks for what went wrong.
    pub(crate) words: String,
}

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By what came.
    Judged(Verdict),
    /// The caller went away.
    Left,
    /// Nobody listened at any node.
    NobodyThere,
}

/// Asks, and reads to the end.
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

/// A connection to the first node that takes one, and when it was asked for.
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
    /// How the bytes ended; nothing if the caller went away.
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
        // A few go away before they have heard anything.
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

/// Whether an error has its name where the dialect's clients look for it, if that is a header.
fn is_named(dialect: Dialect, headers: &HeaderMap) -> bool {
    dialect != Dialect::Converse || headers.contains_key("x-amzn-errortype")
}
