//! The table of all diagnostic events. An event outside this table cannot be emitted, and the reference page is
//! generated from it.
//!
//! A name never changes its meaning: alerts match on it. No field contains a key, an address of a caller or a text of a
//! message.

use tracing::Level;

/// One kind of event.
#[derive(Debug)]
pub struct DiagnosticEvent {
    name: &'static str,
    level: Level,
    fields: &'static [&'static str],
    help: &'static str,
}

impl DiagnosticEvent {
    /// Its stable name, the field `event`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// How much it matters.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
    }

    pub(super) const fn fields(&self) -> &'static [&'static str] {
        self.fields
    }

    pub(super) const fn help(&self) -> &'static str {
        self.help
    }
}

macro_rules! events {
    ($( $constant:ident: $level:ident $name:literal [$($field:literal),*] $help:literal; )+) => {
        $(
            #[doc = $help]
            pub const $constant: DiagnosticEvent =
                DiagnosticEvent { name: $name, level: Level::$level, fields: &[$($field),*], help: $help };
        )+

        /// All events with the names of their constants.
        pub(super) const ALL: &[(&str, DiagnosticEvent)] = &[$((stringify!($constant), $constant)),+];
    };
}

events! {
    SETTINGS_WARNING: WARN "settings_warning" ["details"]
        "The settings are valid, but probably not as intended.";
    SETTINGS_NOT_IMPLEMENTED: WARN "settings_not_implemented" ["keys"]
        "These settings have no effect in this version.";
    SETTINGS_RELOADED: INFO "settings_reloaded" ["keys"]
        "New settings are in force; the changed keys.";
    LIMIT_CHANGED: INFO "limit_changed" ["limit"]
        "What happened to the counts of a limit that a reload changed.";
    RESTART_REQUIRED: WARN "restart_required" ["keys"]
        "These settings differ from those at the start and take effect with the next one.";
    SETTINGS_UNREADABLE: ERROR "settings_unreadable" ["reason"]
        "The settings file cannot be read; the running settings stay in force.";
    SETTINGS_REJECTED: ERROR "settings_rejected" ["reason", "details"]
        "The changed settings are invalid; the running settings stay in force.";
    BREAKER_OPENED: WARN "breaker_opened" ["target", "reason"]
        "A target's breaker opened, or stays open after a failed probe: the target is not called.";
    BREAKER_HALF_OPEN: INFO "breaker_half_open" ["target", "reason"]
        "A target's breaker is half-open: some calls pass as probes.";
    BREAKER_CLOSED: INFO "breaker_closed" ["target", "reason"]
        "A target's breaker closed: all calls pass.";
    CREDENTIAL_REJECTED: ERROR "credential_rejected" ["target", "reason"]
        "A target's provider rejects our API key, or each of several.";
    CREDENTIAL_ACCEPTED: INFO "credential_accepted" ["target"]
        "A target's provider accepts our API key again.";
    VENDOR_QUOTA_EXHAUSTED: ERROR "vendor_quota_exhausted" ["target", "reason"]
        "Our quota, credit or spend limit at a target's provider is used up.";
    MODEL_UNKNOWN: ERROR "model_unknown" ["target", "model", "reason"]
        "A target's provider does not know the model that the settings name.";
    TARGET_UNHEALTHY: WARN "target_unhealthy" ["target", "state", "reason"]
        "No call of a target was answered well for at least five seconds; `state` is throttled, unreachable, failing or slow.";
    TARGET_HEALTHY: INFO "target_healthy" ["target", "state", "lasted_ms"]
        "A target answers again; `state` is what was wrong.";
    VENDOR_KEY_REJECTED: ERROR "vendor_key_rejected" ["target", "key"]
        "A provider rejects one of several API keys of a target, and another is used; `key` is its position in api_keys.";
    VENDOR_KEY_EXHAUSTED: ERROR "vendor_key_exhausted" ["target", "key"]
        "The quota of one of several API keys of a target is used up, and another is used; `key` is its position in api_keys.";
    VENDOR_KEY_ACCEPTED: INFO "vendor_key_accepted" ["target", "key"]
        "A provider accepts an API key of a target again; `key` is its position in api_keys.";
    SHARED_STORE_UNAVAILABLE: WARN "shared_store_unavailable" ["store", "reason"]
        "The shared store does not answer; this node enforces its own share of every limit.";
    SHARED_STORE_RECOVERING: INFO "shared_store_recovering" ["store", "reason"]
        "The shared store answers again, but its counts are incomplete.";
    SHARED_STORE_AVAILABLE: INFO "shared_store_available" ["store", "reason"]
        "The shared store enforces limits across the fleet.";
    FLEET_SIZE_NOT_SAVED: WARN "fleet_size_not_saved" ["path", "reason"]
        "The number of nodes cannot be saved; a start without the shared store would use an older number.";
    JOURNAL_UNAVAILABLE: ERROR "journal_unavailable" ["reason", "data_dir"]
        "The journal cannot be written: nothing is reserved, and no model is called.";
    JOURNAL_AVAILABLE: INFO "journal_available" []
        "The journal can be written again.";
    DATA_DIR_UNAVAILABLE: ERROR "data_dir_unavailable" ["reason"]
        "The data directory cannot be written; only the journal is.";
    DATA_DIR_AVAILABLE: INFO "data_dir_available" []
        "The data directory can be written again.";
    KEY_CREATED: INFO "key_created" ["key", "tier"]
        "A caller's key was created; `key` is its id.";
    KEY_CHANGED: INFO "key_changed" ["key", "tier"]
        "The terms of a caller's key were changed; `key` is its id.";
    KEY_ROTATED: INFO "key_rotated" ["key", "tier"]
        "A caller's key was replaced; `key` is the id of the new one, and the old one is accepted for the overlap.";
    KEY_REVOKED: INFO "key_revoked" ["key", "tier"]
        "A caller's key was revoked; `key` is its id.";
    ACCESS_LOG_REOPENED: INFO "access_log_reopened" ["path"]
        "SIGHUP was received, and the access log is written to a newly opened file of the same path.";
    ACCESS_LOG_NOT_REOPENED: ERROR "access_log_not_reopened" ["path", "reason"]
        "The access log cannot be opened again; lines still go to the file that was open.";
    RECORDS_UNAVAILABLE: ERROR "records_unavailable" ["path", "reason"]
        "Decision records cannot be written, for example because the disk is full: they are lost, and requests are served.";
    RECORDS_AVAILABLE: INFO "records_available" ["path"]
        "Decision records can be written again.";
    RECORDS_DAMAGED: WARN "records_damaged" ["path", "reason"]
        "A segment of decision records is damaged; what is not intact is skipped.";
    DRAIN_DELAY_STARTED: INFO "drain_delay_started" ["signal", "drain_delay_ms"]
        "A signal was received: /readyz reports 503, and requests are still served for server.drain_delay.";
    DRAIN_DELAY_ENDED: INFO "drain_delay_ended" ["is_skipped"]
        "server.drain_delay has passed or was skipped by another signal: the listeners close.";
    SHUTDOWN_STARTED: INFO "shutdown_started" ["signal", "drain_timeout_ms"]
        "A signal was received: no new requests are accepted, and those in flight are drained.";
    SHUTDOWN_COMPLETED: INFO "shutdown_completed" ["duration_ms"]
        "All requests have ended, and the process ends.";
    SHUTDOWN_FORCED: WARN "shutdown_forced" []
        "Another signal was received while draining: the process ends at once.";
    THREAD_PANICKED: ERROR "background_thread_panicked" ["thread"]
        "A background thread panicked and is started again; `panic` says where.";
    THREAD_FAILED: ERROR "background_thread_failed" ["thread", "reason"]
        "A background thread could not do its work and is started again.";
    THREAD_LATE: WARN "background_thread_late" ["thread", "deadline_ms"]
        "A background thread did not stop in time; the shutdown continues without it.";
    PANIC: ERROR "panic" ["thread", "location", "reason", "details"]
        "A bug in Seawall: please report it. `details` is the backtrace if RUST_BACKTRACE is set.";
    DIAGNOSTICS_DROPPED: WARN "diagnostics_dropped" ["count"]
        "This many events before this one were dropped because standard error was not read in time.";
}
