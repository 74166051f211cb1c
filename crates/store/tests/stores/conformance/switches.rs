//! Switches: an order applies to the version that its operator has seen, and every order is in the audit trail.

use super::{Drive, Effort, Step, TestResult, at_once, explore, same, start};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof};
use proptest::sample::select;
use seawall_core::evaluator::{Protection, Switch};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Ceiling, Mode};
use seawall_store::{ChangeDecision, ChangeOrder, SwitchChange, SwitchState, Switches, verify_trail};

#[derive(Clone, Debug)]
enum Operation {
    /// The order, and how many versions ago its operator read the state.
    Order(ChangeOrder, u64),
    Trail(u64, usize),
}

fn changes() -> impl Strategy<Value = SwitchChange> {
    prop_oneof![
        (select(Switch::ALL.to_vec()), any::<bool>())
            .prop_map(|(switch, on)| SwitchChange::Throw(switch, on)),
        (select(Protection::ALL.to_vec()), select(Mode::ALL.to_vec()))
            .prop_map(|(protection, mode)| SwitchChange::SetMode(protection, mode)),
        proptest::option::of(select(Ceiling::ALL.to_vec())).prop_map(SwitchChange::SetCeiling),
    ]
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let order = (changes(), [".{0,9}", ".{0,9}", ".{0,9}"], any::<u64>(), proptest::bool::weighted(0.2));
    let order = order.prop_map(|(change, [who, role, why], at, refused)| ChangeOrder {
        change,
        operator: who.into(),
        role: role.into(),
        reason: why.into(),
        at: UtcTime::from_nanos(at),
        refused,
    });
    let behind = prop_oneof![4 => 0_u64..1, 1 => 0_u64..3];
    let operation = prop_oneof![
        3 => (order, behind).prop_map(|(order, behind)| Operation::Order(order, behind)),
        1 => (0_u64..40, 0_usize..50).prop_map(|(from, limit)| Operation::Trail(from, limit)),
    ];
    vec(operation, 1..40)
}

/// Runs the suite against a store of switches.
pub(crate) fn switches<S: Switches>(effort: Effort, drive: &impl Drive, make: impl Fn() -> S) -> TestResult {
    explore(effort, &operations(), |operations| play(&make(), drive, operations))?;
    let store = make();
    let carried_out = at_once(effort.threads, |thread| {
        let mut carried_out = 0_u64;
        for round in 0..20_u64 {
            let refused = (round + thread) % 5 == 0;
            let order = ChangeOrder {
                change: SwitchChange::Throw(Switch::OffPeak, thread % 2 == 0),
                operator: format!("{thread}").into(),
                role: "ops".into(),
                reason: "to try".into(),
                at: start().utc,
                refused,
            };
            let seen = drive.drive(store.read()).unwrap().version;
            let decision = drive.drive(store.apply(&order, seen)).unwrap();
            carried_out += u64::from(matches!(decision, ChangeDecision::Recorded(_)) && !refused);
        }
        carried_out
    });
    let carried_out: u64 = carried_out.into_iter().sum();
    same("the version", drive.drive(store.read()).unwrap().version, carried_out)?;
    let trail = drive.drive(store.trail(0, usize::MAX)).unwrap();
    same(
        "orders on the trail",
        trail.iter().filter(|record| !record.order.refused).count() as u64,
        carried_out,
    )?;
    same(
        "attempts on the trail",
        trail.iter().filter(|record| record.order.refused).count() as u64,
        effort.threads * 4,
    )?;
    verify_trail(&trail).map_err(|broken| broken.to_string())
}

fn play(store: &impl Switches, drive: &impl Drive, operations: Vec<Operation>) -> Step {
    let mut state = SwitchState::default();
    let mut orders: Vec<ChangeOrder> = Vec::new();
    prop_assert_eq!(drive.drive(store.read()).unwrap(), state);
    for operation in operations {
        match operation {
            Operation::Order(order, behind) => {
                let seen = state.version.wrapping_sub(behind);
                let decision = drive.drive(store.apply(&order, seen)).unwrap();
                if behind > 0 && !order.refused {
                    prop_assert_eq!(decision, ChangeDecision::Outdated(state));
                } else {
                    if !order.refused {
                        state.version += 1;
                        match order.change {
                            SwitchChange::Throw(switch, on) => state.protections.set_switch(switch, on),
                            SwitchChange::SetMode(protection, mode) => {
                                state.protections.set_mode(protection, mode);
                            }
                            SwitchChange::SetCeiling(ceiling) => state.ceiling = ceiling,
                            SwitchChange::CorrectPosting(_) => {}
                        }
                    }
                    prop_assert_eq!(decision, ChangeDecision::Recorded(state));
                    orders.push(order);
                }
                prop_assert_eq!(drive.drive(store.read()).unwrap(), state);
            }
            Operation::Trail(from, limit) => {
                let records = drive.drive(store.trail(from, limit)).unwrap();
                let from = usize::try_from(from).unwrap().min(orders.len());
                let expected = &orders[from..orders.len().min(from + limit)];
                let seen: Vec<_> = records.iter().map(|record| record.order.clone()).collect();
                prop_assert_eq!(seen, expected);
                prop_assert!(records.first().is_none_or(|record| record.number == from as u64));
                prop_assert_eq!(verify_trail(&records), Ok(()));
            }
        }
    }
    Ok(())
}
