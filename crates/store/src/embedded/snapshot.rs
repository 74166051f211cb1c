//! The encoding of a snapshot of this node's ledger.

use super::codec::{RowDecoder, RowEncoder};
use crate::StoreError;
use crate::encoding::ByteReader;
use crate::node_ledger::{put_labels, read_labels};
use crate::usage::{CallId, SpendLabels};
use seawall_core::budget::{
    BudgetAccount, BudgetReservation, BudgetSnapshot, BudgetSource, BudgetWindows, CalendarHour, LeaseId,
    ReservationId, SavedCaller, SavedDay, SavedHeldLease, SavedSession, SavedWindow, SavedWindows,
    SessionTokens, WindowKey,
};
use seawall_core::money::Money;
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Tier;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A reservation whose call has not been posted, with the id of the call, its model and its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SavedCall {
    pub(super) reservation: ReservationId,
    pub(super) identity: Option<(CallId, Arc<str>, SpendLabels)>,
}

/// Everything that a checkpoint stores about the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LedgerSnapshot {
    /// Where the money of this ledger comes from.
    pub(super) source: BudgetSource,
    /// The segment from which the journal has to be replayed.
    pub(super) first_segment: u64,
    pub(super) calls: Vec<SavedCall>,
    pub(super) days: Vec<u64>,
    /// Each conversation, and its last day.
    pub(super) sessions: Vec<(u64, u64)>,
    pub(super) snapshot: BudgetSnapshot,
}

impl Default for LedgerSnapshot {
    fn default() -> Self {
        Self {
            source: BudgetSource::Caps,
            first_segment: 0,
            calls: Vec::new(),
            days: Vec::new(),
            sessions: Vec::new(),
            snapshot: BudgetSnapshot::default(),
        }
    }
}

fn put_list<T>(output: RowEncoder, list: &[T], put: impl Fn(RowEncoder, &T) -> RowEncoder) -> RowEncoder {
    list.iter().fold(output.u64(list.len() as u64), put)
}

fn read_list<T>(
    input: &mut RowDecoder<'_>,
    read: impl Fn(&mut RowDecoder<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let length = input.u64()?;
    // Without a preallocated capacity: a damaged length would allocate all memory.
    (0..length).map(|_| read(input)).collect()
}

fn put_account(output: RowEncoder, account: &BudgetAccount) -> RowEncoder {
    output.money(account.posted).money(account.held)
}

fn read_account(input: &mut RowDecoder<'_>) -> Result<BudgetAccount, StoreError> {
    Ok(BudgetAccount { posted: input.money()?, held: input.money()? })
}

fn put_reservation(output: RowEncoder, reservation: &BudgetReservation) -> RowEncoder {
    let BudgetReservation {
        id,
        day,
        caller,
        tier,
        generation,
        session,
        input,
        output: max_output,
        max_cost,
        expires,
        windows: _,
    } = *reservation;
    let output = output.u64(id.0).u64(day).u64(caller).tier(tier).u64(generation);
    output.optional(session).u64(input).u64(max_output).money(max_cost).u64(expires.as_nanos())
}

fn read_reservation(input: &mut RowDecoder<'_>) -> Result<BudgetReservation, StoreError> {
    Ok(BudgetReservation {
        id: ReservationId(input.u64()?),
        day: input.u64()?,
        caller: input.u64()?,
        tier: input.choice(&Tier::ALL)?,
        generation: input.u64()?,
        session: input.optional()?,
        input: input.u64()?,
        output: input.u64()?,
        max_cost: input.money()?,
        expires: Timestamp::from_nanos(input.u64()?),
        windows: BudgetWindows::NONE,
    })
}

fn put_held_lease(output: RowEncoder, lease: &SavedHeldLease) -> RowEncoder {
    let SavedHeldLease { id: LeaseId { day, tier, node, generation }, granted, returned, account } = lease;
    let output = output.u64(*day).tier(*tier).u64(*node).u64(*generation);
    put_account(output.money(*granted).money(*returned), account)
}

fn read_held_lease(input: &mut RowDecoder<'_>) -> Result<SavedHeldLease, StoreError> {
    let (day, tier) = (input.u64()?, input.choice(&Tier::ALL)?);
    let (node, generation) = (input.u64()?, input.u64()?);
    let (granted, returned) = (input.money()?, input.money()?);
    let id = LeaseId { day, tier, node, generation };
    Ok(SavedHeldLease { id, granted, returned, account: read_account(input)? })
}

fn put_caller(output: RowEncoder, caller: &SavedCaller) -> RowEncoder {
    put_account(output.u64(caller.caller), &caller.account).byte(u8::from(caller.alarm_raised))
}

fn read_caller(input: &mut RowDecoder<'_>) -> Result<SavedCaller, StoreError> {
    let (caller, account) = (input.u64()?, read_account(input)?);
    Ok(SavedCaller { caller, account, alarm_raised: input.choice(&[false, true])? })
}

fn put_day(output: RowEncoder, day: &SavedDay) -> RowEncoder {
    let output = output.u64(day.day).duration(day.used);
    let output = day.tiers.iter().fold(output, put_account);
    put_list(put_list(output, &day.callers, put_caller), &day.leases, put_held_lease)
}

fn read_day(input: &mut RowDecoder<'_>) -> Result<SavedDay, StoreError> {
    let (day, used) = (input.u64()?, input.duration()?);
    let tiers = [read_account(input)?, read_account(input)?, read_account(input)?];
    let (callers, leases) = (read_list(input, read_caller)?, read_list(input, read_held_lease)?);
    Ok(SavedDay { day, used, tiers, overrun: [Money::ZERO; 3], callers, leases })
}

/// Writes what calls cost beyond their reservations, for the days that have such calls. Rows from before this field
/// existed, and rows without overruns, end before it.
fn put_overruns(output: RowEncoder, days: &[SavedDay]) -> RowEncoder {
    let has_overrun = |day: &&SavedDay| day.overrun != [Money::ZERO; 3];
    days.iter().filter(has_overrun).fold(output, |output, day| {
        day.overrun.iter().fold(output.u64(day.day), |output, overrun| output.money(*overrun))
    })
}

fn read_overruns(input: &mut RowDecoder<'_>, days: &mut [SavedDay]) -> Result<(), StoreError> {
    while !input.is_at_end() {
        let number = input.u64()?;
        if number == WINDOWS_FOLLOW {
            return Ok(());
        }
        let overrun = [input.money()?, input.money()?, input.money()?];
        let day = days.iter_mut().find(|day| day.day == number).ok_or_else(|| input.invalid())?;
        day.overrun = overrun;
    }
    Ok(())
}

/// Marks, in place of the number of a day, that what was added with budgets by calendar window follows.
const WINDOWS_FOLLOW: u64 = u64::MAX;

/// Writes the accounts of budget windows, the windows of reservations and the labels of calls, if there are any.
fn put_windows(output: RowEncoder, snapshot: &BudgetSnapshot, calls: &[SavedCall]) -> RowEncoder {
    let reservations = snapshot.open.iter().chain(&snapshot.expired);
    let in_windows: Vec<&BudgetReservation> =
        reservations.filter(|reservation| !reservation.windows.is_empty()).collect();
    let labelled: Vec<(ReservationId, &SpendLabels)> = calls
        .iter()
        .filter_map(|call| Some((call.reservation, &call.identity.as_ref()?.2)))
        .filter(|(_, labels)| **labels != SpendLabels::default())
        .collect();
    let SavedWindows { hour, sweep: _, all } = &snapshot.windows;
    if all.is_empty() && in_windows.is_empty() && labelled.is_empty() {
        return output;
    }
    let output = put_list(output.u64(WINDOWS_FOLLOW).u32(hour.0), all, |output, window| {
        let WindowKey { id, end, .. } = window.key;
        let output = output.byte(window.key.name_byte()).u64(id).u32(end.0).duration(window.used);
        put_account(output, &window.account)
    });
    let output = put_list(output, &in_windows, |output, reservation| {
        let (set, hour, team) = reservation.windows.to_parts();
        output.u64(reservation.id.0).u32(set.into()).u32(hour).u64(team)
    });
    put_list(output, &labelled, |output, (reservation, labels)| {
        let mut bytes = Vec::new();
        put_labels(&mut bytes, labels);
        output.u64(reservation.0).u64(bytes.len() as u64).bytes(&bytes)
    })
}

fn read_windows(input: &mut RowDecoder<'_>, saved: &mut LedgerSnapshot) -> Result<(), StoreError> {
    if input.is_at_end() {
        return Ok(());
    }
    let hour = CalendarHour(input.u32()?);
    let all = read_list(input, |input| {
        let (name, id, end) = (input.byte()?, input.u64()?, input.u32()?);
        let key = WindowKey::from_parts(name, id, end).ok_or_else(|| input.invalid())?;
        Ok(SavedWindow { key, used: input.duration()?, account: read_account(input)? })
    })?;
    saved.snapshot.windows = SavedWindows { hour, sweep: None, all };
    let in_windows = read_list(input, |input| {
        let (id, set, hour, team) = (input.u64()?, input.u32()?, input.u32()?, input.u64()?);
        let set = u16::try_from(set).map_err(|_| input.invalid())?;
        let windows = BudgetWindows::from_parts(set, hour, team).ok_or_else(|| input.invalid())?;
        Ok((ReservationId(id), windows))
    })?;
    let in_windows: BTreeMap<ReservationId, BudgetWindows> = in_windows.into_iter().collect();
    let snapshot = &mut saved.snapshot;
    for reservation in snapshot.open.iter_mut().chain(&mut snapshot.expired) {
        reservation.windows = in_windows.get(&reservation.id).copied().unwrap_or_default();
    }
    let labelled = read_list(input, |input| {
        let (id, length) = (input.u64()?, input.u64()?);
        let labels = read_labels(&mut ByteReader::new(input.take(length)?)).ok_or_else(|| input.invalid())?;
        Ok((ReservationId(id), labels))
    })?;
    let mut labelled: BTreeMap<ReservationId, SpendLabels> = labelled.into_iter().collect();
    for call in &mut saved.calls {
        if let (Some((_, _, labels)), Some(saved_labels)) =
            (&mut call.identity, labelled.remove(&call.reservation))
        {
            *labels = saved_labels;
        }
    }
    Ok(())
}

fn put_session(output: RowEncoder, session: &SavedSession) -> RowEncoder {
    let SessionTokens { input, output: answered, input_held, output_held } = session.tokens;
    let output = output.u64(session.session).duration(session.used);
    output.u64(input).u64(answered).u64(input_held).u64(output_held)
}

fn read_session(input: &mut RowDecoder<'_>) -> Result<SavedSession, StoreError> {
    let (session, used) = (input.u64()?, input.duration()?);
    let tokens = SessionTokens {
        input: input.u64()?,
        output: input.u64()?,
        input_held: input.u64()?,
        output_held: input.u64()?,
    };
    Ok(SavedSession { session, used, tokens })
}

fn put_call(output: RowEncoder, call: &SavedCall) -> RowEncoder {
    let output = output.u64(call.reservation.0);
    match &call.identity {
        None => output.byte(0),
        Some((id, model, _)) => output.byte(1).u128(id.request).u32(id.attempt).text(model),
    }
}

fn read_call(input: &mut RowDecoder<'_>) -> Result<SavedCall, StoreError> {
    let reservation = ReservationId(input.u64()?);
    let identity = if input.choice(&[false, true])? {
        let id = CallId { request: input.u128()?, attempt: input.u32()? };
        Some((id, input.text()?.into(), SpendLabels::default()))
    } else {
        None
    };
    Ok(SavedCall { reservation, identity })
}

impl LedgerSnapshot {
    pub(super) fn row(&self) -> Vec<u8> {
        let BudgetSnapshot {
            next,
            uptime,
            next_sweep,
            session_sweep,
            days,
            sessions,
            open,
            expired,
            windows: _,
        } = &self.snapshot;
        let node = match self.source {
            BudgetSource::Caps => None,
            BudgetSource::Leases { node } => Some(node),
        };
        let output = RowEncoder::default().u64(self.first_segment).optional(node);
        let output = put_list(output, &self.calls, put_call);
        let output = put_list(output, &self.days, |output, day| output.u64(*day));
        let output =
            put_list(output, &self.sessions, |output, (session, day)| output.u64(*session).u64(*day));
        let output = output.u64(*next).duration(*uptime).duration(*next_sweep).optional(*session_sweep);
        let output = put_list(put_list(output, days, put_day), sessions, put_session);
        let output = put_list(put_list(output, open, put_reservation), expired, put_reservation);
        put_windows(put_overruns(output, days), &self.snapshot, &self.calls).row()
    }

    pub(super) fn read(row: &[u8]) -> Result<Self, StoreError> {
        let mut input = RowDecoder::row("ledger_snapshot", row)?;
        let first_segment = input.u64()?;
        let source = input.optional()?.map_or(BudgetSource::Caps, |node| BudgetSource::Leases { node });
        let calls = read_list(&mut input, read_call)?;
        let days = read_list(&mut input, |input| input.u64())?;
        let sessions = read_list(&mut input, |input| Ok((input.u64()?, input.u64()?)))?;
        let snapshot = BudgetSnapshot {
            next: input.u64()?,
            uptime: input.duration()?,
            next_sweep: input.duration()?,
            session_sweep: input.optional()?,
            days: read_list(&mut input, read_day)?,
            sessions: read_list(&mut input, read_session)?,
            open: read_list(&mut input, read_reservation)?,
            expired: read_list(&mut input, read_reservation)?,
            windows: SavedWindows::default(),
        };
        let mut saved = Self { source, first_segment, calls, days, sessions, snapshot };
        read_overruns(&mut input, &mut saved.snapshot.days)?;
        read_windows(&mut input, &mut saved)?;
        input.end(saved)
    }
}
