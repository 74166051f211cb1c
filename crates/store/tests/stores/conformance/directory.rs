//! The directory: a credential belongs to one caller, and the first revocation counts.

use super::{Drive, Effort, Step, TestResult, at_once, explore, same, start};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Strategy, any, prop_assert_eq, prop_oneof};
use proptest::sample::select;
use seawall_core::budget::BudgetPeriod;
use seawall_core::money::Money;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Ceiling, Tier};
use seawall_store::{AddDecision, CallerRecord, CredentialHash, Directory, KeyContract, KeyLabels};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Operation {
    Find(u8),
    Add(u8, CallerRecord),
    Revoke(u8, UtcTime),
    Update(u8, CallerRecord),
    List(Option<u8>, usize),
    /// The name of the caller with this credential, if it is known.
    Named(u8),
}

fn credential(number: u8) -> CredentialHash {
    let mut hash = [number % 2 * 255; 32];
    hash[31] = number;
    CredentialHash(hash)
}

fn moments() -> impl Strategy<Value = UtcTime> {
    any::<u64>().prop_map(UtcTime::from_nanos)
}

fn clamps() -> impl Strategy<Value = Option<Ceiling>> {
    option::of(select(Ceiling::ALL.to_vec()))
}

fn tiers() -> impl Strategy<Value = Tier> {
    select(Tier::ALL.to_vec())
}

fn contracts() -> impl Strategy<Value = KeyContract> {
    let texts = || vec(".{0,5}".prop_map(Box::<str>::from), 0..3);
    let tags = vec((".{0,4}".prop_map(Box::<str>::from), ".{0,4}".prop_map(Box::<str>::from)), 0..3);
    let budgets = vec((select(BudgetPeriod::ALL.to_vec()), 0_u64..u64::MAX), 0..3);
    let labels = (option::of(".{0,6}".prop_map(Box::<str>::from)), tags);
    (labels, option::of(moments()), budgets, texts(), texts()).prop_map(
        |((team, tags), expires, budgets, limits, models)| KeyContract {
            labels: KeyLabels { team, tags: tags.into() },
            expires,
            budgets: budgets.into_iter().map(|(period, cap)| (period, Money::from_nanos(cap))).collect(),
            limits,
            models,
        },
    )
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let record = || {
        (any::<u64>(), ".{0,9}", tiers(), clamps(), moments(), (option::of(moments()), contracts())).prop_map(
            |(caller, name, tier, ceiling, created, (revoked, contract))| CallerRecord {
                caller,
                name: name.into(),
                tier,
                ceiling,
                created,
                revoked,
                contract,
            },
        )
    };
    let operation = prop_oneof![
        (0_u8..8).prop_map(Operation::Find),
        (0_u8..8, record()).prop_map(|(credential, record)| Operation::Add(credential, record)),
        (0_u8..8, moments()).prop_map(|(credential, at)| Operation::Revoke(credential, at)),
        (0_u8..8, record()).prop_map(|(credential, record)| Operation::Update(credential, record)),
        (0_u8..8).prop_map(Operation::Named),
        (option::of(0_u8..9), 0_usize..9).prop_map(|(after, limit)| Operation::List(after, limit)),
    ];
    vec(operation, 1..50)
}

/// Runs the suite against a directory.
pub(crate) fn directory<S: Directory>(
    effort: Effort,
    drive: &impl Drive,
    make: impl Fn() -> S,
) -> TestResult {
    explore(effort, &operations(), |operations| play(&make(), drive, operations))?;
    let store = make();
    let record = |caller| CallerRecord {
        caller,
        name: "ann".into(),
        tier: Tier::Guest,
        ceiling: None,
        created: start().utc,
        revoked: None,
        contract: KeyContract::default(),
    };
    for number in 0..20 {
        let added = at_once(effort.threads, |thread| {
            let decision = drive.drive(store.add(&credential(number), &record(thread))).unwrap();
            (decision == AddDecision::Added).then_some(thread)
        });
        let added: Vec<u64> = added.into_iter().flatten().collect();
        let found = drive.drive(store.find(&credential(number))).unwrap();
        same("who was added", added, found.iter().map(|record| record.caller).collect())?;
    }
    Ok(())
}

fn play(store: &impl Directory, drive: &impl Drive, operations: Vec<Operation>) -> Step {
    let mut known: BTreeMap<CredentialHash, CallerRecord> = BTreeMap::new();
    for operation in operations {
        match operation {
            Operation::Find(number) => {
                let seen = drive.drive(store.find(&credential(number))).unwrap();
                prop_assert_eq!(seen.as_ref(), known.get(&credential(number)));
            }
            Operation::Add(number, record) => {
                let seen = drive.drive(store.add(&credential(number), &record)).unwrap();
                let is_known = known.contains_key(&credential(number));
                prop_assert_eq!(seen, if is_known { AddDecision::AlreadyExists } else { AddDecision::Added });
                known.entry(credential(number)).or_insert(record);
            }
            Operation::Revoke(number, at) => {
                let seen = drive.drive(store.revoke(&credential(number), at)).unwrap();
                prop_assert_eq!(seen, known.contains_key(&credential(number)));
                if let Some(record) = known.get_mut(&credential(number)) {
                    record.revoked.get_or_insert(at);
                }
            }
            Operation::Update(number, update) => {
                let seen = drive.drive(store.update(&credential(number), &update)).unwrap();
                prop_assert_eq!(seen, known.contains_key(&credential(number)));
                if let Some(record) = known.get_mut(&credential(number)) {
                    let CallerRecord { caller, created, revoked, .. } = *record;
                    *record = CallerRecord { caller, created, revoked, ..update };
                }
            }
            Operation::Named(number) => {
                let name = known
                    .get(&credential(number))
                    .map_or_else(|| "nobody".into(), |record| record.name.clone());
                let named = known.iter().filter(|(_, record)| record.name == name);
                let expected: Vec<_> = named.map(|(hash, record)| (*hash, record.clone())).collect();
                prop_assert_eq!(drive.drive(store.named(&name)).unwrap(), expected);
            }
            Operation::List(after, limit) => {
                let after = after.map(credential);
                let is_later =
                    |(hash, _): &(&CredentialHash, &CallerRecord)| after.is_none_or(|after| **hash > after);
                let expected = known.iter().filter(is_later).take(limit);
                let expected: Vec<_> = expected.map(|(hash, record)| (*hash, record.clone())).collect();
                prop_assert_eq!(drive.drive(store.list(after, limit)).unwrap(), expected);
            }
        }
    }
    Ok(())
}
