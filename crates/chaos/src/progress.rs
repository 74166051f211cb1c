//! The progress display: a bar on a terminal, otherwise a line per fault.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

/// The display.
#[derive(Clone)]
pub(crate) struct ChaosProgress(Option<ProgressBar>);

impl ChaosProgress {
    pub(crate) fn new(whole: Duration) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(millis(whole));
            // The template is ours; if it were invalid, the default would do.
            if let Ok(style) = ProgressStyle::with_template("{bar:40.cyan/blue} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self(bar)
    }

    /// Updates the elapsed time.
    pub(crate) fn set_elapsed(&self, at: Duration) {
        if let Some(bar) = &self.0 {
            bar.set_position(millis(at));
        }
    }

    /// Prints a message.
    pub(crate) fn print_line(&self, line: &str) {
        match &self.0 {
            Some(bar) => bar.set_message(line.to_owned()),
            None => {
                let mut out = std::io::stdout().lock();
                // A closed output is ignored.
                let _ = writeln!(out, "{line}").and_then(|()| out.flush());
            }
        }
    }

    /// Clears the bar before the final report.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
