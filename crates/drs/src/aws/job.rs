//! Starting jobs: one job, never two.
//!
//! Starting a recovery is not idempotent, and the service has no client token for it. After an error that proves that
//! nothing was started (a throttle, an exhausted quota) the call is simply repeated. After any other error that is worth
//! a retry, the jobs are listed first: a job with the tag of this call is the one that was started, and no second one is.
//! If the jobs cannot be listed, the call ends with [`DrsError::OutcomeUnknown`] instead of a guess.

use super::client::DrsClient;
use super::error::{ApiFault, DrsError};
use crate::event::GuardEventKind;
use crate::guard::{ApiCall, AttemptDecision, GuardedAttempts};
use crate::text::rfc3339;
use crate::throttler::{CapacityGrant, JobSlot};
use aws_sdk_drs::types::{DescribeJobsRequestFilters, InitiatedBy, Job, JobType, StartRecoveryRequestSourceServer};
use seawall_core::deadline::Deadline;
use seawall_core::failure::FailureKind;
use seawall_core::runtime::Runtime;
use seawall_core::time::UtcTime;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// The tag that identifies the job of a call.
pub(crate) const CALL_TAG: &str = "seawall:call-id";
/// How far the clocks of this machine and the service may differ.
const CLOCK_SKEW: Duration = Duration::from_secs(60);
/// The servers that one job may have.
const MAX_SERVERS: usize = 200;

/// A source server to recover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoverySource {
    /// The source server.
    pub source_server_id: String,
    /// The snapshot to recover from; the latest if there is none.
    pub snapshot_id: Option<String>,
}

/// A recovery to start.
#[derive(Clone, Debug)]
pub struct RecoveryRequest {
    /// The servers, all in one job.
    pub sources: Vec<RecoverySource>,
    /// Whether this is a drill.
    pub is_drill: bool,
    /// Tags of the job.
    pub tags: BTreeMap<String, String>,
    /// When the call must have ended.
    pub deadline: Deadline,
    /// What connects the lines of this call in the log, and its job; drawn at random if there is none.
    pub correlation_id: Option<Arc<str>>,
}

impl RecoveryRequest {
    /// A drill of these servers from their latest snapshots.
    #[must_use]
    pub fn drill<I: Into<String>>(servers: impl IntoIterator<Item = I>) -> Self {
        Self { is_drill: true, ..Self::recovery(servers) }
    }

    /// A recovery of these servers from their latest snapshots.
    #[must_use]
    pub fn recovery<I: Into<String>>(servers: impl IntoIterator<Item = I>) -> Self {
        let source = |id: I| RecoverySource { source_server_id: id.into(), snapshot_id: None };
        Self {
            sources: servers.into_iter().map(source).collect(),
            is_drill: false,
            tags: BTreeMap::new(),
            deadline: Deadline::NEVER,
            correlation_id: None,
        }
    }
}

/// Recovery instances to terminate.
#[derive(Clone, Debug)]
pub struct TerminationRequest {
    /// The recovery instances, all in one job.
    pub recovery_instance_ids: Vec<String>,
    /// When the call must have ended.
    pub deadline: Deadline,
    /// What connects the lines of this call in the log; drawn at random if there is none.
    pub correlation_id: Option<Arc<str>>,
}

/// A job that was started.
#[derive(Clone, Debug)]
pub struct StartedJob {
    /// The job.
    pub job: Job,
    /// Whether the start was unclear and the job was found by looking for it.
    pub was_found: bool,
    /// The attempts made.
    pub attempts: u32,
    /// How the wait for capacity ended.
    pub capacity: CapacityGrant,
    /// What connects the lines of the call in the log.
    pub correlation_id: Arc<str>,
}

impl<R: Runtime> DrsClient<R> {
    /// Starts a recovery or a drill as one job, after waiting for capacity.
    pub async fn start_recovery(&self, request: &RecoveryRequest) -> Result<StartedJob, DrsError> {
        let operation = "start_recovery";
        check_ids(operation, "source server", request.sources.iter().map(|source| &source.source_server_id))?;
        let call = ApiCall {
            correlation_id: request.correlation_id.clone(),
            ..ApiCall::once(operation).with_deadline(request.deadline)
        };
        let attempts = self.guard.begin(call);
        let call_id = Arc::clone(&attempts.labels().correlation_id);
        let mut servers = Vec::new();
        for source in &request.sources {
            let server = StartRecoveryRequestSourceServer::builder()
                .source_server_id(&source.source_server_id)
                .set_recovery_snapshot_id(source.snapshot_id.clone())
                .build();
            let invalid = |error| DrsError::InvalidRequest { operation, problem: format!("{error}") };
            servers.push(server.map_err(invalid)?);
        }
        let send = || {
            let mut start = self.sdk.start_recovery().is_drill(request.is_drill);
            start = start.set_source_servers(Some(servers.clone()));
            for (key, value) in &request.tags {
                start = start.tags(key, value);
            }
            if self.tags_jobs {
                start = start.tags(CALL_TAG, call_id.as_ref());
            }
            async move { read_job(start.send().await.map_err(ApiFault::of)?.job) }
        };
        let initiator = if request.is_drill { InitiatedBy::StartDrill } else { InitiatedBy::StartRecovery };
        let wanted: BTreeSet<&str> =
            request.sources.iter().map(|source| source.source_server_id.as_str()).collect();
        let is_ours = |job: &Job| {
            if self.tags_jobs {
                return job.tags().and_then(|tags| tags.get(CALL_TAG)).is_some_and(|id| **id == *call_id);
            }
            let servers = job.participating_servers().iter().filter_map(|server| server.source_server_id());
            job.r#type() == Some(&JobType::Launch)
                && job.initiated_by() == Some(&initiator)
                && servers.collect::<BTreeSet<_>>() == wanted
        };
        self.start_job(attempts, send, is_ours).await
    }

    /// Terminates recovery instances as one job, after waiting for capacity.
    pub async fn terminate_recovery_instances(
        &self,
        request: &TerminationRequest,
    ) -> Result<StartedJob, DrsError> {
        let operation = "terminate_recovery_instances";
        check_ids(operation, "recovery instance", request.recovery_instance_ids.iter())?;
        let call = ApiCall {
            correlation_id: request.correlation_id.clone(),
            ..ApiCall::once(operation).with_deadline(request.deadline)
        };
        let send = || {
            let terminate = self.sdk.terminate_recovery_instances();
            let terminate = terminate.set_recovery_instance_ids(Some(request.recovery_instance_ids.clone()));
            async move { read_job(terminate.send().await.map_err(ApiFault::of)?.job) }
        };
        // The operation takes no tags, so that its job is recognised by its instances.
        let wanted: BTreeSet<&str> = request.recovery_instance_ids.iter().map(String::as_str).collect();
        let is_ours = |job: &Job| {
            let servers = job.participating_servers().iter().filter_map(|server| server.recovery_instance_id());
            job.r#type() == Some(&JobType::Terminate) && servers.collect::<BTreeSet<_>>() == wanted
        };
        self.start_job(self.guard.begin(call), send, is_ours).await
    }

    async fn start_job<F>(
        &self,
        mut attempts: GuardedAttempts<R>,
        send: impl Fn() -> F,
        is_ours: impl Fn(&Job) -> bool,
    ) -> Result<StartedJob, DrsError>
    where
        F: Future<Output = Result<Job, ApiFault>>,
    {
        let operation = attempts.operation();
        let since = self.guard.runtime().now().utc;
        let (mut slot, mut capacity) = self.wait_for_capacity(&attempts).await?;
        let mut last_error = None;
        let (job, was_found) = loop {
            if let Err(refused) = attempts.admit().await {
                return Err(DrsError::call(operation)(refused.into_error(last_error)));
            }
            let error = match send().await {
                Ok(job) => {
                    attempts.succeeded();
                    break (job, false);
                }
                Err(error) => error,
            };
            match attempts.failed_but_checked(&error) {
                AttemptDecision::Retry { after, kind, may_have_executed } => {
                    // Later than the failure, so that a list that lags behind shows the job.
                    attempts.sleep(after).await;
                    if may_have_executed
                        && let Some(job) = self.find_job(&attempts, since, &is_ours, &error).await?
                    {
                        break (job, true);
                    }
                    if kind == FailureKind::QuotaExhausted {
                        // Our own reservation must not keep us waiting.
                        drop::<JobSlot>(slot);
                        (slot, capacity) = self.wait_for_capacity(&attempts).await?;
                    }
                }
                AttemptDecision::Stop { reason, may_have_executed } => {
                    if may_have_executed
                        && let Some(job) = self.find_job(&attempts, since, &is_ours, &error).await?
                    {
                        break (job, true);
                    }
                    return Err(DrsError::call(operation)(attempts.give_up(reason, error)));
                }
            }
            last_error = Some(error);
        };
        drop::<JobSlot>(slot);
        let correlation_id = Arc::clone(&attempts.labels().correlation_id);
        Ok(StartedJob { job, was_found, attempts: attempts.attempts(), capacity, correlation_id })
    }

    async fn wait_for_capacity(
        &self,
        attempts: &GuardedAttempts<R>,
    ) -> Result<(JobSlot, CapacityGrant), DrsError> {
        let operation = attempts.operation();
        let waited = self.throttler.wait_for_capacity(attempts.labels(), || self.count_active_jobs()).await;
        waited.map_err(|timeout| DrsError::Capacity { operation, timeout })
    }

    /// The job of a call that failed with `failure`, if it was started.
    async fn find_job(
        &self,
        attempts: &GuardedAttempts<R>,
        since: UtcTime,
        is_ours: &impl Fn(&Job) -> bool,
        failure: &ApiFault,
    ) -> Result<Option<Job>, DrsError> {
        let from = UtcTime::from_nanos(since.as_nanos().saturating_sub(nanos(CLOCK_SKEW)));
        let filters = DescribeJobsRequestFilters::builder().from_date(rfc3339(from)).build();
        let call_id = Arc::clone(&attempts.labels().correlation_id);
        let call = ApiCall { correlation_id: Some(Arc::clone(&call_id)), ..ApiCall::read("describe_jobs") };
        let jobs = self.job_pages_of(call, Some(filters)).all().await;
        let jobs = jobs.map_err(|lookup| DrsError::OutcomeUnknown {
            operation: attempts.operation(),
            failure: failure.to_string(),
            lookup: lookup.to_string(),
            tag: call_id,
        })?;
        let found = jobs.into_iter().find(is_ours);
        let job_id = found.as_ref().map(|job| job.job_id().to_owned());
        attempts.observe(GuardEventKind::JobLookedUp { job_id });
        Ok(found)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A success without a job is as unclear as a failure.
fn read_job(job: Option<Job>) -> Result<Job, ApiFault> {
    job.ok_or_else(|| ApiFault::unreadable("the service reported success without a job"))
}

/// Rejects requests that the service would reject, before they cost a rate token.
fn check_ids<'a>(
    operation: &'static str,
    what: &str,
    ids: impl Iterator<Item = &'a String>,
) -> Result<(), DrsError> {
    let invalid = |problem: String| Err(DrsError::InvalidRequest { operation, problem });
    let mut seen = BTreeSet::new();
    for id in ids {
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return invalid(format!("{id:?} is not a {what} id: use letters, digits and -"));
        }
        if !seen.insert(id) {
            return invalid(format!("the {what} {id} is named twice"));
        }
    }
    match seen.len() {
        0 => invalid(format!("name at least one {what}")),
        count if count > MAX_SERVERS => {
            invalid(format!("{count} {what}s are more than the {MAX_SERVERS} of one job: start several jobs"))
        }
        _ => Ok(()),
    }
}
