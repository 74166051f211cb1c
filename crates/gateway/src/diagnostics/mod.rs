//! Diagnostics: events that matter to an operator, written to standard error as text or as JSON lines.
//!
//! Every event is a row of the table in `event`, with a name that stays the same when its text changes, so that alerts
//! can match on it. [`diagnostic!`](crate::diagnostic) emits one through `tracing`. No event is emitted for a request
//! that succeeds.
//!
//! **Standard error may stall.** A full pipe blocks the writer. An event is therefore formatted where it
//! occurs, put into a bounded queue, and written by a thread of its own. When the queue is full, events are dropped and
//! counted, and nothing waits.
//!
//! **What it does not do.** It does not filter by an environment variable, and it does not show events of other
//! libraries: their texts may contain addresses or headers. Without [`Diagnostics::install`], which programs that draw
//! on the terminal leave out, events go nowhere.

pub mod event;
mod format;
mod queue;
mod reference;
mod sink;
#[cfg(test)]
pub(crate) mod tests;

pub use reference::diagnostics_reference;
pub use sink::DiagnosticSink;

use crate::runtime::TokioRuntime;
use crate::supervisor::{ShutdownStage, Supervisor, ThreadOptions};
use format::{ClockTime, TextFormat};
use queue::{DiagnosticQueue, QueueWriter};
use seawall_config::{DiagnosticFormat, DiagnosticLevel};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write;
use std::panic::PanicHookInfo;
use std::sync::Arc;
use tracing::Dispatch;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;

/// The target of every event of ours, which distinguishes them from those of other libraries.
#[doc(hidden)]
pub const TARGET: &str = "seawall";

/// Emits a diagnostic: a row of the table [`event`], its fields in the syntax of `tracing`, and the text for people. The
/// text contains everything that matters, because the text format shows no other field.
///
/// ```
/// use seawall_gateway::diagnostic;
/// diagnostic!(KEY_REVOKED, key = "k1", tier = "prime", "key k1 revoked (tier prime)");
/// ```
#[macro_export]
macro_rules! diagnostic {
    ($event:ident, $($fields_and_text:tt)+) => {
        $crate::tracing::event!(
            target: $crate::diagnostics::TARGET,
            $crate::diagnostics::event::$event.level(),
            event = $crate::diagnostics::event::$event.name(),
            $($fields_and_text)+
        )
    };
}

/// How diagnostics are written.
#[derive(Clone, Copy, Debug)]
pub struct DiagnosticsOptions {
    /// Text for people or JSON for programs.
    pub format: DiagnosticFormat,
    /// Events below this level are discarded.
    pub level: DiagnosticLevel,
    /// Whether the text format marks levels with colours, which only a terminal shows.
    pub colours: bool,
}

/// Why diagnostics cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum DiagnosticsError {
    /// The thread that writes them cannot be started.
    #[error("cannot start the diagnostics thread: {0}")]
    Thread(#[from] std::io::Error),
    /// The process has a subscriber already.
    #[error("diagnostics are installed already")]
    AlreadyInstalled(#[from] tracing::dispatcher::SetGlobalDefaultError),
}

/// A handle to the diagnostics of this process.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    queue: Arc<DiagnosticQueue>,
}

impl Diagnostics {
    /// Writes all events of the process to standard error from now on, and panics as well. The supervisor's last
    /// shutdown stage writes what is queued and ends this.
    pub fn install(
        options: DiagnosticsOptions,
        clock: TokioRuntime,
        supervisor: &Supervisor,
    ) -> Result<Self, DiagnosticsError> {
        let queue = Arc::<DiagnosticQueue>::default();
        start_writer(&queue, std::io::stderr(), supervisor)?;
        tracing::dispatcher::set_global_default(dispatch(options, clock, &queue))?;
        std::panic::set_hook(Box::new(report_panic));
        Ok(Self { queue })
    }

    /// The number of events that were dropped because standard error did not accept them in time.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }
}

/// Starts the thread that writes what is queued.
fn start_writer(
    queue: &Arc<DiagnosticQueue>,
    mut sink: impl Write + Send + 'static,
    supervisor: &Supervisor,
) -> std::io::Result<()> {
    let (closed_queue, queue) = (Arc::clone(queue), Arc::clone(queue));
    let options = ThreadOptions::new("diagnostics", ShutdownStage::Diagnostics)
        // It waits for the queue and not for the signal.
        .wake(move || closed_queue.close());
    supervisor.spawn(options, move |_| {
        queue.write_to(&mut sink);
        Ok(())
    })
}

fn dispatch(options: DiagnosticsOptions, clock: TokioRuntime, queue: &Arc<DiagnosticQueue>) -> Dispatch {
    let level = match options.level {
        DiagnosticLevel::Error => LevelFilter::ERROR,
        DiagnosticLevel::Warn => LevelFilter::WARN,
        DiagnosticLevel::Info => LevelFilter::INFO,
    };
    let events = tracing_subscriber::registry().with(Targets::new().with_target(TARGET, level));
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(QueueWriter(Arc::clone(queue)));
    match options.format {
        DiagnosticFormat::Text => {
            let format = TextFormat { clock: ClockTime(clock), colours: options.colours };
            Dispatch::new(events.with(layer.event_format(format)))
        }
        DiagnosticFormat::Json => {
            let json = layer.json().flatten_event(true).with_current_span(false).with_span_list(false);
            Dispatch::new(events.with(json.with_target(false).with_timer(ClockTime(clock))))
        }
    }
}

/// Why not the standard hook? It writes several lines of text directly to standard error: it may block there, and the
/// lines are no JSON.
fn report_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    let reason = panic.payload_as_str().unwrap_or("no message");
    let backtrace = Backtrace::capture();
    let details = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    diagnostic!(
        PANIC,
        thread,
        location,
        reason,
        details,
        "thread '{thread}' panicked at {location}: {reason}; this is a bug in Seawall: please report it"
    );
}
