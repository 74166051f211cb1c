//! OutcomeCounts the outcomes of all requests.

use crate::caller::CallerResult;
use crate::schedule::Outage;
use crate::traffic::DemoClient;
use seawall_testkit::validator::ClientOutcome;
use serde::Serialize;
use std::time::Duration;

/// The status of a rate-limited request.
const TOO_MANY_REQUESTS: u16 = 429;

/// The front that a request goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Seawall,
    Plain,
}

/// Requests by outcome. Except for those in flight, the parts add up to `sent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OutcomeCounts {
    /// Requests sent.
    pub sent: u64,
    /// Answered completely.
    pub answered: u64,
    /// Ended after some text with an explicit error.
    pub interrupted: u64,
    /// The abusive client was rejected, with retry advice.
    pub rejected_as_abuse: u64,
    /// Any other rejection.
    pub rejected_unexpectedly: u64,
    /// An error in no known format, a reset, or no connection.
    pub lost: u64,
    /// No data for ten seconds.
    pub hung: u64,
    /// Stopped without an end and without an error.
    pub truncated: u64,
    /// Of these, those that looked complete.
    pub falsely_complete: u64,
}

impl OutcomeCounts {
    /// Requests in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        let rejected = self.rejected_as_abuse + self.rejected_unexpectedly;
        let ended = self.answered + self.interrupted + rejected + self.lost + self.hung + self.truncated;
        self.sent.saturating_sub(ended)
    }

    fn count(&mut self, request: &SentRequest) {
        self.sent += 1;
        let Some(result) = request.result else { return };
        match result.outcome {
            ClientOutcome::Answered => self.answered += 1,
            ClientOutcome::Interrupted => self.interrupted += 1,
            ClientOutcome::Rejected { status: TOO_MANY_REQUESTS, has_retry_advice: true }
                if request.client == DemoClient::Abusive =>
            {
                self.rejected_as_abuse += 1;
            }
            ClientOutcome::Rejected { .. } => self.rejected_unexpectedly += 1,
            ClientOutcome::Lost => self.lost += 1,
            ClientOutcome::Hung => self.hung += 1,
            ClientOutcome::Cut => self.truncated += 1,
            ClientOutcome::FalselyComplete => {
                self.truncated += 1;
                self.falsely_complete += 1;
            }
        }
    }
}

/// One request to one side.
#[derive(Clone, Copy, Debug)]
struct SentRequest {
    side: Side,
    client: DemoClient,
    outage: Option<Outage>,
    sent_at: Duration,
    result: Option<CallerResult>,
    ended_at: Duration,
}

/// The index of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestIndex(usize);

/// All requests with their results. Times are offsets from the beginning.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    requests: Vec<SentRequest>,
}

impl Scoreboard {
    /// Records a request.
    pub(crate) fn record_sent(
        &mut self,
        side: Side,
        client: DemoClient,
        outage: Option<Outage>,
        sent_at: Duration,
    ) -> RequestIndex {
        self.requests.push(SentRequest {
            side,
            client,
            outage,
            sent_at,
            result: None,
            ended_at: Duration::ZERO,
        });
        RequestIndex(self.requests.len() - 1)
    }

    pub(crate) fn record_result(&mut self, index: RequestIndex, result: CallerResult, ended_at: Duration) {
        if let Some(request) = self.requests.get_mut(index.0) {
            (request.result, request.ended_at) = (Some(result), ended_at);
        }
    }

    fn requests_of(&self, side: Side) -> impl Iterator<Item = &SentRequest> {
        self.requests.iter().filter(move |request| request.side == side)
    }

    /// The results of customers.
    pub(crate) fn customers(&self, side: Side) -> OutcomeCounts {
        count_outcomes(self.requests_of(side).filter(|request| request.client != DemoClient::Abusive))
    }

    /// The results of customers whose request was sent during this outage.
    pub(crate) fn customers_during(&self, side: Side, outage: Outage) -> OutcomeCounts {
        let requests = self.requests_of(side).filter(|request| request.client != DemoClient::Abusive);
        count_outcomes(requests.filter(|request| request.outage == Some(outage)))
    }

    /// The results of the abusive client.
    pub(crate) fn abusive_client(&self, side: Side) -> OutcomeCounts {
        count_outcomes(self.requests_of(side).filter(|request| request.client == DemoClient::Abusive))
    }

    /// The customers that were lost or cut because they took longer than the drain timeout: in flight when the shutdown
    /// began, and still when the timeout had passed.
    pub(crate) fn drain_exceeded(&self, side: Side, stopped: Duration, drain: Duration) -> OutcomeCounts {
        let is_exceeded = |request: &&SentRequest| {
            let is_gone =
                |result: CallerResult| matches!(result.outcome, ClientOutcome::Lost | ClientOutcome::Cut);
            request.client != DemoClient::Abusive
                && request.sent_at < stopped
                && request.ended_at >= stopped.saturating_add(drain)
                && request.result.is_some_and(is_gone)
        };
        count_outcomes(self.requests_of(side).filter(is_exceeded))
    }

    /// The customers' time to the first text of a stream: p50 and p99.
    pub(crate) fn time_to_first_text(&self, side: Side) -> Option<(Duration, Duration)> {
        let customers = self.requests_of(side).filter(|request| request.client != DemoClient::Abusive);
        let mut times: Vec<Duration> =
            customers.filter_map(|request| request.result?.time_to_first_text).collect();
        times.sort_unstable();
        let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).checked_sub(1)?).copied();
        Some((at(50)?, at(99)?))
    }
}

fn count_outcomes<'a>(requests: impl Iterator<Item = &'a SentRequest>) -> OutcomeCounts {
    let mut counts = OutcomeCounts::default();
    requests.for_each(|request| counts.count(request));
    counts
}

#[cfg(test)]
mod tests {
    use super::{OutcomeCounts, Scoreboard, Side};
    use crate::caller::CallerResult;
    use crate::schedule::Outage;
    use crate::traffic::DemoClient;
    use seawall_testkit::validator::ClientOutcome;
    use std::time::Duration;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn result(outcome: ClientOutcome) -> CallerResult {
        CallerResult { outcome, time_to_first_text: None }
    }

    fn one(client: DemoClient, outcome: ClientOutcome) -> OutcomeCounts {
        let mut score = Scoreboard::default();
        let index = score.record_sent(Side::Seawall, client, None, seconds(1));
        score.record_result(index, result(outcome), seconds(2));
        if client == DemoClient::Abusive {
            score.abusive_client(Side::Seawall)
        } else {
            score.customers(Side::Seawall)
        }
    }

    #[test]
    fn every_verdict_is_counted_once_and_the_parts_add_up() {
        let rejected = |status, has_retry_advice| ClientOutcome::Rejected { status, has_retry_advice };
        let sent = OutcomeCounts { sent: 1, ..OutcomeCounts::default() };
        let (customer, abusive_client) = (DemoClient::Customer(3), DemoClient::Abusive);
        for (client, outcome, counts) in [
            (customer, ClientOutcome::Answered, OutcomeCounts { answered: 1, ..sent }),
            (customer, ClientOutcome::Interrupted, OutcomeCounts { interrupted: 1, ..sent }),
            (customer, rejected(429, true), OutcomeCounts { rejected_unexpectedly: 1, ..sent }),
            (abusive_client, rejected(429, true), OutcomeCounts { rejected_as_abuse: 1, ..sent }),
            (abusive_client, rejected(429, false), OutcomeCounts { rejected_unexpectedly: 1, ..sent }),
            (abusive_client, rejected(503, true), OutcomeCounts { rejected_unexpectedly: 1, ..sent }),
            (customer, ClientOutcome::Lost, OutcomeCounts { lost: 1, ..sent }),
            (customer, ClientOutcome::Hung, OutcomeCounts { hung: 1, ..sent }),
            (customer, ClientOutcome::Cut, OutcomeCounts { truncated: 1, ..sent }),
            (
                customer,
                ClientOutcome::FalselyComplete,
                OutcomeCounts { truncated: 1, falsely_complete: 1, ..sent },
            ),
        ] {
            assert_eq!(one(client, outcome), counts, "{client:?} {outcome:?}");
            assert_eq!(counts.in_flight(), 0);
        }
    }

    #[test]
    fn sides_callers_and_outages_are_kept_apart() {
        let mut score = Scoreboard::default();
        score.record_sent(Side::Seawall, DemoClient::Customer(1), Some(Outage::Flood), seconds(1));
        score.record_sent(Side::Seawall, DemoClient::Abusive, Some(Outage::Flood), seconds(1));
        let index = score.record_sent(Side::Plain, DemoClient::Customer(1), None, seconds(1));
        score.record_result(index, result(ClientOutcome::Lost), seconds(1));
        let sent = OutcomeCounts { sent: 1, ..OutcomeCounts::default() };
        assert_eq!(score.customers(Side::Seawall), sent);
        assert_eq!(score.abusive_client(Side::Seawall), sent);
        assert_eq!(score.customers_during(Side::Seawall, Outage::Flood), sent);
        assert_eq!(score.customers_during(Side::Seawall, Outage::Restart), OutcomeCounts::default());
        assert_eq!(score.customers_during(Side::Plain, Outage::Flood), OutcomeCounts::default());
        assert_eq!(score.customers(Side::Plain), OutcomeCounts { lost: 1, ..sent });
        assert_eq!(sent.in_flight(), 1);
    }

    #[test]
    fn only_requests_in_flight_at_the_stop_and_beyond_the_drain_timeout_are_excused() {
        let lost = |sent_at, ended_at, outcome, client| {
            let mut score = Scoreboard::default();
            let index = score.record_sent(Side::Seawall, client, None, seconds(sent_at));
            score.record_result(index, result(outcome), seconds(ended_at));
            score.drain_exceeded(Side::Seawall, seconds(10), seconds(5)).sent
        };
        let customer = DemoClient::Customer(1);
        assert_eq!(lost(9, 15, ClientOutcome::Lost, customer), 1);
        assert_eq!(lost(9, 15, ClientOutcome::Cut, customer), 1);
        assert_eq!(lost(10, 15, ClientOutcome::Lost, customer), 0, "came when it had begun");
        assert_eq!(lost(9, 14, ClientOutcome::Lost, customer), 0, "there was time left");
        assert_eq!(lost(9, 15, ClientOutcome::Hung, customer), 0);
        assert_eq!(lost(9, 15, ClientOutcome::FalselyComplete, customer), 0);
        assert_eq!(lost(9, 15, ClientOutcome::Lost, DemoClient::Abusive), 0);
    }

    #[test]
    fn time_to_first_text_is_a_percentile_by_rank() {
        let mut score = Scoreboard::default();
        assert_eq!(score.time_to_first_text(Side::Seawall), None);
        for millis in (1..=100).rev() {
            let index = score.record_sent(Side::Seawall, DemoClient::Customer(1), None, seconds(0));
            let time_to_first_text = Some(Duration::from_millis(millis));
            score.record_result(
                index,
                CallerResult { outcome: ClientOutcome::Answered, time_to_first_text },
                seconds(1),
            );
        }
        let millis = Duration::from_millis;
        assert_eq!(score.time_to_first_text(Side::Seawall), Some((millis(50), millis(99))));
        assert_eq!(score.time_to_first_text(Side::Plain), None);
    }
}
