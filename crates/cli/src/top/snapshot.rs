//! What the screen shows, as plain values: made from answers of the admin API, and drawn without asking anything.

use crate::record_text::Attention;
use serde_json::Value;

/// The state of a gateway at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TopSnapshot {
    pub(crate) address: String,
    pub(crate) version: String,
    /// In seconds.
    pub(crate) uptime: u64,
    /// RFC 3339, by the gateway's clock.
    pub(crate) time: String,
    pub(crate) level: String,
    pub(crate) is_draining: bool,
    /// Seconds since the last answer of the gateway; 0 while it answers.
    pub(crate) silent_for: u64,
    /// Requests per second since the last sample.
    pub(crate) rate: Option<f64>,
    /// Requests that were not answered as planned, and all, in the last minute.
    pub(crate) bad: (u64, u64),
    /// Time to first content in seconds, in the last minute.
    pub(crate) first_content: Option<(f64, f64)>,
    pub(crate) in_flight: u64,
    /// Records by rung in the last minute, the most frequent first.
    pub(crate) rungs: Vec<(String, u64)>,
    pub(crate) spend: Option<SpendSummary>,
    pub(crate) targets: Vec<TargetRow>,
    /// Rejections by reason, the most frequent first, and in how many seconds they happened.
    pub(crate) rejected: (Vec<(String, u64)>, u64),
    pub(crate) callers: Vec<CallerRow>,
    /// The newest last.
    pub(crate) events: Vec<TopEvent>,
    /// Rate and p99 by sample, the newest last.
    pub(crate) rate_history: Vec<f64>,
    pub(crate) p99_history: Vec<f64>,
    /// The newest records, the newest last.
    pub(crate) records: Vec<Value>,
}

/// Today's spend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpendSummary {
    pub(crate) posted: u64,
    pub(crate) held: u64,
    /// `None` if there is no daily budget.
    pub(crate) cap: Option<u64>,
    /// Tiers that have spent more than four fifths of their budget, in percent.
    pub(crate) nearly_spent: Vec<(String, u64)>,
}

/// A target.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TargetRow {
    pub(crate) name: String,
    pub(crate) grade: String,
    /// `closed`, `half_open` or `open`.
    pub(crate) breaker: String,
    /// Until the next probe, in milliseconds.
    pub(crate) retry_after: Option<u64>,
    pub(crate) in_flight: (u64, u64),
    pub(crate) queue: u64,
    /// In milliseconds; the second quantile is the 95th.
    pub(crate) first_content: (Option<u64>, Option<u64>),
    /// Failed attempts, and all, in the last minute.
    pub(crate) failed: (u64, u64),
    pub(crate) cause: String,
}

/// A caller, by its records of the last five minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallerRow {
    pub(crate) caller: String,
    pub(crate) tier: String,
    pub(crate) requests: u64,
    pub(crate) rejected: u64,
    pub(crate) cost: u64,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopEvent {
    /// RFC 3339.
    pub(crate) time: String,
    pub(crate) severity: Attention,
    pub(crate) text: String,
    /// The request, if it is one.
    pub(crate) id: Option<String>,
}
