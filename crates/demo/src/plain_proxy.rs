//! A plain reverse proxy, to compare with.
//!
//! It does what a usual one does, and does it well: it pools connections to the model, passes streams through as they
//! arrive, allows the model half a minute of silence, passes a broken answer on as broken, and drains at shutdown. It
//! makes one attempt, does not inspect what it carries, and keeps no state.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{
    CONNECTION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use seawall_core::deadline::Deadline;
use seawall_core::runtime::{Timer as _, timeout_at};
use seawall_core::time::Timestamp;
use seawall_gateway::TokioRuntime;
use seawall_testkit::ReservedPort;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The usual timeout for a silent model.
pub(crate) const UPSTREAM_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Hop-by-hop headers.
const HOP_BY_HOP_HEADERS: [HeaderName; 5] =
    [CONNECTION, HeaderName::from_static("keep-alive"), TE, TRANSFER_ENCODING, UPGRADE];

/// A plain proxy on a port.
pub(crate) struct PlainProxy {
    port: ReservedPort,
    connector: PooledConnector,
    timeouts: ProxyTimeouts,
    running: Option<(watch::Sender<bool>, JoinSet<()>)>,
}

/// The timeouts of a proxy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProxyTimeouts {
    /// For a silent model.
    pub(crate) idle_timeout: Duration,
    /// For draining at shutdown.
    pub(crate) drain: Duration,
}

impl PlainProxy {
    /// Listens in front of `model`.
    pub(crate) fn start(
        model: SocketAddr,
        runtime: TokioRuntime,
        timeouts: ProxyTimeouts,
    ) -> io::Result<Self> {
        let connector = PooledConnector {
            model,
            runtime,
            idle_timeout: timeouts.idle_timeout,
            idle_connections: Arc::default(),
        };
        let mut plain = Self { port: ReservedPort::reserve()?, connector, timeouts, running: None };
        plain.restart()?;
        Ok(plain)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address
    }

    /// Shuts down gracefully, within the drain timeout.
    pub(crate) async fn stop(&mut self) {
        let Some((stop, mut tasks)) = self.running.take() else { return };
        // This fails only if it has ended already.
        let _ = stop.send(true);
        while tasks.join_next().await.is_some() {}
        self.connector.idle_connections.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The number of pooled connections to the model.
    #[cfg(test)]
    pub(crate) fn idle_connections(&self) -> usize {
        self.connector.idle_connections.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Listens again on the same port.
    pub(crate) fn restart(&mut self) -> io::Result<()> {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(self.port.listen()?, self.connector.clone(), stopped, self.timeouts.drain));
        self.running = Some((stop, tasks));
        Ok(())
    }
}

async fn accept(
    listener: TcpListener,
    connector: PooledConnector,
    mut stopped: watch::Receiver<bool>,
    drain: Duration,
) {
    let mut connections = JoinSet::new();
    let watcher = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            _ = stopped.changed() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else { continue };
        // Without this, Nagle's algorithm delays the last piece of an answer.
        let _ = stream.set_nodelay(true);
        let connector = connector.clone();
        let service = service_fn(move |request| {
            let connector = connector.clone();
            async move { Ok::<_, Infallible>(connector.proxy(request).await) }
        });
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        let watched = watcher.watch(connection);
        connections.spawn(async move {
            // A broken answer ends its connection: that is how it is passed on.
            let _ = watched.await;
        });
    }
    drop(listener);
    let timer = connector.runtime;
    timeout_at(&timer, Deadline::after(timer.monotonic(), drain), watcher.shutdown()).await;
    connections.shutdown().await;
}

/// The connector to the model, with its connection pool.
#[derive(Clone)]
struct PooledConnector {
    model: SocketAddr,
    runtime: TokioRuntime,
    idle_timeout: Duration,
    idle_connections: Arc<Mutex<Vec<SendRequest<Full<Bytes>>>>>,
}

/// Why there is no answer to pass on.
enum ProxyError {
    BadGateway,
    TimedOut,
}

type ProxyBody = Either<Full<Bytes>, ProxiedBody>;

impl PooledConnector {
    async fn proxy(&self, request: Request<Incoming>) -> Response<ProxyBody> {
        match self.forward(request).await {
            Ok(response) => response.map(Either::Right),
            Err(ProxyError::BadGateway) => error_page(StatusCode::BAD_GATEWAY, "502 Bad Gateway"),
            Err(ProxyError::TimedOut) => error_page(StatusCode::GATEWAY_TIMEOUT, "504 Gateway Time-out"),
        }
    }

    async fn forward(&self, request: Request<Incoming>) -> Result<Response<ProxiedBody>, ProxyError> {
        let (mut head, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| ProxyError::BadGateway)?.to_bytes();
        strip_hop_by_hop(&mut head.headers);
        let host = HeaderValue::from_str(&self.model.to_string()).map_err(|_| ProxyError::BadGateway)?;
        head.headers.insert(HOST, host);
        let mut request = Request::from_parts(head, Full::new(body));
        loop {
            let (mut sender, is_new) = match self.pooled_connection().await {
                Some(sender) => (sender, false),
                None => (self.connect().await?, true),
            };
            let idle_timeout = Deadline::after(self.runtime.monotonic(), self.idle_timeout);
            let sent = timeout_at(&self.runtime, idle_timeout, sender.try_send_request(request)).await;
            match sent.ok_or(ProxyError::TimedOut)? {
                Ok(response) => return Ok(self.proxied(response, sender)),
                // The model had closed a pooled connection and has not seen the request.
                Err(mut error) => match error.take_message() {
                    Some(unsent) if !is_new => request = unsent,
                    _ => return Err(ProxyError::BadGateway),
                },
            }
        }
    }

    fn proxied(
        &self,
        response: Response<Incoming>,
        sender: SendRequest<Full<Bytes>>,
    ) -> Response<ProxiedBody> {
        let (mut head, body) = response.into_parts();
        strip_hop_by_hop(&mut head.headers);
        let proxied = ProxiedBody { body, connector: self.clone(), sender: Some(sender), idle_timer: None };
        Response::from_parts(head, proxied)
    }

    async fn pooled_connection(&self) -> Option<SendRequest<Full<Bytes>>> {
        loop {
            let mut sender = self.idle_connections.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            if sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, ProxyError> {
        let stream = TcpStream::connect(self.model).await.map_err(|_| ProxyError::BadGateway)?;
        let _ = stream.set_nodelay(true);
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|_| ProxyError::BadGateway)?;
        spawn_connection(async move {
            // The request learns from its own futures how the connection ended.
            let _ = connection.await;
        });
        Ok(sender)
    }
}

/// The only place that spawns a task: a connection to the model, which ends when it is no longer used.
#[expect(clippy::disallowed_methods, reason = "a kept connection outlives the request that opened it")]
fn spawn_connection(connection: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(connection);
}

fn strip_hop_by_hop(headers: &mut HeaderMap) {
    for name in HOP_BY_HOP_HEADERS {
        headers.remove(name);
    }
}

fn error_page(status: StatusCode, title: &str) -> Response<ProxyBody> {
    let page =
        format!("<html>\n<head><title>{title}</title></head>\n<body><h1>{title}</h1></body>\n</html>\n");
    let mut response = Response::new(Either::Left(Full::from(page)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
    response
}

/// A response body on its way through.
struct ProxiedBody {
    body: Incoming,
    connector: PooledConnector,
    sender: Option<SendRequest<Full<Bytes>>>,
    idle_timer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Body for ProxiedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(None) => {
                if let Some(sender) = this.sender.take() {
                    this.connector
                        .idle_connections
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(sender);
                }
                Poll::Ready(None)
            }
            Poll::Ready(Some(frame)) => {
                this.idle_timer = None;
                Poll::Ready(Some(frame.map_err(io::Error::other)))
            }
            Poll::Pending => {
                let runtime = this.connector.runtime;
                let until: Timestamp = runtime.monotonic() + this.connector.idle_timeout;
                let idle_timer = this.idle_timer.get_or_insert_with(|| Box::pin(runtime.sleep_until(until)));
                idle_timer.as_mut().poll(context).map(|()| Some(Err(io::ErrorKind::TimedOut.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        // Only reading to the end shows it, which returns the connection to the pool.
        false
    }
}
