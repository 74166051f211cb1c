//! A substitute that ends every answer in the middle as if it were complete.

use crate::demo_gateway::{DemoGateway, LedgerBalance, ReportedCalls};
use crate::demo_run::{DemoSetup, run_demo};
use crate::models::ModelServers;
use crate::plain_proxy::{PlainProxy, ProxyTimeouts, UPSTREAM_IDLE_TIMEOUT};
use crate::schedule::OutageSchedule;
use crate::seawall::DRAIN_TIMEOUT;
use crate::{DemoError, DemoSettings, ProgressMode};
use seawall_core::runtime::Timer as _;
use seawall_gateway::TokioRuntime;
use seawall_testkit::ReservedPort;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const HALF: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
    data: {\"type\":\"message_start\",\"message\":{}}\n\n";

struct Cutter {
    port: ReservedPort,
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

impl DemoGateway for Cutter {
    fn address(&self) -> SocketAddr {
        self.port.address
    }

    async fn stop(&mut self) -> Result<(), DemoError> {
        self.serving.shutdown().await;
        Ok(())
    }

    async fn restart(&mut self) -> Result<(), DemoError> {
        self.serving.spawn(cut(self.port.listen().map_err(DemoError::Listen)?));
        Ok(())
    }

    async fn ledger_balance(&self) -> Result<LedgerBalance, DemoError> {
        Ok(LedgerBalance { posted: u64::MAX, held: 0 })
    }

    fn reported_calls(&self) -> Result<ReportedCalls, DemoError> {
        Ok(ReportedCalls::default())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promises_that_a_stand_in_breaks_are_reported_as_broken() {
    let runtime = TokioRuntime::new();
    let schedule = OutageSchedule { duration: Duration::from_secs(3) };
    let front_models = ModelServers::start(schedule, 1).await.unwrap();
    let plain_models = ModelServers::start(schedule, 1).await.unwrap();
    let started_at = runtime.monotonic();
    let plain = PlainProxy::start(
        plain_models.address,
        runtime,
        ProxyTimeouts { idle_timeout: UPSTREAM_IDLE_TIMEOUT, drain: DRAIN_TIMEOUT },
    )
    .unwrap();
    let mut front = Cutter { port: ReservedPort::reserve().unwrap(), serving: JoinSet::new() };
    front.restart().await.unwrap();
    let setup = DemoSetup { runtime, schedule, started_at, front, front_models, plain, plain_models };
    let report = run_demo(setup, &DemoSettings { seconds: 3, seed: 1 }, ProgressMode::Off).await.unwrap();

    let broken: Vec<_> = report.promises.iter().filter(|one| !one.held).map(|one| one.name).collect();
    for name in [
        "no_request_lost",
        "no_false_completion",
        "abusive_client_rate_limited",
        "spend_within_budget",
        "spend_survives_restart",
    ] {
        assert!(broken.contains(&name), "{name} is not among {broken:?}");
    }
    assert!(!broken.contains(&"nothing_held"), "{broken:?}");
    assert_eq!((report.all_held, report.exit_code()), (false, 1));
    let customers = report.seawall.customers;
    assert_eq!(customers.falsely_complete, customers.truncated, "all ended in good order");
    assert_eq!((customers.answered, customers.in_flight()), (0, 0));
    assert!(customers.truncated > 0 && report.plain.customers.answered > 0);
    assert_eq!(customers.sent, report.plain.customers.sent);
}
