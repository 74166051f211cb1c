//! A client for one server: connection pools per core, and protocol negotiation.
//!
//! **When it acts.** A server without TLS is called over HTTP/1.1, unless the settings say that it supports HTTP/2.
//! With TLS both are offered through ALPN and the server chooses; after that, pooled connections of the chosen protocol
//! are used first. Concurrent requests that find no HTTP/2 connection open a single one.
//!
//! **What it does not do.** It makes one attempt per call (except for the one case in [`http1::send`]). It follows no
//! redirects, decompresses nothing and stores no cookies.

use crate::answer::{Heard, ReadHeader};
use crate::http1::connection::Connection;
use crate::http1::{
    self, BodyFailure, Headers, KeptDecision, Limits, PoolOptions, Request, SendFailure, TokioTimer,
};
use crate::http2::{self, Lease};
use crate::target::Frames;
use crate::way::{
    BaseUrl, DateClock, Line, LineConnect, Names, Offer, Reach, Resolve, SystemNames, TlsSettings,
};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use seawall_core::deadline::Deadline;
use seawall_core::failure::Failure;
use seawall_core::handle::{Timer as _, within};
use seawall_core::setting::SettingError;
use seawall_core::time::UtcTime;
use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

thread_local! {
    static CORE: Cell<usize> = const { Cell::new(0) };
}

/// Sets the core that this thread belongs to. Connections belong to the core that opened them, so that cores do not
/// contend for a pool.
pub fn enter_core(core: usize) {
    CORE.with(|own| own.set(core));
}

/// When to use HTTP/2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Http2Use {
    /// If the server chooses it during the TLS handshake (ALPN).
    #[default]
    WhereAgreed,
    /// Always, with or without TLS: the server is known to support it.
    Always,
    /// Never.
    Never,
}

/// Settings of a client.
#[derive(Clone)]
pub struct ClientOptions {
    /// The server's URL; see [`BaseUrl`].
    pub url: String,
    /// Number of cores, each with its own connection pool.
    pub cores: usize,
    /// Timeouts of each phase, and the maximum body size.
    pub limits: Limits,
    /// Settings of the connection pool.
    pub pool: PoolOptions,
    /// When to use HTTP/2.
    pub http2: Http2Use,
    /// Maximum number of concurrent requests per HTTP/2 connection; the server may allow fewer.
    pub streams_per_connection: usize,
    /// TLS trust; required for `https` URLs.
    pub tls: Option<TlsSettings>,
}

impl ClientOptions {
    /// Default settings for this URL, for one core.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            cores: 1,
            limits: Limits {
                connect: Duration::from_secs(5),
                write: Duration::from_secs(10),
                // Requests have shorter timeouts of their own; these only bound abandoned connections.
                head: Duration::from_secs(60),
                gap: Duration::from_secs(60),
                body_bytes: 64 << 20,
            },
            pool: PoolOptions::default(),
            http2: Http2Use::default(),
            streams_per_connection: 100,
            tls: None,
        }
    }
}

/// The runtime environment of a client.
#[derive(Clone)]
pub struct Surroundings {
    /// The monotonic clock and timers.
    pub timer: TokioTimer,
    /// The wall clock, for certificates and signatures.
    pub date: DateClock,
    /// The DNS resolver.
    pub names: Arc<dyn Resolve>,
}

impl Surroundings {
    /// With the system's DNS resolver.
    #[must_use]
    pub fn new(timer: TokioTimer, date: DateClock) -> Self {
        Self { timer, date, names: Arc::new(SystemNames) }
    }
}

/// See the module documentation.
pub struct Client {
    url: BaseUrl,
    http2: Http2Use,
    limits: Limits,
    date: DateClock,
    /// One per core.
    pools: Box<[Pools]>,
}

struct Pools {
    http1: http1::Pool<LineConnect>,
    http2: http2::Pool<TokioTimer>,
    /// Whether the server chose HTTP/2 on the last connection.
    chose_http2: AtomicBool,
}

/// A response whose head has arrived.
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: ResponseHeaders,
    /// The body, which may still be arriving.
    pub body: ResponseBody,
    /// Whether the request was sent a second time because the first connection had been closed.
    pub resent: bool,
}

/// The headers of a response.
pub enum ResponseHeaders {
    /// Headers of an HTTP/1.1 response.
    Http1(Headers),
    /// Headers of an HTTP/2 response.
    Http2(HeaderMap),
}

impl ReadHeader for ResponseHeaders {
    fn header(&self, name: &str) -> Option<&[u8]> {
        self.get(name)
    }
}

impl Frames for ResponseBody {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        Self::poll_frame(self, context).map(|frame| frame.map(|frame| frame.map_err(BodyFailure::failure)))
    }
}

impl From<Response> for Heard<ResponseHeaders, ResponseBody> {
    fn from(response: Response) -> Self {
        let Response { status, headers, body, .. } = response;
        Self { status, headers, rest: body }
    }
}

impl ResponseHeaders {
    /// The first header with this name, case-insensitive.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        match self {
            Self::Http1(headers) => headers.get(name),
            Self::Http2(headers) => headers.get(name).map(|value| value.as_bytes()),
        }
    }
}

/// The body of a response. Dropping it before its end cancels the response at the server.
pub enum ResponseBody {
    /// A body on its own HTTP/1.1 connection.
    Http1(http1::Body<LineConnect>),
    /// A body on a stream of a shared HTTP/2 connection.
    Http2(http2::Body<TokioTimer>),
}

impl ResponseBody {
    /// The next frame; `None` at the end.
    pub fn poll_frame(&mut self, wake: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyFailure>>> {
        match self {
            Self::Http1(body) => body.poll_frame(wake),
            Self::Http2(body) => body.poll_frame(wake),
        }
    }

    /// The complete body. Most arrive in one read and are not copied.
    pub async fn collect(mut self) -> Result<Bytes, BodyFailure> {
        let Some(first) = self.frame().await else { return Ok(Bytes::new()) };
        let first = first?;
        let Some(second) = self.frame().await else { return Ok(first) };
        let mut whole = BytesMut::from(first.as_ref());
        whole.extend_from_slice(&second?);
        while let Some(frame) = self.frame().await {
            whole.extend_from_slice(&frame?);
        }
        Ok(whole.freeze())
    }

    async fn frame(&mut self) -> Option<Result<Bytes, BodyFailure>> {
        poll_fn(|wake| self.poll_frame(wake)).await
    }
}

impl Client {
    /// A client without connections. DNS lookups and connections start with the first request.
    pub fn new(options: &ClientOptions, around: &Surroundings) -> Result<Self, SettingError> {
        Self::new_within(options, around, Reach::Targets)
    }

    /// The same for a credential endpoint next to this process, at an address that is blocked for targets.
    pub(crate) fn new_beside(options: &ClientOptions, around: &Surroundings) -> Result<Self, SettingError> {
        Self::new_within(options, around, Reach::Everything)
    }

    fn new_within(
        options: &ClientOptions,
        around: &Surroundings,
        reach: Reach,
    ) -> Result<Self, SettingError> {
        let url = BaseUrl::parse_within(&options.url, reach)?;
        let endpoint = url.endpoint();
        let names = Names::new(endpoint.host(), endpoint.port(), Arc::clone(&around.names), reach);
        let offer = match options.http2 {
            Http2Use::WhereAgreed => Offer::Either,
            Http2Use::Always => Offer::Http2,
            Http2Use::Never => Offer::Http1,
        };
        let pools = |_| {
            let timing = (around.timer, options.limits.connect);
            let connect = LineConnect::new(endpoint, names.clone(), offer, options.tls.as_ref(), timing)?;
            Ok(Pools {
                http1: http1::Pool::new(endpoint.clone(), connect, around.timer, options.pool),
                http2: http2::Pool::new(around.timer, options.streams_per_connection, options.pool),
                chose_http2: AtomicBool::new(options.http2 == Http2Use::Always),
            })
        };
        let pools = (0..options.cores.max(1)).map(pools).collect::<Result<_, SettingError>>()?;
        let http2 = match (endpoint.scheme(), options.http2) {
            // Without TLS there is no ALPN.
            (http1::Scheme::Http, Http2Use::WhereAgreed) => Http2Use::Never,
            (_, http2) => http2,
        };
        Ok(Self { url, http2, limits: options.limits, date: Arc::clone(&around.date), pools })
    }

    /// The server's URL.
    #[must_use]
    pub const fn url(&self) -> &BaseUrl {
        &self.url
    }

    pub(crate) fn timer(&self) -> TokioTimer {
        *self.pools[0].http1.timer()
    }

    pub(crate) fn date(&self) -> UtcTime {
        (self.date)()
    }

    /// Sends a request and waits for the response head. Dropping the future cancels the request as far as possible: its
    /// connection or stream is closed.
    pub async fn send<Text: AsRef<str>>(&self, request: Request<'_, Text>) -> Result<Response, SendFailure> {
        let pools = &self.pools[CORE.with(Cell::get) % self.pools.len()];
        if self.http2 == Http2Use::Never {
            return http1::send(&pools.http1, request, &self.limits).await.map(Response::from);
        }
        // Boxed, so that requests over HTTP/1.1 do not carry the larger future.
        Box::pin(self.send_either(pools, request)).await
    }

    async fn send_either<Text: AsRef<str>>(
        &self,
        pools: &Pools,
        request: Request<'_, Text>,
    ) -> Result<Response, SendFailure> {
        request.check()?;
        let mut resent = false;
        let mut kept = pools.http2.take(pools.http1.timer().monotonic());
        loop {
            let (lease, is_kept) = match kept.take() {
                Some(lease) => (lease, true),
                None => {
                    if !resent {
                        match http1::send_kept(&pools.http1, &request, &self.limits).await {
                            KeptDecision::Ended(outcome) => return outcome.map(Response::from),
                            KeptDecision::Resend => resent = true,
                            KeptDecision::None => {}
                        }
                    }
                    match self.open(pools, resent).await? {
                        Opened::Http1(connection) => {
                            let sent = http1::send_over(&pools.http1, &request, &self.limits, connection);
                            return Ok(Response { resent, ..Response::from(sent.await?) });
                        }
                        Opened::Http2 { lease, is_kept } => (lease, is_kept),
                    }
                }
            };
            match http2::send(self.url.endpoint(), &request, &self.limits, lease, is_kept).await {
                Err(SendFailure::StaleConnection) if request.resend_on_stale && is_kept && !resent => {
                    resent = true;
                }
                outcome => return outcome.map(|response| Response { resent, ..Response::from(response) }),
            }
        }
    }

    /// A new connection, or a stream on one that another request opened while this one waited for its turn. A request
    /// that is sent for the second time always gets a new connection, so that it cannot meet another one that is
    /// closing.
    async fn open(&self, pools: &Pools, resent: bool) -> Result<Opened, SendFailure> {
        let timer = pools.http1.timer();
        let until = Deadline::after(timer.monotonic(), self.limits.connect);
        let _turn = if pools.chose_http2.load(Ordering::Relaxed) {
            let turn = within(timer, until, pools.http2.opening.lock()).await;
            let turn = turn.ok_or(SendFailure::ConnectTimedOut)?;
            if !resent && let Some(lease) = pools.http2.take(timer.monotonic()) {
                return Ok(Opened::Http2 { lease, is_kept: true });
            }
            Some(turn)
        } else {
            None
        };
        let connection = http1::connect(&pools.http1, &self.limits).await?;
        let is_http2 = self.http2 == Http2Use::Always || connection.stream.chose_http2();
        pools.chose_http2.store(is_http2, Ordering::Relaxed);
        if !is_http2 {
            return Ok(Opened::Http1(connection));
        }
        let place = connection.stream.place().clone();
        let begun = within(timer, until, pools.http2.begin(connection.stream, Some(place))).await;
        let lease = begun.ok_or(SendFailure::ConnectTimedOut)??;
        Ok(Opened::Http2 { lease, is_kept: false })
    }
}

/// A connection or stream that was opened.
enum Opened {
    Http1(Connection<Line>),
    Http2 { lease: Lease<TokioTimer>, is_kept: bool },
}

impl From<http1::Response<LineConnect>> for Response {
    fn from(response: http1::Response<LineConnect>) -> Self {
        let http1::Response { status, headers, body, resent } = response;
        let (headers, body) = (ResponseHeaders::Http1(headers), ResponseBody::Http1(body));
        Self { status, headers, body, resent }
    }
}

impl From<http2::Response<TokioTimer>> for Response {
    fn from(response: http2::Response<TokioTimer>) -> Self {
        let http2::Response { status, headers, body } = response;
        let (headers, body) = (ResponseHeaders::Http2(headers), ResponseBody::Http2(body));
        Self { status, headers, body, resent: false }
    }
}
