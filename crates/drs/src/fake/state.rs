//! What the fake remembers.

use seawall_core::time::Timestamp;
use seawall_core::waiting::{WaitingBucket, WaitingSettings};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// How the fake behaves.
#[derive(Clone, Copy, Debug)]
pub struct FakeSettings {
    /// The rate limit of DRS per account and region; `None` never throttles.
    pub rate: Option<WaitingSettings>,
    /// The largest page, whatever the client asks for.
    pub page_size: usize,
    /// The time from the creation of a job until it is STARTED, and from then until it is COMPLETED; `None` leaves jobs
    /// as they are.
    pub job_times: Option<(Duration, Duration)>,
    /// The active jobs that are allowed.
    pub max_jobs: usize,
}

impl Default for FakeSettings {
    fn default() -> Self {
        Self { rate: None, page_size: 1_000, job_times: None, max_jobs: 20 }
    }
}

/// A fault to play instead of, or after, a DRS operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FakeFault {
    /// Refuses with this status, code and `Retry-After`.
    Refuse {
        /// The HTTP status.
        status: u16,
        /// The error code.
        code: &'static str,
        /// The header, in seconds.
        retry_after: Option<u64>,
    },
    /// Executes the operation, and then reports this error.
    ExecuteThenRefuse {
        /// The HTTP status.
        status: u16,
        /// The error code.
        code: &'static str,
    },
    /// Executes the operation, and then closes the connection.
    ExecuteThenDisconnect,
    /// Executes the operation, and then answers with something that is not JSON.
    ExecuteThenGarbage,
    /// Closes the connection without executing anything.
    Disconnect,
}

impl FakeFault {
    /// A throttle.
    #[must_use]
    pub const fn throttle() -> Self {
        Self::Refuse { status: 429, code: "ThrottlingException", retry_after: None }
    }

    /// An internal error that is reported after the operation was executed.
    #[must_use]
    pub const fn execute_then_500() -> Self {
        Self::ExecuteThenRefuse { status: 500, code: "InternalServerException" }
    }

    /// An internal error.
    #[must_use]
    pub const fn internal_error() -> Self {
        Self::Refuse { status: 500, code: "InternalServerException", retry_after: None }
    }
}

/// One call that reached the fake, with a valid signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedCall {
    /// When it arrived, on the fake's clock.
    pub at: Timestamp,
    /// The name of the service in the signature.
    pub service: String,
    /// The account of the credentials.
    pub account: String,
    /// The region in the signature.
    pub region: String,
    /// The operation, as the service names it.
    pub operation: String,
    /// The status of the response; zero if the connection was closed.
    pub status: u16,
    /// Which attempt of how many the SDK said this was.
    pub sdk_request: String,
}

/// A notice that was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeNotice {
    /// The topic.
    pub topic: String,
    /// The subject.
    pub subject: String,
    /// The text.
    pub message: String,
}

/// What the fake keeps of one account and region. Items have the JSON form of the service.
#[derive(Debug, Default)]
pub struct FakeRegion {
    /// The jobs, oldest first.
    pub jobs: Vec<Value>,
    /// When each job was created, in the same order.
    pub(super) created: Vec<Timestamp>,
    /// The source servers.
    pub servers: Vec<Value>,
    /// The recovery instances.
    pub instances: Vec<Value>,
    /// The launch configurations by server.
    pub launch_configurations: BTreeMap<String, Value>,
    pub(super) bucket: Option<WaitingBucket>,
    pub(super) next_number: u64,
}

impl FakeRegion {
    pub(super) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// The active jobs.
    #[must_use]
    pub fn active_jobs(&self) -> usize {
        self.jobs.iter().filter(|job| matches!(job["status"].as_str(), Some("PENDING" | "STARTED"))).count()
    }
}

#[derive(Clone, Debug)]
pub(super) struct ScriptedFault {
    pub operation: Option<&'static str>,
    pub fault: FakeFault,
    pub left: u64,
}

#[derive(Clone, Debug)]
pub(super) struct FakeCredentials {
    pub secret: String,
    pub account: String,
    pub session_token: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct FakeState {
    pub settings: FakeSettings,
    pub credentials: BTreeMap<String, FakeCredentials>,
    /// The external id that each role requires.
    pub roles: BTreeMap<String, Option<String>>,
    pub regions: BTreeMap<(String, String), FakeRegion>,
    pub faults: Vec<ScriptedFault>,
    pub calls: Vec<LoggedCall>,
    pub refused_signatures: u64,
    pub metrics: Vec<Value>,
    pub metric_batches: Vec<usize>,
    pub notices: Vec<FakeNotice>,
    pub sinks_are_down: bool,
}

impl FakeState {
    /// The fault for this operation, if one is left.
    pub(super) fn take_fault(&mut self, operation: &str) -> Option<FakeFault> {
        let applies =
            |rule: &&mut ScriptedFault| rule.left > 0 && rule.operation.is_none_or(|is| is == operation);
        let rule = self.faults.iter_mut().find(applies)?;
        rule.left -= 1;
        Some(rule.fault.clone())
    }

    pub(super) fn region(&mut self, account: &str, region: &str) -> &mut FakeRegion {
        self.regions.entry((account.to_owned(), region.to_owned())).or_default()
    }
}
