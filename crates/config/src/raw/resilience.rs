//! Trying again, breakers, time limits, and who waits.

use crate::field::List;
use crate::kind::{Count, Flag, JitterText, Number, Percent, Rate, RetryCosts, Small, Span};
use crate::section::section;

section! {
    /// How often and when to try again, for somebody who waits.
    pub(crate) struct Retry {
        /// The first wait, before it is spread.
        base: Span,
        /// The longest wait.
        cap: Span,
        /// How waits are spread.
        jitter: JitterText,
        /// Retries on one target, whatever went wrong.
        most_retries: Small,
        /// Retries after the vendor limited our rate or had no room.
        throttled: Small,
        /// Retries after the vendor took too long.
        timed_out: Small,
        /// Retries after the vendor failed or could not be reached.
        transient: Small,
        /// Retries after a quota was used up that comes back in time.
        quota_exhausted: Small,
        /// An attempt that has less time than this is not worth making.
        least_attempt: Span,
        /// What a server's word about when to come back is worth.
        hint: RetryHint,
        /// The same, for work that nobody waits for.
        background: RetryBackground,
        /// How many retries the node can afford.
        budget: RetryBudget,
        /// A second attempt beside one that is slow to begin.
        hedge: Hedge,
    }
}

section! {
    /// What a server's word about when to come back is worth.
    pub(crate) struct RetryHint {
        /// It may lengthen our own wait by at most this.
        most_extra: Span,
        /// A longer one is ignored.
        ignore_above: Span,
        /// It is lengthened by up to this share, so that those told the same do not return as one.
        spread: Option<Percent>,
    }
}

section! {
    /// How often and when to try again, for work that nobody waits for.
    pub(crate) struct RetryBackground {
        /// The first wait, before it is spread.
        base: Span,
        /// The longest wait, before it is spread.
        cap: Span,
        /// How waits are spread.
        jitter: JitterText,
        /// Retries on one target, whatever went wrong.
        most_retries: Small,
        /// Retries after the vendor limited our rate or had no room.
        throttled: Small,
        /// Retries after the vendor took too long.
        timed_out: Small,
        /// Retries after the vendor failed or could not be reached.
        transient: Small,
        /// Retries after a quota was used up that comes back in time.
        quota_exhausted: Small,
        /// An attempt that has less time than this is not worth making.
        least_attempt: Span,
    }
}

section! {
    /// How many retries the node can afford. Every gate must agree.
    pub(crate) struct RetryBudget {
        /// Retries per first attempts.
        share: Percent,
        /// How far back both are counted.
        window: Span,
        /// This many may be under way whatever the share says, so that a node with few requests can retry at all. At such low rates the share bounds nothing: while every call fails and breakers are off, a request comes to 1.7 to 2.0 attempts.
        always: Small,
        /// Retries a second on top of the share.
        reserve_per_second: Small,
        /// The most retries of the fleet.
        most: Option<Rate>,
        /// Credits of a bucket that retries use up and successes refill.
        bucket: Option<Small>,
        /// What a retry costs of the bucket.
        costs: RetryCosts,
    }
}

section! {
    /// A second attempt beside one that is slow to begin. It costs money.
    pub(crate) struct Hedge {
        /// Whether to hedge at all.
        enabled: Flag,
        /// Hedges per first attempts.
        extra: Percent,
        /// No hedge sooner than this.
        least_wait: Span,
    }
}

section! {
    /// When calls to something are stopped because it fails, and how they begin again.
    pub(crate) struct Breaker {
        /// Failures in a row that open it.
        failure_threshold: Small,
        /// The share of failed calls that opens it.
        failure_rate: Percent,
        /// The share of slow calls that opens it.
        slow_rate: Percent,
        /// A call whose first content comes later than this is slow.
        slow_after: Span,
        /// The shares count only from this many calls; ten, or twice the threshold, where nothing is said.
        min_calls: Option<Small>,
        /// How far back the shares look.
        window: Span,
        /// How long it stays open.
        open_for: Span,
        /// Each opening in a row lasts this many times as long as the one before.
        open_growth: Number,
        /// But never longer than this.
        open_cap: Span,
        /// How many probes each stage of a trial sends.
        stages: List<Small>,
    }
}

section! {
    /// How hard a target struggles, and so how gently to try again.
    pub(crate) struct Pressure {
        /// How far back it looks.
        window: Span,
        /// More than this share failed: slight.
        slight: Percent,
        /// More than this share failed: high.
        high: Percent,
        /// Less than this share failed: no longer high.
        high_exit: Percent,
        /// More than this share failed for long: the breaker should open.
        sustained: Percent,
        /// How long.
        sustained_for: Span,
        /// High and sustained count only from this many calls.
        min_calls: Small,
        /// High lasts at least this long.
        high_dwell: Span,
        /// Successes in a row that end slight.
        slight_successes: Small,
        /// Successes that end a recovery.
        recovery_successes: Small,
    }
}

section! {
    /// Time limits. Each must be shorter than the one around it.
    pub(crate) struct Deadlines {
        /// A request at an API face (Anthropic, OpenAI, Bedrock), streamed or whole, with all its attempts. Raise it for models
        /// that think for longer. The limits below are the chat's, except for `connect`; `stream_gap` is shared.
        api: Span,
        /// What stands in front of Seawall gives up.
        edge: Span,
        /// A request that is answered in one piece.
        request: Span,
        /// The work on it.
        worker: Span,
        /// One attempt on one target.
        attempt: Span,
        /// Reaching the target.
        connect: Span,
        /// A streamed answer, to its end.
        stream: Span,
        /// Silence inside a streamed answer.
        stream_gap: Span,
        /// The first useful text of the chat.
        first_text: Span,
        /// What is kept of it for a fast model.
        fast_model: Span,
        /// What is kept of it for the cache.
        cache: Span,
        /// What is kept of it for the FAQ and the apology.
        last_words: Span,
        /// What is kept of it for the way to the caller.
        relay: Span,
        /// With less than this left, a model that took too long is not followed by another.
        least_for_fast: Span,
        /// Loading a session.
        session: Span,
        /// Building a prompt.
        prompt: Span,
        /// Saving a session.
        save: Span,
        /// What is kept back after the model.
        after_model: Span,
        /// The least time worth asking a model for.
        model_minimum: Span,
    }
}

section! {
    /// Who waits for a place at a model, and how long.
    pub(crate) struct Queue {
        /// How many may wait at once.
        capacity: Count,
        /// How long anybody may wait.
        time_to_live: Span,
        /// The share of that time after which somebody moves up by one class.
        promotion: Percent,
        /// How many requests one turn of a session is worth.
        quantum: Count,
    }
}
