//! Broken sessions, answers, directories and switches.

use super::{EFFORT, dawdle, notices};
use crate::conformance::{self, Parked};
use seawall_core::budget::SessionTokens;
use seawall_core::cache_policy::{CacheKey, CacheStoreDecision, NewAnswer};
use seawall_core::time::{Now, UtcTime};
use seawall_core::vocabulary::Grade;
use seawall_store::{
    AddDecision, Answers, AuditRecord, CallerRecord, ChangeDecision, ChangeOrder, CredentialHash, Directory,
    MemoryAnswers, MemoryDirectory, MemorySessions, MemorySwitches, RequestTokens, SessionKey, Sessions,
    StoreFuture, StoredAnswer, StoredTurn, SwitchState, Switches,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
enum SessionFlaw {
    NeverForgets,
    TakesARequestTwice,
    JoinsCallerAndName,
    GivesTheFirstTurns,
    LivesLongerByLooking,
}

struct BrokenSessions(MemorySessions, SessionFlaw, AtomicU64);

impl BrokenSessions {
    fn key(&self, session: &SessionKey) -> SessionKey {
        match self.1 {
            SessionFlaw::JoinsCallerAndName => {
                SessionKey { caller: 0, name: format!("{}{}", session.caller, session.name).into() }
            }
            _ => session.clone(),
        }
    }

    fn now(&self, now: Now) -> Now {
        match self.1 {
            SessionFlaw::NeverForgets => Now::default(),
            _ => now,
        }
    }
}

impl Sessions for BrokenSessions {
    fn append<'a>(
        &'a self,
        session: &'a SessionKey,
        request: u128,
        turns: &'a [StoredTurn],
        used: RequestTokens,
        now: Now,
    ) -> StoreFuture<'a, ()> {
        StoreFuture::boxed(async move {
            let request = match self.1 {
                SessionFlaw::TakesARequestTwice => self.2.fetch_add(1, Ordering::Relaxed).into(),
                _ => request,
            };
            self.0.append(&self.key(session), request, turns, used, self.now(now)).await
        })
    }

    fn load<'a>(
        &'a self,
        session: &'a SessionKey,
        limit: usize,
        now: Now,
    ) -> StoreFuture<'a, Vec<StoredTurn>> {
        StoreFuture::boxed(async move {
            match self.1 {
                SessionFlaw::GivesTheFirstTurns => {
                    let mut turns = self.0.load(session, usize::MAX, now).await?;
                    turns.truncate(limit);
                    Ok(turns)
                }
                SessionFlaw::LivesLongerByLooking => {
                    // Appends an empty turn, which renews the expiry.
                    let key = self.key(session);
                    let turns = self.0.load(&key, limit, now).await?;
                    if !turns.is_empty() {
                        let request = self.2.fetch_add(1, Ordering::Relaxed) | 1 << 63;
                        self.0.append(&key, request.into(), &[], RequestTokens::default(), now).await?;
                    }
                    Ok(turns)
                }
                _ => self.0.load(&self.key(session), limit, self.now(now)).await,
            }
        })
    }

    fn tokens<'a>(&'a self, session: &'a SessionKey, now: Now) -> StoreFuture<'a, SessionTokens> {
        StoreFuture::boxed(async move { self.0.tokens(&self.key(session), self.now(now)).await })
    }
}

#[test]
fn broken_sessions_are_noticed() {
    use SessionFlaw::*;
    let flaws =
        [NeverForgets, TakesARequestTwice, JoinsCallerAndName, GivesTheFirstTurns, LivesLongerByLooking];
    notices(&flaws, |flaw| {
        let make = || BrokenSessions(MemorySessions::new(), flaw, AtomicU64::new(0));
        conformance::sessions(EFFORT, &Parked, make)
    });
}

#[derive(Clone, Copy, Debug)]
enum AnswerFlaw {
    ServesForEver,
    ReplacesWhateverIsThere,
    KeepsTheFirst,
    ForgetsWhoAnswered,
}

struct BrokenAnswers(MemoryAnswers, AnswerFlaw);

impl Answers for BrokenAnswers {
    fn load<'a>(&'a self, key: &'a CacheKey, now: UtcTime) -> StoreFuture<'a, Option<StoredAnswer>> {
        StoreFuture::boxed(async move {
            let now = match self.1 {
                AnswerFlaw::ServesForEver => UtcTime::from_nanos(now.as_nanos() - 30_000_000_000),
                _ => now,
            };
            self.0.load(key, now).await
        })
    }

    fn store<'a>(
        &'a self,
        key: &'a CacheKey,
        answer: &'a NewAnswer<'a>,
        now: UtcTime,
    ) -> StoreFuture<'a, CacheStoreDecision> {
        StoreFuture::boxed(async move {
            match self.1 {
                AnswerFlaw::ReplacesWhateverIsThere => {
                    // As if an hour had passed, so that the present answer has expired.
                    self.0.store(key, answer, now + Duration::from_secs(3_600)).await
                }
                AnswerFlaw::KeepsTheFirst if self.0.load(key, now).await?.is_some() => {
                    Ok(CacheStoreDecision::Store)
                }
                AnswerFlaw::ForgetsWhoAnswered => {
                    self.0.store(key, &NewAnswer { grade: Grade::Fast, ..*answer }, now).await
                }
                _ => self.0.store(key, answer, now).await,
            }
        })
    }
}

#[test]
fn broken_answers_are_noticed() {
    use AnswerFlaw::*;
    notices(&[ServesForEver, ReplacesWhateverIsThere, KeepsTheFirst, ForgetsWhoAnswered], |flaw| {
        let make = |ages, options| BrokenAnswers(MemoryAnswers::new(ages, options, 16).unwrap(), flaw);
        conformance::answers(EFFORT, &Parked, make)
    });
}

#[derive(Clone, Copy, Debug)]
enum DirectoryFlaw {
    LooksBeforeItAdds,
    LastRevocationCounts,
    ForgetsTheCeiling,
    ListsFromTheOneItHad,
}

struct BrokenDirectory(MemoryDirectory, DirectoryFlaw, Mutex<Vec<CredentialHash>>);

impl Directory for BrokenDirectory {
    fn find<'a>(&'a self, credential: &'a CredentialHash) -> StoreFuture<'a, Option<CallerRecord>> {
        StoreFuture::boxed(async move {
            let mut found = self.0.find(credential).await?;
            if let (DirectoryFlaw::LastRevocationCounts, Some(record)) = (self.1, &mut found)
                && self.2.lock().unwrap().contains(credential)
            {
                record.revoked = Some(UtcTime::from_nanos(7));
            }
            Ok(found)
        })
    }

    fn add<'a>(
        &'a self,
        credential: &'a CredentialHash,
        record: &'a CallerRecord,
    ) -> StoreFuture<'a, AddDecision> {
        StoreFuture::boxed(async move {
            if matches!(self.1, DirectoryFlaw::LooksBeforeItAdds) {
                let is_known = self.0.find(credential).await?.is_some();
                dawdle();
                let _ = self.0.add(credential, record).await?;
                return Ok(if is_known { AddDecision::AlreadyExists } else { AddDecision::Added });
            }
            self.0.add(credential, record).await
        })
    }

    fn revoke<'a>(&'a self, credential: &'a CredentialHash, at: UtcTime) -> StoreFuture<'a, bool> {
        StoreFuture::boxed(async move {
            self.2.lock().unwrap().push(*credential);
            self.0.revoke(credential, at).await
        })
    }

    fn update<'a>(
        &'a self,
        credential: &'a CredentialHash,
        record: &'a CallerRecord,
    ) -> StoreFuture<'a, bool> {
        StoreFuture::boxed(async move {
            let ceiling = record.ceiling.filter(|_| !matches!(self.1, DirectoryFlaw::ForgetsTheCeiling));
            self.0.update(credential, &CallerRecord { ceiling, ..record.clone() }).await
        })
    }

    fn named<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Vec<(CredentialHash, CallerRecord)>> {
        self.0.named(name)
    }

    fn list(
        &self,
        after: Option<CredentialHash>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<(CredentialHash, CallerRecord)>> {
        StoreFuture::boxed(async move {
            let mut page = self.0.list(after, limit).await?;
            if let (DirectoryFlaw::ListsFromTheOneItHad, Some(after)) = (self.1, after)
                && let Some(record) = self.0.find(&after).await?
            {
                page.insert(0, (after, record));
            }
            Ok(page)
        })
    }
}

#[test]
fn a_broken_directory_is_noticed() {
    use DirectoryFlaw::*;
    notices(&[LooksBeforeItAdds, LastRevocationCounts, ForgetsTheCeiling, ListsFromTheOneItHad], |flaw| {
        let make = || BrokenDirectory(MemoryDirectory::new(), flaw, Mutex::default());
        conformance::directory(EFFORT, &Parked, make)
    });
}

#[derive(Clone, Copy, Debug)]
enum SwitchFlaw {
    IgnoresWhatWasSeen,
    LosesAttempts,
    CountsAttempts,
    ForgesTheTrail,
    DropsARecord,
}

struct BrokenSwitches(MemorySwitches, SwitchFlaw);

impl Switches for BrokenSwitches {
    fn read(&self) -> StoreFuture<'_, SwitchState> {
        StoreFuture::boxed(async move { self.0.read().await })
    }

    fn apply<'a>(&'a self, order: &'a ChangeOrder, seen: u64) -> StoreFuture<'a, ChangeDecision> {
        StoreFuture::boxed(async move {
            match self.1 {
                SwitchFlaw::IgnoresWhatWasSeen => {
                    let seen = self.0.read().await?.version;
                    self.0.apply(order, seen).await
                }
                SwitchFlaw::LosesAttempts if order.refused => {
                    Ok(ChangeDecision::Recorded(self.0.read().await?))
                }
                SwitchFlaw::CountsAttempts if order.refused => {
                    self.0.apply(&ChangeOrder { refused: false, ..order.clone() }, seen).await
                }
                _ => self.0.apply(order, seen).await,
            }
        })
    }

    fn trail(&self, from: u64, limit: usize) -> StoreFuture<'_, Vec<AuditRecord>> {
        StoreFuture::boxed(async move {
            let mut trail = self.0.trail(from, limit).await?;
            match self.1 {
                SwitchFlaw::ForgesTheTrail => {
                    if let Some(record) = trail.last_mut() {
                        record.hash[0] ^= 1;
                    }
                }
                SwitchFlaw::DropsARecord if trail.len() > 2 => {
                    trail.remove(1);
                }
                _ => {}
            }
            Ok(trail)
        })
    }
}

#[test]
fn broken_switches_are_noticed() {
    use SwitchFlaw::*;
    let flaws = [IgnoresWhatWasSeen, LosesAttempts, CountsAttempts, ForgesTheTrail, DropsARecord];
    notices(&flaws, |flaw| {
        conformance::switches(EFFORT, &Parked, || BrokenSwitches(MemorySwitches::new(), flaw))
    });
}
