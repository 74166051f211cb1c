//! Incremental eviction of idle days and sessions.

use super::BudgetBook;
use crate::budget::day::Day;
use crate::budget::uptime::{LOOK_EVERY, SLICE};
use crate::time::Timestamp;

impl BudgetBook {
    /// Advances the uptime and evicts a few idle entries.
    pub(super) fn pass(&mut self, now: Timestamp) {
        self.uptime.hear(now);
        let uptime = self.uptime;
        if uptime.get() >= self.next_look {
            self.next_look = uptime.get().saturating_add(LOOK_EVERY);
            let is_over = |day: &Day| uptime.has_outlived(day.used) && day.open == 0;
            let over = self.days.iter().filter(|(_, day)| is_over(day)).map(|(number, _)| *number);
            let over: Vec<u64> = over.collect();
            self.leaving.extend(over.iter().filter_map(|day| self.days.remove(day)));
            self.sessions.begin_round();
        }
        self.sessions.sweep(uptime);
        for _ in 0..SLICE {
            let Some(day) = self.leaving.last_mut() else { break };
            match day.dismantle() {
                Some(None) => {}
                Some(Some(id)) => {
                    self.given_up.remove(&id);
                }
                None => {
                    self.leaving.pop();
                }
            }
        }
    }

    /// Callers, sessions and reservations in memory.
    #[cfg(test)]
    #[cfg(not(loom))]
    pub(in crate::budget) fn entries_kept(&self) -> usize {
        let days = self.days.values().chain(&self.leaving);
        let callers: usize = days.map(|day| day.callers.len()).sum();
        callers + self.sessions.len() + self.open.len() + self.given_up.len()
    }
}
