//! The assistant, the store, switches, rollout and telemetry.

use crate::field::ListField;
use crate::kind::{
    BooleanKind, BytesKind, CountKind, DateKind, DiagnosticFormat, DiagnosticLevel, DurationKind, LocaleKind,
    LogDestinationKind, NumberKind, PathKind, PercentKind, SecretKind, SmallCountKind, StoreKind, TextKind,
    UrlKind,
};
use crate::section::section;
use seawall_core::vocabulary::Mode;

section! {
    /// The assistant of the chat face.
    pub(crate) struct AssistantSection {
        /// Default locale of callers that send none.
        locale: LocaleKind,
        /// System prompts by language.
        prompts: PromptsSection,
        /// Version of the prompts. A change invalidates all cached answers.
        prompt_version: TextKind,
        /// Product catalogue file.
        catalogue: Option<PathKind>,
        /// Version of the catalogue. A change invalidates all cached answers.
        catalogue_version: TextKind,
        /// FAQ file.
        faq: Option<PathKind>,
        /// File with template answers.
        templates: Option<PathKind>,
        /// File with the patterns of each intent.
        intents: Option<PathKind>,
        /// Texts that requests on the chat route and chat answers must not contain; spelling variants are matched as well.
        /// For other routes see `routes.NAME.deny`.
        deny: ListField<TextKind>,
        /// Sampling temperature of the model, from 0 to 1.
        temperature: NumberKind,
        /// Maximum number of turns of a caller's `history` in a prompt; the oldest are dropped.
        max_history_turns: SmallCountKind,
        /// Maximum number of retrieved items in a prompt.
        max_retrieved_items: SmallCountKind,
        /// Maximum characters of a retrieved item.
        max_retrieved_characters: SmallCountKind,
        /// Timeout of retrieval.
        retrieval_timeout: DurationKind,
    }
}

section! {
    /// System prompts of the assistant by language.
    pub(crate) struct PromptsSection {
        /// Japanese system prompt.
        ja: TextKind,
        /// English system prompt.
        en: TextKind,
    }
}

section! {
    /// The store of state.
    pub(crate) struct StoreSection {
        /// Storage backend.
        kind: StoreKind [restart],
        /// Data directory, used by `embedded` and `redis`.
        data_dir: PathKind [restart],
        /// Redis connection of a fleet.
        redis: Option<RedisSection>,
        /// Storage of conversations. In this version no conversation is stored.
        session: SessionSection,
    }
}

section! {
    /// Redis connection of a fleet.
    pub(crate) struct RedisSection {
        /// URL, such as `redis://cache:6379`, or `rediss://cache:6379` for TLS.
        url: Option<UrlKind> [restart],
        /// File with the CA certificates for TLS, in PEM. Default: the system's trust store.
        ca_file: Option<PathKind> [restart],
        /// Reference to the password.
        password: Option<SecretKind> [restart],
        /// Timeout of one operation.
        operation_timeout: DurationKind = "\"25ms\"",
        /// Whether the server is a Redis cluster.
        cluster: BooleanKind [restart] = "false",
        /// Prefix of all keys.
        prefix: TextKind [restart] = "\"seawall\"",
        /// Minimum number of nodes that share the limits. A node that has never reached Redis enforces its part of every
        /// limit. Default: the fleet size that the node last saw, stored in `store.data_dir`, or 1.
        fleet_size: Option<SmallCountKind> [restart],
    }
}

section! {
    /// Storage of conversations. In this version no conversation is stored.
    pub(crate) struct SessionSection {
        /// Time to live of a conversation after its last turn.
        ttl: DurationKind,
    }
}

section! {
    /// Switches that turn a protection or all model calls off at once. `true` means that it works, as in the shipped
    /// profiles.
    pub(crate) struct SwitchesSection as "switch" or UnknownSwitch {
        /// Rate limits of callers and routes.
        rate_limit_enabled: BooleanKind,
        /// Restriction of models in the warning state and after the daily budget is exhausted.
        cost_circuit_breaker_enabled: BooleanKind,
        /// Restriction of models by the degradation level.
        degradation_controller_enabled: BooleanKind,
        /// Reduced pipeline for guests.
        guest_lite_pipeline_enabled: BooleanKind,
        /// Ceiling on the grade of models in the off-peak hours.
        off_peak_ceiling_enabled: BooleanKind,
        /// Calls to models. If off, no model is called for any caller.
        model_invocation_enabled: BooleanKind,
    }
}

section! {
    /// Modes of protections: `enforce`, `observe` (decide and report, but do not act) or `off`.
    pub(crate) struct ModesSection as "protection" or UnknownProtection {
        /// Rate limits of callers and routes.
        rate_limit: Mode,
        /// Restriction of models in the warning state and after the daily budget is exhausted.
        cost_circuit_breaker: Mode,
        /// Restriction of models by the degradation level.
        degradation_controller: Mode,
        /// Reduced pipeline for guests.
        guest_lite_pipeline: Mode,
        /// Ceiling on the grade of models in the off-peak hours.
        off_peak_ceiling: Mode,
    }
}

section! {
    /// Gradual rollout of protections.
    pub(crate) struct RolloutSection {
        /// Factor on every rate limit, which changes over time.
        limits: Option<RampSection>,
        /// Factor on the daily budget, which changes over time.
        budget: Option<RampSection>,
        /// Share of guests that are served by the reduced pipeline. Default: all.
        guest_lite: Option<PercentKind>,
    }
}

section! {
    /// A factor that changes linearly over time.
    pub(crate) struct RampSection {
        /// Initial factor.
        from: NumberKind,
        /// Final factor.
        to: NumberKind,
        /// Day on which the change begins.
        start_date: DateKind,
        /// Duration of the change.
        duration: DurationKind,
    }
}

section! {
    /// Decision records of requests, kept in the data directory. With `store.kind = "memory"` only the newest are kept, in
    /// memory.
    pub(crate) struct RecordsSection {
        /// Whether records are kept in the data directory.
        enabled: BooleanKind [restart] = "true",
        /// Maximum size of all records. The oldest are deleted first.
        max_size: BytesKind [restart] = "\"1GiB\"",
        /// Maximum age of a record.
        max_age: DurationKind [restart] = "\"7d\"",
        /// Maximum number of ordinary answers that are kept per second. Rejections, failures, and answers that were degraded,
        /// retried or delayed are always kept.
        max_rate: CountKind [restart] = "100",
    }
}

section! {
    /// Logs, traces and metrics.
    pub(crate) struct TelemetrySection {
        /// Destination of the access log, which has one line per request.
        access_log: LogDestinationKind [restart],
        /// Format of the diagnostics on standard error: `text` for people, or `json`, one object per line.
        diagnostics: DiagnosticFormat [restart] = "\"text\"",
        /// Diagnostics below this level are discarded.
        diagnostics_level: DiagnosticLevel [restart] = "\"info\"",
        /// OTLP endpoint for traces.
        otlp_endpoint: Option<UrlKind> [restart],
        /// Sampling rate of traces of successful requests. Traces of failures are always sampled.
        sampling_rate: PercentKind,
        /// Number of traces per second that are sampled regardless of `sampling_rate`.
        min_traces_per_second: CountKind,
        /// Secret salt of the pseudonyms of callers in logs. Default: derived from the master secret, which is stored in the
        /// data directory; with an in-memory store it changes at each start.
        salt: Option<SecretKind>,
        /// Whether the admin listener serves `/metrics`.
        metrics: BooleanKind,
        /// Whether the callers' listener also serves `/metrics`. It requires no credential there and exposes spend by tier.
        public_metrics: BooleanKind = "false",
        /// Decision records of requests, which `seawall explain` and `seawall tail` read.
        records: RecordsSection,
    }
}
