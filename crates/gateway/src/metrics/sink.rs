//! The events that are counted. Adding to a counter takes no lock and no allocation, so events are counted where they
//! happen, without a queue.

use super::{Metrics, TargetCells, labels};
use seawall_pipeline::event::{Event, EventSink, EventTopic, EventTopics};
use std::mem::discriminant;
use std::sync::atomic::Ordering;

/// The index of applied reloads, and of rejected ones.
pub(super) const RELOADS: [&str; 2] = ["applied", "rejected"];

impl EventSink for Metrics {
    fn name(&self) -> &'static str {
        "metrics"
    }

    fn topics(&self) -> EventTopics {
        EventTopics::of(&[
            EventTopic::RequestCompleted,
            EventTopic::AttemptEnded,
            EventTopic::BreakerChanged,
            EventTopic::PressureChanged,
            EventTopic::TargetHealthChanged,
            EventTopic::SettingsReloaded,
            EventTopic::SettingsRejected,
        ])
    }

    fn accept(&self, event: &Event<'_>) {
        match event {
            Event::RequestCompleted(record) => self.record_request(record),
            Event::AttemptEnded(record) => self.record_attempt(record),
            // The stages of a half-open trial are one phase.
            Event::BreakerChanged { target, transition }
                if discriminant(&transition.from) != discriminant(&transition.to) =>
            {
                self.count_of_target(target, |cells| {
                    cells.breaker.add(labels::phase_index(transition.to), 1);
                });
            }
            Event::PressureChanged { target, transition } => {
                self.count_of_target(target, |cells| cells.pressure.add(transition.to.index(), 1));
            }
            Event::TargetHealthChanged { target, transition, .. } => {
                self.count_of_target(target, |cells| cells.health.add(transition.to.index(), 1));
            }
            Event::SettingsReloaded { .. } => self.count_reload(false),
            Event::SettingsRejected { .. } => self.count_reload(true),
            _ => {}
        }
    }
}

impl Metrics {
    fn count_reload(&self, is_rejected: bool) {
        self.reloads.add(usize::from(is_rejected), 1);
        self.is_last_reload_rejected.store(is_rejected, Ordering::Relaxed);
    }

    fn count_of_target(&self, target: &str, count: impl FnOnce(&TargetCells)) {
        if let Some(cells) = self.named.load().targets.get(target) {
            count(cells);
        }
    }
}
