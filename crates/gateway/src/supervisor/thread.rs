//! One supervised thread: its stage, its restarts and its end.

use super::{PanicCounts, StopSignal};
use crate::diagnostic;
use crate::runtime::TokioRuntime;
use seawall_pipeline::Timer as _;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// The pause before a thread that panicked or failed is started again, so that one that always fails uses no CPU time.
pub(super) const RESTART_DELAY: Duration = Duration::from_secs(1);

/// The longest name that the kernel shows whole.
const MAX_NAME: usize = 15;

/// The order in which threads stop. A thread may use those of later stages until it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShutdownStage {
    /// The callers' listeners: they drain requests in flight.
    Listeners,
    /// The admin listener, so that an operator can watch the draining.
    Admin,
    /// The fetcher of issuers' keys, which only requests need.
    KeyFetcher,
    /// The shared store, which takes the settlements of the last requests.
    SharedStore,
    /// Store maintenance.
    Store,
    /// The embedded store, which writes what it has accepted.
    DataDir,
    /// The access log, which writes the lines of the last requests.
    Log,
    /// Diagnostics, which report on all others.
    Diagnostics,
}

impl ShutdownStage {
    pub(super) const ALL: [Self; 8] = [
        Self::Listeners,
        Self::Admin,
        Self::KeyFetcher,
        Self::SharedStore,
        Self::Store,
        Self::DataDir,
        Self::Log,
        Self::Diagnostics,
    ];

    /// How long the threads of this stage may take to stop: what they may wait for themselves, and a margin for a busy
    /// machine.
    pub(super) const fn timeout(self, drain_timeout: Duration) -> Duration {
        match self {
            // After draining they send errors to the callers that remain, for a second.
            Self::Listeners => drain_timeout.saturating_add(Duration::from_secs(10)),
            Self::Admin | Self::KeyFetcher => Duration::from_secs(2),
            // It settles what is queued for three seconds, and then signs off.
            Self::SharedStore => Duration::from_secs(8),
            // They may be in the middle of a write to a slow disk.
            Self::Store | Self::DataDir => Duration::from_secs(10),
            // A reader that has stopped reading does not delay the end.
            Self::Log | Self::Diagnostics => Duration::from_secs(1),
        }
    }
}

/// What a thread is called, when it stops, and how it is woken for that.
pub(crate) struct ThreadOptions {
    pub(super) name: String,
    pub(super) stage: ShutdownStage,
    wake: Option<Box<dyn Fn() + Send>>,
}

impl ThreadOptions {
    /// A thread that waits for its [`StopSignal`]. At most 15 bytes of the name are visible outside the process.
    pub(crate) fn new(name: impl Into<String>, stage: ShutdownStage) -> Self {
        let name = name.into();
        debug_assert!(name.len() <= MAX_NAME, "{name} is longer than the kernel shows");
        Self { name, stage, wake: None }
    }

    /// For a thread that waits for something else: `wake` is called after the signal was sent, and must end that wait.
    #[must_use]
    pub(crate) fn wake(mut self, wake: impl Fn() + Send + 'static) -> Self {
        self.wake = Some(Box::new(wake));
        self
    }
}

pub(super) struct SupervisedThread {
    name: String,
    pub(super) stage: ShutdownStage,
    stop: watch::Sender<Option<Duration>>,
    wake: Option<Box<dyn Fn() + Send>>,
    /// Closed when the thread has dropped everything that it held.
    ended: Receiver<()>,
    handle: JoinHandle<()>,
}

impl fmt::Debug for SupervisedThread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SupervisedThread")
            .field("name", &self.name)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

impl SupervisedThread {
    pub(super) fn start(
        options: ThreadOptions,
        runtime: TokioRuntime,
        panics: PanicCounts,
        mut body: impl FnMut(&mut StopSignal) -> std::io::Result<()> + Send + 'static,
    ) -> std::io::Result<Self> {
        let ThreadOptions { name, stage, wake } = options;
        let (stop, mut signal) = StopSignal::new();
        let (end, ended) = channel::<()>();
        let own_name = name.clone();
        let handle = std::thread::Builder::new().name(name.clone()).spawn(move || {
            while run_once(&own_name, &mut signal, &panics, &mut body) && pause(&signal, runtime) {}
            drop(body);
            drop(end);
        })?;
        Ok(Self { name, stage, stop, wake, ended, handle })
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.ended.try_recv(), Err(TryRecvError::Disconnected))
    }

    pub(super) fn request_stop(&self, drain_timeout: Duration) {
        // This fails only if the thread has ended already.
        let _ = self.stop.send(Some(drain_timeout));
        if let Some(wake) = &self.wake {
            wake();
        }
        // It may be in the pause before a restart.
        self.handle.thread().unpark();
    }

    /// Waits until it has ended, for at most `timeout`. Returns its name if it has not.
    pub(super) fn join(self, timeout: Duration) -> Result<(), String> {
        match self.ended.recv_timeout(timeout) {
            Err(RecvTimeoutError::Timeout) => Err(self.name),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                // A panic of the body was caught and counted; only a destructor could have panicked since.
                let _ = self.handle.join();
                Ok(())
            }
        }
    }
}

/// Runs the body once. Returns whether it must be started again.
pub(super) fn run_once(
    name: &str,
    signal: &mut StopSignal,
    panics: &PanicCounts,
    body: &mut impl FnMut(&mut StopSignal) -> std::io::Result<()>,
) -> bool {
    // See the module's documentation for why a body may be called again after a panic.
    let outcome = catch_unwind(AssertUnwindSafe(|| body(signal)));
    let is_stopping = signal.is_requested();
    let next = if is_stopping { "the shutdown continues" } else { "it is started again in a second" };
    match outcome {
        Ok(Ok(())) => return false,
        Ok(Err(error)) => {
            diagnostic!(THREAD_FAILED, thread = name, reason = %error, "the thread {name} failed: {error}; {next}");
        }
        Err(_) => {
            panics.add(name, 1);
            diagnostic!(THREAD_PANICKED, thread = name, "the thread {name} panicked; {next}");
        }
    }
    !is_stopping
}

/// Waits for the restart delay. Returns whether the thread may go on.
fn pause(signal: &StopSignal, runtime: TokioRuntime) -> bool {
    let until = runtime.monotonic() + RESTART_DELAY;
    while !signal.is_requested() {
        let now = runtime.monotonic();
        if now >= until {
            return true;
        }
        std::thread::park_timeout(until - now);
    }
    false
}
