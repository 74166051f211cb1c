//! A hash that is the same on every node and in every version.

/// A hash of bytes for affinities: nodes that balance alike must agree on it. It is fast and well mixed, but not made to
/// resist somebody who looks for collisions, which would only concentrate their own requests.
///
/// ```
/// use seawall_core::balance::StableHash;
///
/// let mut hash = StableHash::default();
/// hash.write(b"system prompt");
/// hash.write(b"tools");
/// assert_ne!(hash.finish(), StableHash::of(b"system prompttools"));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct StableHash(u64);

impl StableHash {
    /// The hash of one sequence of bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> u64 {
        let mut hash = Self::default();
        hash.write(bytes);
        hash.finish()
    }

    /// Adds a sequence of bytes. Its length is part of it, so that two sequences differ from their concatenation.
    pub fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last));
        self.add(bytes.len() as u64);
    }

    /// The hash of everything that was added.
    #[must_use]
    pub const fn finish(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    const fn add(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::StableHash;

    #[test]
    fn the_hash_never_changes() {
        let hashes = [&b""[..], b"sonnet", b"a longer name of a target"].map(StableHash::of);
        assert_eq!(hashes, [0, 17_696_266_562_541_855_424, 2_962_712_006_322_673_970]);
    }
}
