use super::{message, shows_popular};
use crate::ChatText;
use seawall_core::strategy::FallbackKind;
use seawall_core::vocabulary::Language;
use std::collections::BTreeSet;

#[test]
fn an_answer_is_promised_only_to_who_is_queued() {
    for language in Language::ALL {
        let mut seen = BTreeSet::new();
        for kind in FallbackKind::ALL {
            let (waiting, not) = (message(kind, language, true), message(kind, language, false));
            assert_eq!(waiting != not, kind == FallbackKind::Throttled, "{kind:?}");
            seen.extend([waiting, not]);
        }
        assert_eq!(seen.len(), 6);
    }
    let promised = ["will follow", "お届けする"];
    for kind in FallbackKind::ALL {
        for language in Language::ALL {
            let text = message(kind, language, false);
            assert!(!promised.iter().any(|promise| text.contains(promise)), "{text}");
            assert_eq!(text.is_ascii(), language == Language::English);
        }
    }
    let queued = |language| message(FallbackKind::Throttled, language, true);
    assert!(queued(Language::English).contains(promised[0]));
    assert!(queued(Language::Japanese).contains(promised[1]));
}

#[test]
fn only_the_generic_fallback_shows_what_is_popular() {
    assert_eq!(FallbackKind::ALL.map(shows_popular), [false, false, false, false, true]);
}

#[test]
fn the_guardrails_of_the_chat_answer_with_the_same_text() {
    for language in Language::ALL {
        assert_eq!(
            ChatText::Redirect.in_language(language),
            message(FallbackKind::GuardrailBlock, language, false)
        );
    }
}
