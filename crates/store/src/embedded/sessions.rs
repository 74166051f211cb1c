//! Conversations: their last turns, their tokens, and which requests were added.
//!
//! A conversation expires a fixed time after its last addition, by the wall clock, because it must survive the process.
//! Expired ones are removed a few at a time, with later additions.

use super::EmbeddedStore;
use super::codec::{RowDecoder, RowEncoder, key_hash};
use super::rows::{Batch, Rows, TableKind};
use crate::sessions::{MAX_TURNS, RequestTokens, SESSION_TTL, SessionKey, Sessions, StoredTurn};
use crate::{StoreError, StoreFuture};
use seawall_core::budget::SessionTokens;
use seawall_core::history::Role;
use seawall_core::time::{Now, UtcTime};
use std::ops::{Bound, Range};
use std::time::Duration;

/// The most expired conversations that are removed with each addition: more than can begin with it, so that they do not
/// accumulate.
const MAX_REMOVALS: usize = 2;
const ROLES: [Role; 2] = [Role::User, Role::Assistant];

type SessionHash = [u8; 32];

/// The state of a conversation. Turns and requests are numbered; the ranges are those that are kept.
#[derive(Clone, Debug, Default)]
struct SessionRow {
    used: RequestTokens,
    turns: Range<u64>,
    requests: Range<u64>,
    ends: UtcTime,
}

fn row(session: &SessionRow) -> Vec<u8> {
    let SessionRow { used, turns, requests, ends } = session;
    let output = RowEncoder::default().u64(used.input).u64(used.output).u64(turns.start);
    output.u64(turns.end).u64(requests.start).u64(requests.end).time(*ends).row()
}

fn read_row(row: &[u8]) -> Result<SessionRow, StoreError> {
    let mut input = RowDecoder::row("sessions", row)?;
    let used = RequestTokens { input: input.u64()?, output: input.u64()? };
    let turns = input.u64()?..input.u64()?;
    let requests = input.u64()?..input.u64()?;
    let ends = input.time()?;
    // Both ranges are iterated when the conversation is removed, so a damaged length must not pass.
    let is_kept = |numbers: &Range<u64>| {
        numbers.end.checked_sub(numbers.start).is_some_and(|length| length <= MAX_TURNS as u64)
    };
    if !is_kept(&turns) || !is_kept(&requests) {
        return Err(input.invalid());
    }
    input.end(SessionRow { used, turns, requests, ends })
}

fn read(rows: &mut impl Rows, name: &SessionHash) -> Result<Option<SessionRow>, StoreError> {
    rows.get(TableKind::Sessions, name)?.map(|row| read_row(&row)).transpose()
}

/// A conversation that has not expired.
fn load_live(
    rows: &mut impl Rows,
    name: &SessionHash,
    now: UtcTime,
) -> Result<Option<SessionRow>, StoreError> {
    Ok(read(rows, name)?.filter(|session| session.ends > now))
}

fn numbered(name: &SessionHash, number: u64) -> Vec<u8> {
    RowEncoder::default().bytes(name).u64(number).key()
}

fn request_key(name: &SessionHash, request: u128) -> Vec<u8> {
    RowEncoder::default().bytes(name).u128(request).key()
}

fn end_key(ends: UtcTime, name: &[u8]) -> Vec<u8> {
    RowEncoder::default().time(ends).bytes(name).key()
}

fn turn_row(turn: &StoredTurn) -> Vec<u8> {
    let role = ROLES.iter().position(|known| *known == turn.role).unwrap_or(ROLES.len());
    RowEncoder::default().index(role).text(&turn.text).u64(turn.tokens).time(turn.at).row()
}

fn read_turn(row: &[u8]) -> Result<StoredTurn, StoreError> {
    let mut input = RowDecoder::row("turns", row)?;
    let (role, text) = (input.choice(&ROLES)?, input.text()?.into());
    let (tokens, at) = (input.u64()?, input.time()?);
    input.end(StoredTurn { role, text, tokens, at })
}

fn remove_request(batch: &mut Batch<'_>, name: &SessionHash, number: u64) -> Result<(), StoreError> {
    let key = numbered(name, number);
    if let Some(row) = batch.get(TableKind::RequestOrder, &key)? {
        let request = RowDecoder::row("request_order", &row)?.u128()?;
        batch.remove(TableKind::Requests, &request_key(name, request))?;
    }
    batch.remove(TableKind::RequestOrder, &key)
}

fn remove(batch: &mut Batch<'_>, name: &SessionHash, session: &SessionRow) -> Result<(), StoreError> {
    for number in session.turns.clone() {
        batch.remove(TableKind::Turns, &numbered(name, number))?;
    }
    for number in session.requests.clone() {
        remove_request(batch, name, number)?;
    }
    batch.remove(TableKind::SessionEnds, &end_key(session.ends, name))?;
    batch.remove(TableKind::Sessions, name)
}

fn remove_expired(batch: &mut Batch<'_>, now: UtcTime) -> Result<(), StoreError> {
    // A conversation expires exactly at its end, not after it.
    let end = end_key(now + Duration::from_nanos(1), &[]);
    let bounds = (Bound::Unbounded, Bound::Excluded(end.as_slice()));
    for (key, _) in batch.range(TableKind::SessionEnds, bounds, MAX_REMOVALS)? {
        let mut input = RowDecoder::key("session_ends", &key);
        let (_, name): (UtcTime, SessionHash) = (input.time()?, input.array()?);
        match read(batch, &name)? {
            Some(session) => remove(batch, &name, &session)?,
            None => batch.remove(TableKind::SessionEnds, &key)?,
        }
    }
    Ok(())
}

/// What one request adds.
struct Addition {
    request: u128,
    turns: Vec<StoredTurn>,
    used: RequestTokens,
}

fn append(
    batch: &mut Batch<'_>,
    name: &SessionHash,
    addition: &Addition,
    now: UtcTime,
) -> Result<(), StoreError> {
    let Addition { request, turns, used } = addition;
    let before = read(batch, name)?;
    let is_living = before.as_ref().is_some_and(|session| session.ends > now);
    if is_living && batch.get(TableKind::Requests, &request_key(name, *request))?.is_some() {
        return Ok(());
    }
    let mut session = match before {
        Some(session) if is_living => {
            batch.remove(TableKind::SessionEnds, &end_key(session.ends, name))?;
            session
        }
        Some(over) => {
            remove(batch, name, &over)?;
            SessionRow::default()
        }
        None => SessionRow::default(),
    };
    remove_expired(batch, now)?;
    let max_turns = MAX_TURNS as u64;
    for turn in turns {
        batch.put(TableKind::Turns, &numbered(name, session.turns.end), &turn_row(turn))?;
        session.turns.end = session.turns.end.saturating_add(1);
        if session.turns.end - session.turns.start > max_turns {
            batch.remove(TableKind::Turns, &numbered(name, session.turns.start))?;
            session.turns.start += 1;
        }
    }
    let number = session.requests.end;
    batch.put(TableKind::Requests, &request_key(name, *request), &RowEncoder::default().u64(number).row())?;
    batch.put(
        TableKind::RequestOrder,
        &numbered(name, number),
        &RowEncoder::default().u128(*request).row(),
    )?;
    session.requests.end = number.saturating_add(1);
    if session.requests.end - session.requests.start > max_turns {
        remove_request(batch, name, session.requests.start)?;
        session.requests.start += 1;
    }
    session.used.input = session.used.input.saturating_add(used.input);
    session.used.output = session.used.output.saturating_add(used.output);
    session.ends = now + SESSION_TTL;
    batch.put(TableKind::SessionEnds, &end_key(session.ends, name), &[])?;
    batch.put(TableKind::Sessions, name, &row(&session))
}

fn load(
    rows: &mut impl Rows,
    name: &SessionHash,
    max: usize,
    now: UtcTime,
) -> Result<Vec<StoredTurn>, StoreError> {
    let Some(SessionRow { turns, .. }) = load_live(rows, name, now)? else { return Ok(Vec::new()) };
    let first = turns.end.saturating_sub(max as u64).max(turns.start);
    let (first, end) = (numbered(name, first), numbered(name, turns.end));
    let bounds = (Bound::Included(first.as_slice()), Bound::Excluded(end.as_slice()));
    rows.range(TableKind::Turns, bounds, max)?.iter().map(|(_, row)| read_turn(row)).collect()
}

fn session_name(session: &SessionKey) -> SessionHash {
    key_hash("session", session.caller, &session.name)
}

impl Sessions for EmbeddedStore {
    fn append<'a>(
        &'a self,
        session: &'a SessionKey,
        request: u128,
        turns: &'a [StoredTurn],
        used: RequestTokens,
        now: Now,
    ) -> StoreFuture<'a, ()> {
        StoreFuture::boxed(async move {
            let name = session_name(session);
            let addition = Addition { request, turns: turns.to_vec(), used };
            self.write(move |batch, _| append(batch, &name, &addition, now.utc)).await
        })
    }

    fn load<'a>(&'a self, session: &'a SessionKey, max: usize, now: Now) -> StoreFuture<'a, Vec<StoredTurn>> {
        StoreFuture::run(|| self.read(|view| load(view, &session_name(session), max, now.utc)))
    }

    fn tokens<'a>(&'a self, session: &'a SessionKey, now: Now) -> StoreFuture<'a, SessionTokens> {
        StoreFuture::run(|| {
            let session = self.read(|view| load_live(view, &session_name(session), now.utc))?;
            let RequestTokens { input, output } = session.unwrap_or_default().used;
            Ok(SessionTokens { input, output, ..SessionTokens::default() })
        })
    }
}
