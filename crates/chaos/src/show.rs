//! What is to be seen while it runs: a bar on a terminal, a line per trouble elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

/// Where it is shown.
#[derive(Clone)]
pub(crate) struct Screen(Option<ProgressBar>);

impl Screen {
    pub(crate) fn new(whole: Duration) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(millis(whole));
            // The template is ours; if it were wrong, the usual one would do.
            if let Ok(style) = ProgressStyle::with_template("{bar:40.cyan/blue} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self(bar)
    }

    /// So much of the time is over.
    pub(crate) fn at(&self, at: Duration) {
        if let Some(bar) = &self.0 {
            bar.set_position(millis(at));
        }
    }

    /// This is happening.
    pub(crate) fn say(&self, line: &str) {
        match &self.0 {
            Some(bar) => bar.set_message(line.to_owned()),
            None => {
                let mut out = std::io::stdout().lock();
                // Whoever no longer reads need not be told.
                let _ = writeln!(out, "{line}").and_then(|()| out.flush());
            }
        }
    }

    /// Makes room for what is told at the end.
    pub(crate) fn close(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
