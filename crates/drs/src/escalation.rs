//! The notice to people when a call has failed although it was retried.

use crate::event::{CallLabels, GuardEvent, GuardEventKind, GuardObserver};
use crate::outbox::{DeliveryReport, DeliverySettings, Outbox, SinkError};
use crate::text::{printable_ascii, rfc3339};
use seawall_core::runtime::Runtime;
use seawall_core::time::UtcTime;
use std::fmt::Write as _;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// The variable with the topic. Without it no notice is sent.
pub const TOPIC_VARIABLE: &str = "DRS_ALERTS_TOPIC_ARN";

/// SNS allows fewer than 100 characters.
const MAX_SUBJECT: usize = 99;
/// Notices that wait at most.
const CAPACITY: usize = 100;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

const RECOMMENDED_ACTIONS: [&str; 4] = [
    "Compare the DRS service quotas of the account with what it uses.",
    "Count the jobs that run in the region: seawall drs capacity.",
    "Spread recoveries over several regions, or over a longer time.",
    "Ask AWS Support for higher limits if they are too low for your plan.",
];

/// A call that failed for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EscalationNotice {
    /// What the call was about.
    pub labels: CallLabels,
    /// The attempts made.
    pub attempts: u32,
    /// The last error.
    pub error: String,
    /// When the last attempt failed.
    pub at: UtcTime,
}

impl EscalationNotice {
    /// The notice of an event, if people should know about it.
    #[must_use]
    pub fn of(event: &GuardEvent) -> Option<Self> {
        let GuardEventKind::Exhausted { attempts, error, .. } = &event.kind else { return None };
        Some(Self {
            labels: event.labels.clone(),
            attempts: *attempts,
            error: format!("{}: {}", error.code, error.message),
            at: event.at,
        })
    }

    /// One line of printable ASCII, shorter than 100 characters: mail gateways reject or mangle everything else.
    #[must_use]
    pub fn subject(&self) -> String {
        let mut subject = printable_ascii(&format!("DRS rate limit escalation - {}", self.labels.region));
        subject.truncate(MAX_SUBJECT);
        subject
    }

    /// The text: five details and four recommended actions.
    #[must_use]
    pub fn message(&self) -> String {
        let details = [
            ("Operation", self.labels.operation.to_string()),
            ("Region", self.labels.region.to_string()),
            ("Attempts", self.attempts.to_string()),
            ("Error", self.error.clone()),
            ("Time", rfc3339(self.at)),
        ];
        let mut text = "A call to AWS DRS failed although it was retried.\n\nDetails:\n".to_owned();
        // Writing to a string cannot fail.
        for (name, value) in details {
            let _ = writeln!(text, "- {name}: {value}");
        }
        text.push_str("\nRecommended actions:\n");
        for (action, number) in RECOMMENDED_ACTIONS.iter().zip(1..) {
            let _ = writeln!(text, "{number}. {action}");
        }
        text
    }
}

/// Where notices go.
pub trait NoticeSink {
    /// Sends one notice.
    fn notify(&self, notice: EscalationNotice) -> impl Future<Output = Result<(), SinkError>> + Send;
}

/// Sends a notice for every call that failed for good, in the background. Clones share the queue.
#[derive(Clone)]
pub struct EscalationNotifier<R> {
    runtime: R,
    outbox: Arc<Outbox<EscalationNotice>>,
}

impl<R: Runtime> EscalationNotifier<R> {
    /// A notifier with an empty queue.
    #[must_use]
    pub fn new(runtime: R) -> Self {
        let settings = DeliverySettings {
            capacity: CAPACITY,
            max_batch: 1,
            max_delay: Duration::ZERO,
            drain_timeout: DRAIN_TIMEOUT,
        };
        Self { runtime, outbox: Outbox::new(settings) }
    }

    /// What became of the notices so far.
    #[must_use]
    pub fn report(&self) -> DeliveryReport {
        self.outbox.report()
    }

    /// Sends notices until shutdown. Run it once, as a task of its own. Without a sink, notices are discarded: an
    /// operator who has set no topic wants none.
    pub async fn run(&self, sink: Option<&impl NoticeSink>) -> DeliveryReport {
        self.outbox
            .deliver(&self.runtime, |batch| async move {
                let (Some(sink), Some(notice)) = (sink, batch.into_iter().next()) else { return Ok(()) };
                sink.notify(notice).await
            })
            .await;
        self.report()
    }

    /// Ends [`EscalationNotifier::run`], which sends what is queued first.
    pub fn shut_down(&self) {
        self.outbox.shut_down();
    }
}

impl<R: Runtime> GuardObserver for EscalationNotifier<R> {
    fn observe(&self, event: &GuardEvent) {
        if let Some(notice) = EscalationNotice::of(event) {
            self.outbox.push(notice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::EscalationNotice;
    use crate::event::CallLabels;
    use seawall_core::time::UtcTime;

    fn notice(region: &str) -> EscalationNotice {
        EscalationNotice {
            labels: CallLabels {
                operation: "describe_jobs".into(),
                region: region.into(),
                account: "123456789012".into(),
                correlation_id: "c".into(),
            },
            attempts: 6,
            error: "ThrottlingException: slow down".to_owned(),
            at: UtcTime::from_civil(2026, 11, 18),
        }
    }

    #[test]
    fn the_subject_is_short_ascii_whatever_the_region_is() {
        assert_eq!(notice("eu-west-1").subject(), "DRS rate limit escalation - eu-west-1");
        let odd = notice(&format!("eu\n\u{26a0}{}", "x".repeat(200))).subject();
        assert!(odd.len() < 100 && odd.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{odd}");
    }

    #[test]
    fn the_text_has_five_details_and_four_actions() {
        let text = notice("eu-west-1").message();
        let details: Vec<_> = text.lines().filter(|line| line.starts_with("- ")).collect();
        let expected = [
            "- Operation: describe_jobs",
            "- Region: eu-west-1",
            "- Attempts: 6",
            "- Error: ThrottlingException: slow down",
            "- Time: 2026-11-18T00:00:00.000Z",
        ];
        assert_eq!(details, expected);
        let is_action = |line: &&str| line.split_once(". ").is_some_and(|(number, _)| number.len() == 1);
        assert_eq!(text.lines().filter(is_action).count(), 4);
    }
}
