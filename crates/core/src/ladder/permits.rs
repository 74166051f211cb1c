//! What each level allows.

use crate::vocabulary::{Ceiling, Level, RetrievalNeed, Tier};

/// Which requests are answered without retrieval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RetrievalBypass {
    /// Requests that need no retrieval.
    NotNeeded,
    /// All requests that do not depend on retrieval, including those of which this is not known.
    Optional,
    /// All requests.
    All,
}

impl RetrievalBypass {
    /// Whether a request with this need is answered without retrieval.
    #[must_use]
    pub const fn covers(self, need: RetrievalNeed) -> bool {
        match self {
            Self::NotNeeded => matches!(need, RetrievalNeed::None),
            Self::Optional => !matches!(need, RetrievalNeed::Required),
            Self::All => true,
        }
    }
}

/// What a level allows.
///
/// ```
/// use seawall_core::ladder::LevelPermits;
/// use seawall_core::vocabulary::{Ceiling, Level, Tier};
///
/// let permits = LevelPermits::of(Level::Overload);
/// assert_eq!(permits.ceiling(Tier::Guest), Ceiling::None);
/// assert_eq!(permits.ceiling(Tier::Standard), Ceiling::Fast);
/// assert_eq!(permits.chunks, 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelPermits {
    /// Whether retrieved chunks may be reranked.
    pub reranker: bool,
    /// Number of retrieved chunks passed to the model.
    pub chunks: u8,
    /// The highest grade per tier, in the order of [`Tier::ALL`].
    pub ceilings: [Ceiling; 3],
    /// Whether the fleet must not scale in. Scaling out is always allowed.
    pub suspend_scale_in: bool,
    /// Which requests are answered without retrieval.
    pub bypass: RetrievalBypass,
}

#[rustfmt::skip] // A table is read by its columns.
const TABLE: [LevelPermits; 5] = {
    use Ceiling::{Fast, None, Strong};
    use RetrievalBypass::{All, NotNeeded, Optional};
    [
        //     reranker chunks prime   standard guest    keep   bypass
        level(true,     3,     [Strong, Strong, Strong], false, NotNeeded),
        level(false,    3,     [Strong, Strong, Strong], false, NotNeeded),
        level(false,    1,     [Fast,   Fast,   Fast],   true,  Optional),
        level(false,    1,     [Fast,   Fast,   None],   true,  Optional),
        level(false,    0,     [None,   None,   None],   true,  All),
    ]
};

const fn level(
    reranker: bool,
    chunks: u8,
    ceilings: [Ceiling; 3],
    suspend_scale_in: bool,
    bypass: RetrievalBypass,
) -> LevelPermits {
    LevelPermits { reranker, chunks, ceilings, suspend_scale_in, bypass }
}

impl LevelPermits {
    /// The row of this level.
    #[must_use]
    pub const fn of(level: Level) -> &'static Self {
        &TABLE[level.index()]
    }

    /// The highest grade for callers of this tier.
    #[must_use]
    pub const fn ceiling(&self, tier: Tier) -> Ceiling {
        self.ceilings[tier.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::LevelPermits;
    use crate::vocabulary::{Ceiling, Level, RetrievalNeed, Tier};

    fn by_level<T>(read: impl Fn(&LevelPermits) -> T) -> [T; 5] {
        Level::ALL.map(|level| read(LevelPermits::of(level)))
    }

    #[test]
    fn each_level_allows_what_its_row_says() {
        assert_eq!(by_level(|permits| permits.reranker), [true, false, false, false, false]);
        assert_eq!(by_level(|permits| permits.chunks), [3, 3, 1, 1, 0]);
        assert_eq!(by_level(|permits| permits.suspend_scale_in), [false, false, true, true, true]);
        let (none, fast, strong) = (Ceiling::None, Ceiling::Fast, Ceiling::Strong);
        for tier in [Tier::Prime, Tier::Standard] {
            assert_eq!(by_level(|permits| permits.ceiling(tier)), [strong, strong, fast, fast, none]);
        }
        assert_eq!(by_level(|permits| permits.ceiling(Tier::Guest)), [strong, strong, fast, none, none]);
    }

    #[test]
    fn the_higher_the_level_the_more_is_answered_without_retrieval() {
        for (need, bypassed) in [
            (RetrievalNeed::None, [true; 5]),
            (RetrievalNeed::Optional, [false, false, true, true, true]),
            (RetrievalNeed::Required, [false, false, false, false, true]),
        ] {
            assert_eq!(by_level(|permits| permits.bypass.covers(need)), bypassed, "{need}");
        }
    }
}
