//! Settings that change while the gateway runs.

use crate::settings::{Origins, colours};
use seawall_config::{Loaded, Needs, Problems, Source, diff};
use seawall_gateway::Listening;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Reads settings again and has the gateway follow them.
pub(crate) struct Reload {
    origins: Origins,
    /// What the gateway was started with: some of it holds until it is started anew.
    started: Loaded,
    current: Loaded,
    /// The file as it was last looked at, whatever came of it.
    seen: Option<String>,
    /// The file as it was a moment ago, if it was another: a file that is still being written is left alone.
    settling: Option<String>,
}

impl Reload {
    /// Of a gateway that was started with these settings, from a file of this text.
    pub(crate) fn new(origins: Origins, started: Loaded, seen: Option<String>) -> Self {
        Self { origins, current: started.clone(), started, seen, settling: None }
    }

    /// Looks whether the file has changed and then stayed the same for a moment; to be called every second or so.
    pub(crate) fn look(&mut self, listening: &Listening) {
        // A file that cannot be read is in the middle of being replaced, or gone: the settings stay.
        let Ok(Some(file)) = self.origins.read() else { return };
        if self.seen.as_ref() == Some(&file.text) {
            self.settling = None;
        } else if self.settling.as_ref() == Some(&file.text) {
            self.apply(Some(file), listening);
        } else {
            self.settling = Some(file.text);
        }
    }

    /// Reads everything again because somebody said so.
    pub(crate) fn now(&mut self, listening: &Listening) {
        match self.origins.read() {
            Ok(file) => self.apply(file, listening),
            Err(problems) => refuse(&problems),
        }
    }

    fn apply(&mut self, file: Option<Source>, listening: &Listening) {
        self.seen = file.as_ref().map(|file| file.text.clone());
        self.settling = None;
        let loaded = match self.origins.load(file) {
            Ok(loaded) => loaded,
            Err(problems) => return refuse(&problems),
        };
        match listening.change(&loaded.settings) {
            Ok(limits) => {
                eprint!("{}", self.report(&loaded, limits.iter().map(ToString::to_string)));
                self.current = loaded;
            }
            Err(error) => eprintln!("seawall: settings not changed: {error}"),
        }
    }

    /// What has changed, what of it waits for a restart, and what became of counts that did not stay as they were.
    fn report(&self, loaded: &Loaded, limits: impl Iterator<Item = String>) -> String {
        let changes = diff(&self.current, loaded);
        let waiting: BTreeSet<String> = diff(&self.started, loaded)
            .into_iter()
            .filter(|change| change.needs == Needs::Restart)
            .map(|change| change.key)
            .collect();
        let live = changes.iter().filter(|change| change.needs != Needs::Restart);
        let live: Vec<&str> = live.map(|change| change.key.as_str()).collect();
        let mut text = match live.as_slice() {
            [] => "seawall: settings read again: nothing to change\n".to_owned(),
            keys => format!("seawall: settings changed: {}\n", keys.join(", ")),
        };
        for limit in limits {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "seawall:   limit {limit}");
        }
        if !waiting.is_empty() {
            let keys: Vec<String> = waiting.into_iter().collect();
            let _ = writeln!(text, "seawall: needs a restart: {}", keys.join(", "));
        }
        text
    }
}

fn refuse(problems: &Problems) {
    eprintln!("seawall: settings not changed:");
    eprint!("{}", problems.render(colours()));
}
