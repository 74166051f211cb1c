//! History trimming: which turns of a conversation are sent to the model.
//!
//! It works on roles and token counts, never on text: indexes in, indexes out.
//!
//! **When it acts.** Before every request. First it normalises the turns to what models require: the first is the
//! user's, roles alternate, and the current message is the last. Consecutive turns of one role are merged. This
//! happens even if everything fits. Then, while the sum is above the limit, it drops the oldest question with its
//! answer, then the next; when none is left, the least relevant retrieved chunk, then the next.
//!
//! **What it does not do.** It never truncates a turn or a chunk, never drops the system prompt or the current
//! message, and never exceeds the limit: in that case it refuses, with the number of tokens needed.
//!
//! ```
//! use seawall_core::history::{HistoryInput, HistoryDecision, Role, HistoryTurn, trim};
//!
//! let turns = [
//!     HistoryTurn { role: Role::User, tokens: 3_000 },
//!     HistoryTurn { role: Role::Assistant, tokens: 1_000 },
//!     HistoryTurn { role: Role::User, tokens: 500 },
//!     HistoryTurn { role: Role::Assistant, tokens: 500 },
//! ];
//! let conversation =
//!     HistoryInput { system: 200, overhead: 300, turns: &turns, chunks: &[400], message: 100 };
//! let HistoryDecision::Send(kept) = trim(&conversation, 4_000) else { panic!() };
//! assert_eq!((kept.turns, kept.chunks, kept.tokens), (2..4, 1, 2_000));
//!
//! let alone = HistoryInput { message: 20_000, ..HistoryInput::default() };
//! assert_eq!(trim(&alone, 4_000), HistoryDecision::InputTooLarge { needed: 20_000, limit: 4_000 });
//! ```

mod limits;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use limits::{TokenLimits, TokenLimitsOptions};

use crate::invariant::{enforce, input_within_limit};
use std::ops::Range;

/// The author of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// One turn of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryTurn {
    /// The author of the turn.
    pub role: Role,
    /// Its number of tokens.
    pub tokens: u64,
}

/// Everything that would be sent without a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryInput<'a> {
    /// Tokens of the system prompt.
    pub system: u64,
    /// Tokens on top of all text.
    pub overhead: u64,
    /// The earlier turns, oldest first.
    pub turns: &'a [HistoryTurn],
    /// Tokens of each retrieved chunk, most relevant first.
    pub chunks: &'a [u64],
    /// Tokens of the current user message.
    pub message: u64,
}

/// What to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryDecision {
    /// Send this part of the conversation.
    Send(KeptHistory),
    /// Refuse: even without history and chunks the input is too large.
    InputTooLarge {
        /// Tokens of what cannot be dropped.
        needed: u64,
        /// The limit in tokens.
        limit: u64,
    },
}

/// The part of a conversation that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptHistory {
    /// The turns kept: always the newest. [`KeptHistory::groups`] returns which of them are merged.
    pub turns: Range<usize>,
    /// Number of chunks kept: always the most relevant.
    pub chunks: usize,
    /// Total tokens, never above the limit.
    pub tokens: u64,
    /// What was dropped.
    pub dropped: DroppedHistory,
}

/// What was dropped, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DroppedHistory {
    /// Assistant turns before the first question, which no model accepts.
    pub leading_turns: usize,
    /// Turns dropped to fit the limit.
    pub turns: usize,
    /// The pairs of question and answer that those form.
    pub pairs: usize,
    /// Chunks dropped to fit the limit.
    pub chunks: usize,
    /// Tokens of everything dropped.
    pub tokens: u64,
}

/// Consecutive turns of one role, sent as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnGroup {
    /// The author of the turns.
    pub role: Role,
    /// The indexes of the turns.
    pub turns: Range<usize>,
    /// Whether the current message is merged into it, because the last turns are the user's, too.
    pub includes_message: bool,
}

impl KeptHistory {
    /// The kept turns as they are sent: the first is the user's and roles alternate. If no group takes the current
    /// message, it follows as a turn of its own.
    pub fn groups<'a>(&self, turns: &'a [HistoryTurn]) -> impl Iterator<Item = TurnGroup> + 'a {
        let end = self.turns.end.min(turns.len());
        let mut start = self.turns.start.min(end);
        std::iter::from_fn(move || {
            let role = turns[start..end].first()?.role;
            let length = turns[start..end].iter().take_while(|turn| turn.role == role).count();
            let group = start..start + length;
            start = group.end;
            Some(TurnGroup { role, includes_message: role == Role::User && group.end == end, turns: group })
        })
    }
}

/// Decides what to send within `limit` tokens.
///
/// An unanswered question at the end is merged into the current message's turn; it still counts as history, and is the
/// last turn to be dropped.
#[must_use]
pub fn trim(conversation: &HistoryInput<'_>, limit: u64) -> HistoryDecision {
    let HistoryInput { system, overhead, turns, chunks, message } = *conversation;
    let sum = |turns: &[HistoryTurn]| turns.iter().fold(0, |sum: u64, turn| sum.saturating_add(turn.tokens));
    let fixed = system.saturating_add(overhead).saturating_add(message);
    if fixed > limit {
        return HistoryDecision::InputTooLarge { needed: fixed, limit };
    }
    let leading = turns.iter().take_while(|turn| turn.role == Role::Assistant).count();
    let (mut start, mut pairs) = (leading, 0);
    let mut chunks_left = chunks.len();
    let mut turn_tokens = sum(&turns[start..]);
    let mut chunk_tokens = chunks.iter().fold(0, |sum: u64, chunk| sum.saturating_add(*chunk));
    // A saturated sum does not fit anyway, and is recomputed below.
    while fixed.saturating_add(turn_tokens).saturating_add(chunk_tokens) > limit {
        let pair = pair_length(&turns[start..]);
        if pair > 0 {
            start += pair;
            pairs += 1;
            turn_tokens = if turn_tokens == u64::MAX {
                sum(&turns[start..])
            } else {
                turn_tokens - sum(&turns[start - pair..start])
            };
        } else {
            // Input that exceeds the limit without chunks was refused above, so that there is one.
            chunks_left = chunks_left.saturating_sub(1);
            chunk_tokens = chunks[..chunks_left].iter().fold(0, |sum: u64, chunk| sum.saturating_add(*chunk));
        }
    }
    let tokens = fixed.saturating_add(turn_tokens).saturating_add(chunk_tokens);
    enforce(input_within_limit(tokens, limit));
    let dropped_chunks = chunks[chunks_left..].iter().fold(0, |sum: u64, chunk| sum.saturating_add(*chunk));
    HistoryDecision::Send(KeptHistory {
        turns: start..turns.len(),
        chunks: chunks_left,
        tokens,
        dropped: DroppedHistory {
            leading_turns: leading,
            turns: start - leading,
            pairs,
            chunks: chunks.len() - chunks_left,
            tokens: sum(&turns[..start]).saturating_add(dropped_chunks),
        },
    })
}

/// Number of turns of the oldest question and its answer, including consecutive turns of either role.
fn pair_length(turns: &[HistoryTurn]) -> usize {
    let questions = turns.iter().take_while(|turn| turn.role == Role::User).count();
    let answers = turns[questions..].iter().take_while(|turn| turn.role == Role::Assistant).count();
    questions + answers
}
