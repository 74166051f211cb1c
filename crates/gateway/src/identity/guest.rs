//! Guests: callers that can prove only that they were here before.
//!
//! A guest gets a cookie, `seawall_guest=<id>.<expiry>.<code>`, with 128 random bits and an HMAC over them. It is
//! issued to a client that has none, and verified on every later request. It lets limits distinguish guests behind the
//! same network. Dropping it gains nothing, because guests of one network also share a limit.
//!
//! A cookie that differs from the issued one in a single bit is rejected. No cookies are stored: the secret suffices to
//! verify every cookie ever issued.

use super::encoding::{base32, base64url, decode_base64url, is_base32};
use super::hash::{constant_time_eq, hash_credential, hmac_key, hmac_sha256};
use super::refusal::{EXPIRED_CREDENTIAL, INVALID_CREDENTIAL, refusals};
use super::{Identity, IdentityKind};
use aws_lc_rs::hmac;
use seawall_core::setting::SettingError;
use seawall_core::time::UtcTime;
use std::time::Duration;

/// The cookie's name.
pub const GUEST_COOKIE: &str = "seawall_guest";

/// The base32 length of 16 bytes.
const ID_LENGTH: usize = 26;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
const MIN_SECRET: usize = 32;

/// Options of guest cookies.
#[derive(Clone)]
pub struct GuestOptions {
    /// The HMAC secret. All nodes must share it. If it is generated at startup, all guests are new after a restart.
    pub secret: Vec<u8>,
    /// How long a cookie is valid.
    pub lifetime: Duration,
    /// Whether browsers may send the cookie over TLS only (the `Secure` attribute).
    pub only_over_tls: bool,
}

impl std::fmt::Debug for GuestOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("GuestOptions");
        shown
            .field("lifetime", &self.lifetime)
            .field("only_over_tls", &self.only_over_tls)
            .finish_non_exhaustive()
    }
}

impl GuestOptions {
    /// Options with this secret, valid for 30 days, over TLS only.
    #[must_use]
    pub fn new(secret: Vec<u8>) -> Self {
        Self { secret, lifetime: Duration::from_secs(30 * 86_400), only_over_tls: true }
    }

    /// Validates the options.
    pub fn check(self) -> Result<Guests, SettingError> {
        if self.secret.len() < MIN_SECRET {
            return Err(SettingError::new("guest secret", format!("must have at least {MIN_SECRET} bytes")));
        }
        if self.lifetime.is_zero() {
            return Err(SettingError::new("guest lifetime", "must be longer than 0s"));
        }
        let Self { secret, lifetime, only_over_tls } = self;
        Ok(Guests { key: hmac_key(&secret), lifetime, only_over_tls })
    }
}

refusals! {
    /// Why a guest's cookie was rejected. Its holder gets a new one.
    pub enum GuestRefusal {
        /// It does not have the format of a guest cookie.
        Malformed = "guest_malformed", INVALID_CREDENTIAL;
        /// Its HMAC is wrong.
        SignatureInvalid = "guest_signature_invalid", INVALID_CREDENTIAL;
        /// It has expired.
        Expired = "guest_expired", EXPIRED_CREDENTIAL;
    }
}

/// Issues and verifies guest cookies.
pub struct Guests {
    key: hmac::Key,
    lifetime: Duration,
    only_over_tls: bool,
}

impl std::fmt::Debug for Guests {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Guests").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

/// A cookie for a new guest.
#[derive(Clone, PartialEq, Eq)]
pub struct GuestCookie {
    /// The value that the client will send back.
    pub value: String,
    /// The value of the `set-cookie` header.
    pub header: String,
    /// The guest's new identity.
    pub identity: Identity,
}

impl std::fmt::Debug for GuestCookie {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("GuestCookie").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Guests {
    /// Issues a cookie from these random bytes, which must come from the operating system.
    #[must_use]
    pub fn issue(&self, random: &[u8; 16], now: UtcTime) -> GuestCookie {
        let id = base32(random);
        // Whole seconds, rounded up: a cookie is valid for at least the configured time.
        let expiry = (now + self.lifetime).as_nanos().div_ceil(NANOS_PER_SECOND);
        let signed = format!("{id}.{expiry}");
        let value = format!("{signed}.{}", base64url(&self.code(&signed)));
        let age = expiry.saturating_sub(now.as_nanos() / NANOS_PER_SECOND);
        let tls = if self.only_over_tls { "; Secure" } else { "" };
        let header = format!("{GUEST_COOKIE}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax{tls}");
        GuestCookie { value, header, identity: identity(&id, expiry) }
    }

    /// Verifies a cookie and returns its identity.
    pub fn verify(&self, cookie: &str, now: UtcTime) -> Result<Identity, GuestRefusal> {
        let (signed, seal) = cookie.rsplit_once('.').ok_or(GuestRefusal::Malformed)?;
        let (id, expiry) = signed.split_once('.').ok_or(GuestRefusal::Malformed)?;
        let seal = decode_base64url(seal).ok_or(GuestRefusal::Malformed)?;
        if id.len() != ID_LENGTH || !is_base32(id) {
            return Err(GuestRefusal::Malformed);
        }
        let seconds = expiry.parse::<u64>().map_err(|_| GuestRefusal::Malformed)?;
        if !constant_time_eq(&self.code(signed), &seal) {
            return Err(GuestRefusal::SignatureInvalid);
        }
        let identity = identity(id, seconds);
        if identity.expires.is_none_or(|expires| expires <= now) {
            return Err(GuestRefusal::Expired);
        }
        Ok(identity)
    }

    fn code(&self, signed: &str) -> [u8; 32] {
        hmac_sha256(&self.key, format!("guest cookie {signed}").as_bytes())
    }
}

fn identity(id: &str, expiry: u64) -> Identity {
    let expires = UtcTime::from_nanos(expiry.saturating_mul(NANOS_PER_SECOND));
    Identity { hash: hash_credential("guest", &[id]), kind: IdentityKind::Guest, expires: Some(expires) }
}

#[cfg(test)]
mod tests {
    use super::{GuestOptions, GuestRefusal, Guests};
    use crate::identity::IdentityKind;
    use crate::identity::hash::sha256;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use seawall_core::time::UtcTime;
    use std::time::Duration;

    const DAY: Duration = Duration::from_secs(86_400);

    fn guests() -> Guests {
        GuestOptions { lifetime: DAY, ..GuestOptions::new(vec![7; 32]) }.check().unwrap()
    }

    fn noon() -> UtcTime {
        UtcTime::from_civil(2026, 11, 15) + DAY / 2
    }

    #[test]
    fn a_cookie_holds_until_its_expiry() {
        let (guests, now) = (guests(), noon());
        let cookie = guests.issue(&[0; 16], now);
        let expires = now + DAY;
        assert!(cookie.value.starts_with(&format!("{}.1794830400.", "a".repeat(26))), "{}", cookie.value);
        assert_eq!(cookie.identity.hash, sha256(format!("guest\0{}", "a".repeat(26)).as_bytes()));
        assert_eq!((cookie.identity.kind, cookie.identity.expires), (IdentityKind::Guest, Some(expires)));
        assert_eq!(guests.verify(&cookie.value, now), Ok(cookie.identity));
        let last = UtcTime::from_nanos(expires.as_nanos() - 1);
        assert_eq!(guests.verify(&cookie.value, last), Ok(cookie.identity));
        assert_eq!(guests.verify(&cookie.value, expires), Err(GuestRefusal::Expired));
        assert!(!format!("{cookie:?}").contains(&cookie.value));
    }

    #[test]
    fn the_set_cookie_header_has_all_attributes() {
        let cookie = guests().issue(&[1; 16], noon());
        let expected =
            format!("seawall_guest={}; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax; Secure", cookie.value);
        assert_eq!(cookie.header, expected);
        let plain = GuestOptions { only_over_tls: false, ..GuestOptions::new(vec![7; 32]) }.check().unwrap();
        assert!(plain.issue(&[1; 16], noon()).header.ends_with("Max-Age=2592000; HttpOnly; SameSite=Lax"));
    }

    #[test]
    fn a_part_of_a_second_counts_as_a_whole_one() {
        let now = noon() + Duration::from_nanos(1);
        let cookie = guests().issue(&[1; 16], now);
        assert_eq!(cookie.identity.expires, Some(noon() + DAY + Duration::from_secs(1)));
    }

    #[test]
    fn what_was_not_issued_is_refused() {
        let (guests, now) = (guests(), noon());
        let cookie = guests.issue(&[0; 16], now).value;
        let (signed, seal) = cookie.rsplit_once('.').unwrap();
        let id = "a".repeat(26);
        for (wrong, refusal) in [
            (String::new(), GuestRefusal::Malformed),
            ("..".to_owned(), GuestRefusal::Malformed),
            (signed.to_owned(), GuestRefusal::Malformed),
            (format!("{id}.{seal}"), GuestRefusal::Malformed),
            (format!("{signed}.{seal}="), GuestRefusal::Malformed),
            (format!("{signed}.{seal}.{seal}"), GuestRefusal::Malformed),
            (format!("a{signed}.{seal}"), GuestRefusal::Malformed),
            (format!("{}.{seal}", &signed[1..]), GuestRefusal::Malformed),
            (format!("{}.{seal}", signed.replace('a', "A")), GuestRefusal::Malformed),
            (format!("{id}.-1.{seal}"), GuestRefusal::Malformed),
            (format!("{id}.99999999999999999999.{seal}"), GuestRefusal::Malformed),
            (format!("{id}.+1794830400.{seal}"), GuestRefusal::SignatureInvalid),
            (format!("{id}.01794830400.{seal}"), GuestRefusal::SignatureInvalid),
            (format!("{id}.1894830400.{seal}"), GuestRefusal::SignatureInvalid),
            (format!("{signed}."), GuestRefusal::SignatureInvalid),
            (format!("{signed}.{}", &seal[..40]), GuestRefusal::SignatureInvalid),
            (format!("{}.{seal}", signed.replacen('a', "b", 1)), GuestRefusal::SignatureInvalid),
        ] {
            assert_eq!(guests.verify(&wrong, now), Err(refusal), "{wrong}");
        }
        let others = GuestOptions::new(vec![8; 32]).check().unwrap();
        assert_eq!(others.verify(&cookie, now), Err(GuestRefusal::SignatureInvalid));
    }

    #[test]
    fn a_secret_that_can_be_guessed_is_refused() {
        let error = GuestOptions::new(vec![7; 31]).check().unwrap_err().to_string();
        assert_eq!(error, "guest secret: must have at least 32 bytes");
        let never = GuestOptions { lifetime: Duration::ZERO, ..GuestOptions::new(vec![7; 32]) };
        assert!(!format!("{never:?}").contains('7'));
        assert_eq!(never.check().unwrap_err().to_string(), "guest lifetime: must be longer than 0s");
    }

    proptest! {
        #[test]
        fn any_changed_bit_of_a_cookie_is_refused(random: [u8; 16], at: proptest::sample::Index, bit in 0_u8..7) {
            let guests = guests();
            let cookie = guests.issue(&random, noon());
            prop_assert_eq!(guests.verify(&cookie.value, noon()), Ok(cookie.identity));
            let mut changed = cookie.value.into_bytes();
            let at = at.index(changed.len());
            changed[at] ^= 1 << bit;
            prop_assert!(guests.verify(&String::from_utf8(changed).unwrap(), noon()).is_err());
        }

        #[test]
        fn any_text_is_answered(text: String) {
            prop_assert!(guests().verify(&text, noon()).is_err());
        }
    }
}
