//! The writer: the one thread that modifies the database.
//!
//! Requests arrive through a channel. Everything that has arrived is run in one transaction, which is synced once for
//! all of them; replies are sent only after that (group commit). So the cost per request falls with the load, and a
//! reply means that a power cut loses nothing.
//!
//! **When a transaction fails.** The memory is then ahead of the disk. After a disk error, which may pass, the database
//! is reopened before the next request, and the state in memory is reset to that on disk. After any other error, every
//! later request fails until the directory is opened again.

use super::answer::{Answer, promise};
use super::codec::STORE;
use super::open_books::OpenBooks;
use super::rows::{Batch, View, failure};
use super::shelf::Shelf;
use crate::{StoreError, lock};
use redb::{Database, WriteTransaction};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// The most requests in one transaction, because the first of them must not wait too long.
const MOST_TOGETHER: usize = 4_096;
/// Sends the outcome to the requester.
type Reply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// The outcome of a task.
enum Outcome {
    /// To be replied to when the transaction is durable.
    Done(Reply),
    /// If the task has changed nothing, the transaction continues without it.
    Failed(Reply, StoreError),
}

/// Work inside a transaction.
trait Task: Send {
    fn run(self: Box<Self>, batch: &mut Batch<'_>, shelf: &mut Shelf) -> Outcome;
    fn refuse(self: Box<Self>, error: StoreError);
}

struct Request<T, F, R> {
    work: F,
    reply: R,
    told: PhantomData<fn() -> T>,
}

impl<T, F, R> Task for Request<T, F, R>
where
    T: Send + 'static,
    F: FnOnce(&mut Batch<'_>, &mut Shelf) -> Result<T, StoreError> + Send,
    R: FnOnce(Result<T, StoreError>) + Send + 'static,
{
    fn run(self: Box<Self>, batch: &mut Batch<'_>, shelf: &mut Shelf) -> Outcome {
        let Self { work, reply, .. } = *self;
        match work(batch, shelf) {
            Ok(value) => Outcome::Done(Box::new(move |committed| reply(committed.map(|()| value)))),
            Err(error) => {
                let own = error.clone();
                Outcome::Failed(Box::new(move |outcome| reply(Err(outcome.err().unwrap_or(own)))), error)
            }
        }
    }

    fn refuse(self: Box<Self>, error: StoreError) {
        (self.reply)(Err(error));
    }
}

enum Order {
    Write(Box<dyn Task>),
    Stop,
}

/// The writer thread. When it is dropped, it finishes what has arrived and ends.
#[derive(Debug)]
pub(super) struct Writer {
    orders: Sender<Order>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    #[expect(
        clippy::disallowed_methods,
        reason = "the store owns this thread, and joins it when it is dropped"
    )]
    pub(super) fn start(
        books: Arc<OpenBooks>,
        shelf: Arc<Mutex<Shelf>>,
        write_error: Arc<Mutex<Option<StoreError>>>,
    ) -> Self {
        let (orders, arriving) = channel();
        let desk = Desk { books, shelf, failed: None, write_error };
        let thread = std::thread::spawn(move || desk.run(&arriving));
        Self { orders, thread: Mutex::new(Some(thread)) }
    }

    /// Runs the work inside a transaction. The future completes when that is durable.
    pub(super) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Batch<'_>, &mut Shelf) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<T> {
        let (promise, answer) = promise();
        self.write_then(work, move |outcome| promise.keep(outcome));
        answer
    }

    /// Runs the work inside a transaction, and `reply` when that is durable. If the thread has ended, neither runs.
    pub(super) fn write_then<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Batch<'_>, &mut Shelf) -> Result<T, StoreError> + Send + 'static,
        reply: impl FnOnce(Result<T, StoreError>) + Send + 'static,
    ) {
        let _ = self.orders.send(Order::Write(Box::new(Request { work, reply, told: PhantomData })));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::Stop);
        if let Some(thread) = lock(&self.thread).take()
            // A woken task may have dropped the last handle on this very thread, which cannot join itself.
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

struct Desk {
    books: Arc<OpenBooks>,
    shelf: Arc<Mutex<Shelf>>,
    /// Why nothing can be written before the database is reopened.
    failed: Option<StoreError>,
    /// The same error for readers outside this thread, until a write has succeeded.
    write_error: Arc<Mutex<Option<StoreError>>>,
}

impl Desk {
    fn run(mut self, arriving: &Receiver<Order>) {
        let mut is_over = false;
        while !is_over {
            let mut tasks = Vec::new();
            let mut next = arriving.recv().ok();
            is_over = next.is_none();
            while let Some(order) = next {
                match order {
                    Order::Write(task) => tasks.push(task),
                    Order::Stop => is_over = true,
                }
                next = if tasks.len() < MOST_TOGETHER { arriving.try_recv().ok() } else { None };
            }
            if !tasks.is_empty() {
                self.work_off(tasks);
            }
        }
    }

    fn work_off(&mut self, tasks: Vec<Box<dyn Task>>) {
        if let Err(error) = self.mend() {
            for task in tasks {
                task.refuse(error.clone());
            }
            return;
        }
        let before = lock(&self.shelf).clone();
        let mut replies = Vec::new();
        let committed = self.books.with(|database| commit(database, &self.shelf, tasks, &mut replies));
        match &committed {
            Ok(true) => *lock(&self.write_error) = None,
            // A transaction without changes does not show whether writing works.
            Ok(false) => {}
            Err(error) => {
                *lock(&self.shelf) = before;
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
    fn mend(&mut self) -> Result<(), StoreError> {
        let Some(error) = self.failed.take() else { return Ok(()) };
        let mended = if error.may_pass() { self.reopen() } else { Err(error) };
        if let Err(error) = &mended {
            self.failed = Some(error.clone());
            *lock(&self.write_error) = Some(error.clone());
        }
        mended
    }

    fn reopen(&self) -> Result<(), StoreError> {
        self.books.reopen()?;
        let is_same =
            self.books.with(|database| lock(&self.shelf).is_written_in(&mut View::new(database)?))?;
        // The disk may have reported a failure and still have written the data.
        if is_same {
            Ok(())
        } else {
            Err(StoreError::broken(STORE, "leases that were refused are in the books"))
        }
    }
}

/// Runs the tasks in one transaction. Returns whether anything was changed, which is then durable.
fn commit(
    database: &Database,
    shelf: &Mutex<Shelf>,
    tasks: Vec<Box<dyn Task>>,
    replies: &mut Vec<Reply>,
) -> Result<bool, StoreError> {
    let transaction = begin(database)?;
    let mut batch = Batch::new(&transaction);
    let mut shelf = lock(shelf);
    for task in tasks {
        let before = batch.changes();
        match task.run(&mut batch, &mut shelf) {
            Outcome::Done(reply) => replies.push(reply),
            Outcome::Failed(reply, error) if batch.changes() == before => reply(Err(error)),
            Outcome::Failed(reply, error) => {
                replies.push(reply);
                return Err(error);
            }
        }
    }
    drop(shelf);
    let has_changed = batch.changes() > 0;
    drop(batch);
    // A transaction without changes needs no sync.
    if has_changed {
        transaction.commit().map_err(failure)?;
    } else {
        transaction.abort().map_err(failure)?;
    }
    Ok(has_changed)
}

/// A transaction after which the file can be opened without repair, however the process ends.
pub(super) fn begin(database: &Database) -> Result<WriteTransaction, StoreError> {
    let mut transaction = database.begin_write().map_err(failure)?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}
