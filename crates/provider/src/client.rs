//! A client for one server: connection pools per core, and protocol negotiation.
//!
//! **When it acts.** A server without TLS is called over HTTP/1.1, unless the settings say that it supports HTTP/2.
//! With TLS both are offered through ALPN and the server chooses; after that, pooled connections of the chosen protocol
//! are used first. Concurrent requests that find no HTTP/2 connection open a single one.
//!
//! **What it does not do.** It makes one attempt per call (except for the one case in [`http1::send`]). It follows no
//! redirects, decompresses nothing and stores no cookies.

use crate::connect::{
    AddressPolicy, AlpnOffer, BaseUrl, ClientTlsSettings, Connector, DnsCache, Resolve, ServerStream,
    SystemResolver, WallClock,
};
use crate::http1::connection::Connection;
use crate::http1::{
    self, BodyFailure, Http1Headers, HttpLimits, HttpRequest, PoolOptions, PooledSendDecision, SendFailure,
    TokioTimer,
};
use crate::http2::{self, StreamLease};
use crate::response::{RawResponse, ReadHeader};
use crate::target::ChunkStream;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use seawall_core::deadline::Deadline;
use seawall_core::failure::Failure;
use seawall_core::runtime::{Timer as _, timeout_at};
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
pub fn set_current_core(core: usize) {
    CORE.with(|current| current.set(core));
}

/// When to use HTTP/2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Http2Policy {
    /// If the server chooses it during the TLS handshake (ALPN).
    #[default]
    Negotiated,
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
    pub limits: HttpLimits,
    /// Settings of the connection pool.
    pub pool: PoolOptions,
    /// When to use HTTP/2.
    pub http2: Http2Policy,
    /// Maximum number of concurrent requests per HTTP/2 connection; the server may allow fewer.
    pub max_concurrent_streams: usize,
    /// TLS trust; required for `https` URLs.
    pub tls: Option<ClientTlsSettings>,
}

impl ClientOptions {
    /// Default settings for this URL, for one core.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            cores: 1,
            limits: HttpLimits {
                connect_timeout: Duration::from_secs(5),
                write_timeout: Duration::from_secs(10),
                // Requests have shorter timeouts of their own; these only bound abandoned connections.
                head_timeout: Duration::from_secs(60),
                idle_timeout: Duration::from_secs(60),
                max_body_bytes: 64 << 20,
            },
            pool: PoolOptions::default(),
            http2: Http2Policy::default(),
            max_concurrent_streams: 100,
            tls: None,
        }
    }
}

/// The runtime environment of a client.
#[derive(Clone)]
pub struct ClientRuntime {
    /// The monotonic clock and timers.
    pub timer: TokioTimer,
    /// The wall clock, for certificates and signatures.
    pub wall_clock: WallClock,
    /// The DNS resolver.
    pub resolver: Arc<dyn Resolve>,
}

impl ClientRuntime {
    /// With the system's DNS resolver.
    #[must_use]
    pub fn new(timer: TokioTimer, wall_clock: WallClock) -> Self {
        Self { timer, wall_clock, resolver: Arc::new(SystemResolver) }
    }
}

/// See the module documentation. Clones share the connections.
#[derive(Clone)]
pub struct Client {
    url: BaseUrl,
    http2: Http2Policy,
    limits: HttpLimits,
    wall_clock: WallClock,
    /// One per core.
    pools: Arc<[Pools]>,
}

struct Pools {
    http1: http1::Http1Pool<Connector>,
    http2: http2::Http2Pool<TokioTimer>,
    /// Whether the server chose HTTP/2 on the last connection.
    negotiated_http2: AtomicBool,
}

/// A response whose head has arrived.
pub struct ClientResponse {
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
    Http1(Http1Headers),
    /// Headers of an HTTP/2 response.
    Http2(HeaderMap),
}

impl ReadHeader for ResponseHeaders {
    fn header(&self, name: &str) -> Option<&[u8]> {
        self.get(name)
    }
}

impl ChunkStream for ResponseBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        Self::poll_chunk(self, context).map(|chunk| chunk.map(|chunk| chunk.map_err(BodyFailure::failure)))
    }
}

impl From<ClientResponse> for RawResponse<ResponseHeaders, ResponseBody> {
    fn from(response: ClientResponse) -> Self {
        let ClientResponse { status, headers, body, .. } = response;
        Self { status, headers, body }
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
    Http1(http1::Http1Body<Connector>),
    /// A body on a stream of a shared HTTP/2 connection.
    Http2(http2::Http2Body<TokioTimer>),
}

impl ResponseBody {
    /// The next chunk; `None` at the end.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyFailure>>> {
        match self {
            Self::Http1(body) => body.poll_chunk(context),
            Self::Http2(body) => body.poll_chunk(context),
        }
    }

    /// The complete body. Most arrive in one read and are not copied.
    pub async fn collect(mut self) -> Result<Bytes, BodyFailure> {
        let Some(first) = self.chunk().await else { return Ok(Bytes::new()) };
        let first = first?;
        let Some(second) = self.chunk().await else { return Ok(first) };
        let mut body = BytesMut::from(first.as_ref());
        body.extend_from_slice(&second?);
        while let Some(chunk) = self.chunk().await {
            body.extend_from_slice(&chunk?);
        }
        Ok(body.freeze())
    }

    async fn chunk(&mut self) -> Option<Result<Bytes, BodyFailure>> {
        poll_fn(|context| self.poll_chunk(context)).await
    }
}

impl Client {
    /// A client without connections. DNS lookups and connections start with the first request.
    pub fn new(options: &ClientOptions, runtime: &ClientRuntime) -> Result<Self, SettingError> {
        Self::new_with_policy(options, runtime, AddressPolicy::DenyMetadata)
    }

    /// The same for a credential endpoint next to this process, at an address that is blocked for targets.
    pub(crate) fn new_for_metadata(
        options: &ClientOptions,
        runtime: &ClientRuntime,
    ) -> Result<Self, SettingError> {
        Self::new_with_policy(options, runtime, AddressPolicy::AllowAll)
    }

    fn new_with_policy(
        options: &ClientOptions,
        runtime: &ClientRuntime,
        policy: AddressPolicy,
    ) -> Result<Self, SettingError> {
        let url = BaseUrl::parse_with_policy(&options.url, policy)?;
        let endpoint = url.endpoint();
        let names = DnsCache::new(endpoint.host(), endpoint.port(), Arc::clone(&runtime.resolver), policy);
        let offer = match options.http2 {
            Http2Policy::Negotiated => AlpnOffer::Either,
            Http2Policy::Always => AlpnOffer::Http2,
            Http2Policy::Never => AlpnOffer::Http1,
        };
        let pools = |_| {
            let timing = (runtime.timer, options.limits.connect_timeout);
            let connect = Connector::new(endpoint, names.clone(), offer, options.tls.as_ref(), timing)?;
            Ok(Pools {
                http1: http1::Http1Pool::new(endpoint.clone(), connect, runtime.timer, options.pool),
                http2: http2::Http2Pool::new(runtime.timer, options.max_concurrent_streams, options.pool),
                negotiated_http2: AtomicBool::new(options.http2 == Http2Policy::Always),
            })
        };
        let pools = (0..options.cores.max(1)).map(pools).collect::<Result<_, SettingError>>()?;
        let http2 = match (endpoint.scheme(), options.http2) {
            // Without TLS there is no ALPN.
            (http1::Scheme::Http, Http2Policy::Negotiated) => Http2Policy::Never,
            (_, http2) => http2,
        };
        Ok(Self { url, http2, limits: options.limits, wall_clock: Arc::clone(&runtime.wall_clock), pools })
    }

    /// The server's URL.
    #[must_use]
    pub const fn url(&self) -> &BaseUrl {
        &self.url
    }

    pub(crate) fn timer(&self) -> TokioTimer {
        *self.pools[0].http1.timer()
    }

    pub(crate) fn utc_now(&self) -> UtcTime {
        (self.wall_clock)()
    }

    /// Sends a request and waits for the response head. Dropping the future cancels the request as far as possible: its
    /// connection or stream is closed.
    pub async fn send<Text: AsRef<str>>(
        &self,
        request: HttpRequest<'_, Text>,
    ) -> Result<ClientResponse, SendFailure> {
        let pools = &self.pools[CORE.with(Cell::get) % self.pools.len()];
        if self.http2 == Http2Policy::Never {
            return http1::send(&pools.http1, request, &self.limits).await.map(ClientResponse::from);
        }
        // Boxed, so that requests over HTTP/1.1 do not carry the larger future.
        Box::pin(self.send_negotiated(pools, request)).await
    }

    async fn send_negotiated<Text: AsRef<str>>(
        &self,
        pools: &Pools,
        request: HttpRequest<'_, Text>,
    ) -> Result<ClientResponse, SendFailure> {
        request.check()?;
        let mut resent = false;
        let mut pooled = pools.http2.take(pools.http1.timer().monotonic());
        loop {
            let (lease, is_pooled) = match pooled.take() {
                Some(lease) => (lease, true),
                None => {
                    if !resent {
                        match http1::send_pooled(&pools.http1, &request, &self.limits).await {
                            PooledSendDecision::Completed(outcome) => {
                                return outcome.map(ClientResponse::from);
                            }
                            PooledSendDecision::Resend => resent = true,
                            PooledSendDecision::NoConnection => {}
                        }
                    }
                    match self.open(pools, resent).await? {
                        OpenedConnection::Http1(connection) => {
                            let sent = http1::send_on(&pools.http1, &request, &self.limits, connection);
                            return Ok(ClientResponse { resent, ..ClientResponse::from(sent.await?) });
                        }
                        OpenedConnection::Http2 { lease, is_pooled } => (lease, is_pooled),
                    }
                }
            };
            match http2::send(self.url.endpoint(), &request, &self.limits, lease, is_pooled).await {
                Err(SendFailure::StaleConnection) if request.resend_on_stale && is_pooled && !resent => {
                    resent = true;
                }
                outcome => {
                    return outcome
                        .map(|response| ClientResponse { resent, ..ClientResponse::from(response) });
                }
            }
        }
    }

    /// A new connection, or a stream on one that another request opened while this one waited. A request
    /// that is sent for the second time always gets a new connection, so that it cannot meet another one that is
    /// closing.
    async fn open(&self, pools: &Pools, resent: bool) -> Result<OpenedConnection, SendFailure> {
        let timer = pools.http1.timer();
        let until = Deadline::after(timer.monotonic(), self.limits.connect_timeout);
        let _opening = if pools.negotiated_http2.load(Ordering::Relaxed) {
            let opening = timeout_at(timer, until, pools.http2.opening.lock()).await;
            let opening = opening.ok_or(SendFailure::ConnectTimedOut)?;
            if !resent && let Some(lease) = pools.http2.take(timer.monotonic()) {
                return Ok(OpenedConnection::Http2 { lease, is_pooled: true });
            }
            Some(opening)
        } else {
            None
        };
        let connection = http1::connect(&pools.http1, &self.limits).await?;
        let is_http2 = self.http2 == Http2Policy::Always || connection.stream.negotiated_http2();
        pools.negotiated_http2.store(is_http2, Ordering::Relaxed);
        if !is_http2 {
            return Ok(OpenedConnection::Http1(connection));
        }
        let address = connection.stream.address().clone();
        let handshake =
            timeout_at(timer, until, pools.http2.handshake(connection.stream, Some(address))).await;
        let lease = handshake.ok_or(SendFailure::ConnectTimedOut)??;
        Ok(OpenedConnection::Http2 { lease, is_pooled: false })
    }
}

/// A connection or stream that was opened.
enum OpenedConnection {
    Http1(Connection<ServerStream>),
    Http2 { lease: StreamLease<TokioTimer>, is_pooled: bool },
}

impl From<http1::Http1Response<Connector>> for ClientResponse {
    fn from(response: http1::Http1Response<Connector>) -> Self {
        let http1::Http1Response { status, headers, body, resent } = response;
        let (headers, body) = (ResponseHeaders::Http1(headers), ResponseBody::Http1(body));
        Self { status, headers, body, resent }
    }
}

impl From<http2::Http2Response<TokioTimer>> for ClientResponse {
    fn from(response: http2::Http2Response<TokioTimer>) -> Self {
        let http2::Http2Response { status, headers, body } = response;
        let (headers, body) = (ResponseHeaders::Http2(headers), ResponseBody::Http2(body));
        Self { status, headers, body, resent: false }
    }
}
