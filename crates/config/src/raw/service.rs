//! Degradation, hours, the answer cache and framing.

use crate::field::ListField;
use crate::kind::{
    BytesKind, CountKind, DurationKind, PercentKind, SmallCountKind, TimeOfDayKind, UtcOffsetKind,
};
use crate::section::section;
use seawall_core::vocabulary::{Priority, Tier};

section! {
    /// The degradation ladder: thresholds of its levels.
    pub(crate) struct DegradationSection {
        /// Thresholds of the time to first text (p99).
        first_text: FirstTextSection,
        /// Thresholds of the CPU load.
        cpu: CpuSection,
        /// Error rate above which the signal votes for level 4 (emergency).
        error_rate: PercentKind,
        /// Throttle rate above which the signal votes for level 4 (emergency).
        throttle_rate: PercentKind,
        /// Evaluation interval.
        interval: DurationKind,
        /// Age from which a measurement no longer votes.
        stale_after: DurationKind,
        /// How long all signals must stay below `recovery_threshold` before the level is lowered by one.
        recovery_for: DurationKind,
        /// Share of a threshold below which a signal counts as recovered.
        recovery_threshold: PercentKind,
        /// Duration of high load or worse after which an alarm is raised.
        alarm_after: DurationKind,
        /// Sliding window of the signals.
        window: SignalWindowSection,
    }
}

section! {
    /// Time to first text (p99) above which the signal votes for a level.
    pub(crate) struct FirstTextSection {
        /// Threshold of level 1 (elevated).
        elevated: DurationKind,
        /// Threshold of level 2 (high load).
        high_load: DurationKind,
        /// Threshold of level 3 (overload).
        overload: DurationKind,
    }
}

section! {
    /// CPU load above which the signal votes for a level.
    pub(crate) struct CpuSection {
        /// Threshold of level 1 (elevated).
        elevated: PercentKind,
        /// Threshold of level 2 (high load).
        high_load: PercentKind,
        /// Threshold of level 3 (overload).
        overload: PercentKind,
    }
}

section! {
    /// Sliding window of the signals.
    pub(crate) struct SignalWindowSection {
        /// Length of the window.
        window: DurationKind,
        /// Minimum number of attempts; with fewer, rates are computed as if there were this many.
        min_calls: CountKind,
        /// Time to first text that is recorded for an attempt that timed out before its first text.
        timed_out_counts_as: DurationKind,
    }
}

section! {
    /// Health of the intent classifier.
    pub(crate) struct ClassifierSection {
        /// Sliding window of the failure rate.
        window: DurationKind,
        /// Failure rate above which the classifier counts as unavailable.
        failure_rate: PercentKind,
        /// Minimum number of calls; with fewer, the rate is computed as if there were this many.
        min_calls: CountKind,
        /// Timeout of a classification.
        timeout: DurationKind,
    }
}

section! {
    /// Off-peak hours, in which the ceiling is `fast`.
    pub(crate) struct OffPeakSection {
        /// Start of the off-peak hours.
        start: TimeOfDayKind,
        /// End of the off-peak hours, exclusive.
        end: TimeOfDayKind,
        /// UTC offset of both times.
        utc_offset: UtcOffsetKind,
        /// Tiers that are exempt from the off-peak ceiling.
        exempt_tiers: ListField<Tier>,
        /// Priorities that are exempt from the off-peak ceiling.
        exempt_priorities: ListField<Priority>,
    }
}

section! {
    /// Prioritisation of requests.
    pub(crate) struct RouterSection {
        /// Peak hours, in which strong models are reserved for requests with a purchase intent.
        evening_peak: EveningPeakSection,
    }
}

section! {
    /// Peak hours in the evening.
    pub(crate) struct EveningPeakSection {
        /// Start of the peak hours.
        start: TimeOfDayKind,
        /// End of the peak hours, exclusive.
        end: TimeOfDayKind,
        /// UTC offset of both times.
        utc_offset: UtcOffsetKind,
    }
}

section! {
    /// The answer cache.
    pub(crate) struct CacheSection {
        /// Maximum age of a fresh answer.
        max_age: DurationKind,
        /// Maximum age of a stale answer. Older answers are never served.
        max_stale_age: DurationKind,
        /// Tolerated clock skew between nodes.
        clock_skew: DurationKind,
        /// Maximum size of a cached answer. Longer answers are not cached.
        max_answer_size: BytesKind,
        /// Single flight: one model call for concurrent identical requests.
        single_flight: SingleFlightSection,
    }
}

section! {
    /// Single flight: one request (the leader) calls the model, concurrent identical requests wait for its answer.
    pub(crate) struct SingleFlightSection {
        /// Share of its remaining time that a request may wait for the leader.
        wait_percent: PercentKind,
        /// Maximum wait for the leader.
        max_wait: DurationKind,
        /// Time without progress after which a leader is considered lost.
        leader_timeout: DurationKind,
        /// Number of waiters that may become the leader after a failed one.
        max_promotions: SmallCountKind,
        /// Number of waiters per key that may call the model on their own after their wait has ended.
        max_unshared: SmallCountKind,
        /// Maximum number of keys with a call in flight.
        max_flights: CountKind,
        /// Maximum number of waiting requests.
        max_waiters: CountKind,
    }
}

section! {
    /// Framing of streamed chat answers.
    pub(crate) struct FramingSection {
        /// Maximum time that text is buffered after the first frame.
        flush_interval: DurationKind,
        /// Buffered text of this size is sent immediately.
        flush_bytes: BytesKind,
        /// Maximum size of a frame.
        max_frame_bytes: BytesKind,
        /// Maximum size of a frame without its text.
        envelope_bytes: BytesKind,
        /// Interval of heartbeats while nothing else is sent.
        heartbeat_interval: DurationKind,
        /// Maximum duration of a stream.
        max_duration: DurationKind,
        /// Idle timeout of the upstream model after its first event.
        idle_timeout: DurationKind,
        /// Maximum output tokens of an answer.
        max_output_tokens: CountKind,
        /// Delay before a failed send is retried.
        send_retry_delay: DurationKind,
        /// Maximum number of consecutive failed sends.
        max_send_failures: SmallCountKind,
        /// Unsent bytes above which reading from the model is paused.
        high_watermark: BytesKind,
        /// Unsent bytes at which reading from the model is resumed.
        low_watermark: BytesKind,
        /// Maximum number of unsent bytes.
        max_pending_bytes: BytesKind,
        /// Maximum size of sent frames that are retained for replay.
        replay_bytes: BytesKind,
        /// How long frames are retained after the end of a stream, for clients that reconnect.
        replay_for: DurationKind,
    }
}
