//! The thread that answers operators, and how it ends.
//!
//! It goes on while requests under way finish, so that somebody can watch them do so, and ends after them.

use super::Admin;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use seawall_pipeline::Timer as _;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

/// How long the head of a question may take to arrive, and how long a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long questions under way may take to be answered at the end.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// Connections at once. Who has more than that is no operator.
const CONNECTIONS: usize = 64;

/// Operators are answered until it is dropped.
pub(crate) struct AdminListening {
    admin: Arc<Admin>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl AdminListening {
    /// Takes the address. No other process may have it as well: operators would be told of now this one, now that.
    pub(crate) fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    /// Answers from here on.
    pub(crate) fn start(listener: TcpListener, admin: Admin) -> std::io::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let admin = Arc::new(admin);
        let answering = Arc::clone(&admin);
        let thread = std::thread::Builder::new().name("admin".to_owned()).spawn(move || {
            // Without a runtime operators are not answered; callers are.
            if let Ok(tokio) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
                tokio.block_on(accept(listener, answering, stopped));
            }
        })?;
        Ok(Self { admin, stop, thread: Some(thread) })
    }

    pub(crate) fn admin(&self) -> &Admin {
        &self.admin
    }
}

impl Drop for AdminListening {
    fn drop(&mut self) {
        // Nobody listens only if the thread has ended already.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, admin: Arc<Admin>, mut stopped: watch::Receiver<bool>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let (open, places) = (GracefulShutdown::new(), Arc::new(Semaphore::new(CONNECTIONS)));
    let runtime = admin.sight.runtime;
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stopped.changed() => break,
            accepted = listener.accept() => accepted,
        };
        // Out of file descriptors, or a connection that was gone before it was taken: the next may do.
        let Ok((stream, _)) = accepted else {
            runtime.sleep_until(runtime.monotonic() + Duration::from_millis(10)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let _ = stream.set_nodelay(true);
        let admin = Arc::clone(&admin);
        let service = service_fn(move |request| {
            let admin = Arc::clone(&admin);
            async move { Ok::<_, Infallible>(admin.answer(request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .max_headers(100)
            .serve_connection(TokioIo::new(stream), service);
        let watched = open.watch(connection);
        crate::listen::serve(async move {
            // A connection that breaks has nobody left to be told.
            let _ = watched.await;
            drop(place);
        });
    }
    drop(listener);
    tokio::select! {
        biased;
        () = open.shutdown() => {}
        () = runtime.sleep_until(runtime.monotonic() + LAST_ANSWERS) => {}
    }
}
