//! Closes a listener without resetting a client.
//!
//! A client whose handshake is complete regards itself as connected; closing the listener before the connection has
//! been accepted resets it. So a listener that is about to close first stops answering new handshakes, then accepts
//! what is complete or about to be. A client that is not answered retries by itself, and by then is refused or reaches
//! another process at the same address.

use crate::runtime::TokioRuntime;
use seawall_core::time::Timestamp;
use seawall_pipeline::Timer as _;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;
use tokio::net::TcpStream;

/// How long a handshake in progress may take to complete.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(20);

/// How often completed handshakes are accepted meanwhile.
const ACCEPT_INTERVAL: Duration = Duration::from_millis(2);

/// Passes every connection of the backlog to `accept`, then closes the listener.
pub(super) async fn drain_backlog(
    listener: tokio::net::TcpListener,
    runtime: TokioRuntime,
    mut accept: impl FnMut(TcpStream, SocketAddr),
) {
    // Ask the system directly, because the runtime's readiness state may be slightly out of date.
    let Ok(listener) = listener.into_std() else { return };
    let ignores_handshakes = ignore_new_handshakes(&listener).is_ok();
    let end: Timestamp = runtime.monotonic() + HANDSHAKE_TIMEOUT;
    loop {
        accept_completed(&listener, &mut accept);
        let now = runtime.monotonic();
        if !ignores_handshakes || now >= end {
            return;
        }
        runtime.sleep_until(end.min(now + ACCEPT_INTERVAL)).await;
    }
}

fn accept_completed(listener: &TcpListener, accept: &mut impl FnMut(TcpStream, SocketAddr)) {
    // Bounded, because without a filter new connections may arrive as fast as they are accepted.
    let completed = std::iter::from_fn(|| listener.accept().ok()).take(super::LISTEN_BACKLOG.into());
    for (stream, peer) in completed {
        let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
        stream.into_iter().for_each(|stream| accept(stream, peer));
    }
}

/// Makes the system drop packets that begin a handshake: those with SYN and without ACK.
#[cfg(target_os = "linux")]
fn ignore_new_handshakes(listener: &TcpListener) -> std::io::Result<()> {
    use socket2::{SockFilter, SockRef};

    // Classic BPF: class and mode of each instruction, as in `linux/bpf_common.h`.
    const LOAD_BYTE_ABSOLUTE: u16 = 0x30;
    const AND_CONSTANT: u16 = 0x54;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN_CONSTANT: u16 = 0x06;
    /// The position of the flags in a TCP header, and two of them.
    const FLAGS: u32 = 13;
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    const DROP: u32 = 0;
    const KEEP: u32 = u32::MAX;

    SockRef::from(listener).attach_filter(&[
        SockFilter::new(LOAD_BYTE_ABSOLUTE, 0, 0, FLAGS),
        SockFilter::new(AND_CONSTANT, 0, 0, SYN | ACK),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, SYN),
        SockFilter::new(RETURN_CONSTANT, 0, 0, DROP),
        SockFilter::new(RETURN_CONSTANT, 0, 0, KEEP),
    ])
}

#[cfg(not(target_os = "linux"))]
fn ignore_new_handshakes(_listener: &TcpListener) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}
