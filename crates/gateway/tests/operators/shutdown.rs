//! Clients that connect while a gateway shuts down.

use crate::running::start;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What became of a connection.
enum Connection {
    Answered,
    /// The gateway accepts no connections any more.
    NotEstablished,
}

fn connect_and_ask(address: SocketAddr) -> Connection {
    // The system would begin the handshake again after a second.
    let Ok(mut connection) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) else {
        return Connection::NotEstablished;
    };
    connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    connection
        .write_all(b"GET /livez HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n")
        .expect("an established connection is not reset");
    let mut text = String::new();
    let read = connection.read_to_string(&mut text).map_err(|error| error.kind());
    assert_ne!(read, Err(ErrorKind::ConnectionReset), "an established connection is not reset");
    assert!(text.starts_with("HTTP/1.1 200"), "{read:?} {text:?}");
    Connection::Answered
}

#[test]
fn a_client_that_is_connected_is_answered_however_late_it_came() {
    for _ in 0..30 {
        let mut gateway = start("");
        let address = gateway.data;
        let answered = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    while matches!(connect_and_ask(address), Connection::Answered) {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            while answered.load(Ordering::Relaxed) < 12 {
                std::thread::yield_now();
            }
            gateway.listening.take().unwrap().shut_down();
        });
    }
}
