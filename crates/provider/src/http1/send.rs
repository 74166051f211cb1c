//! Sends a request and receives the response head.

use super::body::Http1Body;
use super::connection::Connection;
use super::endpoint::{Connect, TcpConnect};
use super::failure::SendFailure;
use super::head::{HEAD_LIMIT, HeadError, HeadSearch, Http1Headers, ResponseHead, parse};
use super::pool::Http1Pool;
use super::request::HttpRequest;
use super::reusable_timer::{ReusableTimer, deadline_after};
use super::timer::TokioTimer;
use seawall_core::runtime::Timer;
use seawall_core::time::Timestamp;
use std::future::{Future as _, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// Timeouts of each phase, and the maximum body size. `Duration::MAX` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// For opening a connection; does not apply to a pooled one.
    pub connect_timeout: Duration,
    /// For writing the whole request to the socket.
    pub write_timeout: Duration,
    /// From then until the whole response head has arrived, including interim responses.
    pub head_timeout: Duration,
    /// For the next chunk of the body.
    pub idle_timeout: Duration,
    /// Maximum size of the body, without its framing.
    pub max_body_bytes: u64,
}

/// A response whose head has arrived.
pub struct Http1Response<C: Connect = TcpConnect, T: Timer = TokioTimer> {
    /// The status code, 200 to 999.
    pub status: u16,
    /// The headers.
    pub headers: Http1Headers,
    /// The body, which may still be arriving.
    pub body: Http1Body<C, T>,
    /// Whether the request was sent a second time because the first connection had been closed.
    pub resent: bool,
}

/// A close that crossed the request on the network is seen within a round trip. After this time the peer had received
/// the request.
pub(crate) const STALE_WITHIN: Duration = Duration::from_secs(1);
/// A body up to this size is copied after its head: one buffer is cheaper to send than two.
const SMALL_BODY: usize = 8 * 1024;
/// Maximum number of interim responses.
const INTERIM_LIMIT: u32 = 16;

/// Sends a request over a pooled connection, or a new one, and waits for the response head.
///
/// **Resending.** A server may close a pooled connection at any time, even while a request is being sent. If a
/// connection that *had carried a response before* ends *without one byte of this response* and *within a second* of
/// sending, the request is sent once more over a new connection, provided that [`HttpRequest::resend_on_stale`] is set;
/// otherwise the result is [`SendFailure::StaleConnection`]. It is never resent for a new connection, never twice, and
/// never after a timeout. This is safe because nothing was answered, so nothing can have reached the caller twice, and
/// because a close this soon is almost always the end of the keep-alive timeout. The remaining risk is a server that
/// reads a request and crashes on it within a second: it receives the request a second time. Where that is not
/// acceptable, leave resending off.
///
/// **Early responses.** A server may respond, and close, without reading the whole request (too large, unauthorized).
/// The response is returned, and the rest of the request is not sent.
///
/// Dropping the future closes the connection.
pub async fn send<C: Connect, T: Timer, Text: AsRef<str>>(
    pool: &Http1Pool<C, T>,
    request: HttpRequest<'_, Text>,
    limits: &HttpLimits,
) -> Result<Http1Response<C, T>, SendFailure> {
    request.check()?;
    let resent = match send_pooled(pool, &request, limits).await {
        PooledSendDecision::Completed(outcome) => return outcome,
        PooledSendDecision::NoConnection => false,
        PooledSendDecision::Resend => true,
    };
    let connection = connect(pool, limits).await?;
    let response = send_on(pool, &request, limits, connection).await?;
    Ok(Http1Response { resent, ..response })
}

/// The result of trying a pooled connection.
pub(crate) enum PooledSendDecision<R> {
    /// There was none.
    NoConnection,
    /// It had been closed; send the request over a new one.
    Resend,
    /// It carried the request.
    Completed(R),
}

/// Sends a checked request over a pooled connection, if there is one.
pub(crate) async fn send_pooled<C: Connect, T: Timer, Text: AsRef<str>>(
    pool: &Http1Pool<C, T>,
    request: &HttpRequest<'_, Text>,
    limits: &HttpLimits,
) -> PooledSendDecision<Result<Http1Response<C, T>, SendFailure>> {
    let now = pool.timer().monotonic();
    let Some(pooled) = pool.take(now) else { return PooledSendDecision::NoConnection };
    match exchange(pool, request, limits, pooled, Some(now)).await {
        Err(SendFailure::StaleConnection) if request.resend_on_stale => PooledSendDecision::Resend,
        outcome => PooledSendDecision::Completed(outcome),
    }
}

/// Sends a checked request over a new connection.
pub(crate) async fn send_on<C: Connect, T: Timer, Text: AsRef<str>>(
    pool: &Http1Pool<C, T>,
    request: &HttpRequest<'_, Text>,
    limits: &HttpLimits,
    connection: Connection<C::Stream>,
) -> Result<Http1Response<C, T>, SendFailure> {
    exchange(pool, request, limits, connection, None).await
}

/// Opens a new connection within its timeout.
pub(crate) async fn connect<C: Connect, T: Timer>(
    pool: &Http1Pool<C, T>,
    limits: &HttpLimits,
) -> Result<Connection<C::Stream>, SendFailure> {
    let mut timeout_timer = ReusableTimer::default();
    let mut deadline = None;
    let mut connecting = pin!(pool.connect().connect());
    let stream = poll_fn(|context| {
        if let Poll::Ready(connected) = connecting.as_mut().poll(context) {
            return Poll::Ready(connected.map_err(SendFailure::from_connect_error));
        }
        let deadline = *deadline.get_or_insert_with(|| deadline_after(pool.timer(), limits.connect_timeout));
        timeout_timer.poll(context, pool.timer(), deadline).map(|()| Err(SendFailure::ConnectTimedOut))
    })
    .await?;
    Ok(Connection::new(stream, timeout_timer))
}

/// Sends over one connection. `pooled_sent_at` is the time of sending over a pooled connection.
async fn exchange<C: Connect, T: Timer, Text: AsRef<str>>(
    pool: &Http1Pool<C, T>,
    request: &HttpRequest<'_, Text>,
    limits: &HttpLimits,
    mut connection: Connection<C::Stream>,
    pooled_sent_at: Option<Timestamp>,
) -> Result<Http1Response<C, T>, SendFailure> {
    request.write_head(pool.endpoint(), &mut connection.outgoing);
    let is_small = request.body.len() <= SMALL_BODY;
    if is_small {
        connection.outgoing.extend_from_slice(&request.body);
    }
    let mut exchange = Exchange {
        connection,
        request,
        rest: if is_small { &[] } else { &request.body },
        pooled_sent_at,
        written: 0,
        writing: WriteState::InProgress,
        search: HeadSearch::default(),
        interim: 0,
        deadline: None,
    };
    let head = poll_fn(|context| exchange.poll_head(context, pool.timer(), limits)).await?;
    let keep_alive = head.keep_alive && matches!(exchange.writing, WriteState::Done);
    let body_limits = (limits.idle_timeout, limits.max_body_bytes);
    let body = Http1Body::new(pool.clone(), exchange.connection, head.framing, keep_alive, body_limits);
    Ok(Http1Response { status: head.status, headers: head.headers, body, resent: false })
}

/// Writes a request and reads a response head concurrently, because a server may respond early.
struct Exchange<'a, S, Text> {
    connection: Connection<S>,
    request: &'a HttpRequest<'a, Text>,
    /// The body, which follows the bytes in the connection's buffer.
    rest: &'a [u8],
    pooled_sent_at: Option<Timestamp>,
    written: usize,
    writing: WriteState,
    search: HeadSearch,
    interim: u32,
    /// Deadline of the current phase; set when the wait begins.
    deadline: Option<Timestamp>,
}

enum WriteState {
    InProgress,
    Done,
    /// A response may still arrive to explain it.
    Failed(io::Error),
}

impl<S: AsyncRead + AsyncWrite + Unpin, Text: AsRef<str>> Exchange<'_, S, Text> {
    fn poll_head(
        &mut self,
        context: &mut Context<'_>,
        timer: &impl Timer,
        limits: &HttpLimits,
    ) -> Poll<Result<ResponseHead, SendFailure>> {
        self.write_more(context);
        loop {
            if let Some(head) = self.take_head()? {
                return Poll::Ready(Ok(head));
            }
            match self.connection.poll_read(context) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(self.closed(None, timer))),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.closed(Some(error), timer))),
                Poll::Pending => break,
            }
        }
        let limit = if matches!(self.writing, WriteState::InProgress) {
            limits.write_timeout
        } else {
            limits.head_timeout
        };
        let until = *self.deadline.get_or_insert_with(|| deadline_after(timer, limit));
        ready!(self.connection.timeout_timer.poll(context, timer, until));
        Poll::Ready(Err(self.timed_out()))
    }

    /// Writes as much as possible without waiting, head and body together.
    fn write_more(&mut self, context: &mut Context<'_>) {
        if !matches!(self.writing, WriteState::InProgress) {
            return;
        }
        if let Poll::Ready(outcome) = self.poll_write(context) {
            self.writing = outcome.map_or_else(WriteState::Failed, |()| WriteState::Done);
            // The next phase has its own timeout.
            self.deadline = None;
        }
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (ready, rest) = (&self.connection.outgoing[..], self.rest);
        let mut stream = Pin::new(&mut self.connection.stream);
        while self.written < ready.len() + rest.len() {
            let ready_left = &ready[self.written.min(ready.len())..];
            let rest_left = &rest[self.written.saturating_sub(ready.len())..];
            let polled = if rest.is_empty() {
                stream.as_mut().poll_write(context, ready_left)
            } else {
                let parts = [IoSlice::new(ready_left), IoSlice::new(rest_left)];
                stream.as_mut().poll_write_vectored(context, &parts)
            };
            match ready!(polled)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        // TLS streams buffer the last bytes until they are flushed.
        stream.poll_flush(context)
    }

    /// The response head, once it is complete. Interim responses are skipped.
    fn take_head(&mut self) -> Result<Option<ResponseHead>, SendFailure> {
        let received = &mut self.connection.received;
        while !received.is_empty() {
            let end = self.search.end(received).map_err(SendFailure::BadHead)?;
            if end.unwrap_or(received.len()) > HEAD_LIMIT {
                return Err(SendFailure::HeadTooLarge);
            }
            let Some(end) = end else { return Ok(None) };
            let head = parse(received.split_to(end).freeze(), self.request.is_head());
            let head = head.map_err(SendFailure::BadHead)?;
            match head.status {
                0..100 => return Err(SendFailure::BadHead(HeadError::Malformed)),
                101 => return Err(SendFailure::BadHead(HeadError::SwitchedProtocol)),
                100..200 => self.interim += 1,
                200.. => return Ok(Some(head)),
            }
            if self.interim > INTERIM_LIMIT {
                return Err(SendFailure::BadHead(HeadError::TooManyInterim));
            }
            self.search = HeadSearch::default();
        }
        Ok(None)
    }

    fn response_began(&self) -> bool {
        self.interim > 0 || !self.connection.received.is_empty()
    }

    fn closed(&mut self, source: Option<io::Error>, timer: &impl Timer) -> SendFailure {
        let response_began = self.response_began();
        let is_stale = self.pooled_sent_at.is_some_and(|sent| timer.monotonic() - sent <= STALE_WITHIN);
        if is_stale && !response_began {
            return SendFailure::StaleConnection;
        }
        match std::mem::replace(&mut self.writing, WriteState::Done) {
            WriteState::Failed(source) if !response_began => {
                SendFailure::Write { began: self.written > 0, source }
            }
            _ => SendFailure::ClosedBeforeHead { response_began, source },
        }
    }

    fn timed_out(&mut self) -> SendFailure {
        let (began, response_began) = (self.written > 0, self.response_began());
        match std::mem::replace(&mut self.writing, WriteState::Done) {
            WriteState::InProgress => SendFailure::WriteTimedOut { began },
            WriteState::Failed(source) if !response_began => SendFailure::Write { began, source },
            WriteState::Failed(_) | WriteState::Done => SendFailure::HeadTimedOut { response_began },
        }
    }
}
