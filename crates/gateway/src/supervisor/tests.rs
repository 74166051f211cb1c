//! Starting, restarting and stopping threads.

use super::thread::{RESTART_DELAY, run_once};
use super::{GatewayThreads, PanicCounts, ShutdownStage, StopSignal, Supervisor, ThreadOptions};
use crate::diagnostics::tests::events_of;
use crate::runtime::TokioRuntime;
use seawall_core::budget::{BudgetLimits, BudgetOptions};
use seawall_core::time::{Now, UtcTime};
use seawall_core::vocabulary::Tier;
use seawall_pipeline::Timer as _;
use seawall_store::embedded::{EmbeddedOptions, EmbeddedStore, OpenError, OpenedStore};
use seawall_store::{CallerRecord, CredentialHash, Directory as _};
use seawall_testkit::TestDirectory;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

fn block_on(work: impl Future) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work);
}

/// Starts a thread of this stage that notes its end.
fn spawn_noting(supervisor: &Supervisor, stage: ShutdownStage, ended: &Arc<Mutex<Vec<ShutdownStage>>>) {
    let ended = Arc::clone(ended);
    let thread = supervisor.spawn(ThreadOptions::new(format!("{stage:?}"), stage), move |shutdown| {
        block_on(shutdown.requested());
        ended.lock().unwrap().push(stage);
        Ok(())
    });
    thread.unwrap();
}

#[test]
fn stages_stop_one_after_the_other_whatever_the_order_of_their_start() {
    let (supervisor, ended) = (Supervisor::default(), Arc::default());
    for stage in ShutdownStage::ALL.into_iter().rev() {
        spawn_noting(&supervisor, stage, &ended);
        spawn_noting(&supervisor, stage, &ended);
    }
    assert!(ended.lock().unwrap().is_empty());
    assert!(supervisor.stop_through(ShutdownStage::Store, Duration::ZERO).is_empty());
    assert_eq!(ended.lock().unwrap().len(), 10, "the log and the diagnostics run on");
    assert!(supervisor.stop_through(ShutdownStage::Diagnostics, Duration::ZERO).is_empty());
    let order: Vec<ShutdownStage> = ShutdownStage::ALL.into_iter().flat_map(|stage| [stage; 2]).collect();
    assert_eq!(*ended.lock().unwrap(), order);
}

#[test]
fn listeners_receive_the_drain_timeout_and_have_that_long_to_stop() {
    let (supervisor, (sender, received)) = (Supervisor::default(), channel());
    let thread = supervisor.spawn(ThreadOptions::new("core-0", ShutdownStage::Listeners), move |shutdown| {
        block_on(async { sender.send(shutdown.requested().await).unwrap() });
        Ok(())
    });
    thread.unwrap();
    let drain_timeout = Duration::from_secs(7);
    assert!(ShutdownStage::Listeners.timeout(drain_timeout) > drain_timeout);
    assert!(supervisor.stop(ShutdownStage::Listeners, drain_timeout).is_empty());
    assert_eq!(received.recv().unwrap(), drain_timeout);
}

#[test]
fn a_panic_is_counted_and_the_thread_starts_again_with_its_state() {
    let (supervisor, runs) = (Supervisor::default(), Arc::new(AtomicU32::new(0)));
    let (counted, (sender, restarted), mut own_runs) = (Arc::clone(&runs), channel(), 0);
    let thread = supervisor.spawn(ThreadOptions::new("store", ShutdownStage::Store), move |shutdown| {
        own_runs += 1;
        counted.store(own_runs, Ordering::SeqCst);
        match own_runs {
            1 => panic!("on purpose"),
            2 => return Err(std::io::Error::other("no file descriptor is left")),
            _ => sender.send(()).unwrap(),
        }
        block_on(shutdown.requested());
        Ok(())
    });
    thread.unwrap();
    restarted.recv_timeout(20 * RESTART_DELAY).unwrap();
    assert_eq!(supervisor.panics(), [("store".to_owned(), 1)]);
    assert!(supervisor.stop(ShutdownStage::Store, Duration::ZERO).is_empty());
    assert_eq!(runs.load(Ordering::SeqCst), 3);
}

#[test]
fn panics_and_failures_are_reported_and_only_then_a_thread_starts_again() {
    let (_sender, mut signal) = StopSignal::new();
    let mut run = |body: fn() -> std::io::Result<()>| {
        let mut must_restart = false;
        let reported = events_of(|| {
            must_restart = run_once("store", &mut signal, &PanicCounts::default(), &mut |_| body());
        });
        (must_restart, reported)
    };
    assert_eq!(run(|| panic!("on purpose")), (true, vec!["background_thread_panicked".to_owned()]));
    assert_eq!(run(|| Err(std::io::Error::other("x"))), (true, vec!["background_thread_failed".to_owned()]));
    assert_eq!(run(|| Ok(())), (false, Vec::new()));
}

#[test]
fn a_shutdown_does_not_wait_for_a_restart() {
    let (supervisor, (sender, started)) = (Supervisor::default(), channel());
    let thread = supervisor.spawn(ThreadOptions::new("store", ShutdownStage::Store), move |_| {
        sender.send(()).unwrap();
        panic!("on purpose")
    });
    thread.unwrap();
    started.recv().unwrap();
    assert!(supervisor.stop(ShutdownStage::Store, Duration::ZERO).is_empty());
    assert!(started.recv().is_err(), "it ran once");
}

#[test]
fn a_thread_that_does_not_stop_is_left_behind_and_the_next_stage_stops() {
    let (supervisor, ended, runtime) = (Supervisor::default(), Arc::default(), TokioRuntime::new());
    let (hold, held) = channel::<()>();
    let stuck = supervisor.spawn(ThreadOptions::new("stuck", ShutdownStage::Log), move |_| {
        let _ = held.recv();
        Ok(())
    });
    stuck.unwrap();
    spawn_noting(&supervisor, ShutdownStage::Log, &ended);
    spawn_noting(&supervisor, ShutdownStage::Diagnostics, &ended);
    let began = runtime.monotonic();
    let reported = events_of(|| {
        assert_eq!(supervisor.stop_through(ShutdownStage::Diagnostics, Duration::ZERO), ["stuck"]);
    });
    assert_eq!(reported, ["background_thread_late"]);
    let took = runtime.monotonic() - began;
    assert!(took >= ShutdownStage::Log.timeout(Duration::ZERO) && took < Duration::from_secs(10), "{took:?}");
    assert_eq!(*ended.lock().unwrap(), [ShutdownStage::Log, ShutdownStage::Diagnostics]);
    drop(hold);
}

#[test]
fn a_thread_that_waits_for_something_else_is_woken() {
    let (supervisor, (wake, woken)) = (Supervisor::default(), channel());
    let options = ThreadOptions::new("access-log", ShutdownStage::Log).wake(move || wake.send(()).unwrap());
    let thread = supervisor.spawn(options, move |shutdown| {
        woken.recv().unwrap();
        assert!(shutdown.is_requested(), "the signal comes first");
        Ok(())
    });
    thread.unwrap();
    assert!(supervisor.stop(ShutdownStage::Log, Duration::ZERO).is_empty());
    assert_eq!(supervisor.panics(), [("access-log".to_owned(), 0)]);
}

#[test]
fn threads_of_a_gateway_that_is_dropped_stop_and_finished_ones_are_forgotten() {
    let (threads, ended) = (GatewayThreads(Supervisor::default()), Arc::default());
    let supervisor = threads.0.clone();
    supervisor.spawn(ThreadOptions::new("brief", ShutdownStage::KeyFetcher), |_| Ok(())).unwrap();
    while !supervisor.lock()[0].has_ended() {
        std::thread::yield_now();
    }
    spawn_noting(&supervisor, ShutdownStage::Admin, &ended);
    assert_eq!(supervisor.lock().len(), 1);
    drop(threads);
    assert_eq!(*ended.lock().unwrap(), [ShutdownStage::Admin]);
}

fn budget() -> BudgetLimits {
    BudgetOptions::default().check().unwrap()
}

/// A waker that blocks the thread that calls it.
struct BlockingWaker(Mutex<Receiver<()>>);

impl Wake for BlockingWaker {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().unwrap().recv();
    }
}

#[test]
fn a_shutdown_with_a_stuck_store_thread_ends_at_its_deadline() {
    let (supervisor, runtime) = (Supervisor::default(), TokioRuntime::new());
    let directory = TestDirectory::new().unwrap();
    let options =
        || EmbeddedOptions { threads: Arc::new(supervisor.clone()), ..EmbeddedOptions::new(budget()) };
    let OpenedStore { store, journal, .. } =
        EmbeddedStore::open(directory.path(), options(), Now::default()).unwrap();
    assert_eq!(supervisor.panics(), [("journal-flush".to_owned(), 0), ("store-writer".to_owned(), 0)]);
    // The writer wakes whoever waits for a write. It hangs there, as it would on a disk that hangs.
    let (release, held) = channel();
    let waker = Waker::from(Arc::new(BlockingWaker(Mutex::new(held))));
    let record = CallerRecord {
        caller: 1,
        name: "test".into(),
        tier: Tier::Prime,
        ceiling: None,
        created: UtcTime::from_nanos(0),
        revoked: None,
        contract: Default::default(),
    };
    let credential = CredentialHash([1; 32]);
    let mut adding = Box::pin(store.add(&credential, &record));
    assert!(adding.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let timeout = ShutdownStage::DataDir.timeout(Duration::ZERO);
    let began = runtime.monotonic();
    let reported = events_of(|| {
        assert_eq!(supervisor.stop_through(ShutdownStage::Log, Duration::ZERO), ["store-writer"]);
    });
    assert_eq!(reported, ["background_thread_late"]);
    // What is left is dropped without waiting for it again, and the directory stays locked for it.
    drop(adding);
    drop((journal, store));
    let took = runtime.monotonic() - began;
    assert!(took >= timeout && took < 2 * timeout, "{took:?}");
    let in_use = EmbeddedStore::open(directory.path(), options(), Now::default()).unwrap_err();
    assert!(matches!(in_use, OpenError::InUse { .. }), "{in_use}");
    // The thread ends when the disk goes on, and only then another process can open the directory.
    drop(release);
    while EmbeddedStore::open(directory.path(), options(), Now::default()).is_err() {
        std::thread::yield_now();
    }
}

#[test]
fn the_threads_of_a_store_end_with_it_and_another_one_can_open_its_directory() {
    let (supervisor, directory) = (Supervisor::default(), TestDirectory::new().unwrap());
    for _ in 0..3 {
        let options =
            EmbeddedOptions { threads: Arc::new(supervisor.clone()), ..EmbeddedOptions::new(budget()) };
        drop(EmbeddedStore::open(directory.path(), options, Now::default()).unwrap());
    }
    assert!(supervisor.stop_through(ShutdownStage::DataDir, Duration::ZERO).is_empty());
}
