//! The writer: the one thread that modifies the database.
//!
//! Requests arrive through a channel. Everything that has arrived is run in one transaction, which is synced once for
//! all of them; replies are sent only after that (group commit). So the cost per request falls with the load, and a
//! reply means that a power cut loses nothing.
//!
//! **When a transaction fails.** The memory is then ahead of the disk. After a disk error, which may pass, the database
//! is reopened before the next request, and the state in memory is reset to that on disk. After any other error, every
//! later request fails until the directory is opened again.

use super::codec::STORE;
use super::data_dir::DataDir;
use super::database::ReopenableDatabase;
use super::leases::StoredLeases;
use super::reply::{ReplyReceiver, reply_channel};
use super::rows::{Batch, View, store_error};
use super::threads::{OwnedThread, StoreThread, ThreadSpawner};
use crate::{StoreError, lock};
use redb::{Database, WriteTransaction};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// The most requests in one transaction, because the first of them must not wait too long.
const MAX_TASKS: usize = 4_096;
/// Sends the outcome to the requester.
type ReplyCallback = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

enum TaskOutcome {
    /// To be replied to when the transaction is durable.
    Done(ReplyCallback),
    /// If the task has changed nothing, the transaction continues without it.
    Failed(ReplyCallback, StoreError),
}

/// Work inside a transaction.
trait WriteTask: Send {
    fn run(self: Box<Self>, batch: &mut Batch<'_>, leases: &mut StoredLeases) -> TaskOutcome;
    fn fail(self: Box<Self>, error: StoreError);
}

struct WriteRequest<T, F, R> {
    work: F,
    reply: R,
    output: PhantomData<fn() -> T>,
}

impl<T, F, R> WriteTask for WriteRequest<T, F, R>
where
    T: Send + 'static,
    F: FnOnce(&mut Batch<'_>, &mut StoredLeases) -> Result<T, StoreError> + Send,
    R: FnOnce(Result<T, StoreError>) + Send + 'static,
{
    fn run(self: Box<Self>, batch: &mut Batch<'_>, leases: &mut StoredLeases) -> TaskOutcome {
        let Self { work, reply, .. } = *self;
        match work(batch, leases) {
            Ok(value) => TaskOutcome::Done(Box::new(move |committed| reply(committed.map(|()| value)))),
            Err(error) => {
                let task_error = error.clone();
                TaskOutcome::Failed(
                    Box::new(move |outcome| reply(Err(outcome.err().unwrap_or(task_error)))),
                    error,
                )
            }
        }
    }

    fn fail(self: Box<Self>, error: StoreError) {
        (self.reply)(Err(error));
    }
}

enum WriterMessage {
    Write(Box<dyn WriteTask>),
    Stop,
}

/// The writer thread. When it is dropped, it finishes what has arrived and ends.
#[derive(Debug)]
pub(super) struct DatabaseWriter {
    messages: Sender<WriterMessage>,
    /// Stopped when it is dropped.
    _thread: OwnedThread,
}

impl DatabaseWriter {
    pub(super) fn start(
        threads: &dyn ThreadSpawner,
        data_dir: Arc<DataDir>,
        database: Arc<ReopenableDatabase>,
        leases: Arc<Mutex<StoredLeases>>,
        write_error: Arc<Mutex<Option<StoreError>>>,
    ) -> std::io::Result<Self> {
        let (messages, receiver) = channel();
        let mut writer_loop = WriterLoop { database, leases, failed: None, write_error, _data_dir: data_dir };
        let stop_messages = messages.clone();
        let thread = StoreThread {
            name: "store-writer",
            body: Box::new(move || writer_loop.run(&receiver)),
            stop: Arc::new(move || drop(stop_messages.send(WriterMessage::Stop))),
        };
        Ok(Self { messages, _thread: OwnedThread::start(threads, thread)? })
    }

    /// Runs the work inside a transaction. The future completes when that is durable.
    pub(super) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Batch<'_>, &mut StoredLeases) -> Result<T, StoreError> + Send + 'static,
    ) -> ReplyReceiver<T> {
        let (sender, receiver) = reply_channel();
        self.write_then(work, move |outcome| sender.send(outcome));
        receiver
    }

    /// Runs the work inside a transaction, and `reply` when that is durable. If the thread has ended, neither runs.
    pub(super) fn write_then<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Batch<'_>, &mut StoredLeases) -> Result<T, StoreError> + Send + 'static,
        reply: impl FnOnce(Result<T, StoreError>) + Send + 'static,
    ) {
        let _ = self.messages.send(WriterMessage::Write(Box::new(WriteRequest {
            work,
            reply,
            output: PhantomData,
        })));
    }
}

struct WriterLoop {
    database: Arc<ReopenableDatabase>,
    leases: Arc<Mutex<StoredLeases>>,
    /// Why nothing can be written before the database is reopened.
    failed: Option<StoreError>,
    /// The same error for readers outside this thread, until a write has succeeded.
    write_error: Arc<Mutex<Option<StoreError>>>,
    /// The directory stays locked as long as this thread can write.
    _data_dir: Arc<DataDir>,
}

impl WriterLoop {
    /// Commits what arrives until it is stopped. May be called again after a panic, because one in a transaction is
    /// caught and fails it.
    fn run(&mut self, receiver: &Receiver<WriterMessage>) {
        let mut is_stopping = false;
        while !is_stopping {
            let mut tasks = Vec::new();
            let mut next = receiver.recv().ok();
            is_stopping = next.is_none();
            while let Some(message) = next {
                match message {
                    WriterMessage::Write(task) => tasks.push(task),
                    WriterMessage::Stop => is_stopping = true,
                }
                next = if tasks.len() < MAX_TASKS { receiver.try_recv().ok() } else { None };
            }
            if !tasks.is_empty() {
                self.commit_tasks(tasks);
            }
        }
    }

    fn commit_tasks(&mut self, tasks: Vec<Box<dyn WriteTask>>) {
        if let Err(error) = self.reopen_if_failed() {
            for task in tasks {
                task.fail(error.clone());
            }
            return;
        }
        let previous = lock(&self.leases).clone();
        let mut replies = Vec::new();
        let committed = self.database.with(|database| commit(database, &self.leases, tasks, &mut replies));
        match &committed {
            Ok(true) => *lock(&self.write_error) = None,
            // A transaction without changes does not show whether writing works.
            Ok(false) => {}
            Err(error) => {
                *lock(&self.leases) = previous;
                self.failed = Some(error.clone());
                *lock(&self.write_error) = Some(error.clone());
            }
        }
        let committed = committed.map(|_| ());
        for reply in replies {
            // A reply may run the woken task right here. A panic in it must not end this thread, because nothing could
            // be written any more.
            let _ = catch_unwind(AssertUnwindSafe(|| reply(committed.clone())));
        }
    }

    /// Reopens the database after a disk error. The error is why nothing can be written.
    fn reopen_if_failed(&mut self) -> Result<(), StoreError> {
        let Some(error) = self.failed.take() else { return Ok(()) };
        let reopened = if error.is_transient() { self.reopen() } else { Err(error) };
        if let Err(error) = &reopened {
            self.failed = Some(error.clone());
            *lock(&self.write_error) = Some(error.clone());
        }
        reopened
    }

    fn reopen(&self) -> Result<(), StoreError> {
        self.database.reopen()?;
        let is_same =
            self.database.with(|database| lock(&self.leases).is_written_in(&mut View::new(database)?))?;
        // The disk may have reported a failure and still have written the data.
        if is_same {
            Ok(())
        } else {
            let reason = "after a failed write, the state on disk differs from the state in memory; restart the gateway";
            Err(StoreError::failed(STORE, reason))
        }
    }
}

/// Runs the tasks in one transaction. Returns whether anything was changed, which is then durable.
fn commit(
    database: &Database,
    leases: &Mutex<StoredLeases>,
    tasks: Vec<Box<dyn WriteTask>>,
    replies: &mut Vec<ReplyCallback>,
) -> Result<bool, StoreError> {
    let transaction = begin(database)?;
    let mut batch = Batch::new(&transaction);
    let mut leases = lock(leases);
    for task in tasks {
        let before = batch.changes();
        match task.run(&mut batch, &mut leases) {
            TaskOutcome::Done(reply) => replies.push(reply),
            TaskOutcome::Failed(reply, error) if batch.changes() == before => reply(Err(error)),
            TaskOutcome::Failed(reply, error) => {
                replies.push(reply);
                return Err(error);
            }
        }
    }
    drop(leases);
    let has_changed = batch.changes() > 0;
    drop(batch);
    // A transaction without changes needs no sync.
    if has_changed {
        transaction.commit().map_err(store_error)?;
    } else {
        transaction.abort().map_err(store_error)?;
    }
    Ok(has_changed)
}

/// A transaction after which the file can be opened without repair, however the process ends.
pub(super) fn begin(database: &Database) -> Result<WriteTransaction, StoreError> {
    let mut transaction = database.begin_write().map_err(store_error)?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}
