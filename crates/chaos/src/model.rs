//! A model server: a `seawall model` process whose faults are changed while it runs.

use crate::process::start_ready;
use crate::schedule::FALSE_BILLING;
use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::header::HOST;
use seawall_gateway::TokioRuntime;
use seawall_testkit::ChildProcess;
use seawall_testkit::client::{drive, get, open};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio::net::TcpStream;

/// Calls that a model keeps; if there were more, some are missing.
const CALL_LOG_CAPACITY: usize = 10_000;

pub(crate) struct ModelProcess {
    pub(crate) address: SocketAddr,
    pub(crate) errors: PathBuf,
    _process: ChildProcess,
}

/// The calls of a model, as billed by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelBill {
    /// The cost of what was delivered, in nano-dollars.
    pub(crate) nano_dollars: u64,
    /// Calls that did not complete and are billed by what had been sent.
    pub(crate) unfinished: u64,
    /// Calls that were billed, or reported, at more than their requests allow, and the amount billed for them.
    pub(crate) false_billing: (u64, u64),
    /// Whether some calls are missing.
    pub(crate) is_partial: bool,
}

impl ModelProcess {
    pub(crate) async fn start(
        number: usize,
        program: &Path,
        directory: &Path,
        seed: u64,
        runtime: TokioRuntime,
    ) -> anyhow::Result<Self> {
        let errors = directory.join(format!("model-{number}-errors.txt"));
        let mut command = Command::new(program);
        command.args(["model", "--listen", "127.0.0.1:0", "--json", "--seed", &seed.to_string()]);
        let (process, ready) = start_ready(&mut command, &errors, runtime).await?;
        let url = ready["url"].as_str().and_then(|url| url.strip_prefix("http://"));
        let address = url.context("the model did not print its address")?.parse()?;
        Ok(Self { address, errors, _process: process })
    }

    /// Replaces the fault rules.
    pub(crate) async fn set_faults(&self, rules: &Value) -> anyhow::Result<()> {
        let (mut sender, connection) = open(TcpStream::connect(self.address).await?).await?;
        let request = Request::post("/admin/faults").header(HOST, self.address.to_string());
        let request = request.body(Full::<Bytes>::from(rules.to_string()))?;
        let response = drive(connection, sender.send_request(request)).await?;
        ensure!(response.status().is_success(), "the model rejected {rules}: {}", response.status());
        Ok(())
    }

    /// The bill so far.
    pub(crate) async fn billed(&self) -> anyhow::Result<ModelBill> {
        let bill: Value = serde_json::from_slice(&get(self.address, "/admin/bill").await?)?;
        let calls: Value = serde_json::from_slice(&get(self.address, "/admin/calls").await?)?;
        let calls = calls["calls"].as_array().context("no call log")?;
        let is_unfinished = |call: &&Value| call["end"] != "complete";
        let has_false_billing =
            |call: &&Value| call["fault"].as_str().is_some_and(|name| FALSE_BILLING.contains(&name));
        let false_billing = || calls.iter().filter(has_false_billing);
        Ok(ModelBill {
            nano_dollars: bill["nano_dollars"].as_u64().context("no bill")?,
            unfinished: calls.iter().filter(is_unfinished).count() as u64,
            false_billing: false_billing().fold((0, 0), |(count, sum), call| {
                (count + 1, sum + call["nano_dollars"].as_u64().unwrap_or(0))
            }),
            is_partial: calls.len() >= CALL_LOG_CAPACITY,
        })
    }
}
