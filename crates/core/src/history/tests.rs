use super::{
    DroppedHistory, HistoryDecision, HistoryInput, HistoryTurn, KeptHistory, Role, TokenLimits,
    TokenLimitsOptions, TurnGroup, trim,
};
use crate::invariant;
use proptest::collection::vec;
use proptest::prelude::*;

const fn user(tokens: u64) -> HistoryTurn {
    HistoryTurn { role: Role::User, tokens }
}

const fn assistant(tokens: u64) -> HistoryTurn {
    HistoryTurn { role: Role::Assistant, tokens }
}

fn sent(conversation: &HistoryInput<'_>, limit: u64) -> KeptHistory {
    match trim(conversation, limit) {
        HistoryDecision::Send(kept) => kept,
        refused => panic!("{refused:?}"),
    }
}

#[test]
fn nothing_is_left_out_where_everything_fits_exactly() {
    let turns = [user(10), assistant(20)];
    let conversation = HistoryInput { system: 1, overhead: 2, turns: &turns, chunks: &[30, 40], message: 3 };
    let kept = sent(&conversation, 106);
    assert_eq!(kept, KeptHistory { turns: 0..2, chunks: 2, tokens: 106, dropped: DroppedHistory::default() });
    assert_eq!(sent(&conversation, 105).turns, 2..2);
}

#[test]
fn a_long_history_loses_its_oldest_pairs_and_begins_with_the_user() {
    let turns: Vec<_> = (0..5).flat_map(|_| [user(400), assistant(600)]).collect();
    let conversation = HistoryInput { system: 300, overhead: 300, turns: &turns, chunks: &[], message: 100 };
    let kept = sent(&conversation, 4_000);
    assert_eq!((kept.turns.clone(), kept.tokens), (4..10, 3_700));
    let dropped = DroppedHistory { leading_turns: 0, turns: 4, pairs: 2, chunks: 0, tokens: 2_000 };
    assert_eq!(kept.dropped, dropped);
    assert_eq!(kept.groups(&turns).next().map(|group| group.role), Some(Role::User));
}

#[test]
fn chunks_go_after_all_turns_and_the_least_relevant_first() {
    let turns = [user(50), assistant(50), user(50), assistant(50)];
    let conversation =
        HistoryInput { system: 0, overhead: 0, turns: &turns, chunks: &[100, 200, 300], message: 10 };
    for (limit, turns, chunks, tokens) in [
        (810, 0..4, 3, 810),
        (809, 2..4, 3, 710),
        (709, 4..4, 3, 610),
        (609, 4..4, 2, 310),
        (309, 4..4, 1, 110),
        (109, 4..4, 0, 10),
        (10, 4..4, 0, 10),
    ] {
        let kept = sent(&conversation, limit);
        assert_eq!((kept.turns, kept.chunks, kept.tokens), (turns, chunks, tokens), "{limit}");
    }
    assert_eq!(trim(&conversation, 9), HistoryDecision::InputTooLarge { needed: 10, limit: 9 });
    assert_eq!(
        sent(&conversation, 109).dropped,
        DroppedHistory { leading_turns: 0, turns: 4, pairs: 2, chunks: 3, tokens: 800 }
    );
}

#[test]
fn leading_assistant_turns_are_dropped_even_if_they_fit() {
    let turns = [assistant(5), assistant(6), user(7), assistant(8)];
    let kept = sent(&HistoryInput { turns: &turns, message: 1, ..HistoryInput::default() }, 1_000);
    assert_eq!((kept.turns, kept.tokens), (2..4, 16));
    assert_eq!(kept.dropped, DroppedHistory { leading_turns: 2, tokens: 11, ..DroppedHistory::default() });
    let only_answers = [assistant(5)];
    let kept = sent(&HistoryInput { turns: &only_answers, message: 1, ..HistoryInput::default() }, 1_000);
    assert_eq!((kept.turns.clone(), kept.tokens, kept.groups(&only_answers).count()), (1..1, 1, 0));
}

#[test]
fn turns_of_one_role_in_a_row_become_one_and_the_last_take_the_message() {
    let turns = [user(1), user(2), assistant(3), assistant(4), assistant(5), user(6)];
    let kept = sent(&HistoryInput { turns: &turns, message: 1, ..HistoryInput::default() }, 100);
    let group = |role, turns, includes_message| TurnGroup { role, turns, includes_message };
    let expected =
        [group(Role::User, 0..2, false), group(Role::Assistant, 2..5, false), group(Role::User, 5..6, true)];
    assert_eq!(kept.groups(&turns).collect::<Vec<_>>(), expected);
    // The pair is dropped as a whole, and the unanswered question stays until it is the last.
    assert_eq!(sent(&HistoryInput { turns: &turns, message: 1, ..HistoryInput::default() }, 21).turns, 5..6);
    assert_eq!(sent(&HistoryInput { turns: &turns, message: 1, ..HistoryInput::default() }, 6).turns, 6..6);
}

#[test]
fn a_single_huge_message_is_refused_whatever_else_there_is() {
    let turns = [user(1), assistant(1)];
    let conversation =
        HistoryInput { system: 100, overhead: 300, turns: &turns, chunks: &[1], message: 20_000 };
    assert_eq!(trim(&conversation, 4_000), HistoryDecision::InputTooLarge { needed: 20_400, limit: 4_000 });
}

#[test]
fn numbers_that_do_not_add_up_are_too_large() {
    let turns = [user(u64::MAX), assistant(u64::MAX), user(5), assistant(u64::MAX), user(6), assistant(7)];
    let conversation =
        HistoryInput { system: 1, overhead: 1, turns: &turns, chunks: &[3, u64::MAX, u64::MAX], message: 1 };
    let kept = sent(&conversation, 1_000);
    assert_eq!((kept.turns, kept.chunks, kept.tokens), (6..6, 1, 6));
    assert_eq!(kept.dropped.tokens, u64::MAX);
    let kept = sent(&HistoryInput { chunks: &[], ..conversation }, 1_000);
    assert_eq!((kept.turns, kept.tokens), (4..6, 16));
    let broken = HistoryInput { system: u64::MAX, message: 1, ..HistoryInput::default() };
    assert_eq!(trim(&broken, 10), HistoryDecision::InputTooLarge { needed: u64::MAX, limit: 10 });
}

#[test]
fn limits_are_those_of_the_request_and_of_the_window() {
    let limits = TokenLimitsOptions::default().check().unwrap();
    assert_eq!(
        (limits.output(None), limits.output(Some(100)), limits.output(Some(9_999))),
        (1_024, 100, 1_024)
    );
    assert_eq!(limits.window_input(1_024), 200_000 - 300 - 500 - 1_024);
    assert_eq!((limits.input(1_024), limits.input(199_199), limits.input(u64::MAX)), (4_000, 1, 0));
    let small =
        TokenLimitsOptions { context_window: 2_000, ..TokenLimitsOptions::default() }.check().unwrap();
    assert_eq!(small.input(1_024), 176);
}

#[test]
fn limits_that_let_nothing_pass_are_refused_by_name() {
    let default = TokenLimitsOptions::default();
    for (options, error) in [
        (TokenLimitsOptions { max_input: 0, ..default }, "max_input: must be at least 1"),
        (TokenLimitsOptions { max_output: 0, ..default }, "max_output: must be at least 1"),
        (
            TokenLimitsOptions { context_window: 1_824, ..default },
            "context_window: 1824 leaves no room for input beside 300 of overhead, 500 of safety margin and 1024 of output",
        ),
    ] {
        assert_eq!(options.check().unwrap_err().to_string(), error);
    }
    assert!(TokenLimitsOptions { context_window: 1_825, ..default }.check().is_ok());
}

fn turn() -> impl Strategy<Value = HistoryTurn> {
    (prop::bool::ANY, 0_u64..300)
        .prop_map(|(is_user, tokens)| if is_user { user(tokens) } else { assistant(tokens) })
}

/// Naive reference: every option, best first: all turns, then one pair less each, then one chunk less each, with all
/// sums recomputed.
fn first_that_fits(conversation: &HistoryInput<'_>, limit: u64) -> Option<(usize, usize, u64)> {
    let turns = conversation.turns;
    let is_start = |at: usize| {
        at == turns.len()
            || (turns[at].role == Role::User && (at == 0 || turns[at - 1].role == Role::Assistant))
    };
    let mut ways: Vec<_> =
        (0..=turns.len()).filter(|at| is_start(*at)).map(|at| (at, conversation.chunks.len())).collect();
    ways.extend((0..conversation.chunks.len()).rev().map(|chunks| (turns.len(), chunks)));
    ways.into_iter().find_map(|(start, chunks)| {
        let turn_tokens: u64 = turns[start..].iter().map(|turn| turn.tokens).sum();
        let chunk_tokens: u64 = conversation.chunks[..chunks].iter().sum();
        let tokens =
            conversation.system + conversation.overhead + conversation.message + turn_tokens + chunk_tokens;
        (tokens <= limit).then_some((start, chunks, tokens))
    })
}

proptest! {
    #[test]
    fn trimming_is_the_first_of_all_ways_that_fits(
        turns in vec(turn(), 0..14),
        chunks in vec(0_u64..300, 0..5),
        system in 0_u64..200,
        overhead in 0_u64..50,
        message in 0_u64..400,
        limit in 0_u64..3_000,
    ) {
        let conversation = HistoryInput { system, overhead, turns: &turns, chunks: &chunks, message };
        let expected = first_that_fits(&conversation, limit);
        match trim(&conversation, limit) {
            HistoryDecision::InputTooLarge { needed, limit: reported_limit } => {
                prop_assert_eq!(expected, None);
                prop_assert_eq!((needed, reported_limit), (system + overhead + message, limit));
            }
            HistoryDecision::Send(kept) => {
                prop_assert_eq!(invariant::input_within_limit(kept.tokens, limit), Ok(()));
                prop_assert_eq!(Some((kept.turns.start, kept.chunks, kept.tokens)), expected);
                prop_assert_eq!(kept.turns.end, turns.len());
                let groups: Vec<_> = kept.groups(&turns).collect();
                let roles: Vec<_> = groups.iter().map(|group| group.role).collect();
                prop_assert_eq!(invariant::roles_alternate(&roles), Ok(()));
                prop_assert_eq!(groups.iter().flat_map(|group| group.turns.clone()).collect::<Vec<_>>(), kept.turns.clone().collect::<Vec<_>>());
                let dropped = kept.dropped;
                prop_assert_eq!(dropped.leading_turns + dropped.turns, kept.turns.start);
                prop_assert_eq!(dropped.chunks, chunks.len() - kept.chunks);
                let all: u64 = turns.iter().map(|turn| turn.tokens).chain(chunks.iter().copied()).sum();
                prop_assert_eq!(kept.tokens + dropped.tokens, all + system + overhead + message);
            }
        }
    }
}

#[test]
fn the_limits_known_from_the_start_are_the_default_settings() {
    assert_eq!(TokenLimitsOptions::default().check().unwrap(), TokenLimits::default());
}
