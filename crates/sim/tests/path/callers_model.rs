//! Property test of caller lookup against a naive model that keeps every response of the directory.

use crate::caller_directory::{BELIEVED, Manner, ResolverHarness, WITHIN, hash, key, subject};
use proptest::collection;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Tier;
use seawall_pipeline::callers::{IdentifyError, TierOrigin};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone, Debug)]
enum Step {
    Find { of: u8, is_subject: bool },
    Add { of: u8, is_prime: bool },
    Revoke { of: u8, tells: bool },
    Behave(Manner),
    Wait(Duration),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let of = || 0_u8..4;
    let manner = prop_oneof![
        3 => Just(Manner::Prompt),
        1 => Just(Manner::Away),
        1 => (0_u64..100).prop_map(|millis| Manner::Late(Duration::from_millis(millis))),
    ];
    let wait = prop_oneof![0_u64..2_000, 0_u64..12_000].prop_map(Duration::from_millis);
    let step = prop_oneof![
        6 => (of(), any::<bool>()).prop_map(|(of, is_subject)| Step::Find { of, is_subject }),
        2 => (of(), any::<bool>()).prop_map(|(of, is_prime)| Step::Add { of, is_prime }),
        1 => (of(), any::<bool>()).prop_map(|(of, tells)| Step::Revoke { of, tells }),
        2 => manner.prop_map(Step::Behave),
        3 => wait.prop_map(Step::Wait),
    ];
    collection::vec(step, 1..60)
}

/// The directory's record of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Nothing,
    Has(Tier),
    Revoked,
}

type Seen = Result<(Tier, TierOrigin), IdentifyError>;

#[derive(Default)]
struct Model {
    now: BTreeMap<u8, Entry>,
    /// Every response: the caller, the time of the lookup, and the record.
    answers: Vec<(u8, Timestamp, Entry)>,
    revoked: BTreeMap<u8, Timestamp>,
    fallbacks: u64,
}

impl Model {
    fn find(&mut self, of: u8, is_subject: bool, manner: Manner, guests: bool, now: Timestamp) -> Seen {
        let last = self.answers.iter().rfind(|(who, _, _)| *who == of).copied();
        if let Some((_, since, entry)) = last {
            let is_stranger = entry == Entry::Nothing && !is_subject;
            let believed = if is_stranger { Duration::from_secs(1) } else { BELIEVED };
            if now - since < believed {
                return Self::means(entry, is_subject);
            }
        }
        if matches!(manner, Manner::Prompt) || matches!(manner, Manner::Late(wait) if wait <= WITHIN) {
            let entry = self.now.get(&of).copied().unwrap_or(Entry::Nothing);
            self.answers.push((of, now, entry));
            return Self::means(entry, is_subject);
        }
        match last.map(|(_, _, entry)| entry) {
            Some(Entry::Revoked) => Err(IdentifyError::Revoked),
            None | Some(Entry::Nothing) if !is_subject && !guests => Err(IdentifyError::DirectoryUnavailable),
            _ => {
                self.fallbacks += 1;
                Ok((Tier::Guest, TierOrigin::Fallback))
            }
        }
    }

    fn means(entry: Entry, is_subject: bool) -> Seen {
        match entry {
            Entry::Revoked => Err(IdentifyError::Revoked),
            Entry::Has(tier) => Ok((tier, TierOrigin::Directory)),
            Entry::Nothing if is_subject => Ok((Tier::Standard, TierOrigin::Issuer)),
            Entry::Nothing => Err(IdentifyError::Unknown),
        }
    }
}

proptest! {
    #[test]
    fn callers_are_who_the_directory_said_or_guests(steps in steps(), guests: bool) {
        let (resolver, mut model, mut manner) = (ResolverHarness::new(guests), Model::default(), Manner::Prompt);
        for step in steps {
            let now = resolver.world.now();
            match step {
                Step::Find { of, is_subject } => {
                    let expected = model.find(of, is_subject, manner, guests, now);
                    let found = resolver.find(if is_subject { subject(of) } else { key(of) });
                    let seen = found.as_ref().map(|caller| (caller.tier, caller.origin)).map_err(|error| *error);
                    prop_assert_eq!(seen, expected);
                    // Once the cache lifetime has passed, a revoked caller is at most a guest without a record.
                    if model.revoked.get(&of).is_some_and(|since| now - *since >= BELIEVED) {
                        let is_harmless = match seen {
                            Ok((tier, origin)) => tier == Tier::Guest && origin == TierOrigin::Fallback,
                            Err(_) => true,
                        };
                        prop_assert!(is_harmless, "{:?}", seen);
                    }
                }
                Step::Add { of, is_prime } => {
                    let tier = if is_prime { Tier::Prime } else { Tier::Guest };
                    resolver.directory.add(of, tier, None);
                    model.now.entry(of).or_insert(Entry::Has(tier));
                }
                Step::Revoke { of, tells } => {
                    resolver.directory.revoke(of);
                    if let Some(entry) = model.now.get_mut(&of) {
                        *entry = Entry::Revoked;
                        model.revoked.entry(of).or_insert(now);
                    }
                    if tells {
                        resolver.callers.invalidate(&hash(of));
                        model.answers.retain(|(who, _, _)| *who != of);
                    }
                }
                Step::Behave(next) => {
                    resolver.directory.behave(next);
                    manner = next;
                }
                Step::Wait(time) => resolver.wait(time),
            }
        }
        prop_assert_eq!(resolver.callers.fallbacks(), model.fallbacks);
    }
}
