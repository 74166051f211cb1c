//! One caller with one request.
//!
//! The caller gives up after ten seconds without data. It retries a refused connection for as long; a request that was
//! sent is never sent again.

use crate::traffic::DemoRequest;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{CONTENT_TYPE, HOST};
use seawall_core::deadline::Deadline;
use seawall_core::runtime::{Timer, timeout_at};
use seawall_testkit::client::{drive, has_retry_advice, open};
use seawall_testkit::validator::{ClientDialect, ClientOutcome, ResponseValidator, TransportEnd};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;

/// How long a caller waits without receiving data.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two attempts to connect.
const CONNECT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The result of a request, and the time to the first text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallerResult {
    pub(crate) outcome: ClientOutcome,
    pub(crate) time_to_first_text: Option<Duration>,
}

/// The parameters of a caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestSender<T> {
    pub(crate) timer: T,
    /// The server, and the model or route to name.
    pub(crate) address: SocketAddr,
    pub(crate) model: &'static str,
    /// How long to wait without receiving data.
    pub(crate) idle_timeout: Duration,
}

impl<T: Timer> RequestSender<T> {
    /// Sends the request and reads the response to its end.
    pub(crate) async fn send(&self, scheduled: &DemoRequest) -> CallerResult {
        let began = self.timer.monotonic();
        let mut validator = ResponseValidator::new(ClientDialect::Messages, scheduled.is_streamed);
        let mut time_to_first_text = None;
        let request = Request::post("/v1/messages")
            .header(HOST, self.address.to_string())
            .header(CONTENT_TYPE, "application/json")
            .header("x-api-key", scheduled.client.key())
            .body(Full::from(scheduled.body(self.model)));
        let ending = match (self.connect().await, request) {
            (Ok(stream), Ok(request)) => match open(stream).await {
                Ok((sender, connection)) => {
                    let note_text = || {
                        time_to_first_text.get_or_insert_with(|| self.timer.monotonic() - began);
                    };
                    drive(connection, self.read(sender, request, &mut validator, note_text)).await
                }
                Err(_) => TransportEnd::Broken,
            },
            _ => TransportEnd::Broken,
        };
        CallerResult { outcome: validator.outcome(ending), time_to_first_text }
    }

    /// Connects; a refused connection is retried until the timeout.
    async fn connect(&self) -> io::Result<TcpStream> {
        let (timer, give_up) = (&self.timer, self.idle_deadline());
        loop {
            let connected = timeout_at(timer, give_up, TcpStream::connect(self.address)).await;
            match connected {
                Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    let next = timer.monotonic() + CONNECT_RETRY_DELAY;
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

    fn idle_deadline(&self) -> Deadline {
        Deadline::after(self.timer.monotonic(), self.idle_timeout)
    }

    async fn read(
        &self,
        mut sender: SendRequest<Full<Bytes>>,
        request: Request<Full<Bytes>>,
        validator: &mut ResponseValidator,
        mut note_text: impl FnMut(),
    ) -> TransportEnd {
        let timer = &self.timer;
        let response = match timeout_at(timer, self.idle_deadline(), sender.send_request(request)).await {
            None => return TransportEnd::TimedOut,
            Some(Err(_)) => return TransportEnd::Broken,
            Some(Ok(response)) => response,
        };
        validator.head(response.status().as_u16(), has_retry_advice(response.headers()));
        let mut body = response.into_body();
        loop {
            match timeout_at(timer, self.idle_deadline(), body.frame()).await {
                None => return TransportEnd::TimedOut,
                Some(None) => return TransportEnd::Clean,
                Some(Some(Err(_))) => return TransportEnd::Broken,
                Some(Some(Ok(frame))) => {
                    validator.body(frame.data_ref().map_or(&[][..], |data| data));
                    if validator.has_text() {
                        note_text();
                    }
                }
            }
        }
    }
}
