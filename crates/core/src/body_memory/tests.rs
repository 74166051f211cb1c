use super::{BodyMemory, BodyMemoryOptions, BodyOwner, BodyRefusal, ChargedBytes};
use crate::setting::Ratio;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

fn options(capacity: u64) -> BodyMemoryOptions {
    let half = Ratio::percent("share", 50.0).unwrap();
    let capacity = NonZeroU64::new(capacity).unwrap();
    BodyMemoryOptions { capacity, caller_share: half, address_share: half }
}

fn of(caller: u64, network: u128) -> BodyOwner {
    BodyOwner { caller, network: Some(network) }
}

#[test]
fn a_caller_has_its_share_and_no_more_and_the_others_have_the_rest() {
    let memory = BodyMemory::new(options(1_600));
    let mut first = memory.charge_empty(of(1, 1));
    assert_eq!(first.add(800), Ok(()));
    assert_eq!(first.add(1), Err(BodyRefusal::TooLarge(800)), "it alone would be larger than the share");
    let mut second = memory.charge_empty(of(1, 2));
    assert_eq!(second.add(1), Err(BodyRefusal::CallerShare));
    let mut third = memory.charge_empty(of(2, 1));
    assert_eq!(third.add(1), Err(BodyRefusal::NetworkShare));
    let mut fourth = memory.charge_empty(of(2, 2));
    assert_eq!(fourth.add(601), Err(BodyRefusal::Full), "the last eighth is for bodies of one piece");
    assert_eq!(fourth.add(600), Ok(()));
    let whole = memory.charge_whole(of(3, 3), 200).unwrap();
    assert_eq!(memory.charge_whole(of(3, 3), 1).unwrap_err(), BodyRefusal::Full);
    drop((first, fourth, whole));
    assert_eq!((memory.held(), second.add(800)), (0, Ok(())));
}

#[test]
fn a_caller_with_unread_responses_above_its_share_is_refused() {
    let memory = BodyMemory::new(options(1_600));
    let mut unread = memory.charge_empty(of(1, 1));
    unread.add_response(800);
    assert!(memory.charge_whole(of(1, 1), 10).is_ok(), "its share is used up, and not exceeded");
    unread.add_response(1);
    assert_eq!(memory.charge_whole(of(1, 9), 10).unwrap_err(), BodyRefusal::CallerShare);
    assert!(memory.charge_whole(of(2, 1), 10).is_ok(), "others are not concerned");
    assert_eq!(memory.held(), 0, "answers are not of the account");
    drop(unread);
    let body = memory.charge_whole(of(1, 1), 10).unwrap();
    let answer = body.into_response(900);
    assert_eq!((memory.held(), memory.charge_whole(of(1, 1), 10).err()), (0, Some(BodyRefusal::CallerShare)));
    drop(answer);
    assert!(memory.charge_whole(of(1, 1), 10).is_ok());
}

#[test]
fn other_limits_hold_from_the_next_byte_on() {
    let memory = BodyMemory::new(options(1_600));
    let mut held = memory.charge_empty(of(1, 1));
    held.add(500).unwrap();
    memory.set_limits(options(800));
    assert_eq!((held.add(1), memory.held(), memory.capacity()), (Err(BodyRefusal::TooLarge(400)), 500, 800));
    drop(held);
    assert_eq!(memory.held(), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Whole { caller: u64, network: Option<u128>, bytes: u64 },
    Open { caller: u64, network: Option<u128> },
    Add { which: usize, bytes: u64 },
    Answer { which: usize, bytes: u64 },
    Drop { which: usize },
}

fn steps() -> impl Strategy<Value = Step> {
    let network = || prop_oneof![Just(None), (0_u128..3).prop_map(|low| Some(low << 64))];
    prop_oneof![
        (0_u64..4, network(), 0_u64..300).prop_map(|(caller, network, bytes)| Step::Whole {
            caller,
            network,
            bytes
        }),
        (0_u64..4, network()).prop_map(|(caller, network)| Step::Open { caller, network }),
        (0_usize..8, 0_u64..300).prop_map(|(which, bytes)| Step::Add { which, bytes }),
        (0_usize..8, 0_u64..600).prop_map(|(which, bytes)| Step::Answer { which, bytes }),
        (0_usize..8).prop_map(|which| Step::Drop { which }),
    ]
}

/// Naive reference: one row per holding, with all sums recomputed.
#[derive(Default)]
struct Naive(Vec<Row>);

#[derive(Clone, Copy)]
struct Row {
    of: BodyOwner,
    body: u64,
    shared: u64,
    answer: u64,
}

const CAPACITY: u64 = 1_600;

impl Naive {
    fn sum(&self, of: impl Fn(&Row) -> u64) -> u64 {
        self.0.iter().map(of).sum()
    }

    fn of_caller(&self, caller: u64) -> u64 {
        self.sum(|row| if row.of.caller == caller { row.shared + row.answer } else { 0 })
    }

    fn whole(&self, of: BodyOwner, bytes: u64) -> Result<(), BodyRefusal> {
        if self.of_caller(of.caller) > CAPACITY / 2 {
            return Err(BodyRefusal::CallerShare);
        }
        let fits = self.sum(|row| row.body) + bytes <= CAPACITY;
        if fits { Ok(()) } else { Err(BodyRefusal::Full) }
    }

    fn add(&self, row: &Row, bytes: u64) -> Result<(), BodyRefusal> {
        let of_address = |network: u128| {
            self.sum(|other| if other.of.network == Some(network) { other.shared } else { 0 })
        };
        if row.body + bytes > CAPACITY / 2 {
            Err(BodyRefusal::TooLarge(CAPACITY / 2))
        } else if self.sum(|row| row.body) + bytes > CAPACITY / 8 * 7 {
            Err(BodyRefusal::Full)
        } else if self.of_caller(row.of.caller) + bytes > CAPACITY / 2 {
            Err(BodyRefusal::CallerShare)
        } else if row.of.network.is_some_and(|network| of_address(network) + bytes > CAPACITY / 2) {
            Err(BodyRefusal::NetworkShare)
        } else {
            Ok(())
        }
    }
}

proptest! {
    #[test]
    fn decisions_match_a_recomputed_sum(steps in vec(steps(), 0..60)) {
        let memory = BodyMemory::new(options(CAPACITY));
        let (mut naive, mut held) = (Naive::default(), Vec::<ChargedBytes>::new());
        for step in steps {
            match step {
                Step::Whole { caller, network, bytes } => {
                    let of = BodyOwner { caller, network };
                    let decided = memory.charge_whole(of, bytes);
                    prop_assert_eq!(decided.as_ref().map(|_| ()).map_err(|refusal| *refusal), naive.whole(of, bytes));
                    if let Ok(more) = decided {
                        held.push(more);
                        naive.0.push(Row { of, body: bytes, shared: 0, answer: 0 });
                    }
                }
                Step::Open { caller, network } => {
                    let of = BodyOwner { caller, network };
                    held.push(memory.charge_empty(of));
                    naive.0.push(Row { of, body: 0, shared: 0, answer: 0 });
                }
                Step::Add { which, bytes } => {
                    let Some(row) = naive.0.get(which).copied() else { continue };
                    let expected = naive.add(&row, bytes);
                    prop_assert_eq!(held[which].add(bytes), expected);
                    if expected.is_ok() {
                        naive.0[which].body += bytes;
                        naive.0[which].shared += bytes;
                    }
                }
                Step::Answer { which, bytes } => {
                    let Some(row) = naive.0.get_mut(which) else { continue };
                    held[which].add_response(bytes);
                    row.answer += bytes;
                }
                Step::Drop { which } if which < held.len() => {
                    drop(held.remove(which));
                    naive.0.remove(which);
                }
                Step::Drop { .. } => {}
            }
            prop_assert_eq!(memory.held(), naive.sum(|row| row.body));
        }
        drop(held);
        prop_assert_eq!(memory.held(), 0);
        prop_assert!(memory.0.owners.iter().all(|shard| shard.lock().unwrap().is_empty()), "no owner is remembered");
        prop_assert_eq!(memory.0.exceeded.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn threads_together_never_exceed_the_capacity_or_a_share() {
    let memory = BodyMemory::new(options(CAPACITY));
    let (most, admitted) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (memory, most, admitted) = (memory.clone(), &most, &admitted);
            scope.spawn(move || {
                for round in 0..2_000_u64 {
                    let mut held = memory.charge_empty(of(round % 3, u128::from(thread % 2)));
                    let sizes = [100, 300, 77];
                    let reserved: u64 = sizes.into_iter().filter(|bytes| held.add(*bytes).is_ok()).sum();
                    let here = admitted.fetch_add(reserved, Ordering::SeqCst) + reserved;
                    most.fetch_max(here, Ordering::SeqCst);
                    admitted.fetch_sub(reserved, Ordering::SeqCst);
                    drop(held);
                }
            });
        }
    });
    assert!(most.load(Ordering::SeqCst) <= CAPACITY / 8 * 7);
    assert_eq!(memory.held(), 0);
}
