use crate::tokens::{
    AsciiContext, Calibration, CharacterClass, OverheadOptions, PARTS, RequestCounts, TextCounts,
    TextLanguage, TextUnit, TokenEstimate, TokenizerFamily, estimate,
};
use proptest::prelude::*;

const MODEL: &str = "claude-sonnet";

fn of(request: &RequestCounts, calibration: &Calibration) -> TokenEstimate {
    estimate(MODEL, request, OverheadOptions::default(), calibration)
}

#[test]
fn families_follow_from_the_model_name() {
    for (family, names) in [
        (
            TokenizerFamily::Claude,
            &["claude-sonnet-4-5", "anthropic/claude-3-haiku", "Sonnet", "haiku", "opus-4", "CLAUDE-X"][..],
        ),
        (
            TokenizerFamily::OpenAi,
            &[
                "gpt-4o",
                "gpt-4o-mini",
                "chatgpt-4o-latest",
                "gpt-4.1",
                "gpt-4.5",
                "gpt-5.1",
                "gpt-oss-120b",
                "o1",
                "o3-mini",
                "azure/o4-mini",
                "GPT-4O",
            ],
        ),
        (
            TokenizerFamily::OlderOpenAi,
            &["gpt-4", "gpt-4-32k", "gpt-3.5-turbo", "gpt-35-turbo", "text-embedding-3-small"],
        ),
        (TokenizerFamily::Generic, &["", "llama-4", "mistral", "foo1", "turbo3", "mo3"]),
    ] {
        for name in names {
            assert_eq!(TokenizerFamily::of_model(name), family, "{name}");
        }
    }
    assert_eq!(
        TokenizerFamily::ALL.map(TokenizerFamily::name),
        ["claude", "openai", "openai-older", "generic"]
    );
}

#[test]
fn the_unknown_family_has_the_heaviest_weight_of_all() {
    for unit in TextUnit::all() {
        let known = [TokenizerFamily::Claude, TokenizerFamily::OpenAi, TokenizerFamily::OlderOpenAi]
            .map(|family| family.weight(unit));
        assert_eq!(Some(TokenizerFamily::Generic.weight(unit)), known.into_iter().max());
        assert!(known.into_iter().all(|weight| weight <= 4_000), "{unit:?} weighs more than its bytes");
    }
}

#[test]
fn what_weighs_something_is_never_estimated_at_nothing() {
    for family in TokenizerFamily::ALL {
        for text in
            ["a", "1", "!", "漢", "か", "カ", "ｶ", "。", "é", "я", "α", "한", "ส", "★", "😭", "☀", "\n"]
        {
            assert!(family.tokens(&TextCounts::of(text)) >= 1, "{text:?} {family:?}");
        }
        assert_eq!(family.tokens(&TextCounts::of("")), 0);
    }
}

#[test]
fn tokens_are_the_sum_of_weights_rounded_up() {
    let weight = |unit| u64::from(TokenizerFamily::Claude.weight(unit));
    let expected = 2 * weight(TextUnit::Kanji)
        + 3 * weight(TextUnit::Hiragana)
        + weight(TextUnit::Word(AsciiContext::Prose));
    assert_eq!(
        TokenizerFamily::Claude.tokens(&TextCounts::of("漫画です。 ok")),
        (expected - weight(TextUnit::Hiragana) + weight(TextUnit::JapaneseMark)).div_ceil(1_000)
    );
}

#[test]
fn overhead_is_per_request_and_per_message_and_the_bound_keeps_a_reserve() {
    assert_eq!(OverheadOptions::default(), OverheadOptions { request: 3, message: 4, reserve: 300 });
    let text = "Where is my parcel?";
    let request =
        RequestCounts { history: TextCounts::of(text), messages: 3, ..RequestCounts::of_message(text) };
    let estimate = of(&request, &Calibration::default());
    assert_eq!(estimate.overhead, 3 + 3 * 4);
    assert_eq!(estimate.best, estimate.uncalibrated + 15);
    assert_eq!(estimate.p95, (estimate.uncalibrated * 1_250).div_ceil(1_000) + 15);
    assert_eq!(estimate.upper, 2 * 19 + 3 * 4 + 300);
    let large = OverheadOptions { request: 500, message: 0, reserve: 300 };
    let empty = super::super::estimate(MODEL, &RequestCounts::default(), large, &Calibration::default());
    assert_eq!((empty.best, empty.upper), (500, 500));
}

#[test]
fn parts_and_classes_are_told_apart() {
    let request = RequestCounts {
        system: TextCounts::of("Answer kindly."),
        history: TextCounts::of("漫画"),
        retrieval: TextCounts::of("{\"a\":[1]}"),
        message: TextCounts::of("https://example.com 😭 한"),
        messages: 3,
    };
    let estimate = of(&request, &Calibration::default());
    assert_eq!(PARTS, ["system", "history", "retrieval", "message"]);
    let expected = [request.system, request.history, request.retrieval, request.message]
        .map(|part| TokenizerFamily::Claude.tokens(&part));
    assert_eq!(estimate.parts, expected);
    assert!(estimate.parts.iter().all(|tokens| *tokens > 0));
    let kana = CharacterClass::Kana as usize;
    for (place, tokens) in estimate.classes.into_iter().enumerate() {
        assert_eq!(tokens == 0, place == kana, "{place}");
    }
    assert_eq!(estimate.classes[CharacterClass::Kanji as usize], expected[1]);
}

#[test]
fn confidence_is_the_language_s_until_bills_say_better() {
    let japanese = RequestCounts::of_message("漫画");
    let english = RequestCounts::of_message("comics");
    let mixed = RequestCounts::of_message("漫画 comics");
    let unlearned = Calibration::default();
    let confidence = |request: &RequestCounts, calibration: &Calibration| of(request, calibration).confidence;
    assert_eq!([&japanese, &english, &mixed].map(|request| confidence(request, &unlearned)), [75, 85, 75]);
    for (billed, expected) in [(100, 100), (110, 90), (130, 75), (119, 84), (150, 75)] {
        let mut calibration = Calibration::default();
        for _ in 0..20 {
            calibration.record(MODEL, TextLanguage::Japanese, 100, billed);
        }
        assert_eq!(confidence(&japanese, &calibration), expected, "{billed}");
        assert_eq!(confidence(&english, &calibration), 85);
    }
}

#[test]
fn what_was_learned_moves_the_best_number_but_never_above_the_bound() {
    let mut calibration = Calibration::default();
    for number in 0..100_u64 {
        calibration.record(MODEL, TextLanguage::Japanese, 100, if number < 90 { 150 } else { 180 });
    }
    let request = RequestCounts::of_message(&"漫画です。".repeat(100));
    let learned = of(&request, &calibration);
    assert_eq!(learned.best, (learned.uncalibrated * 1_500).div_ceil(1_000) + 7);
    assert_eq!(learned.p95, (learned.uncalibrated * 1_800).div_ceil(1_000) + 7);
    for _ in 0..1_000 {
        calibration.record(MODEL, TextLanguage::Japanese, 100, 1_000);
    }
    let bounded = of(&request, &calibration);
    assert_eq!((bounded.best, bounded.p95), (bounded.upper, bounded.upper));
}

proptest! {
    #[test]
    fn numbers_are_in_order_for_any_text(text in any::<String>(), model in prop::sample::select(vec!["claude", "gpt-4o", "gpt-4", "x"])) {
        let request = RequestCounts::of_message(&text);
        let estimate = estimate(model, &request, OverheadOptions::default(), &Calibration::default());
        prop_assert!(estimate.best <= estimate.p95 && estimate.p95 <= estimate.upper);
        prop_assert_eq!(estimate.parts, [0, 0, 0, estimate.uncalibrated]);
        let classes: u64 = estimate.classes.iter().sum();
        prop_assert!(classes >= estimate.uncalibrated && classes < estimate.uncalibrated + 7);
    }
}
