//! A plain reverse proxy, to compare with.
//!
//! It does what a usual one does, and does it well: connections to the model are kept and used again, streams pass as
//! they come, a model may be silent for half a minute, a broken answer is passed on as broken, and told to stop it lets
//! what is under way finish. It tries once, knows nothing of what it carries, and remembers nothing.

use crate::port::Port;
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
use seawall_core::handle::{Timer as _, within};
use seawall_core::time::Timestamp;
use seawall_gateway::TokioRuntime;
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

/// How long the model may be silent, usually.
pub(crate) const SILENCE: Duration = Duration::from_secs(30);
/// Headers that are about one connection and not about what passes through.
const OF_ONE_CONNECTION: [HeaderName; 5] =
    [CONNECTION, HeaderName::from_static("keep-alive"), TE, TRANSFER_ENCODING, UPGRADE];

/// A plain proxy at a port.
pub(crate) struct Plain {
    port: Port,
    way: Way,
    waits: Waits,
    running: Option<(watch::Sender<bool>, JoinSet<()>)>,
}

/// How long a proxy waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// For a model that says nothing.
    pub(crate) silence: Duration,
    /// For what is under way to finish.
    pub(crate) drain: Duration,
}

impl Plain {
    /// Listens in front of `model`.
    pub(crate) fn start(model: SocketAddr, runtime: TokioRuntime, waits: Waits) -> io::Result<Self> {
        let way = Way { model, runtime, silence: waits.silence, kept: Arc::default() };
        let mut plain = Self { port: Port::free()?, way, waits, running: None };
        plain.start_again()?;
        Ok(plain)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address
    }

    /// Lets what is under way finish, as far as there is time for it.
    pub(crate) async fn stop(&mut self) {
        let Some((stop, mut tasks)) = self.running.take() else { return };
        // Nobody listens only if it has ended already.
        let _ = stop.send(true);
        while tasks.join_next().await.is_some() {}
        self.way.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// How many connections to the model wait for the next request.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.way.kept.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Listens again on the same port.
    pub(crate) fn start_again(&mut self) -> io::Result<()> {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(self.port.listen()?, self.way.clone(), stopped, self.waits.drain));
        self.running = Some((stop, tasks));
        Ok(())
    }
}

async fn accept(listener: TcpListener, way: Way, mut stopped: watch::Receiver<bool>, drain: Duration) {
    let mut connections = JoinSet::new();
    let watcher = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            _ = stopped.changed() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else { continue };
        // Without it the last piece of an answer waits for nothing.
        let _ = stream.set_nodelay(true);
        let way = way.clone();
        let service = service_fn(move |request| {
            let way = way.clone();
            async move { Ok::<_, Infallible>(way.pass(request).await) }
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
    let timer = way.runtime;
    within(&timer, Deadline::after(timer.monotonic(), drain), watcher.shutdown()).await;
    connections.shutdown().await;
}

/// The way to the model, with connections that are kept for the next request.
#[derive(Clone)]
struct Way {
    model: SocketAddr,
    runtime: TokioRuntime,
    silence: Duration,
    kept: Arc<Mutex<Vec<SendRequest<Full<Bytes>>>>>,
}

/// Why there is no answer to pass on.
enum Failed {
    Gateway,
    Silent,
}

type PassedBody = Either<Full<Bytes>, Passing>;

impl Way {
    async fn pass(&self, request: Request<Incoming>) -> Response<PassedBody> {
        match self.answer(request).await {
            Ok(response) => response.map(Either::Right),
            Err(Failed::Gateway) => page(StatusCode::BAD_GATEWAY, "502 Bad Gateway"),
            Err(Failed::Silent) => page(StatusCode::GATEWAY_TIMEOUT, "504 Gateway Time-out"),
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Passing>, Failed> {
        let (mut head, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Failed::Gateway)?.to_bytes();
        strip(&mut head.headers);
        let host = HeaderValue::from_str(&self.model.to_string()).map_err(|_| Failed::Gateway)?;
        head.headers.insert(HOST, host);
        let mut request = Request::from_parts(head, Full::new(body));
        loop {
            let (mut sender, is_new) = match self.used_before().await {
                Some(sender) => (sender, false),
                None => (self.connect().await?, true),
            };
            let silence = Deadline::after(self.runtime.monotonic(), self.silence);
            let sent = within(&self.runtime, silence, sender.try_send_request(request)).await;
            match sent.ok_or(Failed::Silent)? {
                Ok(response) => return Ok(self.passing(response, sender)),
                // The model had closed a kept connection, and has not seen the request.
                Err(mut error) => match error.take_message() {
                    Some(unsent) if !is_new => request = unsent,
                    _ => return Err(Failed::Gateway),
                },
            }
        }
    }

    fn passing(&self, response: Response<Incoming>, sender: SendRequest<Full<Bytes>>) -> Response<Passing> {
        let (mut head, body) = response.into_parts();
        strip(&mut head.headers);
        let passing = Passing { body, way: self.clone(), sender: Some(sender), alarm: None };
        Response::from_parts(head, passing)
    }

    async fn used_before(&self) -> Option<SendRequest<Full<Bytes>>> {
        loop {
            let mut sender = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            if sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Failed> {
        let stream = TcpStream::connect(self.model).await.map_err(|_| Failed::Gateway)?;
        let _ = stream.set_nodelay(true);
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|_| Failed::Gateway)?;
        start(async move {
            // How it ended is told to who asks through it.
            let _ = connection.await;
        });
        Ok(sender)
    }
}

/// The one place that starts a task: a connection to the model, which ends when nobody asks through it any more.
#[expect(clippy::disallowed_methods, reason = "a kept connection outlives the request that opened it")]
fn start(connection: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(connection);
}

fn strip(headers: &mut HeaderMap) {
    for name in OF_ONE_CONNECTION {
        headers.remove(name);
    }
}

fn page(status: StatusCode, title: &str) -> Response<PassedBody> {
    let page =
        format!("<html>\n<head><title>{title}</title></head>\n<body><h1>{title}</h1></body>\n</html>\n");
    let mut response = Response::new(Either::Left(Full::from(page)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
    response
}

/// An answer on its way through.
struct Passing {
    body: Incoming,
    way: Way,
    sender: Option<SendRequest<Full<Bytes>>>,
    alarm: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Body for Passing {
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
                    this.way.kept.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
                }
                Poll::Ready(None)
            }
            Poll::Ready(Some(frame)) => {
                this.alarm = None;
                Poll::Ready(Some(frame.map_err(io::Error::other)))
            }
            Poll::Pending => {
                let runtime = this.way.runtime;
                let until: Timestamp = runtime.monotonic() + this.way.silence;
                let alarm = this.alarm.get_or_insert_with(|| Box::pin(runtime.sleep_until(until)));
                alarm.as_mut().poll(context).map(|()| Some(Err(io::ErrorKind::TimedOut.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        // Said only by reading to the end, which gives the connection back.
        false
    }
}
