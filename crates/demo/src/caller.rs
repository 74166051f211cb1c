//! One caller with one question.
//!
//! Waits ten seconds for anything to come, then gives up. Where nobody listens, the caller knocks again for as long; a
//! question that was put is never put again.

use crate::client::{driven, open};
use crate::judge::{Ending, Judge, Verdict};
use crate::traffic::Arrival;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::HeaderMap;
use hyper::Request;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use seawall_core::deadline::Deadline;
use seawall_core::handle::{Timer, within};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;

/// How long a caller waits while nothing comes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// How long a caller waits before knocking again.
const KNOCK_AGAIN: Duration = Duration::from_millis(100);

/// What a caller got, and when there was something to read of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) verdict: Verdict,
    pub(crate) first_text: Option<Duration>,
}

/// Asks, and reads to the end.
pub(crate) async fn ask(timer: impl Timer, address: SocketAddr, model: &str, arrival: &Arrival) -> Got {
    let began = timer.monotonic();
    let mut judge = Judge::new(arrival.is_streamed);
    let mut first_text = None;
    let request = Request::post("/v1/messages")
        .header(HOST, address.to_string())
        .header(CONTENT_TYPE, "application/json")
        .header("x-api-key", arrival.who.key())
        .body(Full::from(arrival.body(model)));
    let ending = match (connect(&timer, address).await, request) {
        (Ok(stream), Ok(request)) => match open(stream).await {
            Ok((sender, connection)) => {
                let note_text = || {
                    first_text.get_or_insert_with(|| timer.monotonic() - began);
                };
                driven(connection, read(&timer, sender, request, &mut judge, note_text)).await
            }
            Err(_) => Ending::Broken,
        },
        _ => Ending::Broken,
    };
    Got { verdict: judge.end(ending), first_text }
}

/// A connection; where nobody listens, it is tried until patience ends.
async fn connect(timer: &impl Timer, address: SocketAddr) -> io::Result<TcpStream> {
    let give_up = Deadline::after(timer.monotonic(), PATIENCE);
    loop {
        let connected = within(timer, give_up, TcpStream::connect(address)).await;
        match connected {
            Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let next = timer.monotonic() + KNOCK_AGAIN;
                if next >= give_up.moment() {
                    return Err(error);
                }
                timer.sleep_until(next).await;
            }
            Some(connected) => return connected,
            None => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

async fn read(
    timer: &impl Timer,
    mut sender: SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
    judge: &mut Judge,
    mut note_text: impl FnMut(),
) -> Ending {
    let patience = || Deadline::after(timer.monotonic(), PATIENCE);
    let response = match within(timer, patience(), sender.send_request(request)).await {
        None => return Ending::Silent,
        Some(Err(_)) => return Ending::Broken,
        Some(Ok(response)) => response,
    };
    judge.head(response.status().as_u16(), has_hint(response.headers()));
    let mut body = response.into_body();
    loop {
        match within(timer, patience(), body.frame()).await {
            None => return Ending::Silent,
            Some(None) => return Ending::Clean,
            Some(Some(Err(_))) => return Ending::Broken,
            Some(Some(Ok(frame))) => {
                judge.body(frame.data_ref().map_or(&[][..], |data| data));
                if judge.has_text() {
                    note_text();
                }
            }
        }
    }
}

/// Whether a refusal says when to come back, or that there is no point in it.
fn has_hint(headers: &HeaderMap) -> bool {
    headers.contains_key(RETRY_AFTER) || headers.contains_key("x-should-retry")
}
