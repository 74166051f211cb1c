//! The table of all metrics. A metric outside this table cannot be written, and the reference page is generated from
//! it.
//!
//! Label values are fixed labels or names from the settings. None is ever derived from a caller: no key, no hash, no
//! address, no text.

/// The Prometheus type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only increases, until the process ends.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values in buckets.
    Histogram,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric. Only this file can construct one.
#[derive(Debug)]
pub(crate) struct Metric {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    labels: &'static [&'static str],
}

impl Metric {
    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) const fn help(&self) -> &'static str {
        self.help
    }

    pub(super) const fn labels(&self) -> &'static [&'static str] {
        self.labels
    }
}

macro_rules! metrics {
    ($( $constant:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal; )+) => {
        $(
            pub(super) static $constant: Metric =
                Metric { name: $name, kind: Kind::$kind, help: $help, labels: &[$($label),*] };
        )+

        /// All metrics, in the order in which they are written.
        pub(super) static ALL: &[&Metric] = &[$(&$constant),+];
    };
}

metrics! {
    BUILD: Gauge "seawall_build_info" ["version"]
        "Always 1; the label tells which version runs.";
    UPTIME: Gauge "seawall_uptime_seconds" []
        "How long it has been running.";
    DRAINING: Gauge "seawall_draining" []
        "1 while it takes no new work because it is about to end, else 0.";
    LEVEL: Gauge "seawall_level" []
        "How far the shop has stepped down: 0 normal, 1 pressure, 2 high_load, 3 overload, 4 emergency.";
    REQUESTS: Counter "seawall_requests_total" ["face", "route", "verdict", "reason", "tier"]
        "Requests that are over, by how they ended. Route and tier are empty where they never became known.";
    FIRST_CONTENT: Histogram "seawall_first_content_seconds" ["face"]
        "From a request's arrival to the first content of its answer.";
    DURATION: Histogram "seawall_request_duration_seconds" ["face"]
        "From a request's arrival to its end.";
    OVERHEAD: Histogram "seawall_overhead_seconds" ["face"]
        "What Seawall itself added before the answer began, without waiting for targets, places and retries.";
    ATTEMPTS: Counter "seawall_attempts_total" ["target", "outcome"]
        "Attempts on targets that are over, by how they ended.";
    INPUT_TOKENS: Counter "seawall_input_tokens_total" ["target", "kind"]
        "Tokens that went in, as the books have them: what the vendor told, or else the most it can have been.";
    OUTPUT_TOKENS: Counter "seawall_output_tokens_total" ["target"]
        "Tokens that came out, as the books have them.";
    COST: Counter "seawall_cost_nanodollars_total" ["tier", "target"]
        "Money posted, in billionths of a dollar.";
    RETRIES: Counter "seawall_retries_total" []
        "Failed attempts after which the same target was tried again.";
    FAILOVERS: Counter "seawall_failovers_total" []
        "Failed attempts after which another target was tried.";
    STOPS: Counter "seawall_retry_stops_total" ["reason"]
        "Failed attempts after which the same target was not tried again, by why not.";
    BREAKER: Gauge "seawall_breaker_phase" ["target"]
        "Where a target's breaker stands: 0 closed (calls pass), 1 half-open (probes pass), 2 open (calls are blocked).";
    OPEN_FOR_ONE: Gauge "seawall_breaker_open_for_one_caller" ["target"]
        "1 while a target's breaker is open for one caller, who provoked the failures, and not for others; else 0.";
    PANIC_CALLS: Counter "seawall_panic_calls_total" ["target"]
        "Calls that were sent to a target although its breaker blocked, because it was only slow and no other could be asked.";
    CREDENTIAL_REJECTED: Gauge "seawall_target_credential_rejected" ["target"]
        "1 while a target's vendor rejects our key, else 0.";
    PRESSURE: Gauge "seawall_pressure" ["target"]
        "How hard a target struggles: 0 normal, 1 slight, 2 high, 3 recovery, 4 open.";
    HELD_BACK: Gauge "seawall_held_back_seconds" ["target"]
        "How long calls to a target are still held back because its provider throttled us and named the wait.";
    PACED_RATE: Gauge "seawall_paced_calls_per_second" ["target"]
        "Calls a second that are sent to a target which throttled us in the last minute; without a value for others.";
    PACED_WAITING: Gauge "seawall_paced_waiting" ["target"]
        "Requests that wait until a throttling target takes them.";
    IN_FLIGHT: Gauge "seawall_in_flight" ["target"]
        "Calls under way.";
    IN_FLIGHT_LIMIT: Gauge "seawall_in_flight_limit" ["target"]
        "How many calls may be under way at once.";
    IN_FLIGHT_PEAK: Gauge "seawall_in_flight_peak" ["target"]
        "The most calls that were ever under way at once.";
    QUEUE_SIZE: Gauge "seawall_queue_size" ["target"]
        "Requests that wait for a place at a target.";
    QUEUE_CAPACITY: Gauge "seawall_queue_capacity" ["target"]
        "How many may wait.";
    QUEUE_ENTERED: Counter "seawall_queue_entered_total" ["target"]
        "Requests that were let into the line for a target.";
    QUEUE_OLDEST: Gauge "seawall_queue_oldest_seconds" ["target"]
        "How long the oldest of those that wait has waited.";
    QUEUE_OUTCOMES: Counter "seawall_queue_outcomes_total" ["target", "outcome"]
        "What became of requests that wanted to wait for a place.";
    OVERRUNS: Counter "seawall_overruns_total" ["target"]
        "Calls that cost more than was reserved for them.";
    SET_ASIDE: Gauge "seawall_target_set_aside" ["target"]
        "1 while a target is not called because three of its calls within ten minutes cost more than was reserved, else 0.";
    DAY_CAP: Gauge "seawall_budget_day_cap_nanodollars" []
        "What all may spend on this day (UTC).";
    BUDGET_CAP: Gauge "seawall_budget_cap_nanodollars" ["tier"]
        "What a tier may spend on this day (UTC).";
    BUDGET_POSTED: Gauge "seawall_budget_posted_nanodollars" ["tier"]
        "What this day's calls have cost.";
    BUDGET_HELD: Gauge "seawall_budget_held_nanodollars" ["tier"]
        "What calls under way may still cost.";
    BUDGET_OVERRUN: Gauge "seawall_budget_overrun_nanodollars" []
        "What this day's calls have cost beyond what was reserved for them; part of what is posted.";
    JOURNAL_FAILURES: Counter "seawall_journal_failures_total" []
        "Entries of the books that could not be written to the journal.";
    JOURNAL_UP: Gauge "seawall_journal_up" []
        "1 while the journal can be written, 0 while it cannot: then nothing is reserved and no model is asked.";
    DIRECTORY_FALLBACKS: Counter "seawall_directory_fallbacks_total" []
        "Requests whose caller's tier nobody could be asked for, so that the least was given.";
    LIMITED: Counter "seawall_limited_total" ["limit", "scope"]
        "Requests that a limit refused, or would have refused if it were enforced, by limit and by whose requests it counts.";
    WOULD_LIMIT: Counter "seawall_would_limit_total" []
        "Requests that a limit would have refused that is tried and not enforced.";
    SHARED_HERE: Gauge "seawall_shared_store_here" []
        "1 while the store that a fleet shares decides over limits, 0 while this node does alone. Only with such a store.";
    SHARED_ALONE: Counter "seawall_shared_store_decided_alone_total" []
        "Requests that this node decided without the store that a fleet shares.";
    SHARED_UNSETTLED: Counter "seawall_shared_store_unsettled_total" []
        "Settlements that did not reach the store that a fleet shares.";
    CONNECTIONS: Gauge "seawall_connections" []
        "Connections of callers that are open.";
    CONNECTIONS_LIMIT: Gauge "seawall_connections_limit" []
        "How many connections of callers may be open at once, as far as the system has files.";
    CONNECTIONS_ENDED: Counter "seawall_connections_ended_total" ["reason"]
        "Connections that were refused (max_connections, max_connections_per_address) or closed (idle_timeout, send_timeout, http2_flood).";
    BODY_MEMORY: Gauge "seawall_body_memory_bytes" []
        "Bytes of request bodies that are in memory.";
    BODY_MEMORY_LIMIT: Gauge "seawall_body_memory_limit_bytes" []
        "Bytes of request bodies that may be in memory at once.";
    LINES_LOST: Counter "seawall_log_lines_lost_total" []
        "Lines of the access log that its sink was too slow for.";
    MEMORY: Gauge "process_resident_memory_bytes" []
        "Memory of the process that is in use. Linux only.";
    OPEN_FILES: Gauge "process_open_fds" []
        "Files and sockets that the process has open. Linux only.";
}
