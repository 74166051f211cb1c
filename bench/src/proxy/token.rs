//! JSON Web Tokens of the benchmark's own issuer.
//!
//! They are signed with HS256, which is cheap, so that the load can create thousands when it starts. They expire in the
//! year 2100.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The `iss` claim.
pub(crate) const ISSUER: &str = "https://issuer.bench.example";
/// The `aud` claim.
pub(crate) const AUDIENCE: &str = "bench";
/// The secret shared with the issuer. It protects nothing.
pub(crate) const SECRET: &str = "a secret of the benchmark, which guards nothing";

const BLOCK: usize = 64;

/// The token of a caller. All have the same length.
pub(crate) fn of(caller: usize) -> String {
    let header = json!({ "alg": "HS256", "typ": "JWT" });
    let claims = json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": format!("caller-{caller:012}"), "exp": 4_102_444_800_u64,
    });
    let part = |value: &Value| base64url(value.to_string().as_bytes());
    let message = format!("{}.{}", part(&header), part(&claims));
    let signature = base64url(&hmac(SECRET.as_bytes(), message.as_bytes()));
    format!("{message}.{signature}")
}

/// HMAC-SHA-256, for keys that fit into one block.
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let padded = |filling: u8| {
        let mut block = [filling; BLOCK];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

fn base64url(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(bytes.len() * 4 / 3 + 3);
    for three in bytes.chunks(3) {
        let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for sign in 0..=three.len() {
            text.push(char::from(SIGNS[(bits >> (18 - 6 * sign) & 63) as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{base64url, hmac, of};

    #[test]
    fn the_code_is_the_one_of_the_standards_second_example() {
        let code = hex::encode(hmac(b"Jefe", b"what do ya want for nothing?"));
        assert_eq!(code, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn base64_has_no_padding() {
        for (bytes, text) in [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("??>", "Pz8-")] {
            assert_eq!(base64url(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn tokens_differ_and_have_one_length() {
        assert_ne!(of(0), of(9_999));
        assert_eq!(of(0).len(), of(9_999).len());
    }
}
