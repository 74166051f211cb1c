//! The stages of a request, and how long each of them took.

use std::time::Duration;

/// The stages of a request that are timed, in their order. Guardrails on requests belong to `plan`; settlement is not
/// timed, because it happens when everything else has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestStage {
    /// The request is parsed.
    Receive,
    /// The caller is looked up, unless the face has done so already.
    Identify,
    /// The limits decide.
    Admit,
    /// The plan is made, and guardrails check the request.
    Plan,
    /// Targets are tried, up to the first content of an answer.
    Answer,
    /// The rest of the answer is forwarded.
    Relay,
}

impl RequestStage {
    /// All stages, in their order.
    pub const ALL: [Self; 6] =
        [Self::Receive, Self::Identify, Self::Admit, Self::Plan, Self::Answer, Self::Relay];

    /// The name in logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Identify => "identify",
            Self::Admit => "admit",
            Self::Plan => "plan",
            Self::Answer => "answer",
            Self::Relay => "relay",
        }
    }

    /// The position in [`RequestStage::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The stage that follows.
    pub(crate) fn next(self) -> Option<Self> {
        Self::ALL.get(self.index() + 1).copied()
    }
}

/// How long each stage of a request took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTimes([u64; RequestStage::ALL.len()]);

/// A stage that the request did not reach.
const NOT_REACHED: u64 = u64::MAX;

impl Default for StageTimes {
    fn default() -> Self {
        Self([NOT_REACHED; RequestStage::ALL.len()])
    }
}

impl StageTimes {
    /// Sets the time of a stage.
    pub fn set(&mut self, stage: RequestStage, time: Duration) {
        self.0[stage.index()] = u64::try_from(time.as_nanos()).unwrap_or(NOT_REACHED - 1);
    }

    /// The time of a stage; `None` if the request did not reach it.
    #[must_use]
    pub fn get(&self, stage: RequestStage) -> Option<Duration> {
        let nanos = self.0[stage.index()];
        (nanos != NOT_REACHED).then(|| Duration::from_nanos(nanos))
    }

    /// The stages that the request reached, with their times.
    pub fn iter(&self) -> impl Iterator<Item = (RequestStage, Duration)> {
        RequestStage::ALL.into_iter().filter_map(|stage| Some((stage, self.get(stage)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::{RequestStage, StageTimes};
    use std::time::Duration;

    #[test]
    fn a_stage_that_was_not_reached_has_no_time_and_one_without_duration_has() {
        let mut times = StageTimes::default();
        assert_eq!(times.iter().count(), 0);
        times.set(RequestStage::Receive, Duration::from_nanos(7));
        times.set(RequestStage::Identify, Duration::ZERO);
        times.set(RequestStage::Admit, Duration::MAX);
        assert_eq!(times.get(RequestStage::Identify), Some(Duration::ZERO));
        assert_eq!(times.get(RequestStage::Plan), None);
        let all: Vec<_> = times.iter().map(|(stage, time)| (stage.name(), time.as_nanos())).collect();
        assert_eq!(all, [("receive", 7), ("identify", 0), ("admit", u128::from(u64::MAX - 1))]);
    }

    #[test]
    fn stages_follow_each_other_in_the_order_of_their_list() {
        for (index, stage) in RequestStage::ALL.into_iter().enumerate() {
            assert_eq!(stage.index(), index);
            assert_eq!(stage.next(), RequestStage::ALL.get(index + 1).copied());
        }
    }
}
