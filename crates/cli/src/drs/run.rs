//! Runs a command: connects, reports in the background, and turns errors into exit codes.

use super::command;
use super::exit_code::{NO_CAPACITY, OUTCOME_UNKNOWN, RATE_LIMITED};
use super::report::ProgressObserver;
use super::{DrsArguments, DrsCommand, DrsConnectionArguments};
use crate::CommandError;
use anyhow::{Context as _, anyhow};
use seawall_core::deadline::Deadline;
use seawall_core::runtime::{Timer as _, timeout_at};
use seawall_drs::aws::{ConnectError, DrsClient, DrsConnection, DrsError, DrsOptions};
use seawall_drs::{
    AccountAccess, CallCounters, EscalationNotifier, EventLog, GuardError, GuardObserver, GuardSettings,
    MetricPublisher, ObserverList, RateBuckets, RetryPreset, SystemRuntime, TOPIC_VARIABLE,
    ThrottlerSettings, alarm_template,
};
use std::env;
use std::future::Future;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::signal::unix::SignalKind;

/// How long one scrape of the metrics may take.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(2);

/// The client of the commands.
pub(super) type CliClient = DrsClient<SystemRuntime>;

pub(crate) fn run(arguments: &DrsArguments) -> Result<(), CommandError> {
    let options = options(&arguments.connection)?;
    if let DrsCommand::Alarms { topic } = &arguments.command {
        return print(&format!("{:#}\n", alarm_template(&options.region, topic)));
    }
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let tokio = tokio.context("cannot start a runtime").map_err(CommandError::Failed)?;
    tokio.block_on(run_connected(arguments, options))
}

fn options(arguments: &DrsConnectionArguments) -> Result<DrsOptions, CommandError> {
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let region = arguments.region.clone();
    let region = region.or_else(|| variable("AWS_REGION")).or_else(|| variable("AWS_DEFAULT_REGION"));
    let invalid = |error: anyhow::Error| CommandError::InvalidInput(error);
    let region = region.ok_or_else(|| invalid(anyhow!("no region: use --region, or set AWS_REGION")))?;
    let preset: RetryPreset = arguments.retry.parse().map_err(|error| invalid(anyhow!("{error}")))?;
    let throttler = ThrottlerSettings::from_variables(|name| env::var(name).ok());
    Ok(DrsOptions {
        region,
        access: AccountAccess {
            is_current_account: arguments.role.is_none(),
            account_id: arguments.account.clone(),
            assume_role_name: arguments.role.clone(),
            external_id: arguments.external_id.clone(),
        },
        guard: GuardSettings::preset(preset).map_err(|error| invalid(error.into()))?,
        throttler: throttler.map_err(|error| invalid(error.into()))?,
    })
}

async fn run_connected(arguments: &DrsArguments, options: DrsOptions) -> Result<(), CommandError> {
    let connection = &arguments.connection;
    let runtime = SystemRuntime::new();
    let (publisher, notifier) =
        (MetricPublisher::new(runtime.clone()), EscalationNotifier::new(runtime.clone()));
    let counters = Arc::new(CallCounters::default());
    let mut observers: Vec<Arc<dyn GuardObserver>> =
        vec![Arc::new(notifier.clone()), Arc::clone(&counters) as Arc<dyn GuardObserver>];
    if connection.publish_metrics {
        observers.push(Arc::new(publisher.clone()));
    }
    if connection.log {
        observers.push(Arc::new(EventLog::new(io::stderr())));
    } else {
        observers.push(Arc::new(ProgressObserver));
    }
    let opened = DrsConnection::open(options).await.map_err(connect_error)?;
    let buckets = RateBuckets::new(runtime.clone());
    let client = opened.client(runtime.clone(), &buckets, Arc::new(ObserverList(observers)));
    let client = client.map_err(connect_error)?;
    let listener = match connection.metrics_listen {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    let work = async {
        let outcome = until_interrupted(command::run(&arguments.command, &client, connection.json)).await;
        publisher.shut_down();
        notifier.shut_down();
        outcome
    };
    let topic = env::var(TOPIC_VARIABLE).ok().filter(|topic| !topic.is_empty());
    let topic = topic.map(|topic| opened.sns(topic));
    let report = async {
        let cloud_watch = opened.cloud_watch();
        let (published, notified) = tokio::join!(publisher.run(&cloud_watch), notifier.run(topic.as_ref()));
        let missing = published.dropped + published.lost;
        if missing > 0 {
            eprintln!("seawall: {missing} measurements could not be published to CloudWatch");
        }
        if notified.lost > 0 {
            eprintln!("seawall: an escalation notice could not be sent to the topic in {TOPIC_VARIABLE}");
        }
    };
    tokio::select! {
        biased;
        (outcome, ()) = async { tokio::join!(work, report) } => outcome,
        () = serve_metrics(listener, &runtime, &counters) => Ok(()),
    }
}

/// The outcome of `work`, or a failure on the first signal to stop.
async fn until_interrupted(work: impl Future<Output = Result<(), CommandError>>) -> Result<(), CommandError> {
    let mut interrupt = crate::signals(SignalKind::interrupt()).map_err(CommandError::Failed)?;
    let mut terminate = crate::signals(SignalKind::terminate()).map_err(CommandError::Failed)?;
    tokio::select! {
        biased;
        outcome = work => outcome,
        _ = interrupt.recv() => Err(interrupted()),
        _ = terminate.recv() => Err(interrupted()),
    }
}

fn interrupted() -> CommandError {
    CommandError::Failed(anyhow!("interrupted; jobs that were started go on: seawall drs jobs --active"))
}

async fn bind(address: SocketAddr) -> Result<TcpListener, CommandError> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot listen on {address}"));
    let listener = listener.map_err(CommandError::Failed)?;
    if let Ok(bound) = listener.local_addr() {
        eprintln!("seawall: metrics at http://{bound}/metrics");
    }
    Ok(listener)
}

/// Answers every request with the metrics, one after the other. Never ends.
async fn serve_metrics(listener: Option<TcpListener>, runtime: &SystemRuntime, counters: &CallCounters) {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        let answer = async {
            // The head of a request fits into this; what it asks for does not matter.
            let _ = stream.read(&mut [0; 4_096]).await;
            let page = counters.render();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\n\
                 connection: close\r\n\r\n",
                page.len()
            );
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(page.as_bytes()).await;
            let _ = stream.shutdown().await;
        };
        // A client that sends or reads nothing must not keep others waiting.
        let deadline = Deadline::after(runtime.monotonic(), SCRAPE_TIMEOUT);
        let _ = timeout_at(runtime, deadline, answer).await;
    }
}

pub(super) fn print(text: &str) -> Result<(), CommandError> {
    let written = io::stdout().write_all(text.as_bytes());
    written.context("cannot write to standard output").map_err(CommandError::Failed)
}

fn connect_error(error: ConnectError) -> CommandError {
    match error {
        ConnectError::UnknownAccount(_) => CommandError::Failed(error.into()),
        _ => CommandError::InvalidInput(error.into()),
    }
}

/// The exit code of an error of the client.
pub(super) fn command_error(error: DrsError) -> CommandError {
    let code = match &error {
        DrsError::InvalidRequest { .. } => return CommandError::InvalidInput(error.into()),
        DrsError::Call { error: GuardError::RateLimited { .. } | GuardError::Exhausted(_), .. } => {
            RATE_LIMITED
        }
        DrsError::Capacity { .. } => NO_CAPACITY,
        DrsError::OutcomeUnknown { .. }
        | DrsError::Call { error: GuardError::MayHaveExecuted { .. }, .. } => OUTCOME_UNKNOWN,
        DrsError::Call { .. } | DrsError::RepeatedPage { .. } => return CommandError::Failed(error.into()),
    };
    CommandError::Coded(code, error.into())
}
