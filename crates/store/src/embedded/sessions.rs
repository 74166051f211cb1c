//! Conversations: their last turns, their tokens, and which requests were added.
//!
//! A conversation expires a fixed time after its last addition, by the wall clock, because it must survive the process.
//! Expired ones are removed a few at a time, with later additions.

use super::EmbeddedStore;
use super::codec::{Input, Output, name_hash};
use super::rows::{Batch, Kind, Rows};
use crate::StoreError;
use crate::sessions::{MOST_TURNS, SESSION_LIFE, SessionKey, SessionUse, Sessions, StoredTurn};
use seawall_core::budget::SessionTokens;
use seawall_core::history::Role;
use seawall_core::time::{Now, UtcTime};
use std::ops::{Bound, Range};
use std::time::Duration;

/// The most expired conversations that are removed with each addition: more than can begin with it, so that they do not
/// accumulate.
const FORGOTTEN_AT_ONCE: usize = 2;
const ROLES: [Role; 2] = [Role::User, Role::Assistant];

type Name = [u8; 32];

/// The state of a conversation. Turns and requests are numbered; the ranges are those that are kept.
#[derive(Clone, Debug, Default)]
struct Session {
    used: SessionUse,
    turns: Range<u64>,
    requests: Range<u64>,
    ends: UtcTime,
}

fn row(session: &Session) -> Vec<u8> {
    let Session { used, turns, requests, ends } = session;
    let output = Output::default().number(used.input).number(used.output).number(turns.start);
    output.number(turns.end).number(requests.start).number(requests.end).moment(*ends).row()
}

fn read_row(row: &[u8]) -> Result<Session, StoreError> {
    let mut input = Input::row("sessions", row)?;
    let used = SessionUse { input: input.number()?, output: input.number()? };
    let turns = input.number()?..input.number()?;
    let requests = input.number()?..input.number()?;
    let ends = input.moment()?;
    // Both ranges are iterated when the conversation is removed, so a damaged length must not pass.
    let is_kept = |numbers: &Range<u64>| {
        numbers.end.checked_sub(numbers.start).is_some_and(|length| length <= MOST_TURNS as u64)
    };
    if !is_kept(&turns) || !is_kept(&requests) {
        return Err(input.wrong());
    }
    input.end(Session { used, turns, requests, ends })
}

fn read(rows: &mut impl Rows, name: &Name) -> Result<Option<Session>, StoreError> {
    rows.get(Kind::Sessions, name)?.map(|row| read_row(&row)).transpose()
}

/// A conversation that has not expired.
fn living(rows: &mut impl Rows, name: &Name, now: UtcTime) -> Result<Option<Session>, StoreError> {
    Ok(read(rows, name)?.filter(|session| session.ends > now))
}

fn numbered(name: &Name, number: u64) -> Vec<u8> {
    Output::default().fixed(name).number(number).key()
}

fn request_key(name: &Name, request: u128) -> Vec<u8> {
    Output::default().fixed(name).long(request).key()
}

fn end_key(ends: UtcTime, name: &[u8]) -> Vec<u8> {
    Output::default().moment(ends).fixed(name).key()
}

fn turn_row(turn: &StoredTurn) -> Vec<u8> {
    let role = ROLES.iter().position(|known| *known == turn.role).unwrap_or(ROLES.len());
    Output::default().place(role).text(&turn.text).number(turn.tokens).moment(turn.at).row()
}

fn read_turn(row: &[u8]) -> Result<StoredTurn, StoreError> {
    let mut input = Input::row("turns", row)?;
    let (role, text) = (input.word(&ROLES)?, input.text()?.into());
    let (tokens, at) = (input.number()?, input.moment()?);
    input.end(StoredTurn { role, text, tokens, at })
}

fn remove_request(batch: &mut Batch<'_>, name: &Name, number: u64) -> Result<(), StoreError> {
    let key = numbered(name, number);
    if let Some(row) = batch.get(Kind::RequestOrder, &key)? {
        let request = Input::row("request_order", &row)?.long()?;
        batch.remove(Kind::Requests, &request_key(name, request))?;
    }
    batch.remove(Kind::RequestOrder, &key)
}

fn remove(batch: &mut Batch<'_>, name: &Name, session: &Session) -> Result<(), StoreError> {
    for number in session.turns.clone() {
        batch.remove(Kind::Turns, &numbered(name, number))?;
    }
    for number in session.requests.clone() {
        remove_request(batch, name, number)?;
    }
    batch.remove(Kind::SessionEnds, &end_key(session.ends, name))?;
    batch.remove(Kind::Sessions, name)
}

fn forget_some(batch: &mut Batch<'_>, now: UtcTime) -> Result<(), StoreError> {
    // A conversation expires exactly at its end, not after it.
    let end = end_key(now + Duration::from_nanos(1), &[]);
    let bounds = (Bound::Unbounded, Bound::Excluded(end.as_slice()));
    for (key, _) in batch.range(Kind::SessionEnds, bounds, FORGOTTEN_AT_ONCE)? {
        let mut input = Input::key("session_ends", &key);
        let (_, name): (UtcTime, Name) = (input.moment()?, input.fixed()?);
        match read(batch, &name)? {
            Some(session) => remove(batch, &name, &session)?,
            None => batch.remove(Kind::SessionEnds, &key)?,
        }
    }
    Ok(())
}

/// What one request adds.
struct Addition {
    request: u128,
    turns: Vec<StoredTurn>,
    used: SessionUse,
}

fn append(batch: &mut Batch<'_>, name: &Name, addition: &Addition, now: UtcTime) -> Result<(), StoreError> {
    let Addition { request, turns, used } = addition;
    let before = read(batch, name)?;
    let is_living = before.as_ref().is_some_and(|session| session.ends > now);
    if is_living && batch.get(Kind::Requests, &request_key(name, *request))?.is_some() {
        return Ok(());
    }
    let mut session = match before {
        Some(session) if is_living => {
            batch.remove(Kind::SessionEnds, &end_key(session.ends, name))?;
            session
        }
        Some(over) => {
            remove(batch, name, &over)?;
            Session::default()
        }
        None => Session::default(),
    };
    forget_some(batch, now)?;
    let kept = MOST_TURNS as u64;
    for turn in turns {
        batch.put(Kind::Turns, &numbered(name, session.turns.end), &turn_row(turn))?;
        session.turns.end = session.turns.end.saturating_add(1);
        if session.turns.end - session.turns.start > kept {
            batch.remove(Kind::Turns, &numbered(name, session.turns.start))?;
            session.turns.start += 1;
        }
    }
    let number = session.requests.end;
    batch.put(Kind::Requests, &request_key(name, *request), &Output::default().number(number).row())?;
    batch.put(Kind::RequestOrder, &numbered(name, number), &Output::default().long(*request).row())?;
    session.requests.end = number.saturating_add(1);
    if session.requests.end - session.requests.start > kept {
        remove_request(batch, name, session.requests.start)?;
        session.requests.start += 1;
    }
    session.used.input = session.used.input.saturating_add(used.input);
    session.used.output = session.used.output.saturating_add(used.output);
    session.ends = now + SESSION_LIFE;
    batch.put(Kind::SessionEnds, &end_key(session.ends, name), &[])?;
    batch.put(Kind::Sessions, name, &row(&session))
}

fn load(rows: &mut impl Rows, name: &Name, most: usize, now: UtcTime) -> Result<Vec<StoredTurn>, StoreError> {
    let Some(Session { turns, .. }) = living(rows, name, now)? else { return Ok(Vec::new()) };
    let first = turns.end.saturating_sub(most as u64).max(turns.start);
    let (first, end) = (numbered(name, first), numbered(name, turns.end));
    let bounds = (Bound::Included(first.as_slice()), Bound::Excluded(end.as_slice()));
    rows.range(Kind::Turns, bounds, most)?.iter().map(|(_, row)| read_turn(row)).collect()
}

fn session_name(session: &SessionKey) -> Name {
    name_hash("session", session.caller, &session.name)
}

impl Sessions for EmbeddedStore {
    async fn append(
        &self,
        session: &SessionKey,
        request: u128,
        turns: &[StoredTurn],
        used: SessionUse,
        now: Now,
    ) -> Result<(), StoreError> {
        let name = session_name(session);
        let addition = Addition { request, turns: turns.to_vec(), used };
        self.write(move |batch, _| append(batch, &name, &addition, now.utc)).await
    }

    async fn load(&self, session: &SessionKey, most: usize, now: Now) -> Result<Vec<StoredTurn>, StoreError> {
        self.read(|view| load(view, &session_name(session), most, now.utc))
    }

    async fn tokens(&self, session: &SessionKey, now: Now) -> Result<SessionTokens, StoreError> {
        let session = self.read(|view| living(view, &session_name(session), now.utc))?;
        let SessionUse { input, output } = session.unwrap_or_default().used;
        Ok(SessionTokens { input, output, ..SessionTokens::default() })
    }
}
