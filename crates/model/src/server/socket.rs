//! The TCP connection under a request, for connection-level faults.

use socket2::{SockRef, Socket};
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;

/// A second handle to a connection's socket.
#[derive(Debug)]
pub(super) struct ResettableSocket(Socket);

impl ResettableSocket {
    pub(super) fn new(stream: &TcpStream) -> io::Result<Self> {
        // Events are small and must be sent when they are due, so Nagle's algorithm is off.
        stream.set_nodelay(true)?;
        SockRef::from(stream).try_clone().map(Self)
    }

    /// Makes the connection end with a TCP reset when it is closed.
    pub(super) fn reset_when_closed(&self) {
        // If this fails, the connection is already gone.
        let _ = self.0.set_linger(Some(Duration::ZERO));
    }
}
