//! Counts the outcomes of all requests.

use crate::caller::Got;
use crate::judge::Verdict;
use crate::timetable::Outage;
use crate::traffic::Who;
use serde::Serialize;
use std::time::Duration;

/// The status of a rate-limited request.
const TOO_MANY: u16 = 429;

/// The front that a request goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Seawall,
    Plain,
}

/// Requests by outcome. Except for those in flight, the parts add up to `asked`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Requests sent.
    pub asked: u64,
    /// Answered completely.
    pub answered: u64,
    /// Ended after some text with an explicit error.
    pub broken_off: u64,
    /// The abusive client was rejected, with retry advice.
    pub refused_rightly: u64,
    /// Any other rejection.
    pub refused_wrongly: u64,
    /// An error in no known format, a reset, or no connection.
    pub lost: u64,
    /// No data for ten seconds.
    pub hung: u64,
    /// Stopped without an end and without an error.
    pub ended_falsely: u64,
    /// Of these, those that looked complete.
    pub looked_complete: u64,
}

impl Counts {
    /// Requests in flight.
    #[must_use]
    pub const fn under_way(&self) -> u64 {
        let refused = self.refused_rightly + self.refused_wrongly;
        let over = self.answered + self.broken_off + refused + self.lost + self.hung + self.ended_falsely;
        self.asked.saturating_sub(over)
    }

    fn count(&mut self, question: &Question) {
        self.asked += 1;
        let Some(got) = question.got else { return };
        match got.verdict {
            Verdict::Answered => self.answered += 1,
            Verdict::BrokenOff => self.broken_off += 1,
            Verdict::Refused { status: TOO_MANY, has_hint: true } if question.who == Who::Flooder => {
                self.refused_rightly += 1;
            }
            Verdict::Refused { .. } => self.refused_wrongly += 1,
            Verdict::Lost => self.lost += 1,
            Verdict::Hung => self.hung += 1,
            Verdict::Cut => self.ended_falsely += 1,
            Verdict::LookedComplete => {
                self.ended_falsely += 1;
                self.looked_complete += 1;
            }
        }
    }
}

/// One request to one side.
#[derive(Clone, Copy, Debug)]
struct Question {
    side: Side,
    who: Who,
    outage: Option<Outage>,
    began: Duration,
    got: Option<Got>,
    ended: Duration,
}

/// The index of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(usize);

/// All requests with their results. Times are offsets from the beginning.
#[derive(Debug, Default)]
pub(crate) struct Score {
    questions: Vec<Question>,
}

impl Score {
    /// Records a request.
    pub(crate) fn ask(&mut self, side: Side, who: Who, outage: Option<Outage>, began: Duration) -> Place {
        self.questions.push(Question { side, who, outage, began, got: None, ended: Duration::ZERO });
        Place(self.questions.len() - 1)
    }

    /// Records its result.
    pub(crate) fn end(&mut self, place: Place, got: Got, ended: Duration) {
        if let Some(question) = self.questions.get_mut(place.0) {
            (question.got, question.ended) = (Some(got), ended);
        }
    }

    fn of(&self, side: Side) -> impl Iterator<Item = &Question> {
        self.questions.iter().filter(move |question| question.side == side)
    }

    /// The results of customers.
    pub(crate) fn shoppers(&self, side: Side) -> Counts {
        counted(self.of(side).filter(|question| question.who != Who::Flooder))
    }

    /// The results of customers whose request was sent during this outage.
    pub(crate) fn shoppers_in(&self, side: Side, outage: Outage) -> Counts {
        let questions = self.of(side).filter(|question| question.who != Who::Flooder);
        counted(questions.filter(|question| question.outage == Some(outage)))
    }

    /// The results of the abusive client.
    pub(crate) fn flooder(&self, side: Side) -> Counts {
        counted(self.of(side).filter(|question| question.who == Who::Flooder))
    }

    /// The customers that were lost or cut because they took longer than the drain timeout: in flight when the shutdown
    /// began, and still when the timeout had passed.
    pub(crate) fn beyond_the_drain(&self, side: Side, stopped: Duration, drain: Duration) -> Counts {
        let is_beyond = |question: &&Question| {
            let is_gone = |got: Got| matches!(got.verdict, Verdict::Lost | Verdict::Cut);
            question.who != Who::Flooder
                && question.began < stopped
                && question.ended >= stopped.saturating_add(drain)
                && question.got.is_some_and(is_gone)
        };
        counted(self.of(side).filter(is_beyond))
    }

    /// The customers' time to the first text of a stream: p50 and p99.
    pub(crate) fn first_text(&self, side: Side) -> Option<(Duration, Duration)> {
        let shoppers = self.of(side).filter(|question| question.who != Who::Flooder);
        let mut times: Vec<Duration> = shoppers.filter_map(|question| question.got?.first_text).collect();
        times.sort_unstable();
        let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).checked_sub(1)?).copied();
        Some((at(50)?, at(99)?))
    }
}

fn counted<'a>(questions: impl Iterator<Item = &'a Question>) -> Counts {
    let mut counts = Counts::default();
    questions.for_each(|question| counts.count(question));
    counts
}

#[cfg(test)]
mod tests {
    use super::{Counts, Score, Side};
    use crate::caller::Got;
    use crate::judge::Verdict;
    use crate::timetable::Outage;
    use crate::traffic::Who;
    use std::time::Duration;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn got(verdict: Verdict) -> Got {
        Got { verdict, first_text: None }
    }

    fn one(who: Who, verdict: Verdict) -> Counts {
        let mut score = Score::default();
        let place = score.ask(Side::Seawall, who, None, seconds(1));
        score.end(place, got(verdict), seconds(2));
        if who == Who::Flooder { score.flooder(Side::Seawall) } else { score.shoppers(Side::Seawall) }
    }

    #[test]
    fn every_verdict_is_counted_once_and_the_parts_add_up() {
        let refused = |status, has_hint| Verdict::Refused { status, has_hint };
        let asked = Counts { asked: 1, ..Counts::default() };
        let (shopper, flooder) = (Who::Shopper(3), Who::Flooder);
        for (who, verdict, counts) in [
            (shopper, Verdict::Answered, Counts { answered: 1, ..asked }),
            (shopper, Verdict::BrokenOff, Counts { broken_off: 1, ..asked }),
            (shopper, refused(429, true), Counts { refused_wrongly: 1, ..asked }),
            (flooder, refused(429, true), Counts { refused_rightly: 1, ..asked }),
            (flooder, refused(429, false), Counts { refused_wrongly: 1, ..asked }),
            (flooder, refused(503, true), Counts { refused_wrongly: 1, ..asked }),
            (shopper, Verdict::Lost, Counts { lost: 1, ..asked }),
            (shopper, Verdict::Hung, Counts { hung: 1, ..asked }),
            (shopper, Verdict::Cut, Counts { ended_falsely: 1, ..asked }),
            (shopper, Verdict::LookedComplete, Counts { ended_falsely: 1, looked_complete: 1, ..asked }),
        ] {
            assert_eq!(one(who, verdict), counts, "{who:?} {verdict:?}");
            assert_eq!(counts.under_way(), 0);
        }
    }

    #[test]
    fn sides_callers_and_outages_are_kept_apart() {
        let mut score = Score::default();
        score.ask(Side::Seawall, Who::Shopper(1), Some(Outage::Flood), seconds(1));
        score.ask(Side::Seawall, Who::Flooder, Some(Outage::Flood), seconds(1));
        let place = score.ask(Side::Plain, Who::Shopper(1), None, seconds(1));
        score.end(place, got(Verdict::Lost), seconds(1));
        let asked = Counts { asked: 1, ..Counts::default() };
        assert_eq!(score.shoppers(Side::Seawall), asked);
        assert_eq!(score.flooder(Side::Seawall), asked);
        assert_eq!(score.shoppers_in(Side::Seawall, Outage::Flood), asked);
        assert_eq!(score.shoppers_in(Side::Seawall, Outage::Restart), Counts::default());
        assert_eq!(score.shoppers_in(Side::Plain, Outage::Flood), Counts::default());
        assert_eq!(score.shoppers(Side::Plain), Counts { lost: 1, ..asked });
        assert_eq!(asked.under_way(), 1);
    }

    #[test]
    fn only_who_was_there_at_the_stop_and_stayed_beyond_its_time_is_excused() {
        let lost = |began, ended, verdict, who| {
            let mut score = Score::default();
            let place = score.ask(Side::Seawall, who, None, seconds(began));
            score.end(place, got(verdict), seconds(ended));
            score.beyond_the_drain(Side::Seawall, seconds(10), seconds(5)).asked
        };
        let shopper = Who::Shopper(1);
        assert_eq!(lost(9, 15, Verdict::Lost, shopper), 1);
        assert_eq!(lost(9, 15, Verdict::Cut, shopper), 1);
        assert_eq!(lost(10, 15, Verdict::Lost, shopper), 0, "came when it had begun");
        assert_eq!(lost(9, 14, Verdict::Lost, shopper), 0, "there was time left");
        assert_eq!(lost(9, 15, Verdict::Hung, shopper), 0);
        assert_eq!(lost(9, 15, Verdict::LookedComplete, shopper), 0);
        assert_eq!(lost(9, 15, Verdict::Lost, Who::Flooder), 0);
    }

    #[test]
    fn first_text_is_told_by_rank() {
        let mut score = Score::default();
        assert_eq!(score.first_text(Side::Seawall), None);
        for millis in (1..=100).rev() {
            let place = score.ask(Side::Seawall, Who::Shopper(1), None, seconds(0));
            let first_text = Some(Duration::from_millis(millis));
            score.end(place, Got { verdict: Verdict::Answered, first_text }, seconds(1));
        }
        let millis = Duration::from_millis;
        assert_eq!(score.first_text(Side::Seawall), Some((millis(50), millis(99))));
        assert_eq!(score.first_text(Side::Plain), None);
    }
}
