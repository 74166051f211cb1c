//! Money and tokens.

use crate::field::Named;
use crate::kind::{Count, Date, DayAmount, Flag, Number, Percent, Span};
use crate::section::section;

section! {
    /// How much may be spent, by whom, and on which day.
    pub(crate) struct Budget {
        /// What all may spend on one day, UTC.
        day: DayAmount,
        /// Each tier's part of it.
        shares: Shares,
        /// What one caller may spend on one day.
        caller_day: DayAmount,
        /// Whether every node of a fleet enforces `day` and `shares` on its own: N nodes may then spend N times as much.
        /// `store.kind = "redis"` needs `true`, because Redis never holds the only copy of money.
        per_node: Flag,
        /// Tokens of input that one session may use.
        session_input: Count,
        /// Tokens of output that one session may use.
        session_output: Count,
        /// From which part of the day's cap one caller's spend is worth an alarm.
        single_source: Percent,
        /// When to warn and when to be alarmed.
        cost: Cost,
        /// How much money a node of a fleet keeps in hand.
        lease: Lease,
        /// Days with a cap of their own.
        events: Named<Event>,
    }
}

section! {
    /// Each tier's part of the day's money.
    pub(crate) struct Shares as "tier" or UnknownTier {
        /// Prime callers.
        prime: Percent,
        /// Callers we know.
        standard: Percent,
        /// Guests.
        guest: Percent,
    }
}

section! {
    /// When the day's money is worth a warning.
    pub(crate) struct Cost {
        /// The part of the cap at which the warning begins.
        warning: Percent,
        /// The part of the cap under which the day must be going to end for the warning to end.
        calm: Percent,
        /// For how long it must be.
        calm_for: Span,
        /// After how long a spent day is told again.
        stuck_after: Span,
        /// How many times its usual cost an hour may cost.
        velocity: Number,
        /// From how many known days on an hour has a usual cost.
        usual_days: Count,
        /// From what age on figures are not believed to be good news.
        doubtful_after: Span,
        /// From what age on they are not believed at all.
        blind_after: Span,
    }
}

section! {
    /// How much money a node of a fleet keeps in hand.
    pub(crate) struct Lease {
        /// Enough for this long at the present rate.
        span: Span,
        /// Enough for at least so many requests at their worst.
        requests: Count,
        /// The next day's first lease is taken within this time before midnight.
        before_midnight: Span,
        /// A node stops spending a lease this long before it ends.
        margin: Span,
    }
}

section! {
    /// Days with a cap of their own, such as a sale.
    pub(crate) struct Event {
        /// The first day.
        first: Date,
        /// The last day, which belongs to it.
        last: Date,
        /// The cap on each of these days.
        day: DayAmount,
    }
}

section! {
    /// How many tokens a request of the chat may have.
    pub(crate) struct Tokens {
        /// Tokens that go in with one request.
        request_input: Count,
        /// Tokens that come out of one.
        request_output: Count,
        /// Tokens that a model can hold, in and out together.
        window: Count,
        /// Tokens of the window for what a vendor adds.
        overhead: Count,
        /// Tokens of the window that are never used, because estimates err.
        safety: Count,
        /// Tokens of a request before its first message, in an estimate.
        per_request: Count,
        /// Tokens around each message, in an estimate.
        per_message: Count,
        /// Tokens kept free in a reservation for what a vendor adds.
        reserve: Count,
    }
}
