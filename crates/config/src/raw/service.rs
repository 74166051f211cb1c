//! Stepping down, hours, the cache, and how answers are sent.

use crate::field::List;
use crate::kind::{Bytes, ClockTime, Count, Percent, Small, Span, UtcOffset};
use crate::section::section;
use seawall_core::vocabulary::{Priority, Tier};

section! {
    /// When and how far to step down under load.
    pub(crate) struct Degradation {
        /// Time to the first text above which a level is voted for; 99th percentile.
        first_text: FirstTextLevels,
        /// CPU above which a level is voted for.
        cpu: CpuLevels,
        /// The share of errors above which an emergency is voted for.
        error_rate: Percent,
        /// The share of throttles above which an emergency is voted for.
        throttle_rate: Percent,
        /// How often it is looked at.
        interval: Span,
        /// A reading older than this does not vote.
        stale_after: Span,
        /// How long all must be quiet before the level falls by one.
        calm_for: Span,
        /// Quiet is under this share of the threshold.
        calm: Percent,
        /// High load or above for longer than this raises an alarm.
        alarm_after: Span,
        /// How outcomes of attempts become readings.
        window: SignalWindow,
    }
}

section! {
    /// Time to the first text above which a level is voted for.
    pub(crate) struct FirstTextLevels {
        /// Pressure.
        pressure: Span,
        /// High load.
        high_load: Span,
        /// Overload.
        overload: Span,
    }
}

section! {
    /// CPU above which a level is voted for.
    pub(crate) struct CpuLevels {
        /// Pressure.
        pressure: Percent,
        /// High load.
        high_load: Percent,
        /// Overload.
        overload: Percent,
    }
}

section! {
    /// How outcomes of attempts become readings.
    pub(crate) struct SignalWindow {
        /// How far back it looks.
        window: Span,
        /// Fewer attempts than this count as this many.
        min_calls: Count,
        /// An attempt that we cut before it had begun counts as longer than this to the first text.
        cut_counts_as: Span,
    }
}

section! {
    /// When the classifier of intents is not relied on.
    pub(crate) struct Classifier {
        /// How far back it looks.
        window: Span,
        /// More failures than this make it unavailable.
        failure_rate: Percent,
        /// Fewer calls than this count as this many.
        min_calls: Count,
        /// How long it may take.
        time: Span,
    }
}

section! {
    /// The night, when nobody gets more than a fast model.
    pub(crate) struct OffPeak {
        /// The first minute of the night.
        start: ClockTime,
        /// The first minute of the day.
        end: ClockTime,
        /// How far the shop's clock is ahead of UTC.
        utc_offset: UtcOffset,
        /// Tiers to which the night means nothing.
        exempt_tiers: List<Tier>,
        /// Priorities to which the night means nothing.
        exempt_priorities: List<Priority>,
    }
}

section! {
    /// What a request is worth.
    pub(crate) struct Router {
        /// When strong models are kept for those who buy.
        evening_peak: EveningPeak,
    }
}

section! {
    /// The hours in which most people shop.
    pub(crate) struct EveningPeak {
        /// Its first minute.
        start: ClockTime,
        /// The first minute after it.
        end: ClockTime,
        /// How far the shop's clock is ahead of UTC.
        utc_offset: UtcOffset,
    }
}

section! {
    /// Which answers are kept, and how long.
    pub(crate) struct Cache {
        /// Younger than this an answer is as good as new.
        fresh_for: Span,
        /// From this age on it is never served.
        keep_for: Span,
        /// How far the clocks of nodes may differ.
        clock_skew: Span,
        /// Longer answers are not kept.
        largest_text: Bytes,
        /// Who asks when many want the same.
        flights: Flights,
    }
}

section! {
    /// Who asks when many want the same answer at once.
    pub(crate) struct Flights {
        /// The share of the time left that may be spent waiting for somebody else's answer.
        wait: Percent,
        /// No wait is longer than this.
        most_wait: Span,
        /// Who asks and says nothing for so long is taken for lost.
        most_lead: Span,
        /// How many may ask after one that failed.
        most_promotions: Small,
        /// How many may ask themselves after waiting in vain.
        most_alone: Small,
        /// Answers that are asked for at the same time.
        most_flights: Count,
        /// Requests that wait at the same time.
        most_waiters: Count,
    }
}

section! {
    /// How a streamed answer of the chat is sent.
    pub(crate) struct Framing {
        /// Text waits at most this long for company, once the first has gone out.
        flush_after: Span,
        /// So much text does not wait at all.
        flush_bytes: Bytes,
        /// A frame is at most this long.
        frame_bytes: Bytes,
        /// The most that everything around the text of a frame takes.
        envelope_bytes: Bytes,
        /// A client that hears nothing for this long gets a heartbeat.
        heartbeat_every: Span,
        /// A stream lasts at most this long.
        total: Span,
        /// A model that has begun may be silent for this long.
        upstream_gap: Span,
        /// An answer has at most this many tokens.
        output_tokens: Count,
        /// A frame that could not be sent is offered again after this.
        send_again_after: Span,
        /// More sends than this may not fail in a row.
        send_failures: Small,
        /// With more unsent bytes than this no more is read from the model.
        pause_above: Bytes,
        /// With so few unsent bytes reading goes on.
        resume_at: Bytes,
        /// The most unsent bytes.
        pending_bytes: Bytes,
        /// The most that is kept of frames that were sent.
        keep_bytes: Bytes,
        /// How long they are kept after the end, for a client that comes back.
        keep_for: Span,
    }
}
