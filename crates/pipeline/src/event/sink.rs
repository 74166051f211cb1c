//! Sinks of events, and the list that events are emitted to.

use super::{Event, EventTopic, EventTopics};
use std::fmt;
use std::sync::Arc;

/// Receives events. Called on the thread where the event happens, so it must not block.
///
/// A sink that only adds to counters does so at once. One that writes, sends or formats copies what it needs into a
/// bounded queue, which another thread empties.
pub trait EventSink: Send + Sync {
    /// The name, the label `sink` in metrics.
    fn name(&self) -> &'static str;

    /// The topics of the events that it receives. Asked once, when the sink is registered.
    fn topics(&self) -> EventTopics;

    /// Called for each event of these topics.
    fn accept(&self, event: &Event<'_>);

    /// How many events were lost because the queue was full; `None` if the sink has no queue.
    fn dropped(&self) -> Option<u64> {
        None
    }
}

/// All sinks of a node. The list is fixed when the node starts.
#[derive(Default)]
pub struct EventSinks {
    /// The topics that any sink has: checked first, and mostly alone.
    topics: EventTopics,
    sinks: Box<[(EventTopics, Arc<dyn EventSink>)]>,
}

impl fmt::Debug for EventSinks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.sinks.iter().map(|(_, sink)| sink.name())).finish()
    }
}

impl EventSinks {
    /// Registers these sinks. Each event reaches them in this order.
    #[must_use]
    pub fn new(sinks: Vec<Arc<dyn EventSink>>) -> Self {
        let sinks: Box<[_]> = sinks.into_iter().map(|sink| (sink.topics(), sink)).collect();
        let topics = sinks.iter().fold(EventTopics::default(), |all, (topics, _)| all.union(*topics));
        Self { topics, sinks }
    }

    /// Whether any sink wants events of this topic. For emitters that must compute what an event describes.
    #[inline]
    #[must_use]
    pub const fn wants(&self, topic: EventTopic) -> bool {
        self.topics.has(topic)
    }

    /// Passes an event to every sink that wants it.
    #[inline]
    pub fn emit(&self, event: &Event<'_>) {
        if self.wants(event.topic()) {
            self.send(event);
        }
    }

    /// Not inlined, so that an event that nobody wants is not even constructed.
    #[inline(never)]
    fn send(&self, event: &Event<'_>) {
        let topic = event.topic();
        for (topics, sink) in &self.sinks {
            if topics.has(topic) {
                sink.accept(event);
            }
        }
    }

    /// The number of events that each sink with a queue has lost, by its name.
    pub fn dropped(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.sinks.iter().filter_map(|(_, sink)| Some((sink.name(), sink.dropped()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::{EventSink, EventSinks};
    use crate::event::{Event, EventTopic, EventTopics};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// Writes its name and the topic of each event into a list that several share.
    struct Recorder(&'static str, EventTopics, Arc<Mutex<Vec<(&'static str, EventTopic)>>>);

    impl EventSink for Recorder {
        fn name(&self) -> &'static str {
            self.0
        }

        fn topics(&self) -> EventTopics {
            self.1
        }

        fn accept(&self, event: &Event<'_>) {
            self.2.lock().unwrap().push((self.0, event.topic()));
        }

        fn dropped(&self) -> Option<u64> {
            (self.0 == "log").then_some(3)
        }
    }

    #[test]
    fn an_event_reaches_the_sinks_that_subscribe_to_its_topic_in_their_order() {
        let seen = Arc::<Mutex<Vec<_>>>::default();
        let recorder = |name, topics: &[EventTopic]| -> Arc<dyn EventSink> {
            Arc::new(Recorder(name, EventTopics::of(topics), Arc::clone(&seen)))
        };
        let sinks = EventSinks::new(vec![
            recorder("metrics", &[EventTopic::DrainCompleted]),
            recorder("log", &[EventTopic::DrainStarted, EventTopic::DrainCompleted]),
        ]);
        sinks.emit(&Event::DrainStarted { cause: "SIGTERM", timeout: Duration::ZERO });
        sinks.emit(&Event::DataDirChanged { problem: None });
        sinks.emit(&Event::DrainCompleted { duration: Duration::ZERO });
        let expected = [
            ("log", EventTopic::DrainStarted),
            ("metrics", EventTopic::DrainCompleted),
            ("log", EventTopic::DrainCompleted),
        ];
        assert_eq!(*seen.lock().unwrap(), expected);
        assert!(sinks.wants(EventTopic::DrainStarted) && !sinks.wants(EventTopic::DataDirChanged));
        assert_eq!(sinks.dropped().collect::<Vec<_>>(), [("log", 3)], "only those with a queue");
        assert!(EventTopic::ALL.into_iter().all(|topic| !EventSinks::default().wants(topic)));
    }
}
