//! Simulated power cuts: the database in every state that a disk may leave.
//!
//! Everything that the database does to its file is recorded. Then the file is rebuilt as of a power cut: all writes
//! before the last sync are present; of the later ones some are present, some are missing and some are torn.

use super::{contents, event, noon, open, wait};
use crate::embedded::data_dir::DATABASE_FILE;
use crate::embedded::ledger::post;
use crate::embedded::rows::Batch;
use crate::embedded::writer::begin;
use crate::ledger::Ledger;
use crate::lock;
use redb::{Builder, StorageBackend};
use seawall_testkit::TestDirectory;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex};

/// The unit that a disk writes atomically.
const SECTOR: usize = 512;
const TRANSACTIONS: u64 = 12;
const CUTS: u64 = 300;

#[derive(Clone, Debug)]
pub(super) enum DiskOperation {
    Write(u64, Vec<u8>),
    SetLength(u64),
    Sync,
}

#[derive(Debug, Default)]
pub(super) struct Tape {
    pub(super) image: Vec<u8>,
    pub(super) operations: Vec<DiskOperation>,
}

#[derive(Clone, Debug)]
pub(super) struct Recorder(pub(super) Arc<Mutex<Tape>>);

fn position(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

pub(super) fn apply(image: &mut Vec<u8>, operation: &DiskOperation) {
    match operation {
        DiskOperation::Write(offset, bytes) => {
            let end = position(*offset) + bytes.len();
            image.resize(image.len().max(end), 0);
            image[position(*offset)..end].copy_from_slice(bytes);
        }
        DiskOperation::SetLength(length) => image.resize(position(*length), 0),
        DiskOperation::Sync => {}
    }
}

impl Recorder {
    fn record(&self, operation: DiskOperation) {
        let mut tape = lock(&self.0);
        apply(&mut tape.image, &operation);
        tape.operations.push(operation);
    }
}

impl StorageBackend for Recorder {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(lock(&self.0).image.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let tape = lock(&self.0);
        let found = tape.image.get(position(offset)..position(offset) + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> Result<(), io::Error> {
        self.record(DiskOperation::SetLength(length));
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.record(DiskOperation::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.record(DiskOperation::Write(offset, data.to_vec()));
        Ok(())
    }
}

pub(super) fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*state >> 40).unwrap()
}

/// The content of the disk when the power fails after these operations.
pub(super) fn image_at(first: &[u8], operations: &[DiskOperation], state: &mut u64) -> Vec<u8> {
    let synced =
        operations.iter().rposition(|operation| matches!(operation, DiskOperation::Sync)).unwrap_or(0);
    let mut image = first.to_vec();
    for operation in &operations[..synced] {
        apply(&mut image, operation);
    }
    for operation in &operations[synced..] {
        match (next(state) % 3, operation) {
            (0, _) => {}
            (1, DiskOperation::Write(offset, bytes)) => {
                let written = next(state) % (bytes.len() / SECTOR + 1) * SECTOR;
                apply(&mut image, &DiskOperation::Write(*offset, bytes[..written].to_vec()));
            }
            (_, operation) => apply(&mut image, operation),
        }
    }
    image
}

#[test]
fn after_a_power_failure_the_database_opens_with_all_acknowledged_calls() {
    let scratch = TestDirectory::in_memory().unwrap();
    drop(open(scratch.path()).unwrap());
    let empty = contents(scratch.path());
    let first = empty[&scratch.path().join(DATABASE_FILE)].clone();
    let recorder = Recorder(Arc::new(Mutex::new(Tape { image: first.clone(), operations: Vec::new() })));
    let database = Builder::new().create_with_backend(recorder.clone()).unwrap();
    let mut answered = Vec::new();
    for number in 0..TRANSACTIONS {
        let transaction = begin(&database).unwrap();
        let events: Vec<_> = (number * 30..number * 30 + 30).map(event).collect();
        post(&mut Batch::new(&transaction), &events).unwrap();
        transaction.commit().unwrap();
        answered.push(lock(&recorder.0).operations.len());
    }
    let operations = lock(&recorder.0).operations.clone();
    let mut state = 7;
    for round in 0..CUTS {
        let cut = next(&mut state) % (operations.len() + 1);
        let image = image_at(&first, &operations[..cut], &mut state);
        fs::remove_dir_all(scratch.path()).unwrap();
        fs::create_dir_all(scratch.path()).unwrap();
        for (path, bytes) in &empty {
            fs::write(path, bytes).unwrap();
        }
        fs::write(scratch.path().join(DATABASE_FILE), image).unwrap();
        let store =
            open(scratch.path()).unwrap_or_else(|refusal| panic!("round {round}, {cut}: {refusal}")).store;
        let day = wait(store.day(noon().utc.day())).unwrap();
        let calls: u64 = day.tiers.iter().map(|tier| tier.calls).sum();
        let min_batches = answered.iter().filter(|end| **end <= cut).count() as u64;
        assert!(
            calls == min_batches * 30 || calls == (min_batches + 1) * 30,
            "round {round}, {cut}: {calls}, {min_batches}"
        );
        let cost: u64 = (0..calls).map(|number| number + 1).sum();
        assert_eq!(day.tiers.iter().map(|tier| tier.cost.as_nanos()).sum::<u64>(), cost);
    }
}
