//! The commands themselves.

use super::DrsCommand;
use super::exit_code::WAVE_FAILED;
use super::report::table;
use super::run::{CliClient, command_error, print};
use crate::CommandError;
use anyhow::anyhow;
use seawall_core::deadline::Deadline;
use seawall_core::runtime::Timer as _;
use seawall_drs::aws::sdk::operation::update_launch_configuration::UpdateLaunchConfigurationInput;
use seawall_drs::aws::sdk::types::{
    DescribeJobsRequestFilters, DescribeSourceServersRequestFilters, LaunchDisposition,
    TargetInstanceTypeRightSizingMethod,
};
use seawall_drs::aws::{
    DrsError, JobView, LaunchConfigurationView, RecoveryRequest, ServerView, StartedJob, StartedJobView,
    TerminationRequest, WaveProgress, WaveStatus,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) async fn run(command: &DrsCommand, client: &CliClient, json: bool) -> Result<(), CommandError> {
    match command {
        DrsCommand::Servers { ids } => servers(client, ids, json).await,
        DrsCommand::Jobs { ids, active } => jobs(client, ids, *active, json).await,
        DrsCommand::Recover { servers, drill, snapshot, tags, no_call_tag, wait } => {
            let mut request = RecoveryRequest::recovery(servers.clone());
            request.is_drill = *drill;
            request.tags = read_tags(tags)?;
            match (snapshot, request.sources.as_mut_slice()) {
                (None, _) => {}
                (Some(id), [source]) => source.snapshot_id = Some(id.clone()),
                (Some(_), _) => {
                    let error = anyhow!("--snapshot is for one server: start a job for each server");
                    return Err(CommandError::InvalidInput(error));
                }
            }
            let client = if *no_call_tag { client.clone().without_job_tags() } else { client.clone() };
            let started = client.start_recovery(&request).await;
            show_started(&client, started, *wait, json).await
        }
        DrsCommand::Terminate { instances, wait } => {
            let request = TerminationRequest {
                recovery_instance_ids: instances.clone(),
                deadline: Deadline::NEVER,
                correlation_id: None,
            };
            let started = client.terminate_recovery_instances(&request).await;
            show_started(client, started, *wait, json).await
        }
        DrsCommand::LaunchConfig { .. } => launch_configuration(command, client, json).await,
        DrsCommand::Wave { jobs, once, interval, timeout } => {
            let seconds = |number: u32| Duration::from_secs(u64::from(number));
            let wait = (!once).then(|| (seconds(*interval), timeout.map(seconds)));
            follow(client, jobs, wait, json).await
        }
        DrsCommand::Capacity => {
            let capacity = client.check_capacity().await.map_err(command_error)?;
            let state = if capacity.throttling_active { "new jobs wait" } else { "new jobs start at once" };
            let text = format!(
                "{} of {} jobs are active, {} slots are free; {state}\n",
                capacity.current_jobs, capacity.max_jobs, capacity.available_slots
            );
            show(&capacity, json, &text)
        }
        // Handled before a connection is made.
        DrsCommand::Alarms { .. } => Ok(()),
    }
}

fn show(value: &impl Serialize, json: bool, text: &str) -> Result<(), CommandError> {
    if !json {
        return print(text);
    }
    let value = serde_json::to_value(value).map_err(|error| CommandError::Failed(error.into()))?;
    print(&format!("{value:#}\n"))
}

async fn servers(client: &CliClient, ids: &[String], json: bool) -> Result<(), CommandError> {
    let filters = (!ids.is_empty()).then(|| {
        DescribeSourceServersRequestFilters::builder().set_source_server_ids(Some(ids.to_vec())).build()
    });
    let servers = client.describe_source_servers(filters).await.map_err(command_error)?;
    let views: Vec<ServerView> = servers.iter().map(ServerView::from).collect();
    let rows: Vec<Vec<String>> = views.iter().cloned().map(server_row).collect();
    show(&views, json, &table(&["id", "host", "replication", "last launch", "instance"], &rows))
}

fn server_row(server: ServerView) -> Vec<String> {
    [
        server.source_server_id,
        server.hostname,
        server.replication_state,
        server.last_launch_result,
        server.recovery_instance_id,
    ]
    .map(Option::unwrap_or_default)
    .to_vec()
}

async fn jobs(client: &CliClient, ids: &[String], active: bool, json: bool) -> Result<(), CommandError> {
    let filters = (!ids.is_empty())
        .then(|| DescribeJobsRequestFilters::builder().set_job_ids(Some(ids.to_vec())).build());
    let jobs = client.describe_jobs(filters).await.map_err(command_error)?;
    let mut views: Vec<JobView> = jobs.iter().map(JobView::from).collect();
    if active {
        views.retain(|job| matches!(job.status.as_deref(), Some("PENDING" | "STARTED")));
    }
    let rows: Vec<Vec<String>> = views.iter().map(job_row).collect();
    show(&views, json, &table(&["id", "type", "status", "created", "servers"], &rows))
}

fn job_row(job: &JobView) -> Vec<String> {
    let cell = |text: &Option<String>| text.clone().unwrap_or_default();
    vec![
        job.job_id.clone(),
        cell(&job.r#type),
        cell(&job.status),
        cell(&job.creation_date_time),
        job.participating_servers.len().to_string(),
    ]
}

fn read_tags(tags: &[String]) -> Result<BTreeMap<String, String>, CommandError> {
    let read = |tag: &String| match tag.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(CommandError::InvalidInput(anyhow!("--tag {tag:?}: write KEY=VALUE"))),
    };
    tags.iter().map(read).collect()
}

async fn show_started(
    client: &CliClient,
    started: Result<StartedJob, DrsError>,
    wait: bool,
    json: bool,
) -> Result<(), CommandError> {
    let started = match started {
        Ok(started) => started,
        Err(error) => {
            // Programs that read JSON get the body of a response to it.
            if let DrsError::Capacity { timeout, .. } = &error
                && json
            {
                show(&timeout.body(), true, "")?;
            }
            return Err(command_error(error));
        }
    };
    let id = started.job.job_id().to_owned();
    let how = if started.was_found { "found" } else { "started" };
    let text = format!("{how} job {id} after {}\n", crate::count_of(started.attempts as usize, "attempt"));
    // With --wait the status of the wave is the one answer.
    if !(wait && json) {
        show(&StartedJobView::from(&started), json, &text)?;
    }
    if wait { follow(client, &[id], Some((Duration::from_secs(30), None)), json).await } else { Ok(()) }
}

async fn launch_configuration(command: &DrsCommand, client: &CliClient, json: bool) -> Result<(), CommandError> {
    let DrsCommand::LaunchConfig { server, disposition, right_sizing, copy_private_ip, copy_tags } = command
    else {
        return Ok(());
    };
    let has_change = disposition.is_some() || right_sizing.is_some() || copy_private_ip.is_some() || copy_tags.is_some();
    let view = if has_change {
        let upper = |text: &String| text.to_uppercase().replace('-', "_");
        let input = UpdateLaunchConfigurationInput::builder()
            .source_server_id(server)
            .set_launch_disposition(disposition.as_ref().map(|state| LaunchDisposition::from(upper(state).as_str())))
            .set_target_instance_type_right_sizing_method(
                right_sizing.as_ref().map(|is| TargetInstanceTypeRightSizingMethod::from(upper(is).as_str())),
            )
            .set_copy_private_ip(*copy_private_ip)
            .set_copy_tags(*copy_tags)
            .build()
            .map_err(|error| CommandError::InvalidInput(error.into()))?;
        LaunchConfigurationView::from(&client.update_launch_configuration(input).await.map_err(command_error)?)
    } else {
        LaunchConfigurationView::from(&client.get_launch_configuration(server).await.map_err(command_error)?)
    };
    let flag = |is: Option<bool>| is.map_or_else(String::new, |is| is.to_string());
    let cell = |text: &Option<String>| text.clone().unwrap_or_default();
    let row = vec![
        cell(&view.source_server_id),
        cell(&view.launch_disposition),
        cell(&view.target_instance_type_right_sizing_method),
        flag(view.copy_private_ip),
        flag(view.copy_tags),
    ];
    let heading = ["server", "disposition", "right sizing", "copy private ip", "copy tags"];
    show(&view, json, &table(&heading, &[row]))
}

/// Follows jobs until all have completed or the time is up; once without `wait`.
async fn follow(
    client: &CliClient,
    jobs: &[String],
    wait: Option<(Duration, Option<Duration>)>,
    json: bool,
) -> Result<(), CommandError> {
    let runtime = client.guard().runtime().clone();
    let started = runtime.monotonic();
    let status = loop {
        let status = client.poll_wave_status(jobs).await.map_err(command_error)?;
        let now = runtime.monotonic();
        let Some((interval, timeout)) = wait else { break status };
        let is_late = timeout.is_some_and(|timeout| now - started >= timeout);
        if status.progress != WaveProgress::InProgress || is_late {
            break status;
        }
        eprintln!(
            "seawall: {} of {} servers done, {} failed, {} active; next look in {} s",
            status.done_servers,
            status.servers.len(),
            status.failed_servers,
            crate::count_of(status.active_jobs, "job"),
            interval.as_secs()
        );
        let next_look = now + interval;
        runtime.sleep_until(timeout.map_or(next_look, |timeout| next_look.min(started + timeout))).await;
    };
    let rows: Vec<Vec<String>> = status.servers.iter().map(|server| {
        let cell = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            server.job_id.clone(),
            cell(&server.source_server_id),
            cell(&server.recovery_instance_id),
            server.launch_status.clone(),
        ]
    }).collect();
    show(&status, json, &table(&["job", "server", "instance", "launch"], &rows))?;
    end_of_wave(&status, wait.is_some())
}

fn end_of_wave(status: &WaveStatus, has_waited: bool) -> Result<(), CommandError> {
    let problem = match status.progress {
        WaveProgress::Succeeded => return Ok(()),
        WaveProgress::InProgress if !has_waited => return Ok(()),
        WaveProgress::InProgress => "the time is up, and jobs are still active".to_owned(),
        WaveProgress::Failed => {
            let done = status.done_servers;
            format!("{done} of {} were launched", crate::count_of(status.servers.len(), "server"))
        }
        WaveProgress::Unknown => format!("unknown jobs: {}", status.missing_jobs.join(", ")),
    };
    Err(CommandError::Coded(WAVE_FAILED, anyhow!(problem)))
}
