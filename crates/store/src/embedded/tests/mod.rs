//! Unit tests of the embedded store.

mod blocks;
mod buffered;
mod counts;
mod damage;
mod extremes;
mod failing;
mod interrupted;
mod opening;
mod power;
mod recovery;
mod segments;
mod writing;

use super::{EmbeddedOptions, EmbeddedStore, OpenError, OpenedStore};
use crate::directory::{CallerRecord, CredentialHash, Directory};
use crate::ledger::{LeaseRequest, Ledger};
use crate::sessions::{RequestTokens, SessionKey, Sessions, StoredTurn};
use crate::switches::{ChangeOrder, SwitchChange, Switches};
use crate::usage::{CallId, Certainty, KeyLabels, SpendLabels, UsageEvent};
use crate::{StoreError, verify_trail};
use seawall_core::budget::{BudgetOptions, BudgetPeriod, LeaseId, PeriodCaps, WindowCaps};
use seawall_core::evaluator::Switch;
use seawall_core::history::Role;
use seawall_core::money::{Money, Usage};
use seawall_core::time::{Now, Timestamp, UtcTime};
use seawall_core::vocabulary::Tier;
pub(super) use seawall_testkit::block_on as wait;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) fn noon() -> Now {
    let noon = UtcTime::from_civil(2026, 11, 15) + Duration::from_secs(12 * 3_600);
    Now::new(Timestamp::ZERO + Duration::from_secs(1_000), noon)
}

pub(super) fn options() -> EmbeddedOptions {
    EmbeddedOptions::new(BudgetOptions::default().check().unwrap())
}

pub(super) fn open(data_dir: &Path) -> Result<OpenedStore, OpenError> {
    EmbeddedStore::open(data_dir, options(), noon())
}

/// Every file in a directory with its content, except the lock.
pub(super) fn contents(data_dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(data_dir).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.is_file() && path.file_name().is_none_or(|name| name != "lock"));
    files.map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

/// Budgets by calendar window that nothing exhausts.
pub(super) fn windows(has_team: bool) -> WindowCaps {
    let large = |period| PeriodCaps::from_iter([(period, Money::from_dollars(1_000_000))]);
    let team = if has_team { large(BudgetPeriod::Month) } else { PeriodCaps::NONE };
    WindowCaps { team: 9, caps: [large(BudgetPeriod::Hour), team, PeriodCaps::NONE], ..WindowCaps::default() }
}

/// Labels of a key, of a call without a key, or none.
pub(super) fn labels(number: u64) -> SpendLabels {
    let key = KeyLabels { team: Some("web".into()), tags: [("env".into(), "漫画".into())].into() };
    match number % 3 {
        0 => SpendLabels::default(),
        1 => SpendLabels { target: "t".into(), route: "r".into(), key: None },
        _ => SpendLabels { target: "t".into(), route: "r2".into(), key: Some(key.into()) },
    }
}

pub(super) fn event(number: u64) -> UsageEvent {
    UsageEvent {
        id: CallId { request: u128::from(number) << 64, attempt: 1 },
        at: noon().utc + Duration::from_millis(number),
        day: noon().utc.day(),
        caller: number % 3,
        tier: Tier::ALL[usize::try_from(number % 3).unwrap()],
        model: ["strong", "fast"][usize::try_from(number % 2).unwrap()].into(),
        usage: Usage { input: number, cache_read: 1, cache_write: 2, output: 3, ..Usage::default() },
        cost: Money::from_nanos(number + 1),
        certainty: Certainty::Reported,
        labels: labels(number),
    }
}

/// Stores something of every kind.
pub(super) fn fill(store: &EmbeddedStore) {
    let events: Vec<UsageEvent> = (0..200).map(event).collect();
    wait(Ledger::post(store, &events)).unwrap();
    let lease = LeaseId { day: noon().utc.day(), tier: Tier::Prime, node: 4, generation: 0 };
    let ask = LeaseRequest { lease, total: Money::from_nanos(500), term: Duration::from_secs(30) };
    let _ = wait(Ledger::lease(store, &ask, noon())).unwrap();
    let turn = StoredTurn { role: Role::User, text: "漫画".into(), tokens: 3, at: noon().utc };
    for request in 0..30 {
        let used = RequestTokens { input: 3, output: 1 };
        wait(store.append(&session(), request, std::slice::from_ref(&turn), used, noon())).unwrap();
        let record = CallerRecord {
            caller: 7,
            name: "ann".into(),
            tier: Tier::Guest,
            ceiling: None,
            created: noon().utc,
            revoked: None,
            contract: Default::default(),
        };
        let credential = CredentialHash([u8::try_from(request).unwrap(); 32]);
        let _ = wait(store.add(&credential, &record)).unwrap();
        let order = ChangeOrder {
            change: SwitchChange::Throw(Switch::OffPeak, request % 2 == 0),
            operator: "ann".into(),
            role: "ops".into(),
            reason: "to try".into(),
            at: noon().utc,
            refused: false,
        };
        let seen = wait(Switches::read(store)).unwrap().version;
        let _ = wait(store.apply(&order, seen)).unwrap();
    }
}

pub(super) fn session() -> SessionKey {
    SessionKey { caller: 7, name: "a long talk".into() }
}

/// Everything that [`fill`] has stored, as text, or the first error.
pub(super) fn read_all(store: &EmbeddedStore) -> Result<String, StoreError> {
    let (day, now) = (noon().utc.day(), noon());
    let time = UtcTime::from_nanos(0)..UtcTime::from_nanos(u64::MAX);
    let trail = wait(store.trail(0, 100))?;
    assert!(verify_trail(&trail).is_ok());
    Ok(format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {trail:?}",
        wait(store.day(day))?,
        wait(store.caller(day, 1))?,
        wait(store.top_spenders(day, 9))?,
        wait(Ledger::events(store, time, None, 1_000))?,
        wait(store.load(&session(), 100, now))?,
        wait(store.tokens(&session(), now))?,
        wait(store.list(None, 100))?,
        wait(Switches::read(store))?,
    ))
}
