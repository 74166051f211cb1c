//! Retries, circuit breakers, deadlines and the queue.

use crate::field::ListField;
use crate::kind::{
    BooleanKind, CountKind, DurationKind, JitterKind, NumberKind, PercentKind, RateKind, RetryCosts,
    SmallCountKind,
};
use crate::section::section;

section! {
    /// Retries of interactive requests.
    pub(crate) struct RetrySection {
        /// Initial backoff delay, before jitter.
        base_delay: DurationKind,
        /// Maximum backoff delay.
        max_delay: DurationKind,
        /// Jitter of the backoff delay.
        jitter: JitterKind,
        /// Maximum number of retries on one target, over all failure classes.
        max_retries: SmallCountKind,
        /// Maximum number of retries after throttling or missing capacity.
        throttled: SmallCountKind,
        /// Maximum number of retries after a timeout.
        timed_out: SmallCountKind,
        /// Maximum number of retries after a server error or a connection failure.
        transient: SmallCountKind,
        /// Maximum number of retries after an exhausted quota that is replenished over time.
        quota_exhausted: SmallCountKind,
        /// Minimum remaining time for another attempt.
        min_attempt_time: DurationKind,
        /// Handling of the vendor's `retry-after`.
        retry_after: VendorRetryAfterSection,
        /// Retries of background work.
        background: BackgroundRetrySection,
        /// Retry budget of the node.
        budget: RetryBudgetSection,
        /// Hedging: a second attempt in parallel to a slow one.
        hedge: HedgeSection,
    }
}

section! {
    /// Handling of the vendor's `retry-after`.
    pub(crate) struct VendorRetryAfterSection {
        /// Maximum time by which `retry-after` may extend the backoff delay.
        max_extra: DurationKind,
        /// A longer `retry-after` is ignored.
        ignore_above: DurationKind,
        /// Random extension of `retry-after`, in percent, so that clients that received the same value do not return at the
        /// same time.
        jitter: Option<PercentKind>,
    }
}

section! {
    /// Retries of background work.
    pub(crate) struct BackgroundRetrySection {
        /// Initial backoff delay, before jitter.
        base_delay: DurationKind,
        /// Maximum backoff delay, before jitter.
        max_delay: DurationKind,
        /// Jitter of the backoff delay.
        jitter: JitterKind,
        /// Maximum number of retries on one target, over all failure classes.
        max_retries: SmallCountKind,
        /// Maximum number of retries after throttling or missing capacity.
        throttled: SmallCountKind,
        /// Maximum number of retries after a timeout.
        timed_out: SmallCountKind,
        /// Maximum number of retries after a server error or a connection failure.
        transient: SmallCountKind,
        /// Maximum number of retries after an exhausted quota that is replenished over time.
        quota_exhausted: SmallCountKind,
        /// Minimum remaining time for another attempt.
        min_attempt_time: DurationKind,
    }
}

section! {
    /// Retry budget of this node. A retry is made only if the ratio, the rate cap and the token bucket all allow it.
    pub(crate) struct RetryBudgetSection {
        /// Maximum retries in percent of first attempts.
        percent: PercentKind,
        /// Sliding window in which retries and first attempts are counted.
        window: DurationKind,
        /// Number of concurrent retries that are allowed regardless of `percent`, so that a node with little traffic can
        /// retry at all. At such low rates `percent` has no effect: while every call fails and breakers are off, a request
        /// takes 1.7 to 2.0 attempts.
        min_concurrency: SmallCountKind,
        /// Retries per second that are allowed in addition to `percent`.
        min_per_second: SmallCountKind,
        /// Maximum retry rate of this node.
        max_rate: Option<RateKind>,
        /// Capacity of a token bucket that retries drain and successes refill. Default: no bucket.
        bucket_capacity: Option<SmallCountKind>,
        /// Costs of a retry in the bucket, as in two generations of the AWS SDKs. `current` (since their retry specification
        /// 2.1) charges 14, but 5 after throttling; `classic` charges 5, but 10 after a timeout. Choose `current` where fewer
        /// retries after server errors are wanted: it allows about a third as many.
        bucket_costs: RetryCosts,
    }
}

section! {
    /// Hedging: a second attempt in parallel to one that is slow to start. Hedges increase cost.
    pub(crate) struct HedgeSection {
        /// Whether hedging is on.
        enabled: BooleanKind,
        /// Maximum hedges in percent of first attempts.
        percent: PercentKind,
        /// Minimum delay before a hedge.
        min_delay: DurationKind,
    }
}

section! {
    /// A circuit breaker: when it opens and how it recovers.
    pub(crate) struct BreakerSection {
        /// Consecutive failures that open the breaker.
        failure_threshold: SmallCountKind,
        /// Failure rate that opens the breaker.
        failure_rate: PercentKind,
        /// Rate of slow calls that opens the breaker.
        slow_rate: PercentKind,
        /// Time to first content above which a call counts as slow.
        slow_threshold: DurationKind,
        /// Minimum number of calls before the rates are evaluated. Default: ten, or twice `failure_threshold` if that is
        /// more.
        min_calls: Option<SmallCountKind>,
        /// Sliding window of the rates.
        window: DurationKind,
        /// How long the breaker stays open before it becomes half-open.
        open_for: DurationKind,
        /// Multiplier of `open_for` for each consecutive opening.
        open_multiplier: NumberKind,
        /// Maximum time that the breaker stays open.
        max_open_for: DurationKind,
        /// Number of probes in each half-open stage.
        half_open_stages: ListField<SmallCountKind>,
    }
}

section! {
    /// Pressure detection of targets, which determines how aggressively calls are retried.
    pub(crate) struct PressureSection {
        /// Sliding window of the failure rate.
        window: DurationKind,
        /// Failure rate above which pressure is slight.
        slight: PercentKind,
        /// Failure rate above which pressure is high.
        high: PercentKind,
        /// Failure rate below which pressure is no longer high.
        high_exit: PercentKind,
        /// Failure rate that opens the breaker if it lasts for `sustained_for`.
        sustained: PercentKind,
        /// Duration for which `sustained` must be exceeded.
        sustained_for: DurationKind,
        /// Minimum number of calls before `high` and `sustained` are evaluated.
        min_calls: SmallCountKind,
        /// Minimum duration of high pressure.
        high_dwell: DurationKind,
        /// Consecutive successes that end slight pressure.
        slight_successes: SmallCountKind,
        /// Successes that end recovery.
        recovery_successes: SmallCountKind,
    }
}

section! {
    /// Deadlines and timeouts. Each must be shorter than the one that encloses it.
    pub(crate) struct DeadlinesSection {
        /// Deadline of a request at an API face (Anthropic, OpenAI, Bedrock, Gemini), streamed or not, including all attempts.
        /// Increase it for models with long thinking. The other limits apply to the chat, except for `start` and `connect`,
        /// which apply to API faces, too.
        api: DurationKind,
        /// Timeout for the beginning of a response at an API face, for routes without a `start_timeout`.
        start: DurationKind,
        /// Timeout of the load balancer or proxy in front of Seawall.
        edge: DurationKind,
        /// Deadline of a request that is answered without streaming.
        request: DurationKind,
        /// Timeout of the worker that processes a request.
        worker: DurationKind,
        /// Timeout of one attempt on one target.
        attempt: DurationKind,
        /// Timeout for connecting to a target.
        connect: DurationKind,
        /// Maximum duration of a streamed response at the chat.
        stream: DurationKind,
        /// Idle timeout: the longest pause between two events of a streamed response. At an API face a stream may pause for as
        /// long as it may take to start (the route's `start_timeout`) if that is longer.
        stream_idle: DurationKind,
        /// Deadline for the first content of a chat answer.
        first_content: DurationKind,
        /// Time of `first_content` that is reserved for a fast model.
        fast_model: DurationKind,
        /// Time of `first_content` that is reserved for the cache.
        cache: DurationKind,
        /// Time of `first_content` that is reserved for the FAQ and the apology.
        canned_answer: DurationKind,
        /// Time of `first_content` that is reserved for delivery to the caller.
        relay: DurationKind,
        /// Minimum remaining time for a fast model after a strong model has timed out.
        min_for_fast: DurationKind,
        /// Timeout for loading a session.
        session: DurationKind,
        /// Timeout for building a prompt.
        prompt: DurationKind,
        /// Timeout for saving a session.
        save: DurationKind,
        /// Time that is reserved for the work after the model call.
        after_model: DurationKind,
        /// Minimum remaining time for a model call.
        min_model_time: DurationKind,
    }
}

section! {
    /// The queue for concurrency slots of a target.
    pub(crate) struct QueueSection {
        /// Maximum number of queued requests.
        capacity: CountKind,
        /// Maximum time in the queue.
        ttl: DurationKind,
        /// Share of `ttl` after which a request moves up by one priority class.
        promote_after: PercentKind,
        /// Number of requests that a session may send per round of the fair queue.
        quantum: CountKind,
    }
}
