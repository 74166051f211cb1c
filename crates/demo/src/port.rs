//! A port that stays ours while nobody listens on it.
//!
//! Between the stop and the start of a front its port would be free, and a caller who knocks there could be given that
//! very port to call from, and reach itself. A socket that is bound and never listens keeps it: who knocks is refused,
//! and only who shares the port on purpose can have it.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;

/// How many connections may wait to be taken.
const BACKLOG: i32 = 1_024;

/// A port of the loopback address, kept until this is dropped.
#[derive(Debug)]
pub struct Port {
    _kept: Socket,
    /// Which it is.
    pub address: SocketAddr,
}

impl Port {
    /// A free one.
    pub fn free() -> io::Result<Self> {
        // Not to be taken over by who only wants an address that was used before.
        let kept = shared()?;
        kept.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
        let address = kept.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { _kept: kept, address })
    }

    /// Listens on it.
    pub fn listen(&self) -> io::Result<tokio::net::TcpListener> {
        let socket = shared()?;
        socket.set_reuse_address(true)?;
        socket.bind(&self.address.into())?;
        socket.set_nonblocking(true)?;
        socket.listen(BACKLOG)?;
        tokio::net::TcpListener::from_std(socket.into())
    }
}

fn shared() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_port(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::Port;
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn a_kept_port_refuses_who_knocks_and_who_wants_it_until_it_listens() {
        let port = Port::free().unwrap();
        assert_eq!(TcpStream::connect(port.address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(TcpListener::bind(port.address).unwrap_err().kind(), ErrorKind::AddrInUse);
        let first = port.listen().unwrap();
        assert!(TcpStream::connect(port.address).is_ok());
        drop(first);
        assert_eq!(TcpStream::connect(port.address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let _second = port.listen().unwrap();
        assert!(TcpStream::connect(port.address).is_ok());
    }
}
