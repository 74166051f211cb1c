//! Round trips of the record encoding.

#[cfg(feature = "embedded")]
use super::RecentNames;
use super::{InvalidRecord, JournalRecord};
use crate::node_ledger::{IdempotencyRecord, LimitCharge};
use crate::usage::{CallId, Certainty, KeyLabels, SpendLabels, UsageEvent};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;
use seawall_core::budget::{
    BudgetEntry, BudgetReservation, BudgetWindows, Correction, LeaseId, ReservationId,
};
use seawall_core::money::{Money, Usage};
use seawall_core::quota::{MAX_SCOPES, QuotaUnits};
use seawall_core::time::{Timestamp, UtcTime};
use seawall_core::vocabulary::Tier;
use std::sync::Arc;

/// Numbers of every magnitude.
fn numbers() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0_u32..64).prop_map(|(number, shift)| number >> shift)
}

fn money() -> impl Strategy<Value = Money> {
    numbers().prop_map(Money::from_nanos)
}

fn ids() -> impl Strategy<Value = ReservationId> {
    numbers().prop_map(ReservationId)
}

fn usages() -> impl Strategy<Value = Usage> {
    [numbers(), numbers(), numbers(), numbers()].prop_map(|[input, cache_read, cache_write, output]| Usage {
        input,
        cache_read,
        cache_write,
        output,
        ..Usage::default()
    })
}

fn tiers() -> impl Strategy<Value = Tier> {
    select(Tier::ALL.to_vec())
}

fn leases() -> impl Strategy<Value = LeaseId> {
    (numbers(), tiers(), numbers(), numbers()).prop_map(|(day, tier, node, generation)| LeaseId {
        day,
        tier,
        node,
        generation,
    })
}

fn reservations() -> impl Strategy<Value = BudgetEntry> {
    let numbers = (ids(), numbers(), numbers(), numbers(), numbers(), numbers(), numbers());
    (numbers, tiers(), proptest::option::of(any::<u64>()), money(), windows()).prop_map(
        |((id, day, caller, generation, input, output, expires), tier, session, max_cost, windows)| {
            let expires = Timestamp::from_nanos(expires);
            BudgetEntry::Reserved(BudgetReservation {
                id,
                day,
                caller,
                tier,
                generation,
                session,
                input,
                output,
                max_cost,
                expires,
                windows,
            })
        },
    )
}

fn windows() -> impl Strategy<Value = BudgetWindows> {
    let some = (1_u16..1 << 15, any::<u32>(), any::<u64>());
    let some = some.prop_map(|(set, hour, team)| {
        let of_team = BudgetWindows::from_parts(set, hour, team);
        of_team.or_else(|| BudgetWindows::from_parts(set, hour, 0)).unwrap()
    });
    prop_oneof![Just(BudgetWindows::NONE), some]
}

fn labels() -> impl Strategy<Value = SpendLabels> {
    let tags = vec((".{0,4}", ".{0,4}"), 0..3);
    let key = (proptest::option::of(".{0,8}"), tags).prop_map(|(team, tags)| {
        let tags = tags.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Arc::new(KeyLabels { team: team.map(Into::into), tags })
    });
    let some = (".{0,9}", ".{0,9}", proptest::option::of(key)).prop_map(|(target, route, key)| SpendLabels {
        target: target.into(),
        route: route.into(),
        key,
    });
    prop_oneof![Just(SpendLabels::default()), some]
}

fn calls() -> impl Strategy<Value = CallId> {
    (any::<u128>(), any::<u32>()).prop_map(|(request, attempt)| CallId { request, attempt })
}

fn events() -> impl Strategy<Value = UsageEvent> {
    let id = calls();
    let certainty = select(Certainty::ALL.to_vec());
    let names = (".{0,30}", labels());
    (id, numbers(), numbers(), numbers(), tiers(), names, usages(), money(), certainty).prop_map(
        |(id, at, day, caller, tier, (model, labels), usage, cost, certainty)| UsageEvent {
            id,
            at: UtcTime::from_nanos(at),
            day,
            caller,
            tier,
            model: model.into(),
            labels,
            usage,
            cost,
            certainty,
        },
    )
}

fn begun() -> impl Strategy<Value = JournalRecord> {
    (reservations(), calls(), ".{0,30}", labels()).prop_map(|(entry, id, model, labels)| {
        let BudgetEntry::Reserved(reservation) = entry else { unreachable!("{entry:?}") };
        JournalRecord::CallStarted { reservation, id, model: model.into(), labels }
    })
}

fn ended() -> impl Strategy<Value = JournalRecord> {
    let certainty = select(Certainty::ALL.to_vec());
    (ids(), numbers(), usages(), money(), certainty).prop_map(|(reservation, at, usage, cost, certainty)| {
        JournalRecord::CallEnded { reservation, at: UtcTime::from_nanos(at), usage, cost, certainty }
    })
}

fn costs() -> impl Strategy<Value = QuotaUnits> {
    (any::<u32>(), any::<u32>()).prop_map(|(requests, tokens)| QuotaUnits { requests, tokens })
}

fn charges() -> impl Strategy<Value = LimitCharge> {
    let scopes = vec((any::<u64>(), prop_oneof![Just(0_u64), any::<u64>()]), 0..=MAX_SCOPES);
    (numbers(), costs(), scopes).prop_map(|(at, cost, scopes)| LimitCharge {
        at: UtcTime::from_nanos(at),
        cost,
        scopes: scopes.into_iter().collect(),
    })
}

fn names() -> impl Strategy<Value = IdempotencyRecord> {
    (any::<[u8; 32]>(), any::<u64>(), numbers()).prop_map(|(name, fingerprint, until)| IdempotencyRecord {
        key_hash: name,
        fingerprint,
        expires: UtcTime::from_nanos(until),
    })
}

fn counts() -> impl Strategy<Value = JournalRecord> {
    prop_oneof![
        (charges(), proptest::option::of(names()))
            .prop_map(|(charge, key)| JournalRecord::Admitted { charge, key }),
        (charges(), numbers(), costs()).prop_map(|(charge, at, actual)| JournalRecord::ChargeCorrected {
            charge,
            at: UtcTime::from_nanos(at),
            actual
        }),
        names().prop_map(JournalRecord::KeyCompleted),
        any::<[u8; 32]>().prop_map(JournalRecord::KeyReleased),
    ]
}

fn records() -> impl Strategy<Value = JournalRecord> {
    prop_oneof![
        counts(),
        begun(),
        ended(),
        reservations().prop_map(JournalRecord::Entry),
        (ids(), usages(), money()).prop_map(|(id, usage, cost)| JournalRecord::Entry(BudgetEntry::Posted {
            id,
            usage,
            cost
        })),
        ids().prop_map(|id| JournalRecord::Entry(BudgetEntry::Voided(id))),
        ids().prop_map(|id| JournalRecord::Entry(BudgetEntry::Expired(id))),
        (ids(), numbers(), any::<u64>(), select(Tier::ALL.to_vec()), money(), money()).prop_map(
            |(id, day, caller, tier, charged, cost)| {
                let correction = Correction { day, caller, tier, charged, cost };
                JournalRecord::Entry(BudgetEntry::Corrected { id, correction })
            }
        ),
        (leases(), money(), money()).prop_map(|(lease, granted, returned)| {
            JournalRecord::Entry(BudgetEntry::Leased { lease, granted, returned })
        }),
        (leases(), money())
            .prop_map(|(lease, total)| JournalRecord::Entry(BudgetEntry::Returned { lease, total })),
        events().prop_map(JournalRecord::Event),
        (ids(), calls(), ".{0,30}").prop_map(|(reservation, id, model)| JournalRecord::CallAssigned {
            reservation,
            id,
            model: model.into()
        }),
    ]
}

#[test]
fn the_bytes_of_a_record_do_not_change_between_versions() {
    let lease = LeaseId { day: 20_773, tier: Tier::Guest, node: 258, generation: 1 };
    let record = JournalRecord::Entry(BudgetEntry::Returned { lease, total: Money::from_nanos(300) });
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    assert_eq!(bytes, [1, 5, 0xa5, 0xa2, 1, 2, 2, 1, 0, 0, 0, 0, 0, 0, 1, 0xac, 2]);
}

#[test]
fn the_bytes_of_a_call_do_not_change_between_versions() {
    let reservation = BudgetReservation {
        id: ReservationId(300),
        day: 20_773,
        caller: 258,
        tier: Tier::Guest,
        generation: 1,
        session: Some(259),
        input: 4,
        output: 5,
        max_cost: Money::from_nanos(6),
        expires: Timestamp::from_nanos(7),
        windows: BudgetWindows::NONE,
    };
    let (id, model) = (CallId { request: 9, attempt: 128 }, "m".into());
    let mut bytes = Vec::new();
    let labels = SpendLabels::default();
    JournalRecord::CallStarted { reservation, id, model, labels }.encode(&mut bytes);
    let (hash, session) = ([2, 1, 0, 0, 0, 0, 0, 0], [3, 1, 0, 0, 0, 0, 0, 0]);
    let request = [[9].as_slice(), &[0; 15]].concat();
    let parts = [&[1, 8, 0xac, 2, 0xa5, 0xa2, 1][..], &hash, &[2, 1, 1], &session, &[4, 5, 6, 7], &request];
    assert_eq!(bytes, [parts.concat(), vec![0x80, 1, 1, b'm']].concat());
    let usage = Usage { input: 1, cache_read: 2, cache_write: 3, output: 4, ..Usage::default() };
    let (at, cost) = (UtcTime::from_nanos(5), Money::from_nanos(6));
    let ended = JournalRecord::CallEnded {
        reservation: ReservationId(300),
        at,
        usage,
        cost,
        certainty: Certainty::Maximum,
    };
    bytes.clear();
    ended.encode(&mut bytes);
    assert_eq!(bytes, [1, 9, 0xac, 2, 5, 1, 2, 3, 4, 6, 2]);
    assert_eq!(ended.entry(), Some(BudgetEntry::Posted { id: ReservationId(300), usage, cost }));
}

#[test]
fn an_unknown_version_or_kind_is_refused() {
    let mut bytes = Vec::new();
    JournalRecord::Entry(BudgetEntry::Voided(ReservationId(7))).encode(&mut bytes);
    assert_eq!(bytes, [1, 2, 7]);
    for wrong in [[2, 2, 7], [0, 2, 7], [1, 12, 7], [1, 255, 7]] {
        assert_eq!(JournalRecord::decode(&wrong), Err(InvalidRecord));
    }
}

#[cfg(feature = "embedded")]
#[test]
fn records_in_a_row_have_one_name_for_one_model() {
    let attempt = |model: &str| {
        let (reservation, id) = (ReservationId(1), CallId { request: 2, attempt: 0 });
        JournalRecord::CallAssigned { reservation, id, model: model.into() }
    };
    let mut last = RecentNames::default();
    let mut read = |model: &str| {
        let mut bytes = Vec::new();
        attempt(model).encode(&mut bytes);
        match JournalRecord::decode_after(&bytes, &mut last) {
            Ok(JournalRecord::CallAssigned { model, .. }) => model,
            other => panic!("{other:?}"),
        }
    };
    let [first, second, other, back] = ["strong", "strong", "swift", "strong"].map(&mut read);
    assert_eq!([&*first, &*second, &*other, &*back], ["strong", "strong", "swift", "strong"]);
    assert!(Arc::ptr_eq(&first, &second) && !Arc::ptr_eq(&first, &back));
}

proptest! {
    #[test]
    fn a_record_survives_and_is_refused_when_cut_or_too_long(record in records(), cut in any::<usize>()) {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        prop_assert_eq!(JournalRecord::decode(&bytes), Ok(record));
        prop_assert_eq!(JournalRecord::decode(&bytes[..cut % bytes.len()]), Err(InvalidRecord));
        bytes.push(0);
        prop_assert_eq!(JournalRecord::decode(&bytes), Err(InvalidRecord));
    }

    #[test]
    fn a_damaged_record_is_refused_or_is_another_that_is_written_so(
        record in records(),
        place in any::<usize>(),
        damage in 1_u8..,
    ) {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let place = place % bytes.len();
        bytes[place] ^= damage;
        if let Ok(other) = JournalRecord::decode(&bytes) {
            let mut again = Vec::new();
            other.encode(&mut again);
            prop_assert_eq!(again, bytes);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(rest in vec(any::<u8>(), 0..90), kind in 0_u8..25) {
        let bytes = [&[1, kind], rest.as_slice()].concat();
        for bytes in [&bytes, &rest] {
            if let Ok(record) = JournalRecord::decode(bytes) {
                let mut again = Vec::new();
                record.encode(&mut again);
                prop_assert_eq!(&again, bytes);
            }
        }
    }
}
