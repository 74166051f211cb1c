//! The status of a wave: the jobs that were started together, and the launches in them.
//!
//! A job has no status FAILED: it is COMPLETED also if nothing was launched. Success is read from the launch status of
//! each server.

use super::client::{DrsClient, is_active};
use super::error::DrsError;
use aws_sdk_drs::types::{DescribeJobsRequestFilters, Job, LaunchStatus};
use seawall_core::runtime::Runtime;
use serde::Serialize;
use std::collections::BTreeSet;

/// The launch of one server in a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerLaunch {
    /// The job.
    pub job_id: String,
    /// The source server.
    pub source_server_id: Option<String>,
    /// The recovery instance, once there is one.
    pub recovery_instance_id: Option<String>,
    /// PENDING, IN_PROGRESS, LAUNCHED, FAILED or TERMINATED.
    pub launch_status: String,
}

/// How far a wave is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum WaveProgress {
    /// Jobs are still active.
    InProgress,
    /// All jobs have completed, and every server was launched, or terminated as asked.
    Succeeded,
    /// All jobs have completed, and some servers were not launched.
    Failed,
    /// Some jobs are not known to the service.
    Unknown,
}

/// The status of a wave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaveStatus {
    /// How far it is.
    pub progress: WaveProgress,
    /// The jobs asked for.
    pub jobs: usize,
    /// Jobs that are PENDING or STARTED.
    pub active_jobs: usize,
    /// Jobs that the service did not return.
    pub missing_jobs: Vec<String>,
    /// Servers that were launched, or terminated as asked.
    pub done_servers: usize,
    /// Servers whose launch failed.
    pub failed_servers: usize,
    /// Servers of all jobs.
    pub servers: Vec<ServerLaunch>,
}

impl WaveStatus {
    /// The status of these jobs, of which the service returned `found`.
    pub(super) fn of(job_ids: &BTreeSet<String>, found: &[Job]) -> Self {
        let found: Vec<&Job> = found.iter().filter(|job| job_ids.contains(job.job_id())).collect();
        let known: BTreeSet<&str> = found.iter().map(|job| job.job_id()).collect();
        let missing_jobs: Vec<String> =
            job_ids.iter().filter(|id| !known.contains(id.as_str())).cloned().collect();
        let active_jobs = found.iter().filter(|job| is_active(job)).count();
        let mut servers = Vec::new();
        let (mut done_servers, mut failed_servers) = (0, 0);
        for job in &found {
            for server in job.participating_servers() {
                match server.launch_status() {
                    Some(LaunchStatus::Launched | LaunchStatus::Terminated) => done_servers += 1,
                    Some(LaunchStatus::Failed) => failed_servers += 1,
                    _ => {}
                }
                servers.push(ServerLaunch {
                    job_id: job.job_id().to_owned(),
                    source_server_id: server.source_server_id().map(str::to_owned),
                    recovery_instance_id: server.recovery_instance_id().map(str::to_owned),
                    launch_status: server.launch_status().map_or("PENDING", LaunchStatus::as_str).to_owned(),
                });
            }
        }
        let progress = if !missing_jobs.is_empty() {
            WaveProgress::Unknown
        } else if active_jobs > 0 {
            WaveProgress::InProgress
        } else if done_servers == servers.len() {
            WaveProgress::Succeeded
        } else {
            WaveProgress::Failed
        };
        let jobs = job_ids.len();
        Self { progress, jobs, active_jobs, missing_jobs, done_servers, failed_servers, servers }
    }
}

impl<R: Runtime> DrsClient<R> {
    /// The status of the jobs of a wave.
    pub async fn poll_wave_status<I: Into<String>>(
        &self,
        job_ids: impl IntoIterator<Item = I>,
    ) -> Result<WaveStatus, DrsError> {
        let job_ids: BTreeSet<String> = job_ids.into_iter().map(Into::into).collect();
        if job_ids.is_empty() {
            let problem = "name at least one job".to_owned();
            return Err(DrsError::InvalidRequest { operation: "poll_wave_status", problem });
        }
        let mut filters = DescribeJobsRequestFilters::builder();
        for id in &job_ids {
            filters = filters.job_ids(id);
        }
        let found = self.describe_jobs(Some(filters.build())).await?;
        Ok(WaveStatus::of(&job_ids, &found))
    }
}
