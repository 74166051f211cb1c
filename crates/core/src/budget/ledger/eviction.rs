//! Incremental eviction of idle days and sessions.

use super::BudgetLedger;
use crate::budget::day::DayLedger;
use crate::budget::uptime::{SWEEP_BATCH, SWEEP_INTERVAL};
use crate::time::Timestamp;

impl BudgetLedger {
    /// Advances the uptime and evicts a few idle entries.
    pub(super) fn advance(&mut self, now: Timestamp) {
        self.uptime.observe(now);
        let uptime = self.uptime;
        if uptime.get() >= self.next_sweep {
            self.next_sweep = uptime.get().saturating_add(SWEEP_INTERVAL);
            let is_evictable = |day: &DayLedger| uptime.is_past_retention(day.used) && day.open == 0;
            let evictable = self.days.iter().filter(|(_, day)| is_evictable(day)).map(|(number, _)| *number);
            let evictable: Vec<u64> = evictable.collect();
            self.evicting.extend(evictable.iter().filter_map(|day| self.days.remove(day)));
            self.sessions.begin_sweep();
            self.windows.begin_sweep();
        }
        self.sessions.sweep(uptime);
        self.windows.sweep(uptime);
        for _ in 0..SWEEP_BATCH {
            let Some(day) = self.evicting.last_mut() else { break };
            match day.evict_one() {
                Some(None) => {}
                Some(Some(id)) => {
                    self.expired.remove(&id);
                }
                None => {
                    self.evicting.pop();
                }
            }
        }
    }

    /// Callers, sessions and reservations in memory.
    #[cfg(test)]
    #[cfg(not(loom))]
    pub(in crate::budget) fn entries_kept(&self) -> usize {
        let days = self.days.values().chain(&self.evicting);
        let callers: usize = days.map(|day| day.callers.len()).sum();
        callers + self.sessions.len() + self.windows.len() + self.open.len() + self.expired.len()
    }
}
