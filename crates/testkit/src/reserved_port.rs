//! A port that stays reserved while no server listens on it.
//!
//! Between the stop and the restart of a front its port would be free. A connecting caller could then be assigned that
//! very port as its local one, and connect to itself. A socket that is bound and never listens keeps the port:
//! connections are refused, and only a socket that shares the port explicitly can bind it.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;

/// The listen backlog.
const BACKLOG: i32 = 1_024;

/// A port of the loopback address, reserved until this is dropped.
#[derive(Debug)]
pub struct ReservedPort {
    _reservation: Socket,
    /// The address with the port.
    pub address: SocketAddr,
}

impl ReservedPort {
    /// Reserves a free port.
    pub fn reserve() -> io::Result<Self> {
        // Without SO_REUSEADDR, so that a socket which merely reuses addresses cannot take the port over.
        let reserved = reusable_socket()?;
        reserved.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
        let address = reserved.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { _reservation: reserved, address })
    }

    /// Listens on the port.
    pub fn listen(&self) -> io::Result<tokio::net::TcpListener> {
        let socket = reusable_socket()?;
        socket.set_reuse_address(true)?;
        socket.bind(&self.address.into())?;
        socket.set_nonblocking(true)?;
        socket.listen(BACKLOG)?;
        tokio::net::TcpListener::from_std(socket.into())
    }
}

fn reusable_socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_port(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::ReservedPort;
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn a_reserved_port_refuses_connections_and_binds_until_it_listens() {
        let port = ReservedPort::reserve().unwrap();
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
