//! History: which turns of a conversation go to the model.
//!
//! Knows roles and numbers of tokens, never text: places go in, places come out.
//!
//! **When it acts.** Before every request. It first brings the turns into the shape that models demand: the first is the
//! user's, roles take turns, the current message is the last. Turns of one role in a row become one. That is done even
//! where everything fits. Then, while the sum is above the limit, it leaves out the oldest question with its answer, and
//! the next; when none is left, the least relevant chunk of what was looked up, and the next.
//!
//! **What it will not do.** It never cuts a turn or a chunk, never leaves out the instructions or the current message, and
//! never lets pass what is above the limit: then it refuses, with what would have been needed.
//!
//! ```
//! use seawall_core::history::{Conversation, HistoryDecision, Role, Turn, trim};
//!
//! let turns = [
//!     Turn { role: Role::User, tokens: 3_000 },
//!     Turn { role: Role::Assistant, tokens: 1_000 },
//!     Turn { role: Role::User, tokens: 500 },
//!     Turn { role: Role::Assistant, tokens: 500 },
//! ];
//! let conversation =
//!     Conversation { system: 200, overhead: 300, turns: &turns, chunks: &[400], message: 100 };
//! let HistoryDecision::Send(kept) = trim(&conversation, 4_000) else { panic!() };
//! assert_eq!((kept.turns, kept.chunks, kept.tokens), (2..4, 1, 2_000));
//!
//! let alone = Conversation { message: 20_000, ..Conversation::default() };
//! assert_eq!(trim(&alone, 4_000), HistoryDecision::InputTooLarge { needed: 20_000, limit: 4_000 });
//! ```

mod limits;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use limits::{TokenLimits, TokenLimitsOptions};

use std::ops::Range;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Who asks.
    User,
    /// The model.
    Assistant,
}

/// One turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Who speaks.
    pub role: Role,
    /// How many tokens it has.
    pub tokens: u64,
}

/// What would be sent if there were no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conversation<'a> {
    /// Tokens of the instructions.
    pub system: u64,
    /// Tokens on top of all text.
    pub overhead: u64,
    /// What was said before, oldest first.
    pub turns: &'a [Turn],
    /// Tokens of each chunk that was looked up, most relevant first.
    pub chunks: &'a [u64],
    /// Tokens of the current message, which is the user's.
    pub message: u64,
}

/// What to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryDecision {
    /// This much.
    Send(KeptHistory),
    /// Nothing: with all history and all chunks left out it is still too large.
    InputTooLarge {
        /// Tokens of what cannot be left out.
        needed: u64,
        /// Tokens there is room for.
        limit: u64,
    },
}

/// The part of a conversation that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptHistory {
    /// The turns that stay: always the newest. [`KeptHistory::groups`] says which of them become one.
    pub turns: Range<usize>,
    /// How many chunks stay: always the most relevant.
    pub chunks: usize,
    /// The sum, never above the limit.
    pub tokens: u64,
    /// What was left out.
    pub dropped: Dropped,
}

/// What was left out, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Turns of the assistant's that stood before the first question: no model takes them.
    pub leading_turns: usize,
    /// Turns that there was no room for.
    pub turns: usize,
    /// The pairs of question and answer that those make.
    pub pairs: usize,
    /// Chunks that there was no room for.
    pub chunks: usize,
    /// Tokens of all that.
    pub tokens: u64,
}

/// Turns of one role in a row, to be sent as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnGroup {
    /// Who speaks.
    pub role: Role,
    /// The turns.
    pub turns: Range<usize>,
    /// Whether the current message belongs to it: the last turns are the user's, too.
    pub takes_message: bool,
}

impl KeptHistory {
    /// The turns that stay, as they are sent: the first is the user's and roles take turns. Where no group takes the
    /// current message, it follows as a turn of its own.
    pub fn groups<'a>(&self, turns: &'a [Turn]) -> impl Iterator<Item = TurnGroup> + 'a {
        let end = self.turns.end.min(turns.len());
        let mut start = self.turns.start.min(end);
        std::iter::from_fn(move || {
            let role = turns[start..end].first()?.role;
            let length = turns[start..end].iter().take_while(|turn| turn.role == role).count();
            let group = start..start + length;
            start = group.end;
            Some(TurnGroup { role, takes_message: role == Role::User && group.end == end, turns: group })
        })
    }
}

/// Decides what to send within `limit` tokens.
///
/// A question at the end that was never answered is part of the current message's turn; it is history all the same, and is
/// left out last of all turns.
#[must_use]
pub fn trim(conversation: &Conversation<'_>, limit: u64) -> HistoryDecision {
    let Conversation { system, overhead, turns, chunks, message } = *conversation;
    let sum = |turns: &[Turn]| turns.iter().fold(0, |sum: u64, turn| sum.saturating_add(turn.tokens));
    let fixed = system.saturating_add(overhead).saturating_add(message);
    if fixed > limit {
        return HistoryDecision::InputTooLarge { needed: fixed, limit };
    }
    let leading = turns.iter().take_while(|turn| turn.role == Role::Assistant).count();
    let (mut start, mut pairs) = (leading, 0);
    let mut chunks_left = chunks.len();
    let mut said = sum(&turns[start..]);
    let mut found = chunks.iter().fold(0, |sum: u64, chunk| sum.saturating_add(*chunk));
    // Of what is too large to add up, nothing fits anyway, and the rest is summed anew below.
    while fixed.saturating_add(said).saturating_add(found) > limit {
        let pair = pair_length(&turns[start..]);
        if pair > 0 {
            start += pair;
            pairs += 1;
            said =
                if said == u64::MAX { sum(&turns[start..]) } else { said - sum(&turns[start - pair..start]) };
        } else {
            // Not below the limit without chunks is refused above, so there is one.
            chunks_left = chunks_left.saturating_sub(1);
            found = chunks[..chunks_left].iter().fold(0, |sum: u64, chunk| sum.saturating_add(*chunk));
        }
    }
    let dropped_chunks = chunks[chunks_left..].iter().fold(0, |sum: u64, chunk| sum.saturating_add(*chunk));
    HistoryDecision::Send(KeptHistory {
        turns: start..turns.len(),
        chunks: chunks_left,
        tokens: fixed.saturating_add(said).saturating_add(found),
        dropped: Dropped {
            leading_turns: leading,
            turns: start - leading,
            pairs,
            chunks: chunks.len() - chunks_left,
            tokens: sum(&turns[..start]).saturating_add(dropped_chunks),
        },
    })
}

/// How many turns the oldest question and its answer are, with all turns of either role in a row.
fn pair_length(turns: &[Turn]) -> usize {
    let questions = turns.iter().take_while(|turn| turn.role == Role::User).count();
    let answers = turns[questions..].iter().take_while(|turn| turn.role == Role::Assistant).count();
    questions + answers
}
