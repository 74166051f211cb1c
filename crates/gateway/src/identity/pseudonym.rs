//! Pseudonyms of callers, for the log and the admin API.
//!
//! Internally, a caller's number is the beginning of the hash of its credential. An attacker with a log who guesses a
//! credential, such as the user name in a JSON Web Token, could find that caller's lines by the number. The number is
//! therefore shown under a secret permutation. A caller always has the same pseudonym, it cannot be computed without
//! the secret, and the gateway can invert it when an operator asks for a caller.
//!
//! The secret is `telemetry.salt`. If that is not set, it is derived from the master secret, so that pseudonyms survive
//! restarts as keys do.

use super::hash::{hmac_key, hmac_sha256};
use super::master::MasterSecret;
use crate::core_registry::lock;
use crate::secret::{SecretError, fetch_text};
use aws_lc_rs::hmac;
use seawall_config::Settings;
use std::sync::Mutex;

/// A Feistel network is indistinguishable from a random permutation after four rounds (Luby and Rackoff).
const ROUNDS: u8 = 4;

/// The number of remembered pseudonyms. The log writes one for each request, and callers return.
const REMEMBERED: usize = 1024;

type CallerWithPseudonym = (u64, u64);

/// The keyed permutation between callers and pseudonyms.
pub struct Pseudonyms {
    key: hmac::Key,
    /// Callers with their pseudonyms, each at its number modulo the length.
    remembered: Mutex<Box<[Option<CallerWithPseudonym>]>>,
}

impl std::fmt::Debug for Pseudonyms {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Pseudonyms")
    }
}

impl Pseudonyms {
    /// The pseudonyms of these settings.
    pub(super) fn from_settings(settings: &Settings, master: &MasterSecret) -> Result<Self, SecretError> {
        Ok(match &settings.telemetry.salt {
            Some(reference) => Self::new(fetch_text(reference)?.as_bytes()),
            None => Self::new(&master.derive("pseudonyms")),
        })
    }

    pub(super) fn new(secret: &[u8]) -> Self {
        Self { key: hmac_key(secret), remembered: Mutex::new(Box::new([None; REMEMBERED])) }
    }

    /// The pseudonym of this caller.
    #[must_use]
    pub fn encode(&self, caller: u64) -> u64 {
        let mut remembered = lock(&self.remembered);
        let slot = &mut remembered[usize::try_from(caller % REMEMBERED as u64).unwrap_or_default()];
        match *slot {
            Some((known, pseudonym)) if known == caller => pseudonym,
            _ => {
                let pseudonym = self.compute(caller);
                *slot = Some((caller, pseudonym));
                pseudonym
            }
        }
    }

    fn compute(&self, caller: u64) -> u64 {
        let (mut left, mut right) = halves(caller);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ self.round(round, right));
        }
        u64::from(left) << 32 | u64::from(right)
    }

    /// The caller with this pseudonym.
    #[must_use]
    pub fn decode(&self, shown: u64) -> u64 {
        let (mut left, mut right) = halves(shown);
        for round in (0..ROUNDS).rev() {
            (left, right) = (right ^ self.round(round, left), left);
        }
        u64::from(left) << 32 | u64::from(right)
    }

    fn round(&self, round: u8, half: u32) -> u32 {
        let [a, b, c, d] = half.to_be_bytes();
        let [first, second, third, fourth, ..] = hmac_sha256(&self.key, &[round, a, b, c, d]);
        u32::from_be_bytes([first, second, third, fourth])
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is wanted")]
const fn halves(number: u64) -> (u32, u32) {
    ((number >> 32) as u32, number as u32)
}

#[cfg(test)]
mod tests {
    use super::Pseudonyms;
    use proptest::prelude::{any, prop_assert_eq, prop_assert_ne, proptest};

    proptest! {
        #[test]
        fn a_pseudonym_leads_back_to_its_caller_under_its_own_salt_alone(caller in any::<u64>()) {
            let (one, two) = (Pseudonyms::new(b"salt"), Pseudonyms::new(b"pepper"));
            prop_assert_eq!(one.decode(one.encode(caller)), caller);
            prop_assert_eq!(one.encode(one.decode(caller)), caller);
            prop_assert_ne!(one.encode(caller), caller);
            prop_assert_ne!(one.encode(caller), two.encode(caller));
            // Remembered or not.
            let neighbour = caller.wrapping_add(super::REMEMBERED as u64);
            prop_assert_eq!([one.encode(neighbour), one.encode(neighbour)], [one.compute(neighbour); 2]);
            prop_assert_eq!(one.encode(caller), one.compute(caller));
        }
    }
}
