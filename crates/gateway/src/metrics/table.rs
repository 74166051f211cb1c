//! The table of all metrics. A metric outside this table cannot be written, and the reference page is generated from
//! it.
//!
//! Label values are fixed labels or names from the settings. None is ever derived from a caller: no key, no hash, no
//! address, no text.

/// The Prometheus type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricKind {
    /// Only increases, until the process ends.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values in buckets.
    Histogram,
    /// The sum and the number of values, without quantiles.
    Summary,
}

impl MetricKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// One metric. Only this file can construct one.
#[derive(Debug)]
pub(crate) struct Metric {
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    labels: &'static [&'static str],
}

impl Metric {
    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    pub(super) const fn kind(&self) -> MetricKind {
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
                Metric { name: $name, kind: MetricKind::$kind, help: $help, labels: &[$($label),*] };
        )+

        /// All metrics, in the order in which they are written.
        pub(super) static ALL: &[&Metric] = &[$(&$constant),+];
    };
}

metrics! {
    BUILD: Gauge "seawall_build_info" ["version"]
        "Always 1; the label is the version of the running program.";
    UPTIME: Gauge "seawall_uptime_seconds" []
        "Seconds since the process started.";
    DRAINING: Gauge "seawall_draining" []
        "1 after a shutdown signal, else 0. New requests are accepted until server.drain_delay has passed.";
    LEVEL: Gauge "seawall_level" []
        "Degradation level: 0 normal, 1 elevated, 2 high_load, 3 overload, 4 emergency. Always 0 in this version: degradation is not implemented.";
    REQUESTS: Counter "seawall_requests_total" ["face", "route", "outcome", "reason", "tier"]
        "Completed requests by outcome. Route and tier are empty if they were never determined.";
    ANSWERS: Counter "seawall_answers_total" ["route", "rung", "target", "model"]
        "Answers that were given completely, by what gave them: the rung, and the target and its model if one answered. At most 64 series per route; all further ones have the labels `other`.";
    FIRST_CONTENT: Histogram "seawall_first_content_seconds" ["face"]
        "Time from the complete receipt of a request to the first content of its answer (time to first token).";
    DURATION: Histogram "seawall_request_duration_seconds" ["face"]
        "Time from the complete receipt of a request to its end. The time for authentication and for the body is not included, so an earlier rejection has a duration of about 0.";
    OVERHEAD: Histogram "seawall_overhead_seconds" ["face"]
        "Latency that the gateway added between the complete receipt of a request and the start of its answer, without the waits for targets, concurrency slots, pacing and backoff.";
    STAGES: Summary "seawall_stage_seconds" ["stage"]
        "Time that requests spent in each stage. A request that ends within a stage counts in it and in no later one.";
    ATTEMPTS: Counter "seawall_attempts_total" ["target", "outcome"]
        "Completed attempts on targets, by outcome.";
    ATTEMPT_DURATION: Histogram "seawall_attempt_duration_seconds" ["target"]
        "Time from the start of an attempt to its end.";
    ROTATIONS: Counter "seawall_key_rotations_total" ["target"]
        "Attempts that were repeated with another API key of the same target.";
    INPUT_TOKENS: Counter "seawall_input_tokens_total" ["target", "kind"]
        "Input tokens as charged: as reported by the provider, or the maximum possible if it reported none.";
    OUTPUT_TOKENS: Counter "seawall_output_tokens_total" ["target"]
        "Output tokens as charged.";
    COST: Counter "seawall_cost_usd_total" ["tier", "target"]
        "Cost posted to the ledger, in dollars.";
    UNPRICED: Counter "seawall_unpriced_attempts_total" ["target"]
        "Attempts at models without a known price, whose cost is in no other figure. Only where no budget applies.";
    RETRIES: Counter "seawall_retries_total" []
        "Failed attempts that were followed by a retry on the same target.";
    FAILOVERS: Counter "seawall_failovers_total" []
        "Failed attempts that were followed by an attempt on another target.";
    STOPS: Counter "seawall_retry_stops_total" ["reason"]
        "Failed attempts that were not retried on the same target, by reason.";
    BREAKER: Gauge "seawall_breaker_phase" ["target"]
        "Phase of a target's breaker: 0 closed (calls pass), 1 half-open (probes pass), 2 open (calls are blocked).";
    OPEN_FOR_ONE: Gauge "seawall_breaker_open_for_one_caller" ["target"]
        "1 while a target's breaker is open only for the one caller that caused the failures, else 0.";
    PANIC_CALLS: Counter "seawall_panic_calls_total" ["target"]
        "Calls that were sent to a target despite its open breaker, because it was only slow and no other target was available.";
    CREDENTIAL_REJECTED: Gauge "seawall_target_credential_rejected" ["target"]
        "1 while a target's provider rejects our API key, else 0.";
    TARGET_HEALTH: Gauge "seawall_target_health" ["target", "state"]
        "1 for the present condition of a target, 0 for all others.";
    TARGET_KEYS: Gauge "seawall_target_keys" ["target", "state"]
        "Number of API keys of a target in each condition. Only for targets with several keys.";
    PRESSURE: Gauge "seawall_target_pressure" ["target"]
        "Pressure on a target, which limits retries: 0 normal, 1 slight, 2 high; 3 recovery and 4 open while its breaker is half-open or open.";
    RETRY_AFTER: Gauge "seawall_target_retry_after_seconds" ["target"]
        "Remaining wait that a target's provider named when it throttled us; no calls are sent meanwhile.";
    PACED_RATE: Gauge "seawall_paced_calls_per_second" ["target"]
        "Calls per second sent to a target that throttled us in the last minute; absent for others.";
    PACED_WAITING: Gauge "seawall_paced_waiting" ["target"]
        "Requests that wait to be sent to a throttling target.";
    IN_FLIGHT: Gauge "seawall_in_flight" ["target"]
        "Calls in flight.";
    IN_FLIGHT_LIMIT: Gauge "seawall_in_flight_limit" ["target"]
        "Maximum number of calls in flight.";
    IN_FLIGHT_PEAK: Gauge "seawall_in_flight_peak" ["target"]
        "Highest number of calls in flight since the start.";
    QUEUE_SIZE: Gauge "seawall_queue_size" ["target"]
        "Requests that wait for a concurrency slot at a target.";
    QUEUE_CAPACITY: Gauge "seawall_queue_capacity" ["target"]
        "Maximum number of waiting requests.";
    QUEUE_ENTERED: Counter "seawall_queue_entered_total" ["target"]
        "Requests that entered the queue of a target.";
    QUEUE_OLDEST: Gauge "seawall_queue_oldest_seconds" ["target"]
        "Time that the oldest waiting request has waited.";
    QUEUE_OUTCOMES: Counter "seawall_queue_outcomes_total" ["target", "outcome"]
        "Requests that needed a queue, by outcome.";
    OVERRUNS: Counter "seawall_cost_overruns_total" ["target"]
        "Calls that cost more than was reserved for them.";
    SUSPENDED: Gauge "seawall_target_suspended_for_overruns" ["target"]
        "1 while a target is not called because three of its calls within ten minutes cost more than was reserved, else 0.";
    BREAKER_CHANGES: Counter "seawall_breaker_transitions_total" ["target", "to"]
        "Changes of a target's breaker, by its new phase.";
    HEALTH_CHANGES: Counter "seawall_target_health_transitions_total" ["target", "to"]
        "Changes of the condition of a target, by its new condition.";
    PRESSURE_CHANGES: Counter "seawall_pressure_transitions_total" ["target", "to"]
        "Changes of the pressure on a target, by its new value.";
    DAY_CAP: Gauge "seawall_budget_day_cap_usd" []
        "Daily budget of all callers (UTC day), in dollars.";
    BUDGET_CAP: Gauge "seawall_budget_cap_usd" ["tier"]
        "Daily budget of a tier (UTC day), in dollars.";
    BUDGET_POSTED: Gauge "seawall_budget_posted_usd" ["tier"]
        "Cost of today's calls, in dollars.";
    BUDGET_HELD: Gauge "seawall_budget_held_usd" ["tier"]
        "Amount reserved for calls in flight, in dollars.";
    BUDGET_OVERRUN: Gauge "seawall_budget_overrun_usd" []
        "Cost of today's calls beyond their reservations, in dollars; included in the posted amount.";
    JOURNAL_FAILURES: Counter "seawall_journal_failures_total" []
        "Ledger entries that could not be written to the journal.";
    JOURNAL_UP: Gauge "seawall_journal_up" []
        "1 while the journal can be written, 0 while it cannot; then nothing is reserved and no model is called.";
    LOOKUP_FALLBACKS: Counter "seawall_caller_lookup_fallbacks_total" []
        "Requests whose caller was given the lowest tier because the caller directory did not answer.";
    RATE_LIMITED: Counter "seawall_rate_limited_total" ["limit", "scope", "mode"]
        "Requests that exceeded a rate limit: rejected (mode enforce) or only recorded (mode observe).";
    SHARED_UP: Gauge "seawall_shared_store_up" []
        "1 while the shared store decides limits for the fleet, 0 while this node decides alone; absent without a shared store.";
    SHARED_LOCAL_DECISIONS: Counter "seawall_shared_store_local_decisions_total" []
        "Requests that this node decided without the shared store.";
    SHARED_LOST_SETTLEMENTS: Counter "seawall_shared_store_lost_settlements_total" []
        "Settlements that did not reach the shared store.";
    CONNECTIONS: Gauge "seawall_connections" []
        "Open connections of callers.";
    CONNECTIONS_LIMIT: Gauge "seawall_connections_limit" []
        "Maximum number of open connections of callers, within the file-descriptor limit.";
    CONNECTIONS_ENDED: Counter "seawall_connections_ended_total" ["reason"]
        "Connections that were rejected (max_connections, max_connections_per_address) or closed (idle_timeout, send_timeout, http2_flood).";
    BODY_MEMORY: Gauge "seawall_body_memory_bytes" []
        "Bytes of request bodies in memory.";
    BODY_MEMORY_LIMIT: Gauge "seawall_body_memory_limit_bytes" []
        "Maximum bytes of request bodies in memory.";
    RELOADS: Counter "seawall_settings_reloads_total" ["outcome"]
        "Reloads of the settings: applied, or rejected because the changed settings are invalid.";
    RELOAD_SUCCESSFUL: Gauge "seawall_config_last_reload_successful" []
        "1 if the last reload of the settings, or the start, succeeded; 0 if the changed settings were rejected.";
    RELOAD_TIME: Gauge "seawall_config_last_reload_success_timestamp_seconds" []
        "When the settings in force were applied, as seconds since 1970.";
    EVENTS_DROPPED: Counter "seawall_events_dropped_total" ["sink"]
        "Events that a sink lost because its queue was full: of the sink access_log, these are lines of the access log.";
    DIAGNOSTICS_DROPPED: Counter "seawall_diagnostics_dropped_total" []
        "Diagnostics that were dropped because standard error was not read in time.";
    BACKGROUND_PANICS: Counter "seawall_background_panics_total" ["thread"]
        "Panics of background threads, by the name that `ps -T` shows. The thread is started again. Anything above 0 is a bug in Seawall: please report it.";
    INVARIANT_VIOLATIONS: Counter "seawall_invariant_violations_total" ["invariant"]
        "Decisions that violated an invariant of the program. Anything above 0 is a bug in Seawall: please report it.";
    CPU: Counter "process_cpu_seconds_total" []
        "CPU time that the process has used, in user and system mode. Linux only.";
    START_TIME: Gauge "process_start_time_seconds" []
        "When the gateway started, as seconds since 1970.";
    MEMORY: Gauge "process_resident_memory_bytes" []
        "Resident memory of the process. Linux only.";
    OPEN_FILES: Gauge "process_open_fds" []
        "Open file descriptors of the process. Linux only.";
}
