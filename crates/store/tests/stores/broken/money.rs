//! Broken quotas and a broken ledger.

use super::{EFFORT, dawdle, notices};
use crate::conformance::{self, Parked};
use arrayvec::ArrayVec;
use seawall_core::budget::{
    BudgetLimits, Lease, LeaseDecision, LeaseId, LeaseReport, Recall, ReconcileDecision,
};
use seawall_core::money::Money;
use seawall_core::quota::{Cost, LimitView, QuotaGroup, Scope};
use seawall_core::setting::SettingError;
use seawall_core::time::{Now, UtcTime};
use seawall_store::{
    AdmitDecision, CallId, DayTotals, EventPage, LeaseAsk, Ledger, MOST_LIMITS, MemoryLedger, MemoryQuotas,
    MemoryReceipt, Posted, QuotaAsk, Quotas, Spent, StoreError, Totals, UsageEvent,
};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Clone, Copy, Debug)]
enum QuotaFlaw {
    ChargesOnRefusal,
    LetsOneNameBeTakenTwice,
    ForgetsWhatANameMeant,
    RemembersWhatWasNotDone,
    GivesNothingBack,
    RoundsUp,
    HasNoMoneyLimit,
    LooksAtMoneyFirst,
    DecidesInTwoSteps,
    IgnoresNewLimits,
}

struct BrokenQuotas(MemoryQuotas, QuotaFlaw);

impl BrokenQuotas {
    async fn take(&self, ask: &QuotaAsk<'_>, now: Now) -> Result<AdmitDecision<MemoryReceipt>, StoreError> {
        self.0.reserve(ask, now).await
    }
}

impl Quotas for BrokenQuotas {
    type Receipt = MemoryReceipt;

    async fn reserve(
        &self,
        ask: &QuotaAsk<'_>,
        now: Now,
    ) -> Result<AdmitDecision<MemoryReceipt>, StoreError> {
        let mut ask = ask.clone();
        match self.1 {
            QuotaFlaw::ChargesOnRefusal => {
                let decision = self.take(&ask, now).await;
                if matches!(decision, Ok(AdmitDecision::RetryAfter(_))) {
                    let _ = self
                        .take(&QuotaAsk { cost: Cost::REQUEST, money: None, claim: None, ..ask }, now)
                        .await;
                }
                return decision;
            }
            QuotaFlaw::LetsOneNameBeTakenTwice => ask.claim = None,
            QuotaFlaw::ForgetsWhatANameMeant => {
                ask.claim = ask.claim.map(|claim| seawall_store::ClaimAsk { fingerprint: 0, ..claim });
            }
            QuotaFlaw::HasNoMoneyLimit => ask.money = None,
            QuotaFlaw::LooksAtMoneyFirst => {
                let nothing = QuotaAsk { cost: Cost::NOTHING, claim: None, ..ask.clone() };
                match self.take(&nothing, now).await? {
                    AdmitDecision::Granted { receipt, .. } => self.0.refund(receipt, now).await?,
                    refused => return Ok(refused),
                }
            }
            QuotaFlaw::DecidesInTwoSteps => {
                // A check-then-act race: checks for room, yields to other threads, and takes by the outdated result.
                let left = self.0.view(ask.home, ask.scopes, now).await?[0].remaining;
                dawdle();
                if left >= ask.cost.requests && ask.money.is_none() && ask.claim.is_none() {
                    let nothing = QuotaAsk { cost: Cost::NOTHING, ..ask.clone() };
                    let decision = self.take(&nothing, now).await?;
                    if let AdmitDecision::Granted { receipt, tightest } = decision {
                        let again = self.take(&nothing, now).await?;
                        if let AdmitDecision::Granted { receipt, .. } = again {
                            self.0.settle(receipt, Spent { cost: ask.cost, ..Spent::default() }, now).await?;
                        }
                        return Ok(AdmitDecision::Granted { receipt, tightest });
                    }
                    return Ok(decision);
                }
            }
            _ => {}
        }
        self.take(&ask, now).await
    }

    async fn settle(&self, receipt: MemoryReceipt, spent: Spent, now: Now) -> Result<(), StoreError> {
        let spent = match self.1 {
            QuotaFlaw::GivesNothingBack => return Ok(()),
            QuotaFlaw::RemembersWhatWasNotDone => Spent { done: true, ..spent },
            QuotaFlaw::RoundsUp => Spent { money: spent.money.max(Money::from_nanos(1)), ..spent },
            _ => spent,
        };
        self.0.settle(receipt, spent, now).await
    }

    async fn view(
        &self,
        home: u64,
        scopes: &[Scope],
        now: Now,
    ) -> Result<ArrayVec<LimitView, MOST_LIMITS>, StoreError> {
        self.0.view(home, scopes, now).await
    }

    fn change(&self, groups: Vec<QuotaGroup>, now: Now) -> Result<(), SettingError> {
        match self.1 {
            QuotaFlaw::IgnoresNewLimits => Ok(()),
            _ => self.0.change(groups, now),
        }
    }
}

#[test]
fn broken_quotas_are_noticed() {
    use QuotaFlaw::*;
    let flaws = [
        ChargesOnRefusal,
        LetsOneNameBeTakenTwice,
        ForgetsWhatANameMeant,
        RemembersWhatWasNotDone,
        GivesNothingBack,
        RoundsUp,
        HasNoMoneyLimit,
        LooksAtMoneyFirst,
        DecidesInTwoSteps,
        QuotaFlaw::IgnoresNewLimits,
    ];
    notices(&flaws, |flaw| {
        let make = |groups| BrokenQuotas(MemoryQuotas::new(groups, 1).unwrap(), flaw);
        conformance::quotas(EFFORT, &Parked, make)
    });
}

#[derive(Clone, Copy, Debug)]
enum LedgerFlaw {
    CountsACallTwice,
    LosesTheRestOfABatch,
    LendsWithoutEnd,
    NeverWritesOff,
    ForgetsWhatWasReported,
    IgnoresNewLimits,
    SkipsAtTheEndOfAPage,
    SortsSpendersByNumber,
}

struct BrokenLedger(MemoryLedger, LedgerFlaw, AtomicU32);

impl Ledger for BrokenLedger {
    async fn lease(&self, ask: &LeaseAsk, now: Now) -> Result<LeaseDecision, StoreError> {
        let decision = self.0.lease(ask, now).await?;
        Ok(match (self.1, decision) {
            (LedgerFlaw::LendsWithoutEnd, LeaseDecision::Spent(lease)) => {
                LeaseDecision::Granted(Lease { granted: ask.total, ..lease })
            }
            _ => decision,
        })
    }

    async fn report(&self, reports: &[LeaseReport], now: Now) -> Result<Vec<Lease>, StoreError> {
        match self.1 {
            LedgerFlaw::ForgetsWhatWasReported => {
                let nothing = |report: &LeaseReport| LeaseReport { posted: Money::ZERO, ..*report };
                self.0.report(&reports.iter().map(nothing).collect::<Vec<_>>(), now).await
            }
            _ => self.0.report(reports, now).await,
        }
    }

    async fn expire(&self, now: Now) -> Result<Vec<Lease>, StoreError> {
        match self.1 {
            LedgerFlaw::NeverWritesOff => Ok(Vec::new()),
            _ => self.0.expire(now).await,
        }
    }

    async fn reconcile(
        &self,
        lease: LeaseId,
        spent: Money,
        now: Now,
    ) -> Result<ReconcileDecision, StoreError> {
        self.0.reconcile(lease, spent, now).await
    }

    async fn set_limits(&self, limits: BudgetLimits, day: u64) -> Result<Vec<Recall>, StoreError> {
        match self.1 {
            LedgerFlaw::IgnoresNewLimits => Ok(Vec::new()),
            _ => self.0.set_limits(limits, day).await,
        }
    }

    async fn post(&self, events: &[UsageEvent]) -> Result<Posted, StoreError> {
        match self.1 {
            LedgerFlaw::CountsACallTwice => {
                let mut events = events.to_vec();
                for event in &mut events {
                    event.id.attempt = self.2.fetch_add(1, Ordering::Relaxed);
                }
                self.0.post(&events).await
            }
            LedgerFlaw::LosesTheRestOfABatch => {
                let posted = self.0.post(&events[..events.len().min(3)]).await?;
                Ok(Posted { new: posted.new, known: events.len() - posted.new })
            }
            _ => self.0.post(events).await,
        }
    }

    async fn day(&self, day: u64) -> Result<DayTotals, StoreError> {
        self.0.day(day).await
    }

    async fn caller(&self, day: u64, caller: u64) -> Result<Totals, StoreError> {
        self.0.caller(day, caller).await
    }

    async fn top_spenders(&self, day: u64, how_many: usize) -> Result<Vec<(u64, Totals)>, StoreError> {
        let mut all = self.0.top_spenders(day, how_many).await?;
        if matches!(self.1, LedgerFlaw::SortsSpendersByNumber) {
            all.sort_by_key(|(caller, _)| *caller);
        }
        Ok(all)
    }

    async fn events(
        &self,
        time: Range<UtcTime>,
        from: Option<(UtcTime, CallId)>,
        most: usize,
    ) -> Result<EventPage, StoreError> {
        let mut page = self.0.events(time, from, most).await?;
        if let (LedgerFlaw::SkipsAtTheEndOfAPage, Some((at, _))) = (self.1, page.next) {
            // Continues at the next time stamp and skips calls that ended at the same one.
            page.next = Some((UtcTime::from_nanos(at.as_nanos() + 1), CallId { request: 0, attempt: 0 }));
        }
        Ok(page)
    }
}

#[test]
fn a_broken_ledger_is_noticed() {
    use LedgerFlaw::*;
    let flaws = [
        CountsACallTwice,
        LosesTheRestOfABatch,
        LendsWithoutEnd,
        NeverWritesOff,
        ForgetsWhatWasReported,
        IgnoresNewLimits,
        SkipsAtTheEndOfAPage,
        SortsSpendersByNumber,
    ];
    notices(&flaws, |flaw| {
        let make = |limits| BrokenLedger(MemoryLedger::new(limits), flaw, AtomicU32::new(0));
        conformance::ledger(EFFORT, &Parked, make)
    });
}
