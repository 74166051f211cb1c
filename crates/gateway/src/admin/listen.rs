//! The thread that serves the admin API, and its shutdown.
//!
//! It runs on while requests in flight drain, so that an operator can watch them, and ends after them.

use super::AdminState;
use crate::edge::CheckedStream;
use crate::head_limit::MAX_HEAD;
use crate::supervisor::{ShutdownStage, StopSignal, Supervisor, ThreadOptions};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use seawall_pipeline::Timer as _;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Header timeout, and idle timeout of a connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long admin requests in flight may take to finish at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// Connection limit. Operators need no more than this.
const CONNECTIONS: usize = 64;

/// Binds the address without sharing it: with two processes on it, answers would come from either one.
pub(crate) fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Starts to serve.
pub(crate) fn start(
    listener: TcpListener,
    admin: &Arc<AdminState>,
    supervisor: &Supervisor,
) -> std::io::Result<()> {
    let (admin, mut listener) = (Arc::clone(admin), Some(listener));
    supervisor.spawn(ThreadOptions::new("admin", ShutdownStage::Admin), move |shutdown| {
        let listener = listener.take().map_or_else(|| bind(admin.address), Ok)?;
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        tokio.block_on(accept(listener, &admin, shutdown))
    })
}

async fn accept(
    listener: TcpListener,
    admin: &Arc<AdminState>,
    shutdown: &mut StopSignal,
) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let (open, places) = (GracefulShutdown::new(), Arc::new(Semaphore::new(CONNECTIONS)));
    let runtime = admin.status.runtime;
    loop {
        let accepted = tokio::select! {
            biased;
            _ = shutdown.requested() => break,
            accepted = listener.accept() => accepted,
        };
        // Out of file descriptors, or the connection was closed before it was accepted: try the next one.
        let Ok((stream, _)) = accepted else {
            runtime.sleep_until(runtime.monotonic() + Duration::from_millis(10)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let _ = stream.set_nodelay(true);
        let admin = Arc::clone(admin);
        let service = service_fn(move |request| {
            let admin = Arc::clone(&admin);
            async move { Ok::<_, Infallible>(admin.serve(request).await) }
        });
        let stream = CheckedStream::new(stream, move || runtime.monotonic(), || ());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_headers(100)
            .max_header_size(MAX_HEAD)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), service);
        let watched = open.watch(connection);
        crate::listen::spawn(async move {
            // A broken connection has no peer left to report to.
            let _ = watched.await;
            drop(place);
        });
    }
    drop(listener);
    tokio::select! {
        biased;
        () = open.shutdown() => {}
        () = runtime.sleep_until(runtime.monotonic() + DRAIN_TIMEOUT) => {}
    }
    Ok(())
}
