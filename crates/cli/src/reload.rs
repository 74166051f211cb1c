//! Reloads settings while the gateway runs.
//!
//! The file is checked every second and applied once it was unchanged for two checks. A signal reloads everything at
//! once. Refused settings change nothing, and the reason is printed. If the reason may be temporary, such as a missing
//! secret, the reload is retried until the settings are accepted or changed. **What it does not do.** It does not apply
//! a file that has become empty and does not wait for a pipe: in both cases the user has not written any settings.

use crate::settings::{Origins, colours};
use seawall_config::{Loaded, Needs, Problems, Source, Written, diff};
use seawall_core::quota::LimitChange;
use seawall_gateway::Listening;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

/// Reloads settings and applies them to the gateway.
pub(crate) struct Reload {
    origins: Origins,
    /// The settings at startup: some of them stay in force until a restart.
    started: Arc<Written>,
    current: Arc<Written>,
    /// The content of the file at the last reload, successful or not.
    seen: Option<Arc<str>>,
    /// The content at the last check, if it differed: a file that is still being written is left alone.
    settling: Option<Arc<str>>,
    /// Why the gateway refused the file at the last reload.
    refused: Option<String>,
    /// Why the file could not be read at the last check, and whether that was reported.
    unread: Option<(String, bool)>,
}

impl Reload {
    /// For a gateway that was started with these settings.
    pub(crate) fn new(origins: Origins, started: Arc<Written>) -> Self {
        let (current, seen) = (Arc::clone(&started), started.text().cloned());
        Self { origins, current, started, seen, settling: None, refused: None, unread: None }
    }

    /// Checks whether the file has changed and is stable; call it about every second.
    pub(crate) fn look(&mut self, listening: &Listening) {
        if self.refused.is_none() && self.is_as_seen() {
            (self.unread, self.settling) = (None, None);
            return;
        }
        let file = match self.read() {
            Ok(None) => return,
            Ok(Some(file)) => file,
            Err(problem) => return self.miss(problem),
        };
        self.unread = None;
        if self.seen.as_ref() == Some(&file.text) {
            self.settling = None;
            if self.refused.is_some() {
                self.apply(Some(file), listening);
            }
        } else if self.settling.as_ref() == Some(&file.text) {
            self.refused = None;
            self.apply(Some(file), listening);
        } else {
            self.settling = Some(file.text);
        }
    }

    /// Whether the file is unchanged since the last reload. It is compared in pieces: otherwise a large file would be
    /// in memory twice every second.
    fn is_as_seen(&self) -> bool {
        let (Some(path), Some(seen)) = (&self.origins.file, &self.seen) else { return false };
        // Reading anything but a regular file could block.
        let is_as_long = |found: std::fs::Metadata| found.is_file() && found.len() == seen.len() as u64;
        std::fs::metadata(path).is_ok_and(is_as_long) && holds(path, seen.as_bytes()).unwrap_or(false)
    }

    /// Reloads everything because of a signal.
    pub(crate) fn now(&mut self, listening: &Listening) {
        self.refused = None;
        match self.read() {
            Ok(file) => self.apply(file, listening),
            Err(problem) => eprintln!("seawall: settings not changed: {problem}"),
        }
    }

    /// Reads the file, if there is one. Reading anything but a regular file could block forever, or find it consumed.
    fn read(&self) -> Result<Option<Source>, String> {
        let Some(path) = &self.origins.file else { return Ok(None) };
        match std::fs::metadata(path) {
            Ok(found) if !found.is_file() => return Err(format!("{} is not a file", path.display())),
            _ => {}
        }
        let file = self.origins.read().map_err(|problems| {
            let first = problems.list().first().map(|problem| problem.message.clone());
            first.unwrap_or_else(|| problems.to_string())
        })?;
        // The file was just truncated, to be rewritten or by accident. For intentionally empty settings a comment is
        // enough.
        match file {
            Some(file) if file.text.trim().is_empty() && self.seen.as_ref() != Some(&file.text) => {
                Err(format!("{} is empty", file.name))
            }
            file => Ok(file),
        }
    }

    /// A file that cannot be read may be in the middle of being replaced: it is reported only if that persists, and
    /// once.
    fn miss(&mut self, problem: String) {
        self.settling = None;
        self.unread = Some(match self.unread.take() {
            Some((before, told)) if before == problem => {
                if !told {
                    eprintln!("seawall: settings stay as they are: {problem}");
                }
                (problem, true)
            }
            _ => (problem, false),
        });
    }

    fn apply(&mut self, file: Option<Source>, listening: &Listening) {
        self.seen = file.as_ref().map(|file| Arc::clone(&file.text));
        self.settling = None;
        let Loaded { settings, warnings, written } = match self.origins.load(file) {
            Ok(loaded) => loaded,
            Err(problems) => {
                self.refused = None;
                return refuse(&problems);
            }
        };
        match listening.change(&settings) {
            Ok(limits) => {
                self.refused = None;
                if !warnings.is_empty() {
                    eprint!("{}", warnings.render(colours()));
                }
                eprint!("{}", self.report(&written, &limits));
                self.current = Arc::new(written);
                listening.show(&self.current);
            }
            Err(error) => {
                let reason = error.to_string();
                if self.refused.as_ref() != Some(&reason) {
                    eprintln!("seawall: settings not changed: {reason}");
                }
                self.refused = Some(reason);
            }
        }
    }

    /// A report of the changes: which have no effect yet, which need a restart, and what happened to changed limits.
    fn report(&self, written: &Written, limits: &[LimitChange]) -> String {
        let changes = diff(&*self.current, written);
        let of = |needs: Needs| -> Vec<&str> {
            changes.iter().filter(|change| change.needs == needs).map(|change| change.key.as_str()).collect()
        };
        let mut text = match of(Needs::Live).as_slice() {
            [] => "seawall: settings read again: nothing to change\n".to_owned(),
            keys => format!("seawall: settings changed: {}\n", keys.join(", ")),
        };
        for limit in limits.iter().filter(|limit| !limit.is_unchanged()) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "seawall:   limit {limit}");
        }
        let waiting: BTreeSet<String> = diff(&*self.started, written)
            .into_iter()
            .filter(|change| change.needs == Needs::Restart)
            .map(|change| change.key)
            .collect();
        if !waiting.is_empty() {
            let keys: Vec<String> = waiting.into_iter().collect();
            let _ = writeln!(text, "seawall: needs a restart: {}", keys.join(", "));
        }
        let ignored = of(Needs::NotYet);
        if !ignored.is_empty() {
            let _ = writeln!(text, "seawall: not followed yet: {}", ignored.join(", "));
        }
        text
    }
}

/// Whether a file has exactly these bytes.
fn holds(path: &Path, mut expected: &[u8]) -> io::Result<bool> {
    let mut file = std::fs::File::open(path)?;
    let mut piece = [0; 16 << 10];
    loop {
        let read = match file.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        let Some(rest) = expected.strip_prefix(&piece[..read]) else { return Ok(false) };
        if read == 0 {
            return Ok(rest.is_empty());
        }
        expected = rest;
    }
}

fn refuse(problems: &Problems) {
    eprintln!("seawall: settings not changed:");
    eprint!("{}", problems.render(colours()));
}
