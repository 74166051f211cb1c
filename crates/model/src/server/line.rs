//! The connection under a request, for the faults that happen to connections.

use socket2::{SockRef, Socket};
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;

/// A second handle to a connection's socket.
#[derive(Debug)]
pub(super) struct Line(Socket);

impl Line {
    pub(super) fn of(stream: &TcpStream) -> io::Result<Self> {
        // An event is small and must leave when it is due.
        stream.set_nodelay(true)?;
        SockRef::from(stream).try_clone().map(Self)
    }

    /// Makes the connection end with a reset, once it is closed.
    pub(super) fn reset_when_closed(&self) {
        // Where it fails the connection is gone already.
        let _ = self.0.set_linger(Some(Duration::ZERO));
    }
}
