//! Conversations that a fleet shares, so that any node can continue them.

use super::connection::{RedisConnection, STORE, parse_integers};
use super::key;
use super::packing::ScriptArguments;
use super::script::StoreScript;
use crate::encoding::{ByteReader, put_text, put_varint};
use crate::sessions::{MAX_TURNS, RequestTokens, SESSION_TTL, SessionKey, Sessions, StoredTurn};
use crate::{StoreError, StoreFuture};
use redis::Value;
use seawall_core::budget::SessionTokens;
use seawall_core::history::Role;
use seawall_core::runtime::Runtime;
use seawall_core::time::{Now, UtcTime};

const ADD: u64 = 1;
const READ: u64 = 2;
const COUNT: u64 = 3;

/// Conversations in Redis.
pub struct RedisSessions<R> {
    connection: RedisConnection<R>,
    script: StoreScript,
    manual_clock: bool,
}

impl<R: Runtime> RedisSessions<R> {
    /// Conversations over this connection.
    #[must_use]
    pub fn new(connection: RedisConnection<R>) -> Self {
        Self { connection, script: StoreScript::timed(include_str!("lua/session.lua")), manual_clock: false }
    }

    /// Uses the time that is passed in instead of the server's. For tests.
    #[must_use]
    pub fn with_manual_clock(self) -> Self {
        Self { manual_clock: true, ..self }
    }

    async fn run_script(
        &self,
        operation: u64,
        session: &SessionKey,
        now: Now,
        rest: impl FnOnce(&mut ScriptArguments),
    ) -> Result<Value, StoreError> {
        let mut arguments = ScriptArguments::new();
        arguments
            .time(self.manual_clock.then_some(now))
            .number(operation)
            .span(SESSION_TTL)
            .number(MAX_TURNS as u64);
        rest(&mut arguments);
        let name = key::hash_hex(&[&session.caller.to_be_bytes(), session.name.as_bytes()]);
        let keys = ["s", "t"].map(|kind| format!("{}:{kind}:{{{name}}}", key::VERSION));
        self.connection.run(&self.script, &keys, &[&arguments.finish()]).await
    }
}

impl<R: Runtime> Sessions for RedisSessions<R> {
    fn append<'a>(
        &'a self,
        session: &'a SessionKey,
        request: u128,
        turns: &'a [StoredTurn],
        used: RequestTokens,
        now: Now,
    ) -> StoreFuture<'a, ()> {
        StoreFuture::boxed(async move {
            let last = &turns[turns.len().saturating_sub(MAX_TURNS)..];
            let response = self.run_script(ADD, session, now, |arguments| {
                arguments.bytes(&request.to_be_bytes()).number(used.input).number(used.output);
                for turn in last {
                    arguments.bytes(&encode_turn(turn));
                }
            });
            parse_integers(&response.await?).map(|_| ())
        })
    }

    fn load<'a>(&'a self, session: &'a SessionKey, max: usize, now: Now) -> StoreFuture<'a, Vec<StoredTurn>> {
        StoreFuture::boxed(async move {
            let max = max.min(MAX_TURNS) as u64;
            let response = self.run_script(READ, session, now, |arguments| {
                arguments.number(max);
            });
            let unexpected_response =
                || StoreError::failed(STORE, "a stored turn of a conversation is invalid");
            let response = response.await?;
            let Value::Array(items) = &response else { return Err(unexpected_response()) };
            if matches!(items.first(), Some(Value::Int(_))) {
                parse_integers(&response)?;
            }
            let turn = |item: &Value| match item {
                Value::BulkString(bytes) => decode_turn(bytes).ok_or_else(unexpected_response),
                _ => Err(unexpected_response()),
            };
            items.iter().map(turn).collect()
        })
    }

    fn tokens<'a>(&'a self, session: &'a SessionKey, now: Now) -> StoreFuture<'a, SessionTokens> {
        StoreFuture::boxed(async move {
            let response = parse_integers(&self.run_script(COUNT, session, now, |_| ()).await?)?;
            let [input, output] = response.as_slice() else {
                return Err(StoreError::failed(STORE, "the response has no token counts"));
            };
            let (input, output) = (input.unsigned_abs(), output.unsigned_abs());
            Ok(SessionTokens { input, output, ..SessionTokens::default() })
        })
    }
}

fn encode_turn(turn: &StoredTurn) -> Vec<u8> {
    let mut bytes = vec![match turn.role {
        Role::User => 0,
        Role::Assistant => 1,
    }];
    put_varint(&mut bytes, turn.tokens);
    put_varint(&mut bytes, turn.at.as_nanos());
    put_text(&mut bytes, &turn.text);
    bytes
}

fn decode_turn(bytes: &[u8]) -> Option<StoredTurn> {
    let mut reader = ByteReader::new(bytes);
    let role = if reader.flag()? { Role::Assistant } else { Role::User };
    let (tokens, at) = (reader.varint()?, UtcTime::from_nanos(reader.varint()?));
    let text = reader.text()?.into();
    reader.end()?;
    Some(StoredTurn { role, text, tokens, at })
}
