//! The DRS client.

use super::error::{ApiFault, DrsError};
use super::page::PageReader;
use crate::guard::{ApiCall, ApiGuard};
use crate::throttler::{JobCapacity, JobThrottler};
use aws_sdk_drs::operation::get_launch_configuration::GetLaunchConfigurationOutput;
use aws_sdk_drs::operation::update_launch_configuration::UpdateLaunchConfigurationInput;
use aws_sdk_drs::operation::update_launch_configuration::UpdateLaunchConfigurationOutput;
use aws_sdk_drs::types::{
    DescribeJobsRequestFilters, DescribeRecoveryInstancesRequestFilters, DescribeSourceServersRequestFilters,
    Job, JobStatus, RecoveryInstance, SourceServer,
};
use seawall_core::runtime::Runtime;

/// The largest page that the service returns: fewer calls.
const PAGE_SIZE: i32 = 1_000;

/// A client of AWS DRS that stays below the rate limit, retries without harm and waits for job capacity.
///
/// Clones share everything. [`DrsConnection::client`](super::DrsConnection::client) makes one; see the
/// [crate](crate) for an example.
#[derive(Clone)]
pub struct DrsClient<R: Runtime> {
    pub(super) sdk: aws_sdk_drs::Client,
    pub(super) guard: ApiGuard<R>,
    pub(super) throttler: JobThrottler<R>,
    /// Whether jobs are tagged, so that an unclear start is found again for sure.
    pub(super) tags_jobs: bool,
}

impl<R: Runtime> DrsClient<R> {
    /// A client on an SDK client, whose own retries must be off, a guard and a throttler.
    #[must_use]
    pub const fn new(sdk: aws_sdk_drs::Client, guard: ApiGuard<R>, throttler: JobThrottler<R>) -> Self {
        Self { sdk, guard, throttler, tags_jobs: true }
    }

    /// The same without tags on jobs, for roles without `drs:TagResource`. A job whose start was unclear is then
    /// recognised by its servers and its time.
    #[must_use]
    pub fn without_job_tags(self) -> Self {
        Self { tags_jobs: false, ..self }
    }

    /// The guard.
    pub const fn guard(&self) -> &ApiGuard<R> {
        &self.guard
    }

    /// The throttler.
    pub const fn throttler(&self) -> &JobThrottler<R> {
        &self.throttler
    }

    /// The source servers, page by page.
    pub fn source_server_pages(
        &self,
        filters: Option<DescribeSourceServersRequestFilters>,
    ) -> PageReader<R, SourceServer> {
        let sdk = self.sdk.clone();
        PageReader::new(&self.guard, ApiCall::read("describe_source_servers"), move |token| {
            let request = sdk.describe_source_servers().set_filters(filters.clone()).max_results(PAGE_SIZE);
            let request = request.set_next_token(token).send();
            async move {
                let page = request.await.map_err(ApiFault::of)?;
                Ok((page.items.unwrap_or_default(), page.next_token))
            }
        })
    }

    /// All source servers that match.
    pub async fn describe_source_servers(
        &self,
        filters: Option<DescribeSourceServersRequestFilters>,
    ) -> Result<Vec<SourceServer>, DrsError> {
        self.source_server_pages(filters).all().await
    }

    /// The jobs, page by page.
    pub fn job_pages(&self, filters: Option<DescribeJobsRequestFilters>) -> PageReader<R, Job> {
        self.job_pages_of(ApiCall::read("describe_jobs"), filters)
    }

    pub(super) fn job_pages_of(
        &self,
        call: ApiCall,
        filters: Option<DescribeJobsRequestFilters>,
    ) -> PageReader<R, Job> {
        let sdk = self.sdk.clone();
        PageReader::new(&self.guard, call, move |token| {
            let request = sdk.describe_jobs().set_filters(filters.clone()).max_results(PAGE_SIZE);
            let request = request.set_next_token(token).send();
            async move {
                let page = request.await.map_err(ApiFault::of)?;
                Ok((page.items.unwrap_or_default(), page.next_token))
            }
        })
    }

    /// All jobs that match.
    pub async fn describe_jobs(
        &self,
        filters: Option<DescribeJobsRequestFilters>,
    ) -> Result<Vec<Job>, DrsError> {
        self.job_pages(filters).all().await
    }

    /// The recovery instances, page by page.
    pub fn recovery_instance_pages(
        &self,
        filters: Option<DescribeRecoveryInstancesRequestFilters>,
    ) -> PageReader<R, RecoveryInstance> {
        let sdk = self.sdk.clone();
        PageReader::new(&self.guard, ApiCall::read("describe_recovery_instances"), move |token| {
            let request =
                sdk.describe_recovery_instances().set_filters(filters.clone()).max_results(PAGE_SIZE);
            let request = request.set_next_token(token).send();
            async move {
                let page = request.await.map_err(ApiFault::of)?;
                Ok((page.items.unwrap_or_default(), page.next_token))
            }
        })
    }

    /// All recovery instances that match.
    pub async fn describe_recovery_instances(
        &self,
        filters: Option<DescribeRecoveryInstancesRequestFilters>,
    ) -> Result<Vec<RecoveryInstance>, DrsError> {
        self.recovery_instance_pages(filters).all().await
    }

    /// The launch configuration of a source server.
    pub async fn get_launch_configuration(
        &self,
        source_server_id: &str,
    ) -> Result<GetLaunchConfigurationOutput, DrsError> {
        let call = ApiCall::read("get_launch_configuration");
        let operation = call.operation;
        let attempt = || async {
            let request = self.sdk.get_launch_configuration().source_server_id(source_server_id);
            request.send().await.map_err(ApiFault::of)
        };
        self.guard.call(call, attempt).await.map_err(DrsError::call(operation))
    }

    /// Changes the launch configuration of a source server. Fields that are not set stay as they are.
    ///
    /// Setting the same values twice does no harm, so an unclear failure is retried.
    pub async fn update_launch_configuration(
        &self,
        input: UpdateLaunchConfigurationInput,
    ) -> Result<UpdateLaunchConfigurationOutput, DrsError> {
        let call = ApiCall::read("update_launch_configuration");
        let operation = call.operation;
        let attempt = || async {
            let input = input.clone();
            let request = self
                .sdk
                .update_launch_configuration()
                .set_source_server_id(input.source_server_id)
                .set_name(input.name)
                .set_launch_disposition(input.launch_disposition)
                .set_target_instance_type_right_sizing_method(input.target_instance_type_right_sizing_method)
                .set_copy_private_ip(input.copy_private_ip)
                .set_copy_tags(input.copy_tags)
                .set_licensing(input.licensing)
                .set_post_launch_enabled(input.post_launch_enabled)
                .set_launch_into_instance_properties(input.launch_into_instance_properties)
                .set_recovery_mode(input.recovery_mode);
            request.send().await.map_err(ApiFault::of)
        };
        self.guard.call(call, attempt).await.map_err(DrsError::call(operation))
    }

    /// The number of active jobs: those that are PENDING or STARTED.
    pub async fn count_active_jobs(&self) -> Result<u32, DrsError> {
        let mut pages = self.job_pages(None);
        let mut active = 0_u32;
        while let Some(page) = pages.next_page().await? {
            let count = page.iter().filter(|job| is_active(job)).count();
            active = active.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        }
        Ok(active)
    }

    /// The active jobs and the room for more, without waiting.
    pub async fn check_capacity(&self) -> Result<JobCapacity, DrsError> {
        self.throttler.check_capacity(|| self.count_active_jobs()).await
    }
}

/// Whether a job counts against the limit of concurrent jobs.
pub(super) fn is_active(job: &Job) -> bool {
    matches!(job.status, Some(JobStatus::Pending | JobStatus::Started))
}
