//! The names of Redis keys.
//!
//! Every key begins with the version of the layout. Keys that one script touches have the same hash tag, the part in
//! braces. Names that come from outside are always hashed, so that no client can choose the name of a Redis key.

use sha2::{Digest, Sha256};

/// The first part of every key: the version of the data layout.
pub(super) const VERSION: &str = "sw1";

/// SHA-256, truncated to 128 bits, in hexadecimal. Each part is prefixed with its length, so that parts cannot be
/// confused.
pub(super) fn hash_hex(parts: &[&[u8]]) -> String {
    hex::encode(&digest(parts)[..16])
}

/// The same hash, truncated to the 48 bits that a script can compute with exactly; never zero.
pub(super) fn hash_48(parts: &[&[u8]]) -> u64 {
    let digest = digest(parts);
    let number = digest[..6].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    number.max(1)
}

fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// The usage record of a key in this partition.
pub(super) fn record(partition: u64, key: u64) -> String {
    if key == partition {
        format!("{VERSION}:q:{{{partition:x}}}")
    } else {
        format!("{VERSION}:q:{{{partition:x}}}:{key:x}")
    }
}

/// The claim of a request with this idempotency key.
pub(super) fn claim(partition: u64, caller: u64, name: &str) -> String {
    let name = hash_hex(&[&caller.to_be_bytes(), name.as_bytes()]);
    format!("{VERSION}:c:{{{partition:x}}}:{name}")
}

/// The last outage report of a node for this partition.
pub(super) fn fallback_report(partition: u64, node: u64) -> String {
    format!("{VERSION}:m:{{{partition:x}}}:{node:x}")
}

/// The fleet-wide usage record of a group that all callers share.
pub(super) fn fleet(group: &str, key: u64) -> String {
    format!("{VERSION}:f:{{{}}}", hash_hex(&[group.as_bytes(), &key.to_be_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::{claim, fallback_report, fleet, hash_48, hash_hex, record};

    #[test]
    fn no_name_from_outside_can_be_read_in_a_key_or_change_its_shape() {
        for name in ["*", "{tag}", "a\nb\r\n", "", &"x".repeat(1 << 20)] {
            let key = claim(0xab, 7, name);
            assert_eq!(key.len(), "sw1:c:{ab}:".len() + 32, "{key}");
            assert!(key.starts_with("sw1:c:{ab}:") && key[11..].bytes().all(|byte| byte.is_ascii_hexdigit()));
        }
        assert_ne!(claim(1, 1, "a"), claim(1, 2, "a"));
        assert_ne!(hash_hex(&[b"ab", b"c"]), hash_hex(&[b"a", b"bc"]));
        assert!(fleet("}{", 3).starts_with("sw1:f:{") && !fleet("}{", 3)[7..39].contains(['{', '}']));
    }

    #[test]
    fn what_is_decided_together_has_one_tag() {
        assert_eq!(record(0x1f, 0x1f), "sw1:q:{1f}");
        assert_eq!(record(0x1f, 0x2), "sw1:q:{1f}:2");
        assert_eq!(fallback_report(0x1f, 0x9), "sw1:m:{1f}:9");
        assert!((1..1 << 48).contains(&hash_48(&[b"minute"])));
    }
}
