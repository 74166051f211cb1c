//! A substitute that ends every answer in the middle as if it were complete.

use crate::front::{Books, Front, Told};
use crate::models::Models;
use crate::plain::{Plain, SILENCE, Waits};
use crate::play::{Stage, play};
use crate::port::Port;
use crate::seawall::DRAIN;
use crate::timetable::Timetable;
use crate::{DemoError, DemoSettings, Show};
use seawall_core::handle::Timer as _;
use seawall_gateway::TokioRuntime;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const HALF: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
    data: {\"type\":\"message_start\",\"message\":{}}\n\n";

struct Cutter {
    port: Port,
    serving: JoinSet<()>,
}

async fn cut(listener: TcpListener) {
    let mut connections = JoinSet::new();
    while let Ok((mut stream, _)) = listener.accept().await {
        connections.spawn(async move {
            let mut head = [0; 4_096];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(HALF.as_bytes()).await;
            let _ = stream.shutdown().await;
        });
    }
}

impl Front for Cutter {
    fn address(&self) -> SocketAddr {
        self.port.address
    }

    async fn stop(&mut self) -> Result<(), DemoError> {
        self.serving.shutdown().await;
        Ok(())
    }

    async fn start_again(&mut self) -> Result<(), DemoError> {
        self.serving.spawn(cut(self.port.listen().map_err(DemoError::Listen)?));
        Ok(())
    }

    async fn books(&self) -> Result<Books, DemoError> {
        Ok(Books { posted: u64::MAX, held: 0 })
    }

    fn told(&self) -> Result<Told, DemoError> {
        Ok(Told::default())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promises_that_a_stand_in_breaks_are_reported_as_broken() {
    let runtime = TokioRuntime::new();
    let timetable = Timetable { whole: Duration::from_secs(3) };
    let front_models = Models::start(timetable, 1).await.unwrap();
    let plain_models = Models::start(timetable, 1).await.unwrap();
    let zero = runtime.monotonic();
    let plain =
        Plain::start(plain_models.address, runtime, Waits { silence: SILENCE, drain: DRAIN }).unwrap();
    let mut front = Cutter { port: Port::free().unwrap(), serving: JoinSet::new() };
    front.start_again().await.unwrap();
    let stage = Stage { runtime, timetable, zero, front, front_models, plain, plain_models };
    let report = play(stage, &DemoSettings { seconds: 3, seed: 1 }, Show::Nothing).await.unwrap();

    let broken: Vec<_> = report.promises.iter().filter(|one| !one.held).map(|one| one.name).collect();
    for name in
        ["nobody_lost", "no_false_end", "flooder_refused_with_hint", "spend_within_cap", "spend_remembered"]
    {
        assert!(broken.contains(&name), "{name} is not among {broken:?}");
    }
    assert!(!broken.contains(&"nothing_reserved"), "{broken:?}");
    assert_eq!((report.all_held, report.exit_code()), (false, 1));
    let shoppers = report.seawall.shoppers;
    assert_eq!(shoppers.looked_complete, shoppers.ended_falsely, "all ended in good order");
    assert_eq!((shoppers.answered, shoppers.under_way()), (0, 0));
    assert!(shoppers.ended_falsely > 0 && report.plain.shoppers.answered > 0);
    assert_eq!(shoppers.asked, report.plain.shoppers.asked);
}
