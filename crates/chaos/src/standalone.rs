//! A separate gateway with local limits in its own data directory, which is killed repeatedly.
//!
//! One caller constantly exceeds its limit. The number of admitted requests in any minute must stay within the limit,
//! whatever was killed in between. It has a model of its own, so that its spending does not mix with that of the nodes.

use crate::caller::{ResponseObservation, send};
use crate::history::History;
use crate::model::ModelProcess;
use crate::node::GatewayNode;
use crate::run::RunOptions;
use crate::schedule::{MODELS, NODES};
use crate::setting::NodeSettings;
use crate::traffic::{ChaosCaller, ChaosRequest};
use seawall_core::runtime::Timer as _;
use seawall_core::vocabulary::Tier;
use seawall_gateway::TokioRuntime;
use std::path::Path;
use std::time::Duration;
use tokio::sync::watch;

/// The caller: a tier whose limit is reached within seconds.
pub(crate) const CALLER: ChaosCaller = ChaosCaller { tier: Tier::Guest, number: 0 };
/// The interval between its requests.
const REQUEST_INTERVAL: Duration = Duration::from_millis(150);
/// The time between two kills.
const KILL_INTERVAL: Duration = Duration::from_millis(400);
/// A budget that it cannot exhaust.
const CENTS: u64 = 100_000;

/// The gateway and its model.
pub(crate) struct StandaloneGateway {
    node: GatewayNode,
    _model: ModelProcess,
    runtime: TokioRuntime,
}

impl StandaloneGateway {
    pub(crate) async fn start(
        options: &RunOptions,
        directory: &Path,
        runtime: TokioRuntime,
    ) -> anyhow::Result<Self> {
        let model = ModelProcess::start(MODELS, &options.program, directory, options.seed, runtime).await?;
        // It is judged by its answers alone, so its processes are not recorded with those of the nodes.
        let node = GatewayNode::new(NODES, directory, &options.program, runtime, History::default())?;
        node.write(&NodeSettings {
            listen: node.address(),
            directory: &node.directory,
            store: None,
            models: [model.address; MODELS],
            cents: CENTS,
            variant: 0,
        })?;
        node.start().await?;
        Ok(Self { node, _model: model, runtime })
    }

    /// Kills it this many times, with a moment of life in between.
    pub(crate) async fn kill(&self, times: u32) -> anyhow::Result<()> {
        for _ in 0..times {
            self.node.kill_and_start().await?;
            self.runtime.sleep_until(self.runtime.monotonic() + KILL_INTERVAL).await;
        }
        Ok(())
    }

    /// Sends requests until the run is over, and records those that were admitted.
    pub(crate) async fn send_requests(&self, history: &History, mut is_over: watch::Receiver<bool>) {
        loop {
            let response = send(&ChaosRequest::plain(CALLER), &[self.node.address()], self.runtime).await;
            if let ResponseObservation { sent_at, head_at: Some(head_at), status: Some(200), .. } = response {
                history.observations().standalone.push((sent_at, head_at));
            }
            tokio::select! {
                biased;
                _ = is_over.changed() => return,
                () = self.runtime.sleep_until(self.runtime.monotonic() + REQUEST_INTERVAL) => {}
            }
        }
    }

    pub(crate) async fn stop(&self) -> anyhow::Result<()> {
        self.node.stop().await
    }
}
