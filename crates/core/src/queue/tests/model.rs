//! Property test of the queue against a reference model: a list of entries that recomputes everything.

use super::check_invariants;
use crate::queue::{
    AcceptedGrades, Departure, DepartureReason, EnterDecision, QueueOptions, QueueOwner, QueueRefusal,
    QueueRequest, QueueTicket, WaitQueue,
};
use crate::time::Timestamp;
use crate::vocabulary::{Grade, Priority};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use std::time::Duration;

const TIME_TO_LIVE: u64 = 400;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// One operation on a queue; indices are taken modulo the number of choices.
#[derive(Clone, Copy, Debug)]
enum Step {
    Pass(u64),
    Enter {
        priority: usize,
        session: u64,
        grades: usize,
        cost: u64,
        patience: u64,
    },
    Next(Grade),
    Cancel(usize),
    PopExpired,
    /// A read with a clock that is behind.
    Behind(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0_u64..60).prop_map(Step::Pass),
        1 => (60_u64..500).prop_map(Step::Pass),
        8 => (0_usize..5, 0_u64..6, 0_usize..3, 0_u64..9, prop_oneof![0_u64..100, Just(200), Just(100_000)]).prop_map(
            |(priority, session, grades, cost, patience)| Step::Enter { priority, session, grades, cost, patience }
        ),
        5 => prop_oneof![Just(Grade::Fast), Just(Grade::Strong)].prop_map(Step::Next),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => Just(Step::PopExpired),
        1 => (0_u64..100).prop_map(Step::Behind),
    ]
}

#[derive(Clone, Debug)]
struct Waiting {
    ticket: u64,
    request: QueueRequest,
    class: usize,
    entered: u64,
    expires: u64,
}

/// A session in a class. Sessions are kept while any entry waits in the class.
#[derive(Clone, Debug)]
struct Turn {
    class: usize,
    session: u64,
    round: u64,
    arrival: u64,
    credit: i64,
}

/// Events that change the measured pace of a grade.
#[derive(Clone, Copy, Debug)]
enum Event {
    Arrived,
    Served,
    Left,
}

#[derive(Clone, Debug)]
struct Naive {
    capacity: usize,
    quantum: u64,
    now: u64,
    tickets: u64,
    arrivals: u64,
    waiting: Vec<Waiting>,
    turns: Vec<Turn>,
    rounds: [u64; 5],
    events: Vec<(Grade, u64, Event)>,
    expired: Vec<Departure>,
}

impl Naive {
    fn new(capacity: usize, quantum: u64) -> Self {
        Self {
            capacity,
            quantum,
            now: 0,
            tickets: 0,
            arrivals: 0,
            waiting: vec![],
            turns: vec![],
            rounds: [0; 5],
            events: vec![],
            expired: vec![],
        }
    }

    fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
        let mut due: Vec<_> = self.waiting.iter().map(|entry| (entry.expires, entry.ticket)).collect();
        due.sort_unstable();
        due.retain(|(expires, _)| *expires <= self.now);
        for (_, ticket) in due {
            let departure = self.leave(ticket, DepartureReason::Expired).unwrap();
            self.expired.push(departure);
        }
        for place in 0..self.waiting.len() {
            let entry = &mut self.waiting[place];
            let base = entry.request.priority.index();
            if entry.class == base && base > 0 && entry.entered + TIME_TO_LIVE / 2 <= self.now {
                entry.class -= 1;
                let (class, session) = (entry.class, entry.request.session);
                self.forget_if_empty();
                self.join(class, session, 1);
            }
        }
    }

    fn forget_if_empty(&mut self) {
        let waiting = &self.waiting;
        self.turns.retain(|turn| waiting.iter().any(|entry| entry.class == turn.class));
    }

    fn of(&self, class: usize, session: u64) -> usize {
        self.waiting.iter().filter(|entry| entry.class == class && entry.request.session == session).count()
    }

    /// Called once the entry is in the list: with `alone` entries it is the session's only one.
    fn join(&mut self, class: usize, session: u64, alone: usize) {
        self.arrivals += 1;
        if self.of(class, session) > alone {
            return;
        }
        let (next, quantum) = (self.rounds[class] + 1, i64::try_from(self.quantum).unwrap());
        let arrival = self.arrivals;
        if let Some(turn) = self.turns.iter_mut().find(|turn| turn.class == class && turn.session == session)
        {
            turn.arrival = arrival;
            if turn.round < next {
                (turn.round, turn.credit) = (next, quantum);
            }
        } else {
            self.turns.push(Turn { class, session, round: next, arrival, credit: quantum });
        }
    }

    /// The time until this many have got a slot of this grade, preceded by whether it is only a guess.
    fn wait(&self, grade: Grade, places: u64) -> Option<(bool, u64)> {
        let (mut waiting, mut since, mut mean) = (0, 0, None);
        for (_, when, event) in self.events.iter().filter(|event| event.0 == grade) {
            match event {
                Event::Arrived if waiting == 0 => (waiting, since) = (1, *when),
                Event::Arrived => waiting += 1,
                Event::Left => waiting -= 1,
                Event::Served => {
                    waiting -= 1;
                    let gap = when - since;
                    mean = Some(mean.map_or(gap, |mean| (mean * 7 + gap) / 8));
                    since = *when;
                }
            }
        }
        let present = if waiting > 0 { self.now - since } else { 0 };
        match mean {
            Some(mean) if present > mean => Some((false, (mean * 7 + present) / 8 * places)),
            Some(mean) => Some((false, mean * places)),
            None if waiting == 0 => None,
            None if places == 0 => Some((true, 0)),
            None => Some((true, present)),
        }
    }

    fn ahead(&self, request: &QueueRequest, grade: Grade) -> u64 {
        let usable: Vec<_> =
            self.waiting.iter().filter(|entry| entry.request.grades.accepts(grade)).collect();
        let class = request.priority.index();
        let above = usable.iter().filter(|entry| entry.class < class).count();
        let (own, others): (Vec<&Waiting>, Vec<&Waiting>) = usable
            .iter()
            .filter(|entry| entry.class == class)
            .partition(|entry| entry.request.session == request.session);
        let mut sessions: Vec<u64> = others.iter().map(|entry| entry.request.session).collect();
        sessions.sort_unstable();
        sessions.dedup();
        (above + own.len() + others.len().min(sessions.len() * (own.len() + 1))) as u64
    }

    fn expected_wait(&self, request: &QueueRequest) -> Option<u64> {
        let grades = Grade::ALL.into_iter().filter(|grade| request.grades.accepts(*grade));
        let waits: Option<Vec<(bool, u64)>> =
            grades.map(|grade| self.wait(grade, self.ahead(request, grade))).collect();
        soonest(&waits?)
    }

    fn enter(&mut self, request: &QueueRequest, now: u64) -> EnterDecision {
        self.advance(now);
        let expected = self.expected_wait(request);
        let expires = request.deadline.as_nanos().min(self.now + TIME_TO_LIVE);
        let wait = expected.unwrap_or(0);
        if self.now + wait >= expires {
            return refused(QueueRefusal::TooLate, wait);
        }
        let mut evicted = None;
        if self.waiting.len() >= self.capacity {
            let lowest = self.waiting.iter().map(|entry| entry.class).max().unwrap();
            let newest =
                self.waiting.iter().filter(|entry| entry.class == lowest).map(|entry| entry.ticket).max();
            let loser = newest.filter(|_| lowest > request.priority.index());
            let Some(loser) = loser.or_else(|| self.above_its_share(request)) else {
                let expiry = self.waiting.iter().map(|entry| entry.expires - self.now);
                let grades = Grade::ALL.into_iter().filter(|grade| request.grades.accepts(*grade));
                let place = soonest(&grades.filter_map(|grade| self.wait(grade, 1)).collect::<Vec<_>>());
                let room = expiry.chain(place).min().unwrap();
                return refused(QueueRefusal::Full, room);
            };
            evicted = self.leave(loser, DepartureReason::Evicted);
        }
        let (ticket, class) = (self.tickets, request.priority.index());
        self.tickets += 1;
        self.waiting.push(Waiting { ticket, request: *request, class, entered: self.now, expires });
        self.join(class, request.session, 1);
        for grade in Grade::ALL.into_iter().filter(|grade| request.grades.accepts(*grade)) {
            self.events.push((grade, self.now, Event::Arrived));
        }
        let expected_wait = expected.map(Duration::from_nanos);
        EnterDecision::Queued { ticket: QueueTicket(ticket), expected_wait, evicted }
    }

    /// The latest waiter of the largest owner among those of one priority, the lowest priority first.
    fn above_its_share(&self, newcomer: &QueueRequest) -> Option<u64> {
        for priority in (newcomer.priority.index()..5).rev() {
            let of = |owner: QueueOwner| {
                let own = |entry: &&Waiting| {
                    entry.request.priority.index() == priority && entry.request.owner == owner
                };
                self.waiting.iter().filter(own).map(|entry| entry.ticket).collect::<Vec<_>>()
            };
            let largest = self
                .waiting
                .iter()
                .map(|entry| entry.request.owner)
                .max_by_key(|owner| (of(*owner).len(), *owner));
            let largest = largest.map(of).unwrap_or_default();
            if largest.len() >= of(newcomer.owner).len() + 2 {
                return largest.into_iter().max();
            }
        }
        None
    }

    fn next(&mut self, grade: Grade, now: u64) -> Option<Departure> {
        self.advance(now);
        let usable = self.waiting.iter().filter(|entry| entry.request.grades.accepts(grade));
        let turn_of = |entry: &Waiting| {
            let turn = |turn: &&Turn| turn.class == entry.class && turn.session == entry.request.session;
            let turn = self.turns.iter().find(turn).unwrap();
            (entry.class, turn.round, turn.arrival, entry.ticket)
        };
        let entry = usable.min_by_key(|entry| turn_of(entry))?.clone();
        let quantum = i64::try_from(self.quantum).unwrap();
        self.arrivals += 1;
        let (arrivals, round) = (self.arrivals, &mut self.rounds[entry.class]);
        let turn = self
            .turns
            .iter_mut()
            .find(|turn| turn.class == entry.class && turn.session == entry.request.session)
            .unwrap();
        *round = turn.round.max(*round);
        turn.credit -= i64::try_from(entry.request.cost.max(1)).unwrap();
        if turn.credit <= 0 {
            (turn.round, turn.arrival) = (*round, arrivals);
            while turn.credit <= 0 {
                turn.credit += quantum;
                turn.round += 1;
            }
        }
        self.leave_for(entry.ticket, DepartureReason::Served, Some(grade))
    }

    fn leave(&mut self, ticket: u64, reason: DepartureReason) -> Option<Departure> {
        self.leave_for(ticket, reason, None)
    }

    /// Leaves, possibly for a slot of this grade.
    fn leave_for(
        &mut self,
        ticket: u64,
        reason: DepartureReason,
        place_of: Option<Grade>,
    ) -> Option<Departure> {
        let place = self.waiting.iter().position(|entry| entry.ticket == ticket)?;
        let entry = self.waiting.remove(place);
        self.forget_if_empty();
        for grade in Grade::ALL.into_iter().filter(|grade| entry.request.grades.accepts(*grade)) {
            let event = if place_of == Some(grade) { Event::Served } else { Event::Left };
            self.events.push((grade, self.now, event));
        }
        Some(Departure {
            ticket: QueueTicket(ticket),
            reason,
            session: entry.request.session,
            priority: entry.request.priority,
            class: Priority::ALL[entry.class],
            waited: Duration::from_nanos(self.now - entry.entered),
        })
    }

    fn next_deadline(&self) -> Option<u64> {
        let promotion = |entry: &&Waiting| entry.class == entry.request.priority.index() && entry.class > 0;
        let promotions = self.waiting.iter().filter(promotion).map(|entry| entry.entered + TIME_TO_LIVE / 2);
        let now_if_expired = self.expired.first().map(|_| self.now);
        now_if_expired.or(self.waiting.iter().map(|entry| entry.expires).chain(promotions).min())
    }
}

/// The sooner of the measured waits; if there is none, the sooner of the guesses above zero.
fn soonest(waits: &[(bool, u64)]) -> Option<u64> {
    let measured = waits.iter().filter(|(guessed, _)| !guessed).map(|(_, wait)| *wait).min();
    measured.or(waits.iter().map(|(_, wait)| *wait).min().filter(|wait| *wait > 0))
}

fn refused(reason: QueueRefusal, retry_after: u64) -> EnterDecision {
    EnterDecision::Refused { reason, retry_after: Duration::from_nanos(retry_after) }
}

proptest! {
    #[test]
    fn the_queue_equals_a_list_that_computes_everything_anew(
        steps in vec(step(), 1..150),
        capacity in 1_usize..12,
        quantum in 1_u64..4,
    ) {
        let options = QueueOptions {
            capacity,
            quantum,
            ttl: Duration::from_nanos(TIME_TO_LIVE),
            ..QueueOptions::default()
        };
        let (mut queue, mut naive) = (WaitQueue::new(options.check().unwrap()), Naive::new(capacity, quantum));
        let mut now = 0;
        for step in steps {
            match step {
                Step::Pass(nanos) => now += nanos,
                Step::Behind(nanos) => {
                    let behind = now.saturating_sub(nanos);
                    naive.advance(behind);
                    let expected = if naive.expired.is_empty() { None } else { Some(naive.expired.remove(0)) };
                    prop_assert_eq!(queue.pop_expired(at(behind)), expected);
                }
                Step::Enter { priority, session, grades, cost, patience } => {
                    let request = QueueRequest {
                        priority: Priority::ALL[priority],
                        session,
                        // Two sessions per caller, and guests with two sessions.
                        owner: if session < 2 { QueueOwner::Guests } else { QueueOwner::Caller(session / 2) },
                        grades: [AcceptedGrades::Fast, AcceptedGrades::Strong, AcceptedGrades::Either][grades],
                        cost,
                        deadline: at(now + patience),
                    };
                    prop_assert_eq!(queue.enter(&request, at(now)), naive.enter(&request, now));
                }
                Step::Next(grade) => prop_assert_eq!(queue.next(grade, at(now)), naive.next(grade, now)),
                Step::Cancel(which) => {
                    naive.advance(now);
                    let ticket = which as u64 % (naive.tickets + 1);
                    let expected = naive.leave(ticket, DepartureReason::Cancelled);
                    prop_assert_eq!(queue.cancel(QueueTicket(ticket), at(now)), expected);
                }
                Step::PopExpired => {
                    naive.advance(now);
                    let expected = if naive.expired.is_empty() { None } else { Some(naive.expired.remove(0)) };
                    prop_assert_eq!(queue.pop_expired(at(now)), expected);
                }
            }
            check_invariants(&queue, at(now));
            prop_assert_eq!(queue.next_deadline(), naive.next_deadline().map(at));
            let oldest = naive.waiting.iter().map(|entry| now.max(naive.now) - entry.entered).max();
            let stats = queue.stats(at(now));
            prop_assert_eq!(stats.oldest_wait, Duration::from_nanos(oldest.unwrap_or(0)));
            let by_class = |class: usize| naive.waiting.iter().filter(|entry| entry.class == class).count();
            prop_assert_eq!(stats.by_class, [0, 1, 2, 3, 4].map(by_class));
        }
    }
}
