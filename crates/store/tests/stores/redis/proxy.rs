//! A TCP proxy whose connections can die without a reset.

use std::future::pending;
use std::net::Ipv4Addr;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Forwards connections to a local port, until it is told to drop their state.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    forgotten: watch::Sender<u32>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn start(to: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (forgotten, watch) = watch::channel(0);
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let mut forgotten = watch.clone();
                forgotten.mark_unchanged();
                connections.spawn(async move {
                    let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => {}
                        // Both ends stay open, but nothing is forwarded any more.
                        _ = forgotten.changed() => pending().await,
                    }
                });
            }
        });
        Self { port, forgotten, _accepting: accepting }
    }

    /// Existing connections forward nothing any more, and neither end is notified. New ones work.
    pub(crate) fn forget_connections(&self) {
        self.forgotten.send_modify(|times| *times += 1);
    }
}
