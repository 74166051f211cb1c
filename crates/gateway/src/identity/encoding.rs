//! Canonical text encodings of bytes.
//!
//! A decoder here accepts only what its encoder would have written: no padding, no other case, no bits left over. A
//! text therefore cannot be changed without changing its meaning, and a credential has exactly one digest.

const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// URL-safe base64 without padding.
pub(super) fn base64url(bytes: &[u8]) -> String {
    base64_simd::URL_SAFE_NO_PAD.encode_to_string(bytes)
}

/// The inverse of [`base64url`].
pub(super) fn decode_base64url(text: &str) -> Option<Vec<u8>> {
    base64_simd::URL_SAFE_NO_PAD.decode_to_vec(text).ok()
}

/// Lower-case base32 without padding: no character at which a double click or a line break would cut it.
pub(super) fn base32(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(5) * 8);
    let (mut held, mut bits) = (0_u32, 0_u32);
    for byte in bytes {
        held = (held << 8) | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(BASE32[(held >> bits) as usize & 31]));
        }
    }
    if bits > 0 {
        text.push(char::from(BASE32[(held << (5 - bits)) as usize & 31]));
    }
    text
}

/// Whether every character is one that [`base32`] writes.
pub(super) fn is_base32(text: &str) -> bool {
    text.bytes().all(|digit| BASE32.contains(&digit))
}

/// 32 bytes from lower-case hexadecimal digits: the inverse of [`hex::encode`].
pub(super) fn decode_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let has_upper_case = text.bytes().any(|digit| digit.is_ascii_uppercase());
    (!has_upper_case && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{base32, base64url, decode_base64url, decode_hex, is_base32};
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    #[test]
    fn texts_are_the_published_ones() {
        let published = [("", ""), ("f", "my"), ("fo", "mzxq"), ("foo", "mzxw6"), ("foob", "mzxw6yq")];
        for (bytes, text) in published.into_iter().chain([("fooba", "mzxw6ytb"), ("foobar", "mzxw6ytboi")]) {
            assert_eq!(base32(bytes.as_bytes()), text);
        }
        assert_eq!(base64url(&[0xfb, 0xff, 0xfe]), "-__-");
        assert!(
            is_base32("az27") && !is_base32("a1") && !is_base32("A") && !is_base32("a=") && !is_base32("8")
        );
    }

    #[test]
    fn a_second_spelling_is_not_read() {
        for other in ["TQ==", "TR", "T", "T+8", "T/8", "TQ\n", " TQ", "TQ "] {
            assert_eq!(decode_base64url(other), None, "{other:?}");
        }
        assert_eq!(decode_base64url("TQ"), Some(b"M".to_vec()));
        let zeros = "0".repeat(64);
        assert_eq!(decode_hex(&zeros), Some([0; 32]));
        for other in
            ["0".repeat(63), "0".repeat(65), "0".repeat(66), "A".repeat(64), format!("{}g", &zeros[1..])]
        {
            assert_eq!(decode_hex(&other), None, "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn bytes_survive_the_round_trip(bytes: Vec<u8>, digest: [u8; 32]) {
            prop_assert_eq!(decode_base64url(&base64url(&bytes)), Some(bytes.clone()));
            prop_assert_eq!(decode_hex(&hex::encode(digest)), Some(digest));
            prop_assert!(is_base32(&base32(&bytes)));
        }

        #[test]
        fn what_is_read_is_written_alike(text in any::<String>()) {
            if let Some(bytes) = decode_base64url(&text) {
                prop_assert_eq!(base64url(&bytes), text.clone());
            }
            if let Some(bytes) = decode_hex(&text) {
                prop_assert_eq!(hex::encode(bytes), text);
            }
        }
    }
}
