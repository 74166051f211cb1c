//! The models behind both sides: the same seed and the same faults at the same times, and a bill for each side.

use crate::DemoError;
use crate::demo_gateway::ReportedCalls;
use crate::schedule::OutageSchedule;
use seawall_model::engine::{Engine, ModelOptions, Pace};
use seawall_model::server::{Meter, ModelServer};
use seawall_testkit::client::get;
use serde_json::Value;
use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinSet;

/// One side's models, served until this is dropped.
pub(crate) struct ModelServers {
    pub(crate) address: SocketAddr,
    meter: Meter,
    _serving: JoinSet<()>,
}

impl ModelServers {
    /// Starts the models. Fault times count from here.
    pub(crate) async fn start(schedule: OutageSchedule, seed: u64) -> Result<Self, DemoError> {
        let engine = Engine::new(ModelOptions { seed, faults: schedule.faults(), pace: Pace::Real })?;
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = ModelServer::bind(engine, free).await.map_err(DemoError::Listen)?;
        let (address, meter) = (server.address().map_err(DemoError::Listen)?, server.meter());
        let mut serving = JoinSet::new();
        serving.spawn(server.run(pending(), Duration::ZERO));
        Ok(Self { address, meter, _serving: serving })
    }

    /// The bill so far, in nano-dollars.
    pub(crate) fn billed(&self) -> u64 {
        self.meter.bill().nano_dollars()
    }

    /// The answers that were delivered completely, including their usage.
    pub(crate) async fn completed_calls(&self) -> Result<ReportedCalls, DemoError> {
        let calls = get(self.address, "/admin/calls").await.map_err(DemoError::Bill)?;
        let calls: Value = serde_json::from_slice(&calls).map_err(|error| DemoError::Bill(error.into()))?;
        let mut completed = ReportedCalls::default();
        for call in calls["calls"].as_array().into_iter().flatten() {
            if call["end"] == "complete" && call["status"] == 200 {
                completed.calls = completed.calls.saturating_add(1);
                let price = call["nano_dollars"].as_u64().unwrap_or_default();
                completed.nano_dollars = completed.nano_dollars.saturating_add(price);
            }
        }
        Ok(completed)
    }
}
