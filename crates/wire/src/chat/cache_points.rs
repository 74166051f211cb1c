//! Marks up to which a vendor caches the prompt.
//!
//! They are kept beside the content instead of inside it, because only two dialects have them and no decision depends on
//! them: Anthropic writes a mark into the block that it follows, Converse as a block of its own. **What it does not do.** It
//! does not limit their number; both vendors allow four.

use std::collections::BTreeMap;

/// How long the vendor keeps what is cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheLifetime {
    /// Five minutes.
    #[default]
    Default,
    /// One hour, at a higher price.
    Hour,
}

impl CacheLifetime {
    /// The lifetime of a `ttl` field.
    pub(crate) fn of_ttl(ttl: Option<&str>) -> Self {
        if ttl == Some("1h") { Self::Hour } else { Self::Default }
    }

    /// The `ttl` field; the default is not written.
    pub(crate) const fn ttl(self) -> Option<&'static str> {
        match self {
            Self::Default => None,
            Self::Hour => Some("1h"),
        }
    }
}

/// The marks of a request, each by the position of the block that it follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CachePoints {
    /// After a tool.
    pub tools: BTreeMap<usize, CacheLifetime>,
    /// After a block of the system prompt.
    pub system: BTreeMap<usize, CacheLifetime>,
    /// After a part of a turn: the positions of the turn and of the part.
    pub turns: BTreeMap<(usize, usize), CacheLifetime>,
}

impl CachePoints {
    /// Whether there is no mark.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty() && self.system.is_empty() && self.turns.is_empty()
    }
}
