//! The DRS client on the vendor's SDK. Needs the feature `aws`.

mod client;
mod connect;
mod error;
mod job;
mod page;
mod sink;
pub mod smithy;
mod view;
mod wave;

pub use client::DrsClient;
pub use connect::{ConnectError, DrsConnection, DrsOptions, sdk_http_client};
pub use error::{ApiFault, DrsError, describe_sdk_error};
pub use job::{RecoveryRequest, RecoverySource, StartedJob, TerminationRequest};
pub use page::{PageReader, ResumeToken};
pub use sink::{CloudWatchSink, SnsSink};
pub use view::{
    InstanceView, JobServerView, JobView, LaunchConfigurationView, ServerView, StartedJobView,
};
pub use wave::{ServerLaunch, WaveProgress, WaveStatus};

/// The vendor's SDK, whose types the client takes and returns.
pub use aws_sdk_drs as sdk;
