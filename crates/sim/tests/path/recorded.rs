//! A sink that keeps what tests look at.

use seawall_core::money::{Money, Usage};
use seawall_pipeline::event::{Event, EventSink, EventTopic, EventTopics};
use seawall_pipeline::{AttemptOutcomeKind, AttemptRecord, RequestRecord, Tier};
use std::sync::Mutex;

/// An attempt: target, tier, outcome, usage and cost.
pub(crate) type RecordedAttempt = (String, Tier, AttemptOutcomeKind, Usage, Money);

/// An event: its topic, and a text of what tests compare.
pub(crate) type RecordedEvent = (EventTopic, String);

/// Keeps every request and every attempt, and every event if a test wants them.
#[derive(Default)]
pub(crate) struct Records {
    requests: Mutex<Vec<RequestRecord>>,
    attempts: Mutex<Vec<RecordedAttempt>>,
    events: Option<Mutex<Vec<RecordedEvent>>>,
}

impl Records {
    /// A day has millions of events, so they are kept only on request.
    pub(crate) fn new(records_events: bool) -> Self {
        Self { events: records_events.then(Mutex::default), ..Self::default() }
    }

    pub(crate) fn requests(&self) -> Vec<RequestRecord> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn attempts(&self) -> Vec<RecordedAttempt> {
        self.attempts.lock().unwrap().clone()
    }

    pub(crate) fn events(&self) -> Vec<RecordedEvent> {
        self.events.as_ref().unwrap().lock().unwrap().clone()
    }
}

impl EventSink for Records {
    fn name(&self) -> &'static str {
        "records"
    }

    fn topics(&self) -> EventTopics {
        match self.events {
            Some(_) => EventTopics::ALL,
            None => EventTopics::of(&[EventTopic::RequestCompleted, EventTopic::AttemptEnded]),
        }
    }

    fn accept(&self, event: &Event<'_>) {
        match event {
            Event::RequestCompleted(record) => self.requests.lock().unwrap().push((*record).clone()),
            Event::AttemptEnded(attempt) => {
                let AttemptRecord { target, tier, outcome, usage, cost, .. } = **attempt;
                self.attempts.lock().unwrap().push((target.to_string(), tier, outcome, usage, cost));
            }
            _ => {}
        }
        if let Some(events) = &self.events {
            events.lock().unwrap().push((event.topic(), describe(event)));
        }
    }
}

/// A short text without times, which tests compare where they matter.
fn describe(event: &Event<'_>) -> String {
    match event {
        Event::RequestReceived { face, .. } => format!("received {face}"),
        Event::StageEnded { stage, .. } => format!("stage {}", stage.name()),
        Event::LimitDecided { limit, decision, .. } => {
            format!("limit {} {} {decision:?}", limit.scope.label(), limit.name)
        }
        Event::BudgetDecided { budget, decision, .. } => format!("budget {budget:?} {decision:?}"),
        Event::TargetSkipped { target, reason, .. } => format!("skipped {target} {}", reason.label()),
        Event::AttemptStarted { number, target, cause, .. } => {
            format!("attempt {number} at {target}: {}", cause.label())
        }
        Event::AttemptEnded(attempt) => {
            format!("attempt {} ended: {}", attempt.number, attempt.outcome.label())
        }
        Event::RequestCompleted(record) => format!("completed {:?}", record.outcome),
        Event::BreakerChanged { target, transition } => format!("breaker {target} {:?}", transition.to),
        Event::PressureChanged { target, transition } => {
            format!("pressure {target} {}", transition.to.label())
        }
        Event::TargetHealthChanged { target, transition, .. } => {
            format!("health {target} {}", transition.to.name())
        }
        Event::TargetKeyChanged { target, transition, .. } => {
            format!("key {} of {target} {}", transition.key + 1, transition.to.name())
        }
        other => format!("{other:?}"),
    }
}
