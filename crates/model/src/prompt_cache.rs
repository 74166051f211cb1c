//! A vendor's prompt cache, imitated.
//!
//! Vendors keep the state of prompts that they have processed, in blocks from the start of the prompt, for some minutes and
//! on one replica. Input that is found there is billed as cached. Each simulated model is one replica, so that several of
//! them show what balancing does to the share of cached tokens.
//!
//! **What it does not do.** Every prompt is cached, without markers, and writing costs nothing extra.

use crate::engine::count_tokens;
use seawall_core::balance::StableHash;
use seawall_core::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// Entries above which expired ones are dropped.
const MAX_BLOCKS: usize = 100_000;

/// The size and lifetime of a prompt cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptCacheOptions {
    /// Characters per block. Only whole blocks are cached.
    pub block_chars: usize,
    /// How long a block is kept after its last use.
    pub lifetime: Duration,
}

impl Default for PromptCacheOptions {
    /// Blocks of 64 tokens of English, kept for five minutes.
    fn default() -> Self {
        Self { block_chars: 256, lifetime: Duration::from_secs(300) }
    }
}

/// The blocks of a prompt: for each a hash of everything up to its end, and the tokens up to there.
pub(crate) type PromptBlocks = Vec<(u64, u64)>;

/// Splits a prompt into blocks.
pub(crate) fn prompt_blocks<'t>(texts: impl Iterator<Item = &'t str>, block_chars: usize) -> PromptBlocks {
    let (mut blocks, mut hash, mut tokens) = (Vec::new(), StableHash::default(), 0);
    let mut block = String::new();
    for (index, character) in texts.flat_map(str::chars).enumerate() {
        block.push(character);
        if (index + 1).is_multiple_of(block_chars.max(1)) {
            hash.write(block.as_bytes());
            tokens += count_tokens(&block);
            blocks.push((hash.finish(), tokens));
            block.clear();
        }
    }
    blocks
}

/// The blocks that a replica keeps, with the time of their last use.
#[derive(Debug)]
pub(crate) struct PromptCache {
    pub(crate) options: PromptCacheOptions,
    blocks: BTreeMap<u64, Timestamp>,
}

impl PromptCache {
    pub(crate) const fn new(options: PromptCacheOptions) -> Self {
        Self { options, blocks: BTreeMap::new() }
    }

    /// The number of tokens at the start of this prompt that are cached. All of its blocks are afterwards.
    pub(crate) fn read(&mut self, prompt: &PromptBlocks, now: Timestamp) -> u64 {
        let lifetime = self.options.lifetime;
        let is_kept = |used: &Timestamp| now - *used < lifetime;
        let found = prompt.iter().take_while(|(hash, _)| self.blocks.get(hash).is_some_and(is_kept));
        let cached = found.last().map_or(0, |(_, tokens)| *tokens);
        if self.blocks.len() > MAX_BLOCKS {
            self.blocks.retain(|_, used| now - *used < lifetime);
        }
        self.blocks.extend(prompt.iter().map(|(hash, _)| (*hash, now)));
        cached
    }
}

#[cfg(test)]
mod tests {
    use super::{PromptCache, PromptCacheOptions, prompt_blocks};
    use seawall_core::time::Timestamp;
    use std::time::Duration;

    fn read(cache: &mut PromptCache, prompt: &str, seconds: u64) -> u64 {
        let now = Timestamp::ZERO + Duration::from_secs(seconds);
        cache.read(&prompt_blocks([prompt].into_iter(), 8), now)
    }

    #[test]
    fn the_longest_known_beginning_of_a_prompt_is_cached_until_it_expires() {
        let options = PromptCacheOptions { block_chars: 8, lifetime: Duration::from_secs(10) };
        let mut cache = PromptCache::new(options);
        assert_eq!(read(&mut cache, "aaaaaaaabbbbbbbbcc", 0), 0);
        assert_eq!(read(&mut cache, "aaaaaaaabbbbbbbbccdd", 1), 4, "two blocks of two tokens");
        assert_eq!(read(&mut cache, "aaaaaaaaxxxxxxxx", 2), 2);
        assert_eq!(read(&mut cache, "bbbbbbbb", 2), 0, "the same text elsewhere is not a beginning");
        assert_eq!(read(&mut cache, "aaaaaaaabbbbbbbb", 11), 2, "the second block has expired");
        assert_eq!(read(&mut cache, "aaaaaaaabbbbbbbb", 12), 4);
    }
}
