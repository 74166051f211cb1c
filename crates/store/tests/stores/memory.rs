//! The memory stores in the conformance suite.

use crate::conformance::{self, Effort, Parked};
use seawall_store::{
    MemoryAnswers, MemoryBoard, MemoryClaims, MemoryDirectory, MemoryLedger, MemoryProbes, MemoryQueue,
    MemoryQuotas, MemorySessions, MemorySwitches,
};

#[test]
fn quotas_in_memory_conform() {
    conformance::quotas(Effort::default(), &Parked, |groups| MemoryQuotas::new(groups, 1).unwrap()).unwrap();
}

#[test]
fn the_ledger_in_memory_conforms() {
    conformance::ledger(Effort::default(), &Parked, MemoryLedger::new).unwrap();
}

#[test]
fn sessions_in_memory_conform() {
    conformance::sessions(Effort::default(), &Parked, MemorySessions::new).unwrap();
}

#[test]
fn answers_in_memory_conform() {
    let make = |ages, options| MemoryAnswers::new(ages, options, 16).unwrap();
    conformance::answers(Effort::default(), &Parked, make).unwrap();
}

#[test]
fn the_directory_in_memory_conforms() {
    conformance::directory(Effort::default(), &Parked, MemoryDirectory::new).unwrap();
}

#[test]
fn switches_in_memory_conform() {
    conformance::switches(Effort::default(), &Parked, MemorySwitches::new).unwrap();
}

#[test]
fn the_board_in_memory_conforms() {
    conformance::board(Effort::default(), &Parked, MemoryBoard::new).unwrap();
}

#[test]
fn probes_in_memory_conform() {
    conformance::probes(Effort::default(), &Parked, MemoryProbes::new).unwrap();
}

#[test]
fn claims_in_memory_conform() {
    conformance::claims(Effort::default(), &Parked, MemoryClaims::new).unwrap();
}

#[test]
fn the_queue_in_memory_conforms() {
    conformance::queue(Effort::default(), MemoryQueue::new).unwrap();
}
