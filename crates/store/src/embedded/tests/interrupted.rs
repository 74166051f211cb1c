//! Opening that is interrupted, by a kill or a power cut, at every step it takes with the database.

use super::power::{DiskOperation, Recorder, Tape, apply, image_at};
use super::{contents, event, noon, open, wait};
use crate::embedded::data_dir::DATABASE_FILE;
use crate::embedded::ledger::post;
use crate::embedded::rows::Batch;
use crate::embedded::staged_file::StagedFile;
use crate::embedded::writer::begin;
use crate::ledger::Ledger;
use crate::lock;
use redb::{Builder, Database, StorageBackend};
use seawall_testkit::TestDirectory;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex};

fn recorder(image: Vec<u8>) -> Recorder {
    Recorder(Arc::new(Mutex::new(Tape { image, operations: Vec::new() })))
}

fn commit(database: &Database, first: u64) {
    let transaction = begin(database).unwrap();
    let events: Vec<_> = (first..first + 30).map(event).collect();
    post(&mut Batch::new(&transaction), &events).unwrap();
    transaction.commit().unwrap();
}

/// The database of a process that was killed after some transactions.
fn killed(empty: &[u8]) -> Vec<u8> {
    let recorder = recorder(empty.to_vec());
    let database = Builder::new().create_with_backend(recorder.clone()).unwrap();
    for number in 0..8 {
        commit(&database, number * 30);
    }
    let image = lock(&recorder.0).image.clone();
    drop(database);
    image
}

#[test]
fn opening_that_is_interrupted_at_any_step_leaves_a_database_that_opens() {
    let scratch = TestDirectory::in_memory().unwrap();
    drop(open(scratch.path()).unwrap());
    let empty = contents(scratch.path());
    let first = killed(&empty[&scratch.path().join(DATABASE_FILE)]);
    // Records the steps of opening.
    let disk = recorder(first.clone());
    let file = StagedFile::with_backend(disk.clone()).unwrap();
    let mut builder = Builder::new();
    builder.set_repair_callback(redb::RepairSession::abort);
    let mut database = builder.create_with_backend(file.clone()).unwrap();
    let _ = database.check_integrity().unwrap();
    assert!(lock(&disk.0).operations.is_empty(), "nothing is written before the database has been validated");
    file.apply_staged().unwrap();
    let released = lock(&disk.0).operations.len();
    commit(&database, 240);
    let committed = lock(&disk.0).operations.len();
    drop(database);
    let operations = lock(&disk.0).operations.clone();
    println!("{released} {committed} {}", operations.len());
    let mut state = 3;
    for cut in 0..=operations.len() {
        let mut killed = first.clone();
        for operation in &operations[..cut] {
            apply(&mut killed, operation);
        }
        let mut images = vec![killed];
        images.extend((0..8).map(|_| image_at(&first, &operations[..cut], &mut state)));
        for (position, image) in images.into_iter().enumerate() {
            for (path, bytes) in &empty {
                fs::write(path, bytes).unwrap();
            }
            fs::write(scratch.path().join(DATABASE_FILE), image).unwrap();
            let store =
                open(scratch.path()).unwrap_or_else(|refusal| panic!("{cut}, {position}: {refusal}")).store;
            let day = wait(store.day(noon().utc.day())).unwrap();
            let calls: u64 = day.tiers.iter().map(|tier| tier.calls).sum();
            assert!(calls == 270 || calls == 240 && cut < committed, "{cut}, {position}: {calls}");
            drop(store);
            fs::remove_dir_all(scratch.path()).unwrap();
            fs::create_dir_all(scratch.path()).unwrap();
        }
    }
}

#[test]
fn staged_writes_are_applied_and_synced_in_order() {
    let disk = recorder(vec![1; 10]);
    let file = StagedFile::with_backend(disk.clone()).unwrap();
    file.write(2, &[7, 7]).unwrap();
    file.sync_data().unwrap();
    file.set_len(3).unwrap();
    file.set_len(6).unwrap();
    file.write(5, &[9]).unwrap();
    let mut read = [4; 6];
    file.read(0, &mut read).unwrap();
    assert_eq!((read, file.len().unwrap()), ([1, 1, 7, 0, 0, 9], 6));
    assert!(file.read(1, &mut read).is_err());
    assert_eq!(lock(&disk.0).image, [1; 10]);
    file.apply_staged().unwrap();
    let operations = format!("{:?}", lock(&disk.0).operations);
    assert_eq!(operations, "[Write(2, [7, 7]), Sync, SetLength(3), SetLength(6), Write(5, [9]), Sync]");
    assert_eq!(lock(&disk.0).image, read);
    file.apply_staged().unwrap();
    assert_eq!(lock(&disk.0).operations.len(), 6);
}

/// A disk that is full after this many writes, and later has room again.
#[derive(Debug)]
struct Full(Recorder, Mutex<u32>);

impl StorageBackend for Full {
    fn len(&self) -> Result<u64, io::Error> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.0.read(offset, out)
    }

    fn set_len(&self, length: u64) -> Result<(), io::Error> {
        self.0.set_len(length)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let mut left = lock(&self.1);
        *left = left.wrapping_sub(1);
        if *left == u32::MAX { Err(io::ErrorKind::StorageFull.into()) } else { self.0.write(offset, data) }
    }
}

#[test]
fn nothing_is_written_after_a_failed_write() {
    let disk = recorder(vec![1; 10]);
    let file = StagedFile::with_backend(Full(disk.clone(), Mutex::new(1))).unwrap();
    for position in 0..3 {
        file.write(position, &[7]).unwrap();
    }
    assert!(file.apply_staged().is_err());
    assert!(file.write(9, &[8]).is_err() && file.sync_data().is_err() && file.set_len(2).is_err());
    assert!(file.read(0, &mut [0]).is_err() && file.len().is_err() && file.apply_staged().is_err());
    assert!(matches!(lock(&disk.0).operations[..], [DiskOperation::Write(0, _)]));
}
