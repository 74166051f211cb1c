//! Tests of the prepared texts.

use crate::fallback::message;
use crate::texts::{ChatText, apology};
use seawall_core::random::Draw;
use seawall_core::strategy::FallbackKind;
use seawall_core::vocabulary::Language;
use seawall_wire::ApiErrorKind;
use std::collections::BTreeSet;

#[test]
fn every_error_has_its_text() {
    for (error_kind, text) in [
        (ApiErrorKind::Malformed, ChatText::NotUnderstood),
        (ApiErrorKind::Unauthenticated, ChatText::SignIn),
        (ApiErrorKind::Forbidden, ChatText::NotAllowed),
        (ApiErrorKind::NotFound, ChatText::NotFound),
        (ApiErrorKind::TooLarge, ChatText::TooLong),
        (ApiErrorKind::Conflict, ChatText::AlreadyReceived),
        (ApiErrorKind::OutcomeUnknown, ChatText::AlreadyReceived),
        (ApiErrorKind::Throttled, ChatText::LimitReached),
        (ApiErrorKind::BudgetExhausted, ChatText::BudgetExhausted),
        (ApiErrorKind::SwitchedOff, ChatText::Unavailable),
        (ApiErrorKind::Overloaded, ChatText::Unavailable),
        (ApiErrorKind::TimedOut, ChatText::Unavailable),
        (ApiErrorKind::Internal, ChatText::Unavailable),
    ] {
        assert_eq!(ChatText::of_error(error_kind), text, "{error_kind:?}");
    }
}

#[test]
fn there_are_three_apologies_and_each_is_as_likely() {
    for language in Language::ALL {
        let all: Vec<&str> =
            (0..3_000_u64).map(|nth| apology(language, Draw::from_bits((u64::MAX / 3_000) * nth))).collect();
        let different: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(different.len(), 3);
        for text in different {
            assert!((990..=1_010).contains(&all.iter().filter(|other| **other == text).count()));
        }
        assert_ne!(apology(language, Draw::LOWEST), apology(language, Draw::HIGHEST));
    }
}

#[test]
fn every_text_is_in_its_language_and_promises_nothing() {
    let promises = [
        "get back",
        "will follow",
        "we will",
        "i will",
        "shortly",
        "checking",
        "ご連絡いたします",
        "お待ちください",
    ];
    for language in Language::ALL {
        let texts = ChatText::ALL.map(|text| text.in_language(language));
        let apologies = [Draw::LOWEST, Draw::MIDDLE, Draw::HIGHEST].map(|draw| apology(language, draw));
        let all: Vec<&str> = texts.into_iter().chain(apologies).collect();
        let different: BTreeSet<&&str> = all.iter().collect();
        assert_eq!(different.len(), ChatText::ALL.len() + 3);
        for text in all {
            assert_eq!(text.is_ascii(), language == Language::English, "{text}");
            assert!(!promises.iter().any(|promise| text.to_lowercase().contains(promise)), "{text}");
            assert!(text.ends_with(if language == Language::English { '.' } else { '。' }));
        }
        assert_eq!(
            ChatText::Redirect.in_language(language),
            message(FallbackKind::GuardrailBlock, language, false)
        );
    }
}
