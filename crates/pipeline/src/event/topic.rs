//! The topics of events, and sets of them.

/// The kind of an [`Event`](super::Event): what a sink subscribes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventTopic {
    /// A request was received.
    RequestReceived,
    /// A stage of a request ended.
    StageEnded,
    /// The limits decided about a request.
    LimitDecided,
    /// A budget decided about a request or an attempt.
    BudgetDecided,
    /// A target was not called.
    TargetSkipped,
    /// An attempt started.
    AttemptStarted,
    /// An attempt ended.
    AttemptEnded,
    /// A request ended.
    RequestCompleted,
    /// A target's breaker changed its phase.
    BreakerChanged,
    /// The pressure on a target changed.
    PressureChanged,
    /// The health of a target changed.
    TargetHealthChanged,
    /// One of several keys of a target was set aside, or can be used again.
    TargetKeyChanged,
    /// New settings are in force.
    SettingsReloaded,
    /// Changed settings are invalid.
    SettingsRejected,
    /// The shared store went away or came back.
    SharedStoreChanged,
    /// The journal failed or recovered.
    JournalChanged,
    /// The data directory failed or recovered.
    DataDirChanged,
    /// The gateway started to drain.
    DrainStarted,
    /// The gateway has drained.
    DrainCompleted,
}

impl EventTopic {
    /// All topics.
    pub const ALL: [Self; 19] = [
        Self::RequestReceived,
        Self::StageEnded,
        Self::LimitDecided,
        Self::BudgetDecided,
        Self::TargetSkipped,
        Self::AttemptStarted,
        Self::AttemptEnded,
        Self::RequestCompleted,
        Self::BreakerChanged,
        Self::PressureChanged,
        Self::TargetHealthChanged,
        Self::TargetKeyChanged,
        Self::SettingsReloaded,
        Self::SettingsRejected,
        Self::SharedStoreChanged,
        Self::JournalChanged,
        Self::DataDirChanged,
        Self::DrainStarted,
        Self::DrainCompleted,
    ];
}

/// A set of topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventTopics(u32);

impl EventTopics {
    /// All topics.
    pub const ALL: Self = Self::of(&EventTopic::ALL);

    /// The set of these topics.
    #[must_use]
    pub const fn of(topics: &[EventTopic]) -> Self {
        let (mut set, mut index) = (0, 0);
        while index < topics.len() {
            set |= 1 << topics[index] as u32;
            index += 1;
        }
        Self(set)
    }

    /// Whether the set has this topic.
    #[must_use]
    pub const fn has(self, topic: EventTopic) -> bool {
        self.0 & 1 << topic as u32 != 0
    }

    /// The topics of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{EventTopic, EventTopics};

    #[test]
    fn every_topic_has_a_bit_of_its_own() {
        for (index, topic) in EventTopic::ALL.into_iter().enumerate() {
            assert_eq!(topic as usize, index);
            let only = EventTopics::of(&[topic]);
            assert!(EventTopic::ALL.into_iter().all(|other| only.has(other) == (other == topic)));
        }
        assert!(EventTopic::ALL.into_iter().all(|topic| EventTopics::ALL.has(topic)));
        let two =
            EventTopics::of(&[EventTopic::StageEnded]).union(EventTopics::of(&[EventTopic::DrainCompleted]));
        assert_eq!(two, EventTopics::of(&[EventTopic::DrainCompleted, EventTopic::StageEnded]));
    }
}
