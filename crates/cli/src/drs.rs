//! `seawall drs`: AWS Elastic Disaster Recovery below its rate limit.
//!
//! The arguments are part of every build, so that `--help` lists the commands; they run only in a build with the
//! feature `aws`.

#[cfg(feature = "aws")]
mod command;
#[cfg(feature = "aws")]
mod report;
#[cfg(feature = "aws")]
mod run;

#[cfg(not(feature = "aws"))]
use crate::CommandError;
use clap::{Args, Subcommand};
use std::net::SocketAddr;

/// How a command fails, beyond 1 (failure) and 2 (invalid input).
#[cfg(feature = "aws")]
pub(crate) mod exit_code {
    /// The rate limit: no rate token in time, or throttled until all retries were used. Try again later.
    pub(crate) const RATE_LIMITED: u8 = 3;
    /// No capacity for another job in time. Nothing was started.
    pub(crate) const NO_CAPACITY: u8 = 4;
    /// It is unknown whether a job was started. Look before you try again.
    pub(crate) const OUTCOME_UNKNOWN: u8 = 5;
    /// The jobs have completed, but some servers were not launched, or the wait was too short.
    pub(crate) const WAVE_FAILED: u8 = 6;
}

#[derive(Args)]
pub(crate) struct DrsArguments {
    #[command(subcommand)]
    command: DrsCommand,
    #[command(flatten)]
    connection: DrsConnectionArguments,
}

/// Where to call DRS, and what to report.
#[derive(Args)]
pub(crate) struct DrsConnectionArguments {
    /// Region. Default: AWS_REGION, then AWS_DEFAULT_REGION.
    #[arg(long, global = true, value_name = "REGION")]
    region: Option<String>,
    /// Account. Default: that of the credentials.
    #[arg(long, global = true, value_name = "ID")]
    account: Option<String>,
    /// Role to assume in the account; without it, the account is that of the credentials.
    #[arg(long, global = true, value_name = "NAME", requires = "account")]
    role: Option<String>,
    /// External id that the role requires.
    #[arg(long, global = true, value_name = "ID", requires = "role")]
    external_id: Option<String>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    /// Write events as JSON lines to standard error, instead of progress.
    #[arg(long, global = true)]
    log: bool,
    /// Retry preset.
    #[arg(long, global = true, value_name = "PRESET", default_value = "background",
          value_parser = ["background", "standard", "adaptive", "legacy"])]
    retry: String,
    /// Publish metrics to CloudWatch, in the namespace DRS/RateLimits.
    #[arg(long, global = true)]
    publish_metrics: bool,
    /// Serve metrics for Prometheus on this address while the command runs.
    #[arg(long, global = true, value_name = "ADDRESS")]
    metrics_listen: Option<SocketAddr>,
}

#[derive(Subcommand)]
pub(crate) enum DrsCommand {
    /// List source servers.
    Servers {
        /// Only these servers.
        #[arg(value_name = "SERVER")]
        ids: Vec<String>,
    },
    /// List jobs.
    Jobs {
        /// Only these jobs.
        #[arg(value_name = "JOB")]
        ids: Vec<String>,
        /// Only jobs that are PENDING or STARTED.
        #[arg(long)]
        active: bool,
    },
    /// Start a recovery or a drill of source servers as one job, after waiting for job capacity.
    Recover {
        /// The servers.
        #[arg(value_name = "SERVER", required = true)]
        servers: Vec<String>,
        /// Start a drill.
        #[arg(long)]
        drill: bool,
        /// Recover from this snapshot instead of the latest; for one server only.
        #[arg(long, value_name = "ID")]
        snapshot: Option<String>,
        /// Tag of the job; may be given several times.
        #[arg(long = "tag", value_name = "KEY=VALUE")]
        tags: Vec<String>,
        /// Do not tag the job with the id of the call. Needed for roles without drs:TagResource.
        #[arg(long)]
        no_call_tag: bool,
        /// Follow the job to its end.
        #[arg(long)]
        wait: bool,
    },
    /// Terminate recovery instances as one job, after waiting for job capacity.
    Terminate {
        /// The recovery instances.
        #[arg(value_name = "INSTANCE", required = true)]
        instances: Vec<String>,
        /// Follow the job to its end.
        #[arg(long)]
        wait: bool,
    },
    /// Print the launch configuration of a source server, after changing it if options are given.
    LaunchConfig {
        /// The server.
        #[arg(value_name = "SERVER")]
        server: String,
        /// Whether instances are started after launch.
        #[arg(long, value_name = "STATE", value_parser = ["started", "stopped"])]
        disposition: Option<String>,
        /// How the instance type is chosen.
        #[arg(long, value_name = "METHOD", value_parser = ["none", "basic", "in-aws"])]
        right_sizing: Option<String>,
        /// Whether the private address is kept.
        #[arg(long, value_name = "BOOL")]
        copy_private_ip: Option<bool>,
        /// Whether the tags are kept.
        #[arg(long, value_name = "BOOL")]
        copy_tags: Option<bool>,
    },
    /// Follow jobs until all have completed, and report the launch of each server.
    Wave {
        /// The jobs.
        #[arg(value_name = "JOB", required = true)]
        jobs: Vec<String>,
        /// Print the status once, without waiting.
        #[arg(long)]
        once: bool,
        /// Seconds between two looks.
        #[arg(long, value_name = "SECONDS", default_value_t = 30)]
        interval: u32,
        /// Seconds to wait at most. Default: no limit.
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<u32>,
    },
    /// Print the active jobs and the room for more.
    Capacity,
    /// Print a CloudFormation template with alarms on the metrics.
    Alarms {
        /// The SNS topic that the alarms notify.
        #[arg(long, value_name = "ARN")]
        topic: String,
    },
}

#[cfg(feature = "aws")]
pub(crate) use run::run;

/// Says how to get the commands.
#[cfg(not(feature = "aws"))]
pub(crate) fn run(_: &DrsArguments) -> Result<(), CommandError> {
    Err(CommandError::Failed(anyhow::anyhow!(
        "this build has no AWS commands: release binaries have them, or build with\n  \
         cargo run --features aws -- drs --help"
    )))
}
