//! A separate gateway with local limits in its own state directory, which is killed repeatedly.
//!
//! One caller constantly exceeds its limit. The number of admitted requests in any minute must stay within the limit,
//! whatever was killed in between. It has a model of its own, so that its spending does not mix with that of the nodes.

use crate::caller::{Got, ask};
use crate::history::History;
use crate::model::Model;
use crate::node::Node;
use crate::run::RunOptions;
use crate::schedule::{MODELS, NODES};
use crate::setting::NodeSettings;
use crate::traffic::{Arrival, Who};
use seawall_core::handle::Timer as _;
use seawall_core::vocabulary::Tier;
use seawall_gateway::TokioRuntime;
use std::path::Path;
use std::time::Duration;
use tokio::sync::watch;

/// The caller: a tier whose limit is reached within seconds.
pub(crate) const WHO: Who = Who { tier: Tier::Guest, number: 0 };
/// The interval between its requests.
const EVERY: Duration = Duration::from_millis(150);
/// The time between two kills.
const LIVES: Duration = Duration::from_millis(400);
/// A budget that it cannot exhaust.
const CENTS: u64 = 100_000;

/// The gateway and its model.
pub(crate) struct Lone {
    node: Node,
    _model: Model,
    runtime: TokioRuntime,
}

impl Lone {
    pub(crate) async fn start(
        options: &RunOptions,
        folder: &Path,
        runtime: TokioRuntime,
    ) -> anyhow::Result<Self> {
        let model = Model::start(MODELS, &options.program, folder, options.seed, runtime).await?;
        // It is judged by its answers alone, so its processes are not recorded with those of the nodes.
        let node = Node::new(NODES, folder, &options.program, runtime, History::default())?;
        node.write(&NodeSettings {
            listen: node.address(),
            folder: &node.folder,
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
            self.runtime.sleep_until(self.runtime.monotonic() + LIVES).await;
        }
        Ok(())
    }

    /// Sends requests until the run is over, and records those that were admitted.
    pub(crate) async fn ask(&self, history: &History, mut is_over: watch::Receiver<bool>) {
        loop {
            let asked = ask(&Arrival::whole(WHO), &[self.node.address()], self.runtime).await;
            if let Got { put, head: Some(head), status: Some(200), .. } = asked {
                history.seen().lone.push((put, head));
            }
            tokio::select! {
                biased;
                _ = is_over.changed() => return,
                () = self.runtime.sleep_until(self.runtime.monotonic() + EVERY) => {}
            }
        }
    }

    pub(crate) async fn stop(&self) -> anyhow::Result<()> {
        self.node.stop().await
    }
}
