//! Broken claims, boards, probes and queues.

use super::{EFFORT, dawdle, notices};
use crate::conformance::{self, Parked};
use seawall_core::breaker::{NodeId, ProbeLease};
use seawall_core::queue::{Departure, EnterDecision, QueueRequest, QueueStats, QueueTicket};
use seawall_core::time::{Now, Timestamp};
use seawall_core::vocabulary::Grade;
use seawall_store::{
    Board, ClaimDecision, ClaimRequest, Claims, Fleet, MemoryBoard, MemoryClaim, MemoryClaims, MemoryProbes,
    MemoryQueue, NodeView, ProbeRequest, Probes, RequestQueue, StoreError, StoreFuture,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
enum ClaimFlaw {
    GrantsTwo,
    /// A race that only concurrent threads can detect.
    GrantsTwoAtTheSameTime,
    NeverFrees,
    FreesTooLate,
    ForgetsWhatIsDone,
    IgnoresTheRequest,
    JoinsCallerAndName,
}

/// With the number of the next key, and how many threads are inside.
struct BrokenClaims(MemoryClaims, ClaimFlaw, AtomicU64, AtomicU64);

impl Claims for BrokenClaims {
    type Claim = MemoryClaim;

    async fn claim(
        &self,
        ask: &ClaimRequest<'_>,
        now: Now,
    ) -> Result<ClaimDecision<MemoryClaim>, StoreError> {
        let joined = format!("{}{}", ask.caller, ask.key);
        let second = Duration::from_secs(1);
        let ask = match self.1 {
            ClaimFlaw::NeverFrees => ClaimRequest { timeout: Duration::MAX, ..*ask },
            ClaimFlaw::FreesTooLate => {
                ClaimRequest { timeout: ask.timeout + Duration::from_millis(1), ..*ask }
            }
            ClaimFlaw::IgnoresTheRequest => ClaimRequest { fingerprint: 0, ..*ask },
            ClaimFlaw::JoinsCallerAndName => ClaimRequest { caller: 0, key: &joined, ..*ask },
            _ => *ask,
        };
        let others = self.3.fetch_add(1, Ordering::SeqCst);
        let decision = self.0.claim(&ask, now).await?;
        if matches!(self.1, ClaimFlaw::GrantsTwoAtTheSameTime) {
            dawdle();
        }
        self.3.fetch_sub(1, Ordering::SeqCst);
        let is_mine = match self.1 {
            ClaimFlaw::GrantsTwo => true,
            ClaimFlaw::GrantsTwoAtTheSameTime => others > 0,
            _ => false,
        };
        if is_mine && decision == ClaimDecision::InProgress {
            let number = self.2.fetch_add(1, Ordering::Relaxed);
            let name = format!("another {number}");
            return self.0.claim(&ClaimRequest { key: &name, timeout: second, ..ask }, now).await;
        }
        Ok(decision)
    }

    async fn finish(&self, claim: MemoryClaim, now: Now) -> Result<(), StoreError> {
        match self.1 {
            ClaimFlaw::ForgetsWhatIsDone => self.0.release(claim, now).await,
            _ => self.0.finish(claim, now).await,
        }
    }

    async fn release(&self, claim: MemoryClaim, now: Now) -> Result<(), StoreError> {
        self.0.release(claim, now).await
    }
}

#[test]
fn broken_claims_are_noticed() {
    use ClaimFlaw::*;
    let flaws = [
        GrantsTwo,
        GrantsTwoAtTheSameTime,
        NeverFrees,
        FreesTooLate,
        ForgetsWhatIsDone,
        IgnoresTheRequest,
        JoinsCallerAndName,
    ];
    notices(&flaws, |flaw| {
        let make = || BrokenClaims(MemoryClaims::new(), flaw, AtomicU64::new(0), AtomicU64::new(0));
        conformance::claims(EFFORT, &Parked, make)
    });
}

#[derive(Clone, Copy, Debug)]
enum BoardFlaw {
    TakesOlderViews,
    KeepsTheDead,
    KeepsWhoLeft,
}

struct BrokenBoard(MemoryBoard, BoardFlaw);

impl Board for BrokenBoard {
    fn publish<'a>(
        &'a self,
        node: NodeId,
        view: &'a NodeView,
        ttl: Duration,
        now: Now,
    ) -> StoreFuture<'a, ()> {
        StoreFuture::boxed(async move {
            if matches!(self.1, BoardFlaw::TakesOlderViews) {
                self.0.leave(node, now).await?;
            }
            self.0.publish(node, view, ttl, now).await
        })
    }

    fn leave(&self, node: NodeId, now: Now) -> StoreFuture<'_, ()> {
        StoreFuture::boxed(async move {
            match self.1 {
                BoardFlaw::KeepsWhoLeft => Ok(()),
                _ => self.0.leave(node, now).await,
            }
        })
    }

    fn read(&self, now: Now) -> StoreFuture<'_, Fleet> {
        StoreFuture::boxed(async move {
            let now = match self.1 {
                BoardFlaw::KeepsTheDead => Now::default(),
                _ => now,
            };
            self.0.read(now).await
        })
    }
}

#[test]
fn a_broken_board_is_noticed() {
    use BoardFlaw::*;
    notices(&[TakesOlderViews, KeepsTheDead, KeepsWhoLeft], |flaw| {
        conformance::board(EFFORT, &Parked, || BrokenBoard(MemoryBoard::new(), flaw))
    });
}

#[derive(Clone, Copy, Debug)]
enum ProbeFlaw {
    SeesOneNodeOnly,
    NeverFrees,
    ServesEarlierStages,
    KeepsWhatWasGivenBack,
}

struct BrokenProbes(MemoryProbes, ProbeFlaw);

impl Probes for BrokenProbes {
    fn lease<'a>(&'a self, ask: &'a ProbeRequest<'a>, now: Now) -> StoreFuture<'a, ProbeLease> {
        StoreFuture::boxed(async move {
            let ask = match self.1 {
                ProbeFlaw::SeesOneNodeOnly => ProbeRequest { node: NodeId(0), ..*ask },
                ProbeFlaw::NeverFrees => ProbeRequest { ttl: Duration::MAX, ..*ask },
                _ => *ask,
            };
            let lease = self.0.lease(&ask, now).await?;
            Ok(match self.1 {
                ProbeFlaw::ServesEarlierStages if lease.probes == 0 => {
                    ProbeLease { probes: ask.requested.probes.min(1), ..lease }
                }
                _ => lease,
            })
        })
    }

    fn give_back<'a>(
        &'a self,
        target: &'a str,
        lease: ProbeLease,
        node: NodeId,
        now: Now,
    ) -> StoreFuture<'a, ()> {
        StoreFuture::boxed(async move {
            match self.1 {
                ProbeFlaw::KeepsWhatWasGivenBack => Ok(()),
                _ => self.0.give_back(target, lease, node, now).await,
            }
        })
    }
}

#[test]
fn broken_probes_are_noticed() {
    use ProbeFlaw::*;
    notices(&[SeesOneNodeOnly, NeverFrees, ServesEarlierStages, KeepsWhatWasGivenBack], |flaw| {
        conformance::probes(EFFORT, &Parked, || BrokenProbes(MemoryProbes::new(), flaw))
    });
}

#[derive(Clone, Copy, Debug)]
enum QueueFlaw {
    NobodyCanLeave,
    TimeStandsStill,
}

struct BrokenQueue(MemoryQueue, QueueFlaw);

impl RequestQueue for BrokenQueue {
    fn enter(&self, request: &QueueRequest, now: Timestamp) -> EnterDecision {
        self.0.enter(request, now)
    }

    fn next(&self, grade: Grade, now: Timestamp) -> Option<Departure> {
        self.0.next(grade, now)
    }

    fn cancel(&self, ticket: QueueTicket, now: Timestamp) -> Option<Departure> {
        match self.1 {
            QueueFlaw::NobodyCanLeave => None,
            QueueFlaw::TimeStandsStill => self.0.cancel(ticket, now),
        }
    }

    fn pop_expired(&self, now: Timestamp) -> Option<Departure> {
        match self.1 {
            QueueFlaw::NobodyCanLeave => self.0.pop_expired(now),
            QueueFlaw::TimeStandsStill => None,
        }
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        self.0.next_deadline()
    }

    fn stats(&self, now: Timestamp) -> QueueStats {
        self.0.stats(now)
    }
}

#[test]
fn a_broken_queue_is_noticed() {
    notices(&[QueueFlaw::NobodyCanLeave, QueueFlaw::TimeStandsStill], |flaw| {
        conformance::queue(EFFORT, |settings| BrokenQueue(MemoryQueue::new(settings), flaw))
    });
}
