//! Broken quotas and a broken ledger.

use super::{EFFORT, dawdle, notices};
use crate::conformance::{self, Parked};
use seawall_core::budget::{
    BudgetLease, BudgetLimits, LeaseDecision, LeaseId, LeaseRecall, LeaseReport, ReconcileDecision,
};
use seawall_core::money::Money;
use seawall_core::quota::{GroupId, LimitChange, LimitId, LimitView, QuotaGroup, QuotaScope, QuotaUnits};
use seawall_core::setting::SettingError;
use seawall_core::time::{Now, UtcTime};
use seawall_store::{
    AdmissionRequest, AdmitDecision, CallId, CheckedLimits, DayTotals, EventPage, KeyUsage, LeaseRequest,
    Ledger, MemoryLedger, MemoryQuotas, PostSummary, QuotaReceipt, Quotas, Settlement, SpendDimension,
    SpendRow, StoreError, StoreFuture, Totals, UsageEvent,
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
    async fn take(&self, ask: &AdmissionRequest<'_>, now: Now) -> Result<AdmitDecision, StoreError> {
        self.0.reserve(ask, now).await
    }
}

impl Quotas for BrokenQuotas {
    fn reserve<'a>(&'a self, ask: &'a AdmissionRequest<'a>, now: Now) -> StoreFuture<'a, AdmitDecision> {
        StoreFuture::boxed(async move {
            let mut ask = ask.clone();
            match self.1 {
                QuotaFlaw::ChargesOnRefusal => {
                    let decision = self.take(&ask, now).await;
                    if matches!(decision, Ok(AdmitDecision::RateLimited(_))) {
                        let _ = self
                            .take(
                                &AdmissionRequest {
                                    units: QuotaUnits::REQUEST,
                                    money: None,
                                    claim: None,
                                    ..ask
                                },
                                now,
                            )
                            .await;
                    }
                    return decision;
                }
                QuotaFlaw::LetsOneNameBeTakenTwice => ask.claim = None,
                QuotaFlaw::ForgetsWhatANameMeant => {
                    ask.claim =
                        ask.claim.map(|claim| seawall_store::ClaimRequest { fingerprint: 0, ..claim });
                }
                QuotaFlaw::HasNoMoneyLimit => ask.money = None,
                QuotaFlaw::LooksAtMoneyFirst => {
                    let nothing = AdmissionRequest { units: QuotaUnits::NOTHING, claim: None, ..ask.clone() };
                    match self.take(&nothing, now).await? {
                        AdmitDecision::Granted { reservation, .. } => self.0.refund(reservation, now).await?,
                        refused => return Ok(refused),
                    }
                }
                QuotaFlaw::DecidesInTwoSteps => {
                    // A check-then-act race: checks for room, yields to other threads, and takes by the outdated result.
                    let left = self.0.view(ask.partition, ask.scopes, now).await?[0].remaining;
                    dawdle();
                    if left >= ask.units.requests && ask.money.is_none() && ask.claim.is_none() {
                        let nothing = AdmissionRequest { units: QuotaUnits::NOTHING, ..ask.clone() };
                        let decision = self.take(&nothing, now).await?;
                        if let AdmitDecision::Granted { reservation, tightest } = decision {
                            let again = self.take(&nothing, now).await?;
                            if let AdmitDecision::Granted { reservation, .. } = again {
                                self.0
                                    .settle(
                                        reservation,
                                        Settlement { units: ask.units, ..Settlement::default() },
                                        now,
                                    )
                                    .await?;
                            }
                            return Ok(AdmitDecision::Granted { reservation, tightest });
                        }
                        return Ok(decision);
                    }
                }
                _ => {}
            }
            self.take(&ask, now).await
        })
    }

    fn settle(&self, reservation: QuotaReceipt, spent: Settlement, now: Now) -> StoreFuture<'_, ()> {
        StoreFuture::boxed(async move {
            let spent = match self.1 {
                QuotaFlaw::GivesNothingBack => return Ok(()),
                QuotaFlaw::RemembersWhatWasNotDone => Settlement { answered: true, ..spent },
                QuotaFlaw::RoundsUp => Settlement { cost: spent.cost.max(Money::from_nanos(1)), ..spent },
                _ => spent,
            };
            self.0.settle(reservation, spent, now).await
        })
    }

    fn view<'a>(
        &'a self,
        partition: u64,
        scopes: &'a [QuotaScope],
        now: Now,
    ) -> StoreFuture<'a, Vec<LimitView>> {
        StoreFuture::boxed(async move { self.0.view(partition, scopes, now).await })
    }

    fn check_limits(&self, groups: Vec<QuotaGroup>) -> Result<CheckedLimits, SettingError> {
        self.0.check_limits(groups)
    }

    fn change_limits(&self, limits: CheckedLimits, now: Now) -> Vec<LimitChange> {
        match self.1 {
            QuotaFlaw::IgnoresNewLimits => Vec::new(),
            _ => self.0.change_limits(limits, now),
        }
    }

    fn group(&self, name: &str) -> Option<GroupId> {
        self.0.group(name)
    }

    fn limit_name(&self, limit: LimitId) -> Option<Box<str>> {
        self.0.limit_name(limit)
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
    ForgetsTags,
}

struct BrokenLedger(MemoryLedger, LedgerFlaw, AtomicU32);

impl Ledger for BrokenLedger {
    fn lease<'a>(&'a self, ask: &'a LeaseRequest, now: Now) -> StoreFuture<'a, LeaseDecision> {
        StoreFuture::boxed(async move {
            let decision = self.0.lease(ask, now).await?;
            Ok(match (self.1, decision) {
                (LedgerFlaw::LendsWithoutEnd, LeaseDecision::Exhausted(lease)) => {
                    LeaseDecision::Granted(BudgetLease { granted: ask.total, ..lease })
                }
                _ => decision,
            })
        })
    }

    fn report<'a>(&'a self, reports: &'a [LeaseReport], now: Now) -> StoreFuture<'a, Vec<BudgetLease>> {
        StoreFuture::boxed(async move {
            match self.1 {
                LedgerFlaw::ForgetsWhatWasReported => {
                    let nothing = |report: &LeaseReport| LeaseReport { posted: Money::ZERO, ..*report };
                    self.0.report(&reports.iter().map(nothing).collect::<Vec<_>>(), now).await
                }
                _ => self.0.report(reports, now).await,
            }
        })
    }

    fn expire(&self, now: Now) -> StoreFuture<'_, Vec<BudgetLease>> {
        StoreFuture::boxed(async move {
            match self.1 {
                LedgerFlaw::NeverWritesOff => Ok(Vec::new()),
                _ => self.0.expire(now).await,
            }
        })
    }

    fn reconcile(&self, lease: LeaseId, spent: Money, now: Now) -> StoreFuture<'_, ReconcileDecision> {
        StoreFuture::boxed(async move { self.0.reconcile(lease, spent, now).await })
    }

    fn set_limits(&self, limits: BudgetLimits, day: u64) -> StoreFuture<'_, Vec<LeaseRecall>> {
        StoreFuture::boxed(async move {
            match self.1 {
                LedgerFlaw::IgnoresNewLimits => Ok(Vec::new()),
                _ => self.0.set_limits(limits, day).await,
            }
        })
    }

    fn post<'a>(&'a self, events: &'a [UsageEvent]) -> StoreFuture<'a, PostSummary> {
        StoreFuture::boxed(async move {
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
                    Ok(PostSummary { inserted: posted.inserted, duplicates: events.len() - posted.inserted })
                }
                _ => self.0.post(events).await,
            }
        })
    }

    fn day(&self, day: u64) -> StoreFuture<'_, DayTotals> {
        StoreFuture::boxed(async move { self.0.day(day).await })
    }

    fn caller(&self, day: u64, caller: u64) -> StoreFuture<'_, Totals> {
        StoreFuture::boxed(async move { self.0.caller(day, caller).await })
    }

    fn top_spenders(&self, day: u64, how_many: usize) -> StoreFuture<'_, Vec<(u64, Totals)>> {
        StoreFuture::boxed(async move {
            let mut all = self.0.top_spenders(day, how_many).await?;
            if matches!(self.1, LedgerFlaw::SortsSpendersByNumber) {
                all.sort_by_key(|(caller, _)| *caller);
            }
            Ok(all)
        })
    }

    fn spend(&self, days: Range<u64>, by: SpendDimension) -> StoreFuture<'_, Vec<SpendRow>> {
        StoreFuture::boxed(async move {
            match (self.1, by) {
                (LedgerFlaw::ForgetsTags, SpendDimension::Tag) => Ok(Vec::new()),
                _ => self.0.spend(days, by).await,
            }
        })
    }

    fn key_usage(&self, caller: u64) -> StoreFuture<'_, KeyUsage> {
        self.0.key_usage(caller)
    }

    fn flush(&self) -> StoreFuture<'_, ()> {
        self.0.flush()
    }

    fn events(
        &self,
        time: Range<UtcTime>,
        from: Option<(UtcTime, CallId)>,
        limit: usize,
    ) -> StoreFuture<'_, EventPage> {
        StoreFuture::boxed(async move {
            let mut page = self.0.events(time, from, limit).await?;
            if let (LedgerFlaw::SkipsAtTheEndOfAPage, Some((at, _))) = (self.1, page.next) {
                // Continues at the next time stamp and skips calls that ended at the same one.
                page.next = Some((UtcTime::from_nanos(at.as_nanos() + 1), CallId { request: 0, attempt: 0 }));
            }
            Ok(page)
        })
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
        ForgetsTags,
    ];
    notices(&flaws, |flaw| {
        let make = |limits| BrokenLedger(MemoryLedger::new(limits), flaw, AtomicU32::new(0));
        conformance::ledger(EFFORT, &Parked, make)
    });
}
