//! Broken claims, boards, probes and queues.

use super::{EFFORT, dawdle, notices};
use crate::conformance::{self, Parked};
use seawall_core::breaker::{NodeId, ProbeLease};
use seawall_core::queue::{Departure, EnterDecision, QueueRequest, QueueStats, QueueTicket};
use seawall_core::time::{Now, Timestamp};
use seawall_core::vocabulary::Grade;
use seawall_store::{
    Board, ClaimAsk, ClaimDecision, Claims, Fleet, Line, MemoryBoard, MemoryClaim, MemoryClaims, MemoryLine,
    MemoryProbes, NodeView, ProbeAsk, Probes, StoreError,
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

    async fn claim(&self, ask: &ClaimAsk<'_>, now: Now) -> Result<ClaimDecision<MemoryClaim>, StoreError> {
        let joined = format!("{}{}", ask.caller, ask.name);
        let second = Duration::from_secs(1);
        let ask = match self.1 {
            ClaimFlaw::NeverFrees => ClaimAsk { lasts: Duration::MAX, ..*ask },
            ClaimFlaw::FreesTooLate => ClaimAsk { lasts: ask.lasts + Duration::from_millis(1), ..*ask },
            ClaimFlaw::IgnoresTheRequest => ClaimAsk { fingerprint: 0, ..*ask },
            ClaimFlaw::JoinsCallerAndName => ClaimAsk { caller: 0, name: &joined, ..*ask },
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
            return self.0.claim(&ClaimAsk { name: &name, lasts: second, ..ask }, now).await;
        }
        Ok(decision)
    }

    async fn finish(&self, claim: MemoryClaim, now: Now) -> Result<(), StoreError> {
        match self.1 {
            ClaimFlaw::ForgetsWhatIsDone => self.0.give_up(claim, now).await,
            _ => self.0.finish(claim, now).await,
        }
    }

    async fn give_up(&self, claim: MemoryClaim, now: Now) -> Result<(), StoreError> {
        self.0.give_up(claim, now).await
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
    async fn publish(
        &self,
        node: NodeId,
        view: &NodeView,
        lives: Duration,
        now: Now,
    ) -> Result<(), StoreError> {
        if matches!(self.1, BoardFlaw::TakesOlderViews) {
            self.0.leave(node, now).await?;
        }
        self.0.publish(node, view, lives, now).await
    }

    async fn leave(&self, node: NodeId, now: Now) -> Result<(), StoreError> {
        match self.1 {
            BoardFlaw::KeepsWhoLeft => Ok(()),
            _ => self.0.leave(node, now).await,
        }
    }

    async fn read(&self, now: Now) -> Result<Fleet, StoreError> {
        let now = match self.1 {
            BoardFlaw::KeepsTheDead => Now::default(),
            _ => now,
        };
        self.0.read(now).await
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
    async fn lease(&self, ask: &ProbeAsk<'_>, now: Now) -> Result<ProbeLease, StoreError> {
        let ask = match self.1 {
            ProbeFlaw::SeesOneNodeOnly => ProbeAsk { node: NodeId(0), ..*ask },
            ProbeFlaw::NeverFrees => ProbeAsk { lasts: Duration::MAX, ..*ask },
            _ => *ask,
        };
        let lease = self.0.lease(&ask, now).await?;
        Ok(match self.1 {
            ProbeFlaw::ServesEarlierStages if lease.probes == 0 => {
                ProbeLease { probes: ask.wants.probes.min(1), ..lease }
            }
            _ => lease,
        })
    }

    async fn give_back(
        &self,
        target: &str,
        lease: ProbeLease,
        node: NodeId,
        now: Now,
    ) -> Result<(), StoreError> {
        match self.1 {
            ProbeFlaw::KeepsWhatWasGivenBack => Ok(()),
            _ => self.0.give_back(target, lease, node, now).await,
        }
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
enum LineFlaw {
    NobodyCanLeave,
    TimeStandsStill,
}

struct BrokenLine(MemoryLine, LineFlaw);

impl Line for BrokenLine {
    fn enter(&self, request: &QueueRequest, now: Timestamp) -> EnterDecision {
        self.0.enter(request, now)
    }

    fn next(&self, grade: Grade, now: Timestamp) -> Option<Departure> {
        self.0.next(grade, now)
    }

    fn cancel(&self, ticket: QueueTicket, now: Timestamp) -> Option<Departure> {
        match self.1 {
            LineFlaw::NobodyCanLeave => None,
            LineFlaw::TimeStandsStill => self.0.cancel(ticket, now),
        }
    }

    fn pop_expired(&self, now: Timestamp) -> Option<Departure> {
        match self.1 {
            LineFlaw::NobodyCanLeave => self.0.pop_expired(now),
            LineFlaw::TimeStandsStill => None,
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
fn a_broken_line_is_noticed() {
    notices(&[LineFlaw::NobodyCanLeave, LineFlaw::TimeStandsStill], |flaw| {
        conformance::line(EFFORT, |settings| BrokenLine(MemoryLine::new(settings), flaw))
    });
}
