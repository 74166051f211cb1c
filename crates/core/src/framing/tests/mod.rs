//! A client that checks what it receives, and the tests that use it.

mod deadlines;
mod delivery;
mod escape;
mod model;
mod numbers;
mod resume;
mod settings;
mod utf8;

use super::{
    FrameContent, Framer, FramingEnding, FramingFinishReason, FramingOptions, FramingSettings, PushDecision,
    SendId, StreamState,
};
use crate::invariant::{frame_fits_transport, frames_are_consecutive, units_within_capacity};
use crate::time::Timestamp;
use std::time::Duration;

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(millis)
}

fn framer() -> Framer {
    Framer::new(FramingSettings::default(), at(0))
}

fn framer_with(change: impl FnOnce(&mut FramingOptions)) -> Framer {
    let mut options = FramingOptions::default();
    change(&mut options);
    Framer::new(options.check().unwrap(), at(0))
}

/// What a client received, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Text(u64, String),
    Heartbeat,
    Ending(FramingEnding, Option<u64>),
}

/// A client that records everything and checks the invariants on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Client {
    seen: Vec<(Timestamp, Seen)>,
    last: Option<u64>,
    ended: bool,
}

impl Client {
    /// Takes one frame and records it, without reporting the send.
    fn take(&mut self, framer: &mut Framer, now: Timestamp) -> Option<(SendId, Seen)> {
        let limit = framer.settings().options().max_frame_bytes;
        let envelope = framer.settings().options().envelope_bytes;
        let frame = framer.next_frame(now)?;
        let seen = match frame.content {
            FrameContent::Text { index, text } => {
                assert!(!text.is_empty());
                frames_are_consecutive(index, self.last, self.ended).unwrap();
                let encoded = serde_json::to_string(text).unwrap().len();
                frame_fits_transport(encoded + envelope, limit).unwrap();
                Seen::Text(index, text.to_owned())
            }
            FrameContent::Heartbeat => Seen::Heartbeat,
            FrameContent::Ending { ending, last_index } => {
                assert_eq!(last_index, self.last);
                Seen::Ending(ending, last_index)
            }
        };
        assert!(!self.ended, "{seen:?} after the ending");
        Some((frame.send_id, seen))
    }

    fn keep(&mut self, seen: Seen, now: Timestamp) {
        match &seen {
            Seen::Text(index, _) => self.last = Some(*index),
            Seen::Heartbeat => {}
            Seen::Ending(..) => self.ended = true,
        }
        self.seen.push((now, seen));
    }

    /// Takes and acknowledges everything available now.
    fn drain(&mut self, framer: &mut Framer, now: Timestamp) {
        while let Some((send_id, seen)) = self.take(framer, now) {
            self.keep(seen, now);
            assert!(framer.report_sent(send_id, now));
        }
        check_memory(framer);
    }

    /// Takes everything up to and including `until`, waking only when the framer asks for it.
    fn drain_until(&mut self, framer: &mut Framer, mut now: Timestamp, until: Timestamp) {
        loop {
            self.drain(framer, now);
            match framer.next_deadline() {
                Some(next) if next <= until => now = next,
                _ => return,
            }
        }
    }

    fn text(&self) -> String {
        self.seen
            .iter()
            .filter_map(|(_, seen)| if let Seen::Text(_, text) = seen { Some(text.as_str()) } else { None })
            .collect()
    }

    fn times(&self, matches: impl Fn(&Seen) -> bool) -> Vec<Timestamp> {
        self.seen.iter().filter(|(_, seen)| matches(seen)).map(|(when, _)| *when).collect()
    }

    fn ending(&self) -> Option<(FramingEnding, Option<u64>)> {
        self.seen.iter().find_map(|(_, seen)| match seen {
            Seen::Ending(ending, last) => Some((*ending, *last)),
            _ => None,
        })
    }
}

fn check_memory(framer: &Framer) {
    let (memory, most) = (framer.memory() as u64, framer.settings().max_memory() as u64);
    units_within_capacity(memory, most).unwrap();
    units_within_capacity(most, 256 * 1_024).unwrap();
}

/// Pushes all of `text`, draining into `client` whenever there is no room, and returns the number of pushes.
fn push_all(framer: &mut Framer, client: &mut Client, mut text: &str, now: Timestamp) -> usize {
    for pushes in 1.. {
        match framer.push(text, now) {
            PushDecision::Accepted => return pushes,
            PushDecision::PartiallyAccepted { bytes } => text = &text[bytes..],
            PushDecision::Ended => panic!("ended"),
        }
        check_memory(framer);
        assert!(!framer.wants_input());
        client.drain(framer, now);
        assert!(framer.wants_input());
    }
    unreachable!()
}

fn is_text(seen: &Seen) -> bool {
    matches!(seen, Seen::Text(..))
}

#[test]
fn states_and_reasons_have_names_of_their_own() {
    let names: Vec<&str> = StreamState::ALL.iter().map(|state| state.name()).collect();
    assert_eq!(
        names,
        ["initializing", "streaming", "paused", "completing", "completed", "cancelled", "error"]
    );
    let names: Vec<&str> = FramingFinishReason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(names, ["stop", "max_tokens", "timeout", "budget", "upstream_ended", "cancelled", "shutdown"]);
}
