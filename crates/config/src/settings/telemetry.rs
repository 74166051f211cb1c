//! Checked settings of telemetry.

use crate::kind::{DiagnosticFormat, DiagnosticLevel, LogDestination, SecretReference};
use std::time::Duration;

/// Logs, traces and metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct TelemetrySettings {
    /// The destination of the access log.
    pub access_log: LogDestination,
    /// The format of diagnostics.
    pub diagnostics: DiagnosticFormat,
    /// The least important diagnostics that are written.
    pub diagnostics_level: DiagnosticLevel,
    /// The OTLP endpoint for traces.
    pub otlp_endpoint: Option<String>,
    /// The sampling rate of ordinary traces, in percent.
    pub sampling_rate: f64,
    /// Traces per second that are sampled in any case.
    pub min_traces_per_second: u64,
    /// The secret that pseudonyms are made with.
    pub salt: Option<SecretReference>,
    /// Whether the admin listener serves metrics.
    pub metrics: bool,
    /// Whether the callers' listener also serves metrics.
    pub public_metrics: bool,
    /// Decision records of requests.
    pub records: RecordSettings,
}

/// Decision records of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    /// Whether records are kept in the data directory.
    pub enabled: bool,
    /// Maximum size of all records, in bytes.
    pub max_size: u64,
    /// Maximum age of a record.
    pub max_age: Duration,
    /// Maximum number of ordinary answers that are kept per second.
    pub max_rate: u64,
}
