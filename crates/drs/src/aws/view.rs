//! What the commands print: the SDK's types have no JSON form of their own.

use super::job::StartedJob;
use crate::throttler::CapacityGrant;
use aws_sdk_drs::operation::get_launch_configuration::GetLaunchConfigurationOutput;
use aws_sdk_drs::operation::update_launch_configuration::UpdateLaunchConfigurationOutput;
use aws_sdk_drs::types::{Job, RecoveryInstance, SourceServer};
use serde::Serialize;
use std::collections::BTreeMap;

fn owned(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}

/// A source server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerView {
    /// Its id.
    pub source_server_id: Option<String>,
    /// Its host name.
    pub hostname: Option<String>,
    /// The state of its replication.
    pub replication_state: Option<String>,
    /// The result of its last launch.
    pub last_launch_result: Option<String>,
    /// Its recovery instance, if there is one.
    pub recovery_instance_id: Option<String>,
}

impl From<&SourceServer> for ServerView {
    fn from(server: &SourceServer) -> Self {
        let hints = server.source_properties().and_then(|properties| properties.identification_hints());
        let replication = server.data_replication_info().and_then(|info| info.data_replication_state());
        Self {
            source_server_id: owned(server.source_server_id()),
            hostname: owned(hints.and_then(|hints| hints.hostname())),
            replication_state: owned(replication.map(|state| state.as_str())),
            last_launch_result: owned(server.last_launch_result().map(|result| result.as_str())),
            recovery_instance_id: owned(server.recovery_instance_id()),
        }
    }
}

/// A server of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobServerView {
    /// The source server.
    pub source_server_id: Option<String>,
    /// Its recovery instance, once there is one.
    pub recovery_instance_id: Option<String>,
    /// The status of its launch.
    pub launch_status: Option<String>,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobView {
    /// Its id.
    pub job_id: String,
    /// LAUNCH, TERMINATE or CREATE_CONVERTED_SNAPSHOT.
    pub r#type: Option<String>,
    /// What started it.
    pub initiated_by: Option<String>,
    /// PENDING, STARTED or COMPLETED.
    pub status: Option<String>,
    /// When it was created.
    pub creation_date_time: Option<String>,
    /// When it ended.
    pub end_date_time: Option<String>,
    /// Its servers.
    pub participating_servers: Vec<JobServerView>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

impl From<&Job> for JobView {
    fn from(job: &Job) -> Self {
        let server = |server: &aws_sdk_drs::types::ParticipatingServer| JobServerView {
            source_server_id: owned(server.source_server_id()),
            recovery_instance_id: owned(server.recovery_instance_id()),
            launch_status: owned(server.launch_status().map(|status| status.as_str())),
        };
        let tags = job.tags().into_iter().flatten();
        Self {
            job_id: job.job_id().to_owned(),
            r#type: owned(job.r#type().map(|kind| kind.as_str())),
            initiated_by: owned(job.initiated_by().map(|initiator| initiator.as_str())),
            status: owned(job.status().map(|status| status.as_str())),
            creation_date_time: owned(job.creation_date_time()),
            end_date_time: owned(job.end_date_time()),
            participating_servers: job.participating_servers().iter().map(server).collect(),
            tags: tags.map(|(key, value)| (key.clone(), value.clone())).collect(),
        }
    }
}

/// A job that was started.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StartedJobView {
    /// The job.
    pub job: JobView,
    /// Whether the start was unclear and the job was found by looking for it.
    pub was_found: bool,
    /// The attempts made.
    pub attempts: u32,
    /// How the wait for capacity ended.
    pub capacity: CapacityGrant,
    /// What connects the lines of the call in the log.
    pub correlation_id: String,
}

impl From<&StartedJob> for StartedJobView {
    fn from(started: &StartedJob) -> Self {
        Self {
            job: (&started.job).into(),
            was_found: started.was_found,
            attempts: started.attempts,
            capacity: started.capacity,
            correlation_id: started.correlation_id.to_string(),
        }
    }
}

/// A recovery instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceView {
    /// Its id.
    pub recovery_instance_id: Option<String>,
    /// The server that it recovers.
    pub source_server_id: Option<String>,
    /// The job that launched it.
    pub job_id: Option<String>,
    /// Whether it belongs to a drill.
    pub is_drill: Option<bool>,
}

impl From<&RecoveryInstance> for InstanceView {
    fn from(instance: &RecoveryInstance) -> Self {
        Self {
            recovery_instance_id: owned(instance.recovery_instance_id()),
            source_server_id: owned(instance.source_server_id()),
            job_id: owned(instance.job_id()),
            is_drill: instance.is_drill(),
        }
    }
}

/// A launch configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchConfigurationView {
    /// The source server.
    pub source_server_id: Option<String>,
    /// The name of the configuration.
    pub name: Option<String>,
    /// Whether instances are started after launch: STARTED or STOPPED.
    pub launch_disposition: Option<String>,
    /// How the instance type is chosen: NONE, BASIC or IN_AWS.
    pub target_instance_type_right_sizing_method: Option<String>,
    /// Whether the private address is kept.
    pub copy_private_ip: Option<bool>,
    /// Whether the tags are kept.
    pub copy_tags: Option<bool>,
    /// The EC2 launch template.
    pub ec2_launch_template_id: Option<String>,
}

macro_rules! launch_configuration_view {
    ($output:ty) => {
        impl From<&$output> for LaunchConfigurationView {
            fn from(output: &$output) -> Self {
                let sizing = output.target_instance_type_right_sizing_method();
                Self {
                    source_server_id: owned(output.source_server_id()),
                    name: owned(output.name()),
                    launch_disposition: owned(output.launch_disposition().map(|is| is.as_str())),
                    target_instance_type_right_sizing_method: owned(sizing.map(|method| method.as_str())),
                    copy_private_ip: output.copy_private_ip(),
                    copy_tags: output.copy_tags(),
                    ec2_launch_template_id: owned(output.ec2_launch_template_id()),
                }
            }
        }
    };
}

launch_configuration_view!(GetLaunchConfigurationOutput);
launch_configuration_view!(UpdateLaunchConfigurationOutput);
