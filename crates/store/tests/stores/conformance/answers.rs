//! Answers: the store rule, compared and replaced in one atomic step.

use super::{Drive, Effort, Step, TestResult, at_once, explore, millis, same, start};
use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_assert_eq, prop_oneof};
use proptest::sample::select;
use seawall_core::cache_policy::{
    AnswerEnd, CacheAgeOptions, CacheAges, CacheKey, CacheStoreDecision, CacheStoreOptions, CachedAnswer,
    KeyParts, NewAnswer, Question,
};
use seawall_core::vocabulary::Grade;
use seawall_store::{Answers, StoredAnswer};
use std::collections::BTreeMap;
use std::time::Duration;

/// The settings that every store is tested with. It must hold at least 16 answers.
fn rules() -> (CacheAges, CacheStoreOptions) {
    let seconds = Duration::from_secs;
    let ages = CacheAgeOptions { max_age: seconds(10), max_stale_age: seconds(60), clock_skew: seconds(5) };
    (ages.check().unwrap(), CacheStoreOptions { max_answer_size: 12 })
}

#[derive(Clone, Debug)]
enum Operation {
    Load(usize),
    Store { key: usize, text: &'static str, end: AnswerEnd, grade: Grade },
}

fn operations() -> impl Strategy<Value = Vec<(Operation, u64)>> {
    let texts = select(vec!["a", "", "  ", "漫画は\0\n", "漫画は漫画は", "twelve bytes", "thirteen byte"]);
    let ends = prop_oneof![6 => select(vec![AnswerEnd::Finished]), 1 => select(AnswerEnd::ALL.to_vec())];
    let operation = prop_oneof![
        (0_usize..6).prop_map(Operation::Load),
        (0_usize..6, texts, ends, select(Grade::ALL.to_vec()))
            .prop_map(|(key, text, end, grade)| Operation::Store { key, text, end, grade }),
    ];
    let passes = prop_oneof![4 => 0_u64..2_000, 1 => 0_u64..40_000, 1 => 59_999_u64..60_002];
    vec((operation, passes), 1..50)
}

fn keys() -> Vec<CacheKey> {
    let parts = KeyParts { route: "chat", locale: "ja-JP", prompt_version: "1", catalogue_version: "1" };
    let key = |text, is_context_free, caller| {
        let question = Question { intent: "any", is_context_free, text, history: "", uses_account: false };
        CacheKey::of(&question, caller, &parts).unwrap()
    };
    let mut keys = Vec::new();
    for caller in ["ann", "bob", "漫"] {
        keys.push(key("where is my order", false, caller));
    }
    keys.extend(["a", "b", "c"].map(|text| key(text, true, "ann")));
    keys
}

/// Runs the suite against an answer cache.
pub(crate) fn answers<S: Answers>(
    effort: Effort,
    drive: &impl Drive,
    make: impl Fn(CacheAges, CacheStoreOptions) -> S,
) -> TestResult {
    let make = || {
        let (ages, options) = rules();
        make(ages, options)
    };
    let keys = keys();
    explore(effort, &operations(), |operations| play(&make(), drive, &keys, operations))?;
    // Weak answers never replace a strong one, however closely they follow.
    let now = start().utc;
    let answer = |text, grade| NewAnswer { text, end: AnswerEnd::Finished, grade };
    for _ in 0..20 {
        let store = make();
        at_once(effort.threads, |thread| {
            let answer =
                if thread == 0 { answer("strong", Grade::Strong) } else { answer("fast", Grade::Fast) };
            drive.drive(store.store(&keys[0], &answer, now)).unwrap()
        });
        let left = drive.drive(store.load(&keys[0], now)).unwrap();
        same("the grade that is left", left.map(|answer| answer.kept.grade), Some(Grade::Strong))?;
    }
    Ok(())
}

fn play(
    store: &impl Answers,
    drive: &impl Drive,
    keys: &[CacheKey],
    operations: Vec<(Operation, u64)>,
) -> Step {
    let (ages, options) = rules();
    let rule = options.check(ages).unwrap();
    let mut now = start().utc;
    let mut expected_answers: BTreeMap<usize, StoredAnswer> = BTreeMap::new();
    for (operation, passes) in operations {
        now = now + millis(passes);
        match operation {
            Operation::Load(key) => {
                let expected =
                    expected_answers.get(&key).filter(|answer| ages.is_servable(&answer.kept, now));
                let seen = drive.drive(store.load(&keys[key], now)).unwrap();
                prop_assert_eq!(seen.as_ref(), expected);
            }
            Operation::Store { key, text, end, grade } => {
                let answer = NewAnswer { text, end, grade };
                let expected =
                    rule.decide(&answer, expected_answers.get(&key).map(|answer| &answer.kept), now);
                let seen = drive.drive(store.store(&keys[key], &answer, now)).unwrap();
                prop_assert_eq!(seen, expected);
                if expected == CacheStoreDecision::Store {
                    let stored = CachedAnswer { grade, stored_at: now };
                    expected_answers.insert(key, StoredAnswer { text: text.into(), kept: stored });
                }
            }
        }
    }
    Ok(())
}
