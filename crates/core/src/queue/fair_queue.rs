//! One priority class: fair queueing between sessions.
//!
//! Deficit round robin, with two changes. A session whose request costs more than its turn is served anyway and then
//! skips the rounds that it owes, so a large request waits no longer than a small one. And a turn is a round number
//! rather than a position in a circular list: skipping a hundred rounds, or all sessions that cannot use the free slot,
//! is one lookup.

use super::{AcceptedGrades, QueueTicket};
use crate::vocabulary::Grade;
use std::collections::{BTreeMap, BTreeSet};

/// The upper bound on the rounds a session skips, whatever cost its request claims.
const MAX_ROUNDS_OWED: u64 = 64;

/// A session's position in the order of turns: round, then arrival in that round, then session.
type TurnOrder = (u64, u64, u64);

#[derive(Clone, Debug)]
struct Flow {
    round: u64,
    /// The order in which sessions reached their round.
    arrival: u64,
    /// What remains of the turn. Never zero: the turn is then over and the next one is set.
    credit: u64,
    /// Waiting entries by the grades they accept, oldest first.
    tickets: [BTreeSet<QueueTicket>; 3],
}

impl Flow {
    fn usable(&self, grade: Grade) -> usize {
        self.tickets[AcceptedGrades::only(grade).index()].len()
            + self.tickets[AcceptedGrades::Either.index()].len()
    }

    fn oldest(&self, grade: Grade) -> Option<QueueTicket> {
        let only = self.tickets[AcceptedGrades::only(grade).index()].first();
        let either = self.tickets[AcceptedGrades::Either.index()].first();
        only.into_iter().chain(either).min().copied()
    }

    fn is_empty(&self) -> bool {
        self.tickets.iter().all(BTreeSet::is_empty)
    }
}

#[derive(Clone, Debug)]
pub(super) struct FairQueue {
    quantum: u64,
    /// The furthest round in which a session was served.
    round: u64,
    arrivals: u64,
    flows: BTreeMap<u64, Flow>,
    /// The turns of the sessions with an entry that can use a slot of this grade.
    turns: [BTreeSet<TurnOrder>; 2],
    /// The number of entries that can use a slot of this grade.
    usable: [usize; 2],
    tickets: BTreeSet<QueueTicket>,
    /// Sessions that left while they owed rounds: the round and the credit at which they resume.
    owed: BTreeMap<u64, (u64, u64)>,
    owed_by_round: BTreeSet<(u64, u64)>,
}

impl FairQueue {
    pub(super) fn new(quantum: u64) -> Self {
        Self {
            quantum,
            round: 0,
            arrivals: 0,
            flows: BTreeMap::new(),
            turns: Default::default(),
            usable: [0; 2],
            tickets: BTreeSet::new(),
            owed: BTreeMap::new(),
            owed_by_round: BTreeSet::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tickets.len()
    }

    pub(super) fn newest(&self) -> Option<QueueTicket> {
        self.tickets.last().copied()
    }

    pub(super) fn usable(&self, grade: Grade) -> usize {
        self.usable[grade.index()]
    }

    /// An estimate of how many entries are served before one more of this session. Every other session gets at most as
    /// many turns before it as this session needs to reach it.
    pub(super) fn ahead(&self, session: u64, grade: Grade) -> usize {
        let own = self.flows.get(&session).map_or(0, |flow| flow.usable(grade));
        let others = self.usable(grade) - own;
        let sessions = self.turns[grade.index()].len() - usize::from(own > 0);
        own + others.min(sessions.saturating_mul(own + 1))
    }

    #[cfg(test)]
    pub(super) fn is_new(&self, session: u64) -> bool {
        !self.flows.contains_key(&session)
    }

    /// Adds an entry. A session without waiting entries joins the next round, behind all sessions already in it.
    pub(super) fn add(&mut self, session: u64, ticket: QueueTicket, grades: AcceptedGrades) {
        let flow = match self.flows.remove(&session) {
            Some(flow) => flow,
            None => self.join(session),
        };
        let mut flow = self.without_turns(session, flow);
        flow.tickets[grades.index()].insert(ticket);
        self.tickets.insert(ticket);
        for grade in grades.grades() {
            self.usable[grade.index()] += 1;
        }
        self.put_back(session, flow);
    }

    /// The next entry in turn for a slot of this grade for which `may` returns true. Sessions that cannot use the slot
    /// or are turned down are skipped and keep their turn.
    pub(super) fn first_where(
        &self,
        grade: Grade,
        may: &mut impl FnMut(QueueTicket) -> bool,
    ) -> Option<(u64, QueueTicket)> {
        self.turns[grade.index()].iter().find_map(|(_, _, session)| {
            let ticket = self.flows.get(session)?.oldest(grade)?;
            may(ticket).then_some((*session, ticket))
        })
    }

    /// Removes a served entry and charges its session.
    pub(super) fn serve(&mut self, session: u64, ticket: QueueTicket, grades: AcceptedGrades, cost: u64) {
        let Some(flow) = self.flows.remove(&session) else { return };
        let mut flow = self.without_turns(session, flow);
        self.round = self.round.max(flow.round);
        // A cost of zero would make a turn that never ends.
        let cost = cost.clamp(1, self.quantum.saturating_mul(MAX_ROUNDS_OWED));
        if cost < flow.credit {
            flow.credit -= cost;
        } else {
            let debt = cost - flow.credit;
            flow.round = self.round + 1 + debt / self.quantum;
            flow.credit = self.quantum - debt % self.quantum;
            flow.arrival = self.next_arrival();
        }
        self.forget(&mut flow, ticket, grades);
        self.put_back(session, flow);
        while let Some((round, session)) = self.owed_by_round.first().copied()
            && round <= self.round
        {
            self.owed_by_round.remove(&(round, session));
            self.owed.remove(&session);
        }
    }

    /// Removes an entry that was not served.
    pub(super) fn remove(&mut self, session: u64, ticket: QueueTicket, grades: AcceptedGrades) {
        let Some(flow) = self.flows.remove(&session) else { return };
        let mut flow = self.without_turns(session, flow);
        self.forget(&mut flow, ticket, grades);
        self.put_back(session, flow);
    }

    fn join(&mut self, session: u64) -> Flow {
        let fresh = (self.round + 1, self.quantum);
        let (round, credit) = self.owed.remove(&session).unwrap_or(fresh);
        self.owed_by_round.remove(&(round, session));
        Flow { round, arrival: self.next_arrival(), credit, tickets: Default::default() }
    }

    fn next_arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    fn without_turns(&mut self, session: u64, flow: Flow) -> Flow {
        for turns in &mut self.turns {
            turns.remove(&(flow.round, flow.arrival, session));
        }
        flow
    }

    fn forget(&mut self, flow: &mut Flow, ticket: QueueTicket, grades: AcceptedGrades) {
        if flow.tickets[grades.index()].remove(&ticket) {
            self.tickets.remove(&ticket);
            for grade in grades.grades() {
                self.usable[grade.index()] -= 1;
            }
        }
    }

    fn put_back(&mut self, session: u64, flow: Flow) {
        if !flow.is_empty() {
            for grade in Grade::ALL {
                if flow.usable(grade) > 0 {
                    self.turns[grade.index()].insert((flow.round, flow.arrival, session));
                }
            }
            self.flows.insert(session, flow);
            return;
        }
        if self.tickets.is_empty() {
            // The class is empty: a session that returns now delays no other, so all debts are cleared.
            self.owed.clear();
            self.owed_by_round.clear();
        } else if flow.round > self.round && (flow.round, self.quantum) != (self.round + 1, flow.credit) {
            self.owed.insert(session, (flow.round, flow.credit));
            self.owed_by_round.insert((flow.round, session));
        }
    }
}
