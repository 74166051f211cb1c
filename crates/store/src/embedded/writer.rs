//! The one thread that writes.
//!
//! Requests arrive in a channel. Whatever has arrived is worked off in one transaction, which is then made durable once for
//! all of them; only then is anybody answered. So the more are waiting, the less each of them costs, and an answer means
//! that a power cut takes nothing back.
//!
//! **What it will not do.** It does not go on after a transaction that failed: what is on disk is then behind what is in
//! memory. Every later request is told so until the folder is opened again.

use super::answer::{Answer, promise};
use super::rows::{Batch, failure, guarded};
use super::shelf::Shelf;
use crate::{StoreError, lock};
use redb::{Database, WriteTransaction};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// So many requests at most share a transaction: the first of them must not wait for ever.
const MOST_TOGETHER: usize = 4_096;
/// Tells whoever asked what became of it.
type Reply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// What came of a task.
enum Outcome {
    /// To be told when it is durable.
    Done(Reply),
    /// If it has changed nothing yet, the others go on without it.
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

/// The writing thread. Dropped, it works off what has arrived and ends.
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
    pub(super) fn start(database: Arc<Database>, shelf: Arc<Mutex<Shelf>>) -> Self {
        let (orders, arriving) = channel();
        let thread = std::thread::spawn(move || Desk { database, shelf, failed: None }.run(&arriving));
        Self { orders, thread: Mutex::new(Some(thread)) }
    }

    /// Has this done inside a transaction. What it returns is told when that is durable.
    pub(super) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Batch<'_>, &mut Shelf) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<T> {
        let (promise, answer) = promise();
        self.write_then(work, move |outcome| promise.keep(outcome));
        answer
    }

    /// Has this done inside a transaction, and the second when that is durable. A writer that is gone does neither.
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
            // Whoever was woken may have let go of the store on this very thread, which cannot wait for itself.
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

struct Desk {
    database: Arc<Database>,
    shelf: Arc<Mutex<Shelf>>,
    failed: Option<StoreError>,
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
        if let Some(error) = &self.failed {
            for task in tasks {
                task.refuse(error.clone());
            }
            return;
        }
        let mut replies = Vec::new();
        let committed = guarded(|| commit(&self.database, &self.shelf, tasks, &mut replies));
        self.failed = committed.clone().err();
        for reply in replies {
            // Whoever is woken may run at once, here. What goes wrong there is not to end this thread: without it nothing
            // would be written any more.
            let _ = catch_unwind(AssertUnwindSafe(|| reply(committed.clone())));
        }
    }
}

fn commit(
    database: &Database,
    shelf: &Mutex<Shelf>,
    tasks: Vec<Box<dyn Task>>,
    replies: &mut Vec<Reply>,
) -> Result<(), StoreError> {
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
    // What changed nothing need not be made durable.
    if has_changed { transaction.commit().map_err(failure) } else { transaction.abort().map_err(failure) }
}

/// A transaction after which the file can be opened at once, however the process ends.
pub(super) fn begin(database: &Database) -> Result<WriteTransaction, StoreError> {
    let mut transaction = database.begin_write().map_err(failure)?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}
