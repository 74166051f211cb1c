//! One caller with one request.
//!
//! The caller gives up after ten seconds without data. It retries a refused connection for as long; a request that was
//! sent is never sent again.

use crate::client::{driven, open};
use crate::judge::{Dialect, Ending, Judge, Verdict};
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

/// How long a caller waits without receiving data.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two attempts to connect.
const KNOCK_AGAIN: Duration = Duration::from_millis(100);

/// The result of a request, and the time to the first text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) verdict: Verdict,
    pub(crate) first_text: Option<Duration>,
}

/// The parameters of a caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<T> {
    pub(crate) timer: T,
    /// The server, and the model or route to name.
    pub(crate) address: SocketAddr,
    pub(crate) model: &'static str,
    /// How long to wait without receiving data.
    pub(crate) patience: Duration,
}

impl<T: Timer> Caller<T> {
    /// Sends the request and reads the response to its end.
    pub(crate) async fn ask(&self, arrival: &Arrival) -> Got {
        let began = self.timer.monotonic();
        let mut judge = Judge::new(Dialect::Messages, arrival.is_streamed);
        let mut first_text = None;
        let request = Request::post("/v1/messages")
            .header(HOST, self.address.to_string())
            .header(CONTENT_TYPE, "application/json")
            .header("x-api-key", arrival.who.key())
            .body(Full::from(arrival.body(self.model)));
        let ending = match (self.connect().await, request) {
            (Ok(stream), Ok(request)) => match open(stream).await {
                Ok((sender, connection)) => {
                    let note_text = || {
                        first_text.get_or_insert_with(|| self.timer.monotonic() - began);
                    };
                    driven(connection, self.read(sender, request, &mut judge, note_text)).await
                }
                Err(_) => Ending::Broken,
            },
            _ => Ending::Broken,
        };
        Got { verdict: judge.end(ending), first_text }
    }

    /// Connects; a refused connection is retried until the timeout.
    async fn connect(&self) -> io::Result<TcpStream> {
        let (timer, give_up) = (&self.timer, self.patience());
        loop {
            let connected = within(timer, give_up, TcpStream::connect(self.address)).await;
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

    fn patience(&self) -> Deadline {
        Deadline::after(self.timer.monotonic(), self.patience)
    }

    async fn read(
        &self,
        mut sender: SendRequest<Full<Bytes>>,
        request: Request<Full<Bytes>>,
        judge: &mut Judge,
        mut note_text: impl FnMut(),
    ) -> Ending {
        let timer = &self.timer;
        let response = match within(timer, self.patience(), sender.send_request(request)).await {
            None => return Ending::Silent,
            Some(Err(_)) => return Ending::Broken,
            Some(Ok(response)) => response,
        };
        judge.head(response.status().as_u16(), has_hint(response.headers()));
        let mut body = response.into_body();
        loop {
            match within(timer, self.patience(), body.frame()).await {
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
}

/// Whether a rejection says when to retry, or that a retry is pointless.
#[must_use]
pub fn has_hint(headers: &HeaderMap) -> bool {
    headers.contains_key(RETRY_AFTER) || headers.contains_key("x-should-retry")
}

#[cfg(test)]
mod tests {
    use super::has_hint;
    use hyper::HeaderMap;
    use hyper::header::HeaderValue;

    #[test]
    fn a_hint_is_a_time_to_come_back_or_the_advice_not_to() {
        for (name, is_hint) in [("retry-after", true), ("x-should-retry", true), ("request-id", false)] {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static("1"))]);
            assert_eq!(has_hint(&headers), is_hint, "{name}");
        }
    }
}
