//! Conversations: every request once, the last turns in order, and gone when they expire.

use super::{Drive, Effort, Step, TestResult, at_once, explore, millis, same, start};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert_eq, prop_oneof};
use seawall_core::budget::SessionTokens;
use seawall_core::history::Role;
use seawall_core::time::{Now, Timestamp};
use seawall_store::{MAX_TURNS, RequestTokens, SESSION_TTL, SessionKey, Sessions, StoredTurn};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Operation {
    Append { session: usize, request: u128, turns: usize, used: u64 },
    Load { session: usize, limit: usize },
    Tokens(usize),
}

/// As with claims: two pairs that collide if caller and name are joined carelessly.
fn key(session: usize) -> SessionKey {
    let (caller, name) = [(1, "1a"), (11, "a"), (2, "")][session];
    SessionKey { caller, name: name.into() }
}

fn operations() -> impl Strategy<Value = Vec<(Operation, u64)>> {
    let turns = prop_oneof![12 => 0_usize..4, 1 => MAX_TURNS - 2..MAX_TURNS + 3];
    let limit = prop_oneof![2 => 0_usize..6, 1 => MAX_TURNS - 1..MAX_TURNS + 9, 1 => any::<usize>()];
    let operation = prop_oneof![
        3 => (0_usize..3, 0_u128..9, turns, 0_u64..100)
            .prop_map(|(session, request, turns, used)| Operation::Append { session, request, turns, used }),
        2 => (0_usize..3, limit).prop_map(|(session, limit)| Operation::Load { session, limit }),
        1 => (0_usize..3).prop_map(Operation::Tokens),
    ];
    let life = u64::try_from(SESSION_TTL.as_millis()).unwrap();
    let passes = prop_oneof![6 => 0_u64..1_000, 2 => 0..life / 2, 1 => life - 1..life + 2];
    vec((operation, passes), 1..40)
}

fn turn(number: usize, now: Now) -> StoredTurn {
    let role = if number.is_multiple_of(2) { Role::User } else { Role::Assistant };
    StoredTurn { role, text: format!("「{number}」\0\n").into(), tokens: number as u64, at: now.utc }
}

#[derive(Default)]
struct Known {
    turns: Vec<StoredTurn>,
    requests: Vec<u128>,
    used: u64,
    expires: Timestamp,
}

/// Runs the suite against a store of conversations.
pub(crate) fn sessions<S: Sessions>(effort: Effort, drive: &impl Drive, make: impl Fn() -> S) -> TestResult {
    explore(effort, &operations(), |operations| play(&make(), drive, operations))?;
    let (store, now) = (make(), start());
    at_once(effort.threads, |thread| {
        for request in 0..30_u128 {
            // All threads append the same requests, and some of their own.
            let own = u128::from(thread + 1) << 64;
            for request in [request, request | own] {
                let (used, turns) = (RequestTokens { input: 2, output: 1 }, [turn(0, now)]);
                drive.drive(store.append(&key(0), request, &turns, used, now)).unwrap();
            }
        }
    });
    let appended = 30 * (effort.threads + 1);
    let tokens = drive.drive(store.tokens(&key(0), now)).unwrap();
    same(
        "tokens of all",
        tokens,
        SessionTokens { input: appended * 2, output: appended, ..Default::default() },
    )?;
    let turns = drive.drive(store.load(&key(0), usize::MAX, now)).unwrap();
    same("turns of all", turns.len() as u64, appended.min(MAX_TURNS as u64))
}

fn play<S: Sessions>(store: &S, drive: &impl Drive, operations: Vec<(Operation, u64)>) -> Step {
    let mut now = start();
    let mut known: BTreeMap<usize, Known> = BTreeMap::new();
    let mut number = 0;
    for (operation, passes) in operations {
        now = now + millis(passes);
        known.retain(|_, known| now.monotonic < known.expires);
        match operation {
            Operation::Append { session, request, turns, used } => {
                let turns: Vec<_> = (number..number + turns).map(|number| turn(number, now)).collect();
                number += turns.len();
                let tokens = RequestTokens { input: used, output: used / 3 };
                drive.drive(store.append(&key(session), request, &turns, tokens, now)).unwrap();
                let known = known.entry(session).or_default();
                if !known.requests.contains(&request) {
                    known.requests.push(request);
                    known.turns.extend(turns);
                    known.used += (used << 32) | (used / 3);
                    known.expires = now.monotonic + SESSION_TTL;
                }
            }
            Operation::Load { session, limit } => {
                let turns = known.get(&session).map(|known| known.turns.as_slice()).unwrap_or_default();
                let expected = &turns[turns.len().saturating_sub(limit.min(MAX_TURNS))..];
                let seen = drive.drive(store.load(&key(session), limit, now)).unwrap();
                prop_assert_eq!(seen, expected);
            }
            Operation::Tokens(session) => {
                let used = known.get(&session).map(|known| known.used).unwrap_or_default();
                let (input, output) = (used >> 32, used & 0xffff_ffff);
                let seen = drive.drive(store.tokens(&key(session), now)).unwrap();
                prop_assert_eq!(seen, SessionTokens { input, output, ..Default::default() });
            }
        }
    }
    Ok(())
}
