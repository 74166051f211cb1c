//! Where events go, open from the start of a gateway to its end.

use super::error::ServeError;
use crate::diagnostics::DiagnosticSink;
use crate::identity::Authenticator;
use crate::log::{RecentRequests, ReopenableFile, RequestLog, recent_requests};
use crate::metrics::Metrics;
use crate::records::DecisionRecords;
use crate::runtime::TokioRuntime;
use crate::supervisor::Supervisor;
use arc_swap::ArcSwap;
use seawall_config::{LogDestination, Settings};
use seawall_pipeline::event::EventSinks;
use std::io::Write;
use std::sync::Arc;

/// The sinks of events, and what is shown of them. Clones share them.
#[derive(Clone)]
pub(crate) struct GatewayTelemetry {
    pub(crate) events: Arc<EventSinks>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) recent: Arc<RecentRequests>,
    pub(crate) records: Arc<DecisionRecords>,
    /// The authenticator in force, which gives callers their pseudonyms.
    pub(crate) authenticator: Arc<ArcSwap<Authenticator>>,
    /// The file of the access log, if it is one.
    log_file: Option<ReopenableFile>,
}

impl GatewayTelemetry {
    /// Opens the sinks of these settings, and starts their threads. Another sink is one more row here.
    pub(super) fn start(
        settings: &Settings,
        authenticator: &Arc<Authenticator>,
        runtime: TokioRuntime,
        supervisor: &Supervisor,
    ) -> Result<Self, ServeError> {
        let authenticator = Arc::new(ArcSwap::new(Arc::clone(authenticator)));
        let current = Arc::clone(&authenticator);
        let pseudonym = move |caller| current.load().pseudonyms().encode(caller);
        let (destination, log_file) = open_access_log(&settings.telemetry.access_log)?;
        let is_recorded = is_recorded(settings);
        let log = RequestLog::new(runtime, destination, is_recorded, pseudonym, supervisor);
        let log = Arc::new(log.map_err(ServeError::LogThread)?);
        let (metrics, recent) = (Arc::<Metrics>::default(), log.recent());
        let records = Arc::new(DecisionRecords::new(runtime, Arc::clone(&recent)));
        let events = EventSinks::new(vec![
            Arc::<Metrics>::clone(&metrics),
            log,
            Arc::<DecisionRecords>::clone(&records),
            Arc::new(DiagnosticSink),
        ]);
        Ok(Self { events: Arc::new(events), metrics, recent, records, authenticator, log_file })
    }

    /// Nothing is reported: for a check of settings.
    pub(super) fn silent(authenticator: &Arc<Authenticator>, runtime: TokioRuntime) -> Self {
        let recent = Arc::new(recent_requests(false, false));
        Self {
            events: Arc::new(EventSinks::new(Vec::new())),
            metrics: Arc::default(),
            records: Arc::new(DecisionRecords::new(runtime, Arc::clone(&recent))),
            recent,
            authenticator: Arc::new(ArcSwap::new(Arc::clone(authenticator))),
            log_file: None,
        }
    }

    /// Keeps decision records in the data directory, which is open and locked by now.
    pub(super) fn start_records(
        &self,
        settings: &Settings,
        supervisor: &Supervisor,
    ) -> Result<(), ServeError> {
        let Some(data_dir) = settings.store.directory().filter(|_| is_recorded(settings)) else {
            return Ok(());
        };
        let current = Arc::clone(&self.authenticator);
        let pseudonym = Box::new(move |caller| current.load().pseudonyms().encode(caller));
        let started = self.records.start(data_dir, &settings.telemetry.records, pseudonym, supervisor);
        started.map_err(ServeError::LogThread)
    }

    /// Opens the file of the access log again, if it is one.
    pub(crate) fn reopen_logs(&self) {
        if let Some(file) = &self.log_file {
            file.reopen();
        }
    }
}

fn is_recorded(settings: &Settings) -> bool {
    settings.telemetry.records.enabled && settings.store.directory().is_some()
}

type LogWriter = Box<dyn Write + Send>;

/// The destination of the access log, and its file, if it is one.
fn open_access_log(
    destination: &LogDestination,
) -> Result<(Option<LogWriter>, Option<ReopenableFile>), ServeError> {
    Ok(match destination {
        LogDestination::None => (None, None),
        LogDestination::Stdout => (Some(Box::new(std::io::stdout())), None),
        LogDestination::File(path) => {
            let file = ReopenableFile::open(path.as_ref());
            let file = file.map_err(|error| ServeError::LogFile(path.clone(), error))?;
            (Some(Box::new(file.clone())), Some(file))
        }
    })
}
