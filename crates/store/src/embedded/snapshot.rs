//! The encoding of a snapshot of this node's books.

use super::codec::{Input, Output};
use crate::StoreError;
use crate::usage::CallId;
use seawall_core::budget::{
    Account, BudgetSnapshot, BudgetSource, LeaseId, Reservation, ReservationId, SavedCaller, SavedDay,
    SavedHolding, SavedSession, SessionTokens,
};
use seawall_core::money::Money;
use seawall_core::time::Timestamp;
use seawall_core::vocabulary::Tier;
use std::sync::Arc;

/// A reservation whose call has not been posted, with the id of the call and its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SavedCall {
    pub(super) reservation: ReservationId,
    pub(super) name: Option<(CallId, Arc<str>)>,
}

/// Everything that a checkpoint stores about the books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Saved {
    /// Where the money of these books comes from.
    pub(super) source: BudgetSource,
    /// The segment from which the journal has to be replayed.
    pub(super) first_segment: u64,
    pub(super) calls: Vec<SavedCall>,
    pub(super) days: Vec<u64>,
    /// Each conversation, and its last day.
    pub(super) sessions: Vec<(u64, u64)>,
    pub(super) snapshot: BudgetSnapshot,
}

impl Default for Saved {
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

fn put_list<T>(output: Output, list: &[T], put: impl Fn(Output, &T) -> Output) -> Output {
    list.iter().fold(output.number(list.len() as u64), put)
}

fn read_list<T>(
    input: &mut Input<'_>,
    read: impl Fn(&mut Input<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let length = input.number()?;
    // Without a preallocated capacity: a damaged length would allocate all memory.
    (0..length).map(|_| read(input)).collect()
}

fn put_account(output: Output, account: &Account) -> Output {
    output.money(account.posted).money(account.held)
}

fn read_account(input: &mut Input<'_>) -> Result<Account, StoreError> {
    Ok(Account { posted: input.money()?, held: input.money()? })
}

fn put_reservation(output: Output, reservation: &Reservation) -> Output {
    let Reservation { id, day, caller, tier, generation, session, input, output: most, worst, expires } =
        *reservation;
    let output = output.number(id.0).number(day).number(caller).tier(tier).number(generation);
    output.optional(session).number(input).number(most).money(worst).number(expires.as_nanos())
}

fn read_reservation(input: &mut Input<'_>) -> Result<Reservation, StoreError> {
    Ok(Reservation {
        id: ReservationId(input.number()?),
        day: input.number()?,
        caller: input.number()?,
        tier: input.word(&Tier::ALL)?,
        generation: input.number()?,
        session: input.optional()?,
        input: input.number()?,
        output: input.number()?,
        worst: input.money()?,
        expires: Timestamp::from_nanos(input.number()?),
    })
}

fn put_holding(output: Output, holding: &SavedHolding) -> Output {
    let SavedHolding { id: LeaseId { day, tier, node, generation }, granted, returned, account } = holding;
    let output = output.number(*day).tier(*tier).number(*node).number(*generation);
    put_account(output.money(*granted).money(*returned), account)
}

fn read_holding(input: &mut Input<'_>) -> Result<SavedHolding, StoreError> {
    let (day, tier) = (input.number()?, input.word(&Tier::ALL)?);
    let (node, generation) = (input.number()?, input.number()?);
    let (granted, returned) = (input.money()?, input.money()?);
    let id = LeaseId { day, tier, node, generation };
    Ok(SavedHolding { id, granted, returned, account: read_account(input)? })
}

fn put_caller(output: Output, caller: &SavedCaller) -> Output {
    put_account(output.number(caller.caller), &caller.account).byte(u8::from(caller.is_told))
}

fn read_caller(input: &mut Input<'_>) -> Result<SavedCaller, StoreError> {
    let (caller, account) = (input.number()?, read_account(input)?);
    Ok(SavedCaller { caller, account, is_told: input.word(&[false, true])? })
}

fn put_day(output: Output, day: &SavedDay) -> Output {
    let output = output.number(day.day).duration(day.used);
    let output = day.tiers.iter().fold(output, put_account);
    put_list(put_list(output, &day.callers, put_caller), &day.leases, put_holding)
}

fn read_day(input: &mut Input<'_>) -> Result<SavedDay, StoreError> {
    let (day, used) = (input.number()?, input.duration()?);
    let tiers = [read_account(input)?, read_account(input)?, read_account(input)?];
    let (callers, leases) = (read_list(input, read_caller)?, read_list(input, read_holding)?);
    Ok(SavedDay { day, used, tiers, overrun: [Money::ZERO; 3], callers, leases })
}

/// Writes what calls cost beyond their reservations, for the days that have such calls. Rows from before this field
/// existed, and rows without overruns, end before it.
fn put_overruns(output: Output, days: &[SavedDay]) -> Output {
    let has_overrun = |day: &&SavedDay| day.overrun != [Money::ZERO; 3];
    days.iter().filter(has_overrun).fold(output, |output, day| {
        day.overrun.iter().fold(output.number(day.day), |output, overrun| output.money(*overrun))
    })
}

fn read_overruns(input: &mut Input<'_>, days: &mut [SavedDay]) -> Result<(), StoreError> {
    while !input.is_at_end() {
        let number = input.number()?;
        let overrun = [input.money()?, input.money()?, input.money()?];
        let day = days.iter_mut().find(|day| day.day == number).ok_or_else(|| input.wrong())?;
        day.overrun = overrun;
    }
    Ok(())
}

fn put_session(output: Output, session: &SavedSession) -> Output {
    let SessionTokens { input, output: answered, input_held, output_held } = session.tokens;
    let output = output.number(session.session).duration(session.used);
    output.number(input).number(answered).number(input_held).number(output_held)
}

fn read_session(input: &mut Input<'_>) -> Result<SavedSession, StoreError> {
    let (session, used) = (input.number()?, input.duration()?);
    let tokens = SessionTokens {
        input: input.number()?,
        output: input.number()?,
        input_held: input.number()?,
        output_held: input.number()?,
    };
    Ok(SavedSession { session, used, tokens })
}

fn put_call(output: Output, call: &SavedCall) -> Output {
    let output = output.number(call.reservation.0);
    match &call.name {
        None => output.byte(0),
        Some((id, model)) => output.byte(1).long(id.request).short(id.attempt).text(model),
    }
}

fn read_call(input: &mut Input<'_>) -> Result<SavedCall, StoreError> {
    let reservation = ReservationId(input.number()?);
    let name = if input.word(&[false, true])? {
        let id = CallId { request: input.long()?, attempt: input.short()? };
        Some((id, input.text()?.into()))
    } else {
        None
    };
    Ok(SavedCall { reservation, name })
}

impl Saved {
    pub(super) fn row(&self) -> Vec<u8> {
        let BudgetSnapshot { next, uptime, next_look, session_round, days, sessions, open, given_up } =
            &self.snapshot;
        let node = match self.source {
            BudgetSource::Caps => None,
            BudgetSource::Leases { node } => Some(node),
        };
        let output = Output::default().number(self.first_segment).optional(node);
        let output = put_list(output, &self.calls, put_call);
        let output = put_list(output, &self.days, |output, day| output.number(*day));
        let output =
            put_list(output, &self.sessions, |output, (session, day)| output.number(*session).number(*day));
        let output = output.number(*next).duration(*uptime).duration(*next_look).optional(*session_round);
        let output = put_list(put_list(output, days, put_day), sessions, put_session);
        let output = put_list(put_list(output, open, put_reservation), given_up, put_reservation);
        put_overruns(output, days).row()
    }

    pub(super) fn read(row: &[u8]) -> Result<Self, StoreError> {
        let mut input = Input::row("books", row)?;
        let first_segment = input.number()?;
        let source = input.optional()?.map_or(BudgetSource::Caps, |node| BudgetSource::Leases { node });
        let calls = read_list(&mut input, read_call)?;
        let days = read_list(&mut input, |input| input.number())?;
        let sessions = read_list(&mut input, |input| Ok((input.number()?, input.number()?)))?;
        let snapshot = BudgetSnapshot {
            next: input.number()?,
            uptime: input.duration()?,
            next_look: input.duration()?,
            session_round: input.optional()?,
            days: read_list(&mut input, read_day)?,
            sessions: read_list(&mut input, read_session)?,
            open: read_list(&mut input, read_reservation)?,
            given_up: read_list(&mut input, read_reservation)?,
        };
        let mut saved = Self { source, first_segment, calls, days, sessions, snapshot };
        read_overruns(&mut input, &mut saved.snapshot.days)?;
        input.end(saved)
    }
}
