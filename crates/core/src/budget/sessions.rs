//! Token usage of sessions, with eviction of idle ones.

use super::account::SessionTokens;
use super::entry::BudgetReservation;
use super::snapshot::{SavedSession, SnapshotError};
use super::uptime::{SWEEP_BATCH, Uptime};
use crate::money::Usage;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Default)]
struct SessionUsage {
    tokens: SessionTokens,
    used: Duration,
}

/// All known sessions. Eviction scans them incrementally, a few per call.
#[derive(Debug, Default)]
pub(super) struct SessionLedger {
    all: BTreeMap<u64, SessionUsage>,
    /// Where the current eviction scan continues, if one is in progress.
    next: Option<u64>,
}

impl SessionLedger {
    pub(super) fn get(&self, session: u64) -> SessionTokens {
        self.all.get(&session).map(|session| session.tokens).unwrap_or_default()
    }

    pub(super) fn hold(&mut self, reservation: &BudgetReservation, uptime: Uptime) {
        self.change(reservation, uptime, |tokens| {
            tokens.input_held = tokens.input_held.saturating_add(reservation.input);
            tokens.output_held = tokens.output_held.saturating_add(reservation.output);
        });
    }

    pub(super) fn settle(&mut self, reservation: &BudgetReservation, usage: Usage, uptime: Uptime) {
        self.change(reservation, uptime, |tokens| {
            tokens.input_held = tokens.input_held.saturating_sub(reservation.input);
            tokens.output_held = tokens.output_held.saturating_sub(reservation.output);
            tokens.input = tokens.input.saturating_add(usage.total_input());
            tokens.output = tokens.output.saturating_add(usage.output);
        });
    }

    /// Replaces a maximum charge by the actual usage.
    pub(super) fn correct(&mut self, reservation: &BudgetReservation, usage: Usage, uptime: Uptime) {
        self.change(reservation, uptime, |tokens| {
            tokens.input = tokens.input.saturating_sub(reservation.input).saturating_add(usage.total_input());
            tokens.output = tokens.output.saturating_sub(reservation.output).saturating_add(usage.output);
        });
    }

    fn change(
        &mut self,
        reservation: &BudgetReservation,
        uptime: Uptime,
        how: impl FnOnce(&mut SessionTokens),
    ) {
        let Some(number) = reservation.session else { return };
        let session = self.all.entry(number).or_default();
        session.used = uptime.get();
        how(&mut session.tokens);
        // Session ids come from outside: entries without any usage are removed, so that made-up ids cannot fill the
        // memory.
        if session.tokens == SessionTokens::default() {
            self.all.remove(&number);
        }
    }

    pub(super) const fn sweep_position(&self) -> Option<u64> {
        self.next
    }

    pub(super) fn saved(&self) -> Vec<SavedSession> {
        let saved = |(number, session): (&u64, &SessionUsage)| SavedSession {
            session: *number,
            used: session.used,
            tokens: session.tokens,
        };
        self.all.iter().map(saved).collect()
    }

    pub(super) fn from_saved(
        saved: &[SavedSession],
        round: Option<u64>,
        uptime: Duration,
    ) -> Result<Self, SnapshotError> {
        let mut all = BTreeMap::new();
        for SavedSession { session, used, tokens } in saved.iter().copied() {
            if used > uptime {
                return Err(SnapshotError::UsedAfterSnapshot { what: "session", number: session });
            }
            if all.insert(session, SessionUsage { tokens, used }).is_some() {
                return Err(SnapshotError::Duplicate { what: "session", number: session });
            }
        }
        Ok(Self { all, next: round })
    }

    /// Checks that every session holds exactly the sum of its open reservations.
    pub(super) fn check<'a>(
        &self,
        open: impl Iterator<Item = &'a BudgetReservation>,
    ) -> Result<(), SnapshotError> {
        let mut held: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for one in open {
            let Some(session) = one.session else { continue };
            let (input, output) = held.entry(session).or_default();
            *input = input.saturating_add(one.input);
            *output = output.saturating_add(one.output);
        }
        for (number, session) in &self.all {
            let expected = held.remove(number).unwrap_or_default();
            if (session.tokens.input_held, session.tokens.output_held) != expected {
                return Err(SnapshotError::SessionMismatch(*number));
            }
        }
        match held.into_iter().find(|(_, sums)| *sums != (0, 0)) {
            Some((missing, _)) => Err(SnapshotError::SessionMismatch(missing)),
            None => Ok(()),
        }
    }

    /// Starts an eviction scan unless one is in progress.
    pub(super) fn begin_sweep(&mut self) {
        self.next.get_or_insert(0);
    }

    /// Continues the scan over a few sessions and evicts those that are idle and hold nothing.
    pub(super) fn sweep(&mut self, uptime: Uptime) {
        let Some(from) = self.next.take() else { return };
        let mut old = Vec::new();
        for (place, (number, session)) in self.all.range(from..).enumerate() {
            if place == SWEEP_BATCH {
                self.next = Some(*number);
                break;
            }
            let is_in_use = session.tokens.input_held > 0 || session.tokens.output_held > 0;
            if uptime.is_past_retention(session.used) && !is_in_use {
                old.push(*number);
            }
        }
        for number in old {
            self.all.remove(&number);
        }
    }

    #[cfg(test)]
    #[cfg(not(loom))]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}
