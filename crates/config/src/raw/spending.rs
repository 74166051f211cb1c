//! Budgets and token limits.

use crate::field::{ListField, NamedSections};
use crate::kind::{
    BooleanKind, CountKind, DailyAmountKind, DateKind, DurationKind, NumberKind, PercentKind,
    PeriodAmountKind, TextKind, UtcOffsetKind,
};
use crate::section::section;

section! {
    /// Budgets.
    pub(crate) struct BudgetSection {
        /// Daily budget of all callers together, UTC; `unlimited` for no budget.
        day: DailyAmountKind,
        /// Share of each tier in the daily budget.
        shares: BudgetSharesSection,
        /// Daily budget of one caller; `unlimited` for none.
        caller_day: DailyAmountKind,
        /// Further budgets of all callers of a tier together, by calendar window.
        tiers: BudgetTiersSection,
        /// UTC offset of the calendar of budgets by window: those of `tiers`, of teams and of keys. `day` and `caller_day`
        /// are always days in UTC.
        utc_offset: UtcOffsetKind = "\"+00:00\"",
        /// Whether each node of a fleet enforces `day` and `shares` on its own, so that N nodes may spend N times as much.
        /// `store.kind = "redis"` requires `true`, because Redis never holds the only copy of the ledger.
        per_node: BooleanKind,
        /// Maximum input tokens of one session.
        session_input: CountKind,
        /// Maximum output tokens of one session.
        session_output: CountKind,
        /// Share of the daily budget at which the spend of a single caller raises an alarm.
        single_source_alarm: PercentKind,
        /// Thresholds of cost warnings.
        cost: CostSection,
        /// Size of a node's lease on the daily budget of a fleet.
        lease: BudgetLeaseSection,
        /// Events with their own daily budget.
        events: NamedSections<BudgetEventSection>,
    }
}

section! {
    /// Further budgets of all callers of a tier together, one per period at most. They are in force beside the tier's share
    /// of the daily budget.
    pub(crate) struct BudgetTiersSection as "tier" or UnknownTier {
        /// Budgets of tier `prime`.
        prime: ListField<PeriodAmountKind> = "[]",
        /// Budgets of tier `standard`.
        standard: ListField<PeriodAmountKind> = "[]",
        /// Budgets of tier `guest`.
        guest: ListField<PeriodAmountKind> = "[]",
    }
}

section! {
    /// Prices of models that have no section of their own under `models`.
    pub(crate) struct PricesSection {
        /// A JSON file with list prices, in the form of LiteLLM's `model_prices_and_context_window.json`. Its prices come
        /// before those of the built-in catalogue.
        file: Option<TextKind>,
    }
}

section! {
    /// Share of each tier in the daily budget.
    pub(crate) struct BudgetSharesSection as "tier" or UnknownTier {
        /// Share of tier `prime`.
        prime: PercentKind,
        /// Share of tier `standard`.
        standard: PercentKind,
        /// Share of tier `guest`.
        guest: PercentKind,
    }
}

section! {
    /// Thresholds of cost warnings.
    pub(crate) struct CostSection {
        /// Share of the daily budget at which the warning state begins.
        warning: PercentKind,
        /// The warning state ends once the projected spend of the day stays below this share of the daily budget.
        recovery_threshold: PercentKind,
        /// How long the projection must stay below `recovery_threshold`.
        recovery_for: DurationKind,
        /// Interval after which an exhausted daily budget is reported again.
        renotify_after: DurationKind,
        /// Multiple of its baseline cost above which an hour raises an alarm.
        velocity: NumberKind,
        /// Number of recorded days that the baseline of an hour requires.
        min_baseline_days: CountKind,
        /// Age from which cost figures can no longer end a warning.
        stale_after: DurationKind,
        /// Age from which cost figures are ignored.
        expired_after: DurationKind,
    }
}

section! {
    /// Size of a node's lease on the daily budget of a fleet.
    pub(crate) struct BudgetLeaseSection {
        /// Time that a lease must cover at the current rate of spend.
        forecast: DurationKind,
        /// Minimum number of requests that a lease must cover at their maximum cost.
        requests: CountKind,
        /// Time before midnight from which the first lease of the next day is acquired.
        prefetch: DurationKind,
        /// Time before its expiry at which a node stops spending a lease.
        expiry_margin: DurationKind,
    }
}

section! {
    /// An event with its own daily budget, such as a sale.
    pub(crate) struct BudgetEventSection {
        /// First day of the event.
        first_day: DateKind,
        /// Last day of the event, inclusive.
        last_day: DateKind,
        /// Daily budget during the event.
        day: DailyAmountKind,
    }
}

section! {
    /// Token limits of chat requests.
    pub(crate) struct TokensSection {
        /// Maximum input tokens of one request.
        max_input: CountKind,
        /// Maximum output tokens of one request.
        max_output: CountKind,
        /// Context window of the model, input and output together.
        context_window: CountKind,
        /// Tokens of the context window that are reserved for vendor overhead.
        overhead: CountKind,
        /// Tokens of the context window that are kept free because token counts are estimates.
        safety_margin: CountKind,
        /// Estimated overhead per request, in tokens.
        per_request: CountKind,
        /// Estimated overhead per message, in tokens.
        per_message: CountKind,
        /// Tokens that are added to each reservation for vendor overhead.
        reservation_margin: CountKind,
    }
}
