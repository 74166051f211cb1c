//! SHA-256 and HMAC, all through one library.

use aws_lc_rs::{constant_time, digest, hmac};

pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    sha256_concat(&[bytes])
}

/// SHA-256 of the concatenation of these pieces, without separators.
pub(super) fn sha256_concat(pieces: &[&[u8]]) -> [u8; 32] {
    let mut hashing = digest::Context::new(&digest::SHA256);
    for piece in pieces {
        hashing.update(piece);
    }
    to_array(hashing.finish().as_ref())
}

/// Incremental SHA-256.
pub(crate) struct Sha256Stream(digest::Context);

impl Sha256Stream {
    pub(crate) fn new() -> Self {
        Self(digest::Context::new(&digest::SHA256))
    }

    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(crate) fn finish(self) -> [u8; 32] {
        to_array(self.0.finish().as_ref())
    }
}

/// The credential of a name of some kind. The NUL separates it from every API key, which cannot contain one.
pub(super) fn hash_credential(kind: &str, names: &[&str]) -> [u8; 32] {
    let mut pieces = vec![kind.as_bytes()];
    for name in names {
        pieces.extend([b"\0".as_slice(), name.as_bytes()]);
    }
    sha256_concat(&pieces)
}

/// HMAC-SHA-256 of these bytes.
pub(super) fn hmac_sha256(key: &hmac::Key, bytes: &[u8]) -> [u8; 32] {
    to_array(hmac::sign(key, bytes).as_ref())
}

/// A key for [`hmac_sha256`].
pub(super) fn hmac_key(secret: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret)
}

/// Constant-time comparison.
pub(super) fn constant_time_eq(one: &[u8], other: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(one, other).is_ok()
}

fn to_array(digest: &[u8]) -> [u8; 32] {
    // Both algorithms return 32 bytes; a shorter result would leave zeros, which equal no digest.
    let mut all = [0; 32];
    for (to, from) in all.iter_mut().zip(digest) {
        *to = *from;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{
        Sha256Stream, constant_time_eq, hash_credential, hmac_key, hmac_sha256, sha256, sha256_concat,
    };

    #[test]
    fn digests_and_codes_are_the_published_ones() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex::encode(sha256(b"abc")), abc);
        assert_eq!(hex::encode(sha256_concat(&[b"a", b"", b"bc"])), abc);
        let mut stream = Sha256Stream::new();
        [&b"ab"[..], b"", b"c"].into_iter().for_each(|piece| stream.update(piece));
        assert_eq!(hex::encode(stream.finish()), abc);
        let published = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex::encode(hmac_sha256(&hmac_key(b"Jefe"), b"what do ya want for nothing?")), published);
    }

    #[test]
    fn names_of_different_kinds_and_splits_have_different_credentials() {
        assert_eq!(hash_credential("token", &["a", "b"]), sha256(b"token\0a\0b"));
        assert_ne!(hash_credential("token", &["ab"]), hash_credential("token", &["a", "b"]));
        assert_ne!(hash_credential("guest", &["a"]), hash_credential("token", &["a"]));
    }

    #[test]
    fn only_equal_bytes_are_the_same() {
        assert!(constant_time_eq(b"abc", b"abc") && constant_time_eq(b"", b""));
        assert!(
            !constant_time_eq(b"abc", b"abd")
                && !constant_time_eq(b"abc", b"ab")
                && !constant_time_eq(b"", b"a")
        );
    }
}
