//! What a child process does until it is killed.

use crate::support::{FOLDER, MARK, Numbers, ROLE, ROUND, moment, options, wait};
use seawall_core::budget::Ask;
use seawall_core::evaluator::Switch;
use seawall_core::history::{Role, TokenLimits};
use seawall_core::money::{Money, Usage};
use seawall_core::time::{Now, Timestamp};
use seawall_core::vocabulary::Tier;
use seawall_store::embedded::EmbeddedStore;
use seawall_store::{
    Attempt, Books, CallId, CallerRecord, Certainty, ChangeOrder, CredentialHash, Directory, SessionKey,
    SessionUse, Sessions, StoredTurn, SwitchChange, Switches,
};
use std::fmt;
use std::io::Write;
use std::path::Path;

/// Not a test: the entry point of the program when it is started as a child.
#[test]
fn plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let folder = std::env::var(FOLDER).unwrap();
    let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    match role.as_str() {
        "spend" => spend(Path::new(&folder), round),
        "open" => tell(match EmbeddedStore::open(Path::new(&folder), options(), moment(round)) {
            Ok(_) => "opened".to_owned(),
            Err(refusal) => format!("refused {refusal}"),
        }),
        "fill" => crate::large::fill(Path::new(&folder)),
        "fill the disk" => crate::unusable::fill_the_disk(Path::new(&folder)),
        "fill the journal" => crate::unusable::fill_the_journal(Path::new(&folder)),
        other => panic!("{other}"),
    }
}

/// Writes a line and flushes it.
pub(crate) fn tell(what: impl fmt::Display) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{MARK}{what}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

fn spend(folder: &Path, round: u64) {
    let opened = EmbeddedStore::open(folder, options(), moment(round)).unwrap();
    let (store, books) = (opened.store, Books::with_book(opened.book, opened.journal));
    tell("ready");
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let books = &books;
            scope.spawn(move || call_models(books, thread, round));
        }
        scope.spawn(|| keep_things(&store, round));
    });
}

/// Numbers of calls are unique over all rounds and threads.
fn number_of(round: u64, thread: u64, count: u64) -> u64 {
    round * 100_000_000 + thread * 10_000_000 + count
}

fn call_models(books: &Books, thread: u64, round: u64) {
    let now = moment(round);
    let mut numbers = Numbers(number_of(round, thread, 0));
    let mut kept = Vec::new();
    for count in 0.. {
        let number = number_of(round, thread, count);
        let worst = numbers.below(1_000) + 1;
        tell(format_args!("reserve? {number} {worst}"));
        let attempt = Attempt { id: call_id(number), model: "strong".into() };
        let Ok(hold) = books.reserve(&ask(number, worst), attempt, now) else {
            tell(format_args!("refused {number} {worst}"));
            continue;
        };
        tell(format_args!("reserve {number} {worst}"));
        match numbers.below(8) {
            // Calls that take longer than others; some are in flight when the process is killed.
            0 => kept.push((number, worst, hold)),
            1 => {
                tell(format_args!("void? {number} 0"));
                hold.void();
                tell(format_args!("void {number} 0"));
            }
            2 => {
                tell(format_args!("drop? {number} {worst}"));
                drop(hold);
                tell(format_args!("drop {number} {worst}"));
            }
            _ => post(hold, number, numbers.below(worst) + 1, now),
        }
        if kept.len() > 20 {
            let (number, worst, hold) = kept.swap_remove(usize::try_from(numbers.below(20)).unwrap());
            post(hold, number, numbers.below(worst) + 1, now);
        }
    }
}

fn post(hold: seawall_store::Hold, number: u64, cost: u64, now: Now) {
    tell(format_args!("post? {number} {cost}"));
    hold.post(Usage { output: cost, ..Usage::default() }, Money::from_nanos(cost), Certainty::Told, now);
    tell(format_args!("post {number} {cost}"));
}

pub(crate) fn call_id(number: u64) -> CallId {
    CallId { request: u128::from(number), attempt: 0 }
}

pub(crate) fn ask(number: u64, worst: u64) -> Ask {
    Ask {
        caller: number % 11,
        tier: Tier::Standard,
        session: None,
        limits: TokenLimits::default(),
        input: 1,
        output: 1,
        worst: Money::from_nanos(worst),
        expires: Timestamp::NEVER,
    }
}

/// The credential that belongs to this number.
pub(crate) fn credential(number: u64) -> CredentialHash {
    let mut hash = [7; 32];
    hash[..8].copy_from_slice(&number.to_be_bytes());
    CredentialHash(hash)
}

pub(crate) fn session(round: u64) -> SessionKey {
    SessionKey { caller: 1, name: format!("round {round}").into() }
}

fn keep_things(store: &EmbeddedStore, round: u64) {
    let now = moment(round);
    for count in 0.. {
        let number = number_of(round, 9, count);
        tell(format_args!("keep? {number} 0"));
        let turn = StoredTurn { role: Role::User, text: "漫画".into(), tokens: 1, at: now.utc };
        let used = SessionUse { input: 1, output: 2 };
        wait(store.append(&session(round), number.into(), &[turn], used, now)).unwrap();
        let record = CallerRecord {
            caller: number,
            name: "ann".into(),
            tier: Tier::Guest,
            clamp: None,
            created: now.utc,
            revoked: None,
        };
        let _ = wait(store.add(&credential(number), &record)).unwrap();
        let order = ChangeOrder {
            change: SwitchChange::Throw(Switch::OffPeak, count % 2 == 0),
            who: "ann".into(),
            role: "ops".into(),
            why: number.to_string().into(),
            at: now.utc,
            refused: count % 3 == 0,
        };
        let seen = wait(Switches::read(store)).unwrap().version;
        let _ = wait(store.order(&order, seen)).unwrap();
        tell(format_args!("keep {number} 0"));
    }
}
