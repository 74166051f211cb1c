//! Rate-limit counts and idempotency keys across restarts.

use super::{noon, options};
use crate::claims::ClaimRequest;
use crate::embedded::{EmbeddedOptions, EmbeddedStore, OpenedStore};
use crate::memory::MemoryQuotas;
use crate::node_ledger::{LedgerCall, NodeLedger};
use crate::quotas::{AdmissionRequest, AdmitDecision, Settlement};
use crate::usage::CallId;
use seawall_core::budget::ReservationRequest;
use seawall_core::history::TokenLimits;
use seawall_core::money::Money;
use seawall_core::quota::{Quota, QuotaGroup, QuotaKey, QuotaScope, QuotaUnit, QuotaUnits};
use seawall_core::time::{Now, Timestamp};
use seawall_core::vocabulary::Tier;
use seawall_testkit::TestDirectory;
use std::path::Path;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn groups(limit: u32) -> Vec<QuotaGroup> {
    let quota = |name, limit| Quota::sliding(name, QuotaUnit::Request, limit, MINUTE, 0).unwrap();
    vec![
        QuotaGroup::new("prime", vec![quota("minute", limit)]).unwrap(),
        QuotaGroup::new("global", vec![quota("minute", 1_000)]).unwrap(),
    ]
}

/// A process that uses the data directory.
struct Process {
    ledger: NodeLedger,
    quotas: MemoryQuotas,
    _store: EmbeddedStore,
}

fn start(data_dir: &Path, limit: u32, segment: u64, now: Now) -> Process {
    let options = EmbeddedOptions { groups: Some(groups(limit)), segment_bytes: segment, ..options() };
    let OpenedStore { store, budget_ledger, journal, quotas, .. } =
        EmbeddedStore::open(data_dir, options, now).unwrap();
    Process {
        ledger: NodeLedger::with_ledger(budget_ledger, journal),
        quotas: quotas.unwrap(),
        _store: store,
    }
}

/// How a request ends.
#[derive(Clone, Copy)]
enum End {
    Answered,
    Refused,
    /// The process ends first.
    Never,
}

impl Process {
    /// Admits a caller's request, if there is room, with a reservation unless it is answered without a model.
    fn ask(
        &self,
        caller: u64,
        name: Option<&str>,
        is_reserved: bool,
        end: End,
        now: Now,
    ) -> Result<(), String> {
        let scope = |group, key| QuotaScope {
            group: self.quotas.limiter().group(group).unwrap(),
            key: QuotaKey(key),
        };
        let scopes = [scope("prime", caller), scope("global", 0)];
        let (lasts, keep) = (Duration::from_secs(30), Duration::from_secs(600));
        let claim = name.map(|name| ClaimRequest {
            caller,
            key: name,
            fingerprint: 5,
            timeout: lasts,
            retention: keep,
        });
        let ask = AdmissionRequest {
            partition: caller,
            scopes: &scopes,
            units: QuotaUnits::REQUEST,
            money: None,
            claim,
        };
        let reservation = match self.quotas.reserve_sync(&ask, now).unwrap() {
            AdmitDecision::Granted { reservation, .. } => reservation,
            refused => return Err(format!("{refused:?}")),
        };
        assert!(self.ledger.journals_admissions());
        let mark = self.quotas.record_of(&reservation, lasts, now);
        let hold = is_reserved.then(|| {
            let ask = ReservationRequest {
                caller,
                tier: Tier::Prime,
                session: None,
                limits: TokenLimits::default(),
                input: 1,
                output: 1,
                max_cost: Money::from_nanos(1),
                expires: Timestamp::NEVER,
                windows: Default::default(),
            };
            let attempt = LedgerCall {
                id: CallId { request: now.utc.as_nanos().into(), attempt: 0 },
                model: "m".into(),
                labels: Default::default(),
            };
            self.ledger.begin(&ask, attempt, Some(&mark), now).unwrap().write().unwrap()
        });
        match end {
            End::Answered => {
                hold.into_iter().for_each(crate::node_ledger::Hold::release);
                let spent =
                    Settlement { units: QuotaUnits::REQUEST, answered: true, ..Settlement::default() };
                self.ledger.settle_admission(&mark, spent, now);
                self.quotas.settle_sync(reservation, spent, now);
            }
            End::Refused => {
                hold.into_iter().for_each(crate::node_ledger::Hold::release);
                self.ledger.settle_admission(&mark, Settlement::default(), now);
                self.quotas.settle_sync(reservation, Settlement::default(), now);
            }
            End::Never => drop((hold, reservation)),
        }
        Ok(())
    }
}

fn later(now: Now, seconds: u64) -> Now {
    now + Duration::from_secs(seconds)
}

#[test]
fn admitted_requests_count_in_the_next_process_and_refused_ones_do_not() {
    let scratch = TestDirectory::in_memory().unwrap();
    let mut now = noon();
    let mut admitted = 0;
    for round in 0..6 {
        let process = start(scratch.path(), 10, 16 << 20, now);
        for _ in 0..2 {
            admitted += usize::from(process.ask(1, None, true, End::Answered, now).is_ok());
            // Answered without a model: written some milliseconds later, or when the process ends.
            admitted += usize::from(process.ask(1, None, false, End::Answered, now).is_ok());
            let _ = process.ask(1, None, round % 2 == 0, End::Refused, now);
        }
        assert_eq!(process.ask(2 + round, None, true, End::Answered, now), Ok(()), "others have their own");
        now = later(now, 2);
    }
    assert_eq!(admitted, 10);
    let process = start(scratch.path(), 10, 16 << 20, later(now, 61));
    assert_eq!(process.ask(1, None, true, End::Answered, later(now, 61)), Ok(()), "and the minute passes");
}

#[test]
fn an_idempotency_key_survives_its_process_and_one_in_flight_has_an_unknown_outcome() {
    let scratch = TestDirectory::in_memory().unwrap();
    let now = noon();
    let process = start(scratch.path(), 100, 16 << 20, now);
    process.ask(1, Some("done"), true, End::Answered, now).unwrap();
    process.ask(1, Some("refused"), true, End::Refused, now).unwrap();
    process.ask(1, Some("under way"), true, End::Never, now).unwrap();
    drop(process);
    for _ in 0..2 {
        let process = start(scratch.path(), 100, 16 << 20, later(now, 5));
        assert_eq!(process.ask(1, Some("done"), true, End::Never, now), Err("Completed".to_owned()));
        assert_eq!(
            process.ask(1, Some("under way"), true, End::Never, now),
            Err("OutcomeUnknown".to_owned())
        );
        assert_eq!(process.ask(1, Some("refused"), true, End::Refused, now), Ok(()));
        assert_eq!(
            process.ask(9, Some("done"), true, End::Refused, now),
            Ok(()),
            "another caller's is another"
        );
    }
    let much_later = later(now, 631);
    let process = start(scratch.path(), 100, 16 << 20, much_later);
    for name in ["done", "under way"] {
        assert_eq!(process.ask(1, Some(name), true, End::Refused, much_later), Ok(()), "{name} is forgotten");
    }
}

#[test]
fn counts_survive_checkpoints_and_limits_that_change_meanwhile() {
    let scratch = TestDirectory::in_memory().unwrap();
    let mut now = noon();
    // Segments of a few records, so that checkpoints have covered most of it.
    let process = start(scratch.path(), 400, 2_000, now);
    for request in 0..300 {
        process.ask(request % 3, None, true, End::Answered, now).unwrap();
    }
    drop(process);
    now = later(now, 10);
    let process = start(scratch.path(), 101, 2_000, now);
    for caller in 0..3 {
        assert_eq!(process.ask(caller, None, true, End::Answered, now), Ok(()), "one more than the hundred");
        assert!(process.ask(caller, None, true, End::Answered, now).is_err());
    }
}

#[test]
fn opening_the_directory_without_limits_loses_no_counts() {
    let scratch = TestDirectory::in_memory().unwrap();
    let now = noon();
    let process = start(scratch.path(), 1, 16 << 20, now);
    process.ask(1, None, true, End::Answered, now).unwrap();
    drop(process);
    for _ in 0..2 {
        assert!(EmbeddedStore::open(scratch.path(), options(), now).unwrap().quotas.is_none());
    }
    assert!(start(scratch.path(), 1, 16 << 20, now).ask(1, None, true, End::Answered, now).is_err());
}
