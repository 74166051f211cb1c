//! Conversations that a fleet shares, so that any node can continue them.

use super::key;
use super::link::{RedisLink, STORE, numbers};
use super::packing::Packing;
use super::script::StoreScript;
use crate::StoreError;
use crate::encoding::{Reader, put_number, put_text};
use crate::sessions::{MOST_TURNS, SESSION_LIFE, SessionKey, SessionUse, Sessions, StoredTurn};
use redis::Value;
use seawall_core::budget::SessionTokens;
use seawall_core::handle::Runtime;
use seawall_core::history::Role;
use seawall_core::time::{Now, UtcTime};

const ADD: u64 = 1;
const READ: u64 = 2;
const COUNT: u64 = 3;

/// Conversations in Redis.
pub struct RedisSessions<R> {
    link: RedisLink<R>,
    script: StoreScript,
    stepped: bool,
}

impl<R: Runtime> RedisSessions<R> {
    /// Conversations over this connection.
    #[must_use]
    pub fn new(link: RedisLink<R>) -> Self {
        Self { link, script: StoreScript::timed(include_str!("lua/session.lua")), stepped: false }
    }

    /// Uses the time that is passed in instead of the server's. For tests.
    #[must_use]
    pub fn stepped(self) -> Self {
        Self { stepped: true, ..self }
    }

    async fn ask(
        &self,
        what: u64,
        session: &SessionKey,
        now: Now,
        rest: impl FnOnce(&mut Packing),
    ) -> Result<Value, StoreError> {
        let mut packing = Packing::new();
        packing.time(self.stepped.then_some(now)).number(what).span(SESSION_LIFE).number(MOST_TURNS as u64);
        rest(&mut packing);
        let name = key::hashed(&[&session.caller.to_be_bytes(), session.name.as_bytes()]);
        let keys = ["s", "t"].map(|kind| format!("{}:{kind}:{{{name}}}", key::VERSION));
        self.link.run(&self.script, &keys, &[&packing.finish()]).await
    }
}

impl<R: Runtime> Sessions for RedisSessions<R> {
    async fn append(
        &self,
        session: &SessionKey,
        request: u128,
        turns: &[StoredTurn],
        used: SessionUse,
        now: Now,
    ) -> Result<(), StoreError> {
        let last = &turns[turns.len().saturating_sub(MOST_TURNS)..];
        let answer = self.ask(ADD, session, now, |packing| {
            packing.bytes(&request.to_be_bytes()).number(used.input).number(used.output);
            for turn in last {
                packing.bytes(&written(turn));
            }
        });
        numbers(&answer.await?).map(|_| ())
    }

    async fn load(&self, session: &SessionKey, most: usize, now: Now) -> Result<Vec<StoredTurn>, StoreError> {
        let most = most.min(MOST_TURNS) as u64;
        let answer = self.ask(READ, session, now, |packing| {
            packing.number(most);
        });
        let strange = || StoreError::broken(STORE, "no turn of a conversation");
        let answer = answer.await?;
        let Value::Array(items) = &answer else { return Err(strange()) };
        if matches!(items.first(), Some(Value::Int(_))) {
            numbers(&answer)?;
        }
        let turn = |item: &Value| match item {
            Value::BulkString(bytes) => read(bytes).ok_or_else(strange),
            _ => Err(strange()),
        };
        items.iter().map(turn).collect()
    }

    async fn tokens(&self, session: &SessionKey, now: Now) -> Result<SessionTokens, StoreError> {
        let answer = numbers(&self.ask(COUNT, session, now, |_| ()).await?)?;
        let [input, output] = answer.as_slice() else {
            return Err(StoreError::broken(STORE, "no count of tokens"));
        };
        let (input, output) = (input.unsigned_abs(), output.unsigned_abs());
        Ok(SessionTokens { input, output, ..SessionTokens::default() })
    }
}

fn written(turn: &StoredTurn) -> Vec<u8> {
    let mut bytes = vec![match turn.role {
        Role::User => 0,
        Role::Assistant => 1,
    }];
    put_number(&mut bytes, turn.tokens);
    put_number(&mut bytes, turn.at.as_nanos());
    put_text(&mut bytes, &turn.text);
    bytes
}

fn read(bytes: &[u8]) -> Option<StoredTurn> {
    let mut reader = Reader::new(bytes);
    let role = if reader.flag()? { Role::Assistant } else { Role::User };
    let (tokens, at) = (reader.number()?, UtcTime::from_nanos(reader.number()?));
    let text = reader.text()?.into();
    reader.end()?;
    Some(StoredTurn { role, text, tokens, at })
}
