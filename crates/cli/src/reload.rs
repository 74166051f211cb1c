//! Reloads settings while the gateway runs.
//!
//! The file is checked every second and applied once it was unchanged for two checks. A signal reloads everything at
//! once. Rejected settings change nothing, and the reason is printed. If the reason may be temporary, such as a missing
//! secret, the reload is retried until the settings are accepted or changed. **What it does not do.** It does not apply
//! a file that has become empty and does not wait for a pipe: in both cases the user has not written any settings.

use crate::settings::SettingsLoader;
use seawall_config::{Activation, LoadedInput, LoadedSettings, ProblemCode, Problems, SettingSource, diff};
use seawall_core::quota::LimitChange;
use seawall_gateway::{RunningGateway, diagnostic};
use seawall_pipeline::event::Event;
use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

/// Reloads settings and applies them to the gateway.
pub(crate) struct SettingsReload {
    loader: SettingsLoader,
    /// The settings at startup: some of them stay in force until a restart.
    startup: Arc<LoadedInput>,
    current: Arc<LoadedInput>,
    /// The content of the file at the last reload, successful or not.
    last_text: Option<Arc<str>>,
    /// The content at the last check, if it differed: a file that is still being written is left alone.
    pending_text: Option<Arc<str>>,
    /// Why the gateway rejected the file at the last reload.
    rejection: Option<String>,
    /// Why the file could not be read at the last check, and whether that was reported.
    read_error: Option<(String, bool)>,
    /// Whether problems are rendered with colours.
    colours: bool,
}

impl SettingsReload {
    /// For a gateway that was started with these settings.
    pub(crate) fn new(loader: SettingsLoader, startup: Arc<LoadedInput>, colours: bool) -> Self {
        let (current, last_text) = (Arc::clone(&startup), startup.text().cloned());
        Self {
            loader,
            current,
            startup,
            last_text,
            pending_text: None,
            rejection: None,
            read_error: None,
            colours,
        }
    }

    /// Checks whether the file has changed and is stable; call it about every second.
    pub(crate) fn poll(&mut self, gateway: &RunningGateway) {
        if self.rejection.is_none() && self.is_unchanged() {
            (self.read_error, self.pending_text) = (None, None);
            return;
        }
        let file = match self.read() {
            Ok(None) => return,
            Ok(Some(file)) => file,
            Err(problem) => return self.report_unreadable(problem),
        };
        self.read_error = None;
        if self.last_text.as_ref() == Some(&file.text) {
            self.pending_text = None;
            if self.rejection.is_some() {
                self.apply(Some(file), gateway);
            }
        } else if self.pending_text.as_ref() == Some(&file.text) {
            self.rejection = None;
            self.apply(Some(file), gateway);
        } else {
            self.pending_text = Some(file.text);
        }
    }

    /// Whether the file is unchanged since the last reload. It is compared in pieces: otherwise a large file would be
    /// in memory twice every second.
    fn is_unchanged(&self) -> bool {
        let (Some(path), Some(last_text)) = (&self.loader.file, &self.last_text) else { return false };
        // Reading anything but a regular file could block.
        let has_same_length =
            |metadata: std::fs::Metadata| metadata.is_file() && metadata.len() == last_text.len() as u64;
        std::fs::metadata(path).is_ok_and(has_same_length)
            && has_content(path, last_text.as_bytes()).unwrap_or(false)
    }

    /// Reloads everything because of a signal.
    pub(crate) fn reload_now(&mut self, gateway: &RunningGateway) {
        self.rejection = None;
        match self.read() {
            Ok(file) => self.apply(file, gateway),
            Err(problem) => {
                diagnostic!(
                    SETTINGS_UNREADABLE,
                    reason = problem,
                    "cannot reload settings: {problem}; the running settings stay in force"
                );
            }
        }
    }

    /// Reads the file, if there is one. Reading anything but a regular file could block forever, or find it consumed.
    fn read(&self) -> Result<Option<SettingSource>, String> {
        let Some(path) = &self.loader.file else { return Ok(None) };
        match std::fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => {
                return Err(format!("{} is not a regular file", path.display()));
            }
            _ => {}
        }
        let file = self.loader.read().map_err(|problems| {
            let first = problems.list().first().map(|problem| problem.message.clone());
            first.unwrap_or_else(|| problems.to_string())
        })?;
        // The file was just truncated, to be rewritten or by accident. For intentionally empty settings a comment is
        // enough.
        match file {
            Some(file) if file.text.trim().is_empty() && self.last_text.as_ref() != Some(&file.text) => {
                Err(format!("{} is empty", file.name))
            }
            file => Ok(file),
        }
    }

    /// A file that cannot be read may be in the middle of being replaced: it is reported only if that persists, and
    /// once.
    fn report_unreadable(&mut self, problem: String) {
        self.pending_text = None;
        self.read_error = Some(match self.read_error.take() {
            Some((before, was_reported)) if before == problem => {
                if !was_reported {
                    diagnostic!(
                        SETTINGS_UNREADABLE,
                        reason = problem,
                        "cannot reload settings: {problem}; the running settings stay in force (checked again \
                         every second)"
                    );
                }
                (problem, true)
            }
            _ => (problem, false),
        });
    }

    fn apply(&mut self, file: Option<SettingSource>, gateway: &RunningGateway) {
        self.last_text = file.as_ref().map(|file| Arc::clone(&file.text));
        self.pending_text = None;
        let LoadedSettings { settings, warnings, input } = match self.loader.load(file) {
            Ok(loaded) => loaded,
            Err(problems) => {
                self.rejection = None;
                let details = problems.render(self.colours);
                gateway.events().emit(&Event::SettingsRejected { reason: "", details: Some(&details) });
                return;
            }
        };
        match gateway.apply_settings(&settings) {
            Ok(limits) => {
                self.rejection = None;
                report_warnings(&warnings.without(ProblemCode::NotImplemented), self.colours);
                self.report_changes(gateway, &input, &limits);
                self.current = Arc::new(input);
                gateway.publish_settings(&self.current);
            }
            Err(error) => {
                let reason = error.to_string();
                if self.rejection.as_ref() != Some(&reason) {
                    gateway.events().emit(&Event::SettingsRejected { reason: &reason, details: None });
                }
                self.rejection = Some(reason);
            }
        }
    }

    /// Reports an applied reload: the changed keys, what happened to the counts of changed limits, and which
    /// changes need a restart or are not implemented.
    fn report_changes(&self, gateway: &RunningGateway, input: &LoadedInput, limits: &[LimitChange]) {
        let changes = diff(&*self.current, input);
        let keys_with = |activation: Activation| -> Vec<&str> {
            changes
                .iter()
                .filter(|change| change.activation == activation)
                .map(|change| change.key.as_str())
                .collect()
        };
        let keys = keys_with(Activation::Live).join(", ");
        let is_changed = !changes.is_empty();
        gateway.events().emit(&Event::SettingsReloaded { keys: &keys, is_changed });
        for limit in limits.iter().filter(|limit| !limit.is_unchanged()) {
            diagnostic!(LIMIT_CHANGED, limit = %limit, "  limit {limit}");
        }
        let restart_keys: BTreeSet<String> = diff(&*self.startup, input)
            .into_iter()
            .filter(|change| change.activation == Activation::Restart)
            .map(|change| change.key)
            .collect();
        if !restart_keys.is_empty() {
            let keys = restart_keys.into_iter().collect::<Vec<_>>().join(", ");
            diagnostic!(RESTART_REQUIRED, keys, "restart required: {keys}");
        }
        report_unimplemented(keys_with(Activation::NotImplemented));
    }
}

/// Whether a file has exactly these bytes.
fn has_content(path: &Path, mut expected: &[u8]) -> io::Result<bool> {
    let mut file = std::fs::File::open(path)?;
    let mut buffer = [0; 16 << 10];
    loop {
        let read = match file.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        let Some(rest) = expected.strip_prefix(&buffer[..read]) else { return Ok(false) };
        if read == 0 {
            return Ok(rest.is_empty());
        }
        expected = rest;
    }
}

/// Reports what is valid but probably not intended.
pub(crate) fn report_warnings(warnings: &Problems, colours: bool) {
    if !warnings.is_empty() {
        let count = crate::count_of(warnings.list().len(), "warning");
        diagnostic!(SETTINGS_WARNING, details = warnings.render(colours), "settings accepted with {count}:");
    }
}

/// Reports settings without effect, so that operators do not rely on them.
pub(crate) fn report_unimplemented(keys: impl IntoIterator<Item: AsRef<str>>) {
    let keys: Vec<_> = keys.into_iter().collect();
    let keys = keys.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    if !keys.is_empty() {
        diagnostic!(SETTINGS_NOT_IMPLEMENTED, keys, "not implemented, no effect: {keys}");
    }
}
