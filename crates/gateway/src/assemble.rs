//! Builds a running gateway from settings, and applies changed settings to a gateway that is already running.
//!
//! **A start is a reload from nothing.** Both call [`build`](build::build), in which everything happens that can fail, and
//! which changes nothing that is in use. What it returns is put in force by [`RunningState`], which cannot fail. So a
//! reload that fails anywhere changes nothing, and a reload leads to the same state as a start with the same settings.
//!
//! A start also opens the stores, the access log and the sockets, and starts threads. If one of these fails, the start
//! ends and stops the threads that run by then; there is nothing else yet that it could damage.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `build` | everything that can fail |
//! | `derive` | the parts that one version of the settings needs and the next can reuse |
//! | `rules` | the rules of the pipeline, from settings |
//! | `stores` | the stores, open until the gateway ends |
//! | `telemetry` | where events go |
//! | `running` | puts the result in force |

mod build;
mod derive;
mod error;
mod rules;
mod running;
mod stores;
mod telemetry;

pub use error::ServeError;
pub(crate) use running::RunningState;

use crate::connection_limiter::raise_file_limit;
use crate::diagnostics::Diagnostics;
use crate::listen::{ListenSockets, RunningGateway, ThreadLayout};
use crate::runtime::TokioRuntime;
use crate::simulated_target::SimulatedModel;
use crate::supervisor::{GatewayThreads, Supervisor};
use crate::target::TargetEnvironment;
use build::{BuildBase, BuildInputs, build};
use running::StartParts;
use seawall_config::Settings;
use seawall_pipeline::{Tier, Timer as _};
use std::sync::Arc;

/// Everything that [`serve`] needs to start a gateway.
pub struct ServeOptions {
    /// The validated settings.
    pub settings: Arc<Settings>,
    /// The simulated model, if any target uses it.
    pub simulated: Option<SimulatedModel>,
    /// API keys that are valid for this run only; they are not stored.
    pub keys: Vec<(Tier, String)>,
    /// Starts and stops the threads of this gateway, and of no other.
    pub supervisor: Supervisor,
    /// The diagnostics of this process, if they are installed: the metrics show how many were dropped.
    pub diagnostics: Option<Diagnostics>,
}

/// Starts a gateway. It accepts requests when this returns.
pub fn serve(options: ServeOptions) -> Result<RunningGateway, ServeError> {
    let ServeOptions { settings, simulated, keys, supervisor, diagnostics } = options;
    raise_file_limit();
    // A start that fails stops the threads that run by then.
    let threads = GatewayThreads(supervisor);
    let supervisor = &threads.0;
    let layout = ThreadLayout::of(&settings.server);
    let runtime = TokioRuntime::new();
    let started = runtime.monotonic();
    let environment = TargetEnvironment { cores: layout.connection_pools(), runtime, simulated };
    let inputs = BuildInputs { environment, keys };
    let next = build(&settings, &inputs, &BuildBase::Nothing(supervisor))?;
    // Last: connections arrive from here on.
    let sockets = ListenSockets::bind(&settings, layout)?;
    let parts = StartParts {
        inputs,
        started,
        supervisor: supervisor.clone(),
        diagnostics,
        address: sockets.address,
        admin_address: sockets.admin_address,
    };
    let state = RunningState::start(parts, next);
    Ok(RunningGateway::listen(sockets, Arc::new(state), threads)?)
}

/// Checks whether a gateway with these settings would start. Reads every secret and file that the settings name, and
/// builds every part that needs no listening socket, no lasting thread and no access to the data directory.
pub fn preflight(options: ServeOptions) -> Result<(), ServeError> {
    let ServeOptions { settings, simulated, keys, supervisor: _, diagnostics: _ } = options;
    let environment = TargetEnvironment { cores: 1, runtime: TokioRuntime::new(), simulated };
    build(&settings, &BuildInputs { environment, keys }, &BuildBase::Check).map(drop)
}

#[cfg(test)]
mod tests;
