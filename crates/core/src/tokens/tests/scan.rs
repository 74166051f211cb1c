use crate::tokens::{AsciiContext, CharacterClass, TextCounts, TextLanguage, TextUnit};
use proptest::collection::vec;
use proptest::prelude::*;

/// The units that occur in a text, with their counts.
fn units(text: &str) -> Vec<(TextUnit, u64)> {
    let counts = TextCounts::of(text);
    TextUnit::all().map(|unit| (unit, counts.units(unit))).filter(|(_, count)| *count > 0).collect()
}

#[test]
fn units_are_in_the_order_of_their_index() {
    assert_eq!(TextUnit::all().count(), TextUnit::COUNT);
    for (place, unit) in TextUnit::all().enumerate() {
        assert_eq!(unit.index(), place, "{unit:?}");
    }
    for (place, class) in CharacterClass::ALL.into_iter().enumerate() {
        assert_eq!(class as usize, place);
    }
    for (place, language) in TextLanguage::ALL.into_iter().enumerate() {
        assert_eq!(language as usize, place);
    }
    assert_eq!(
        CharacterClass::ALL.map(CharacterClass::name),
        ["kanji", "kana", "other", "emoji", "prose", "json", "url"]
    );
    assert_eq!(TextLanguage::ALL.map(TextLanguage::name), ["ja", "en", "mixed"]);
}

#[test]
fn each_character_outside_ascii_is_one_unit() {
    let table: &[(TextUnit, CharacterClass, &str)] = &[
        (TextUnit::Kanji, CharacterClass::Kanji, "漫一龯鿿㐀々〇豈𠮷𪜈"),
        (TextUnit::Hiragana, CharacterClass::Kana, "ぁゖゟ゙"),
        (TextUnit::Katakana, CharacterClass::Kana, "ァヺーヿㇰㇿヽ"),
        (TextUnit::HalfKatakana, CharacterClass::Kana, "ｱﾝｰ･"),
        (TextUnit::JapaneseMark, CharacterClass::Kana, "、。「」　〜・！？Ａ～゛゜゠"),
        (TextUnit::Hangul, CharacterClass::Other, "가힣"),
        (TextUnit::Accented, CharacterClass::Other, "éßÿ½ſ\u{301}"),
        (TextUnit::Cyrillic, CharacterClass::Other, "ЀЯяԯ"),
        (TextUnit::ShortScript, CharacterClass::Other, "αΩשع\u{7ff}"),
        (TextUnit::LongScript, CharacterClass::Other, "สคहẸ\u{800}"),
        (TextUnit::Sign, CharacterClass::Other, "—…“”★☆♪→€•■"),
        (TextUnit::Emoji, CharacterClass::Emoji, "😭🎉🇯🇵🀄"),
        (TextUnit::SmallEmoji, CharacterClass::Emoji, "☀✨❤⌚⏳⭐⬛⬅"),
        (TextUnit::EmojiJoiner, CharacterClass::Emoji, "\u{200d}\u{fe0f}🏻🏿\u{20e3}"),
    ];
    for (unit, class, characters) in table {
        for character in characters.chars() {
            let text = character.to_string();
            assert_eq!(units(&text), [(*unit, 1)], "{character} {:x}", u32::from(character));
            assert_eq!(TextCounts::of(&text).characters(*class), 1);
        }
    }
}

#[test]
fn hiragana_weigh_more_after_six_in_a_row() {
    assert_eq!(units("あいうえおか"), [(TextUnit::Hiragana, 6)]);
    assert_eq!(units("あいうえおかきく"), [(TextUnit::Hiragana, 6), (TextUnit::LongHiragana, 2)]);
    assert_eq!(units("あいうえお、あいうえお"), [(TextUnit::Hiragana, 10), (TextUnit::JapaneseMark, 1)]);
}

#[test]
fn a_voice_mark_in_half_width_is_a_character_without_weight() {
    assert_eq!(units("ｶﾞﾊﾟ"), [(TextUnit::HalfKatakana, 2)]);
    assert_eq!(TextCounts::of("ｶﾞﾊﾟ").characters(CharacterClass::Kana), 4);
}

#[test]
fn ascii_is_cut_where_tokenizers_cut() {
    use AsciiContext::Prose;
    let (word, long, digits) = (TextUnit::Word(Prose), TextUnit::LongWord(Prose), TextUnit::Digits(Prose));
    let (marks, more, gap) = (TextUnit::Marks(Prose), TextUnit::MoreMarks(Prose), TextUnit::Gap(Prose));
    let table: &[(&str, &[(TextUnit, u64)])] = &[
        ("", &[]),
        ("one two", &[(word, 2)]),
        ("sixsix", &[(word, 1)]),
        ("seventh", &[(word, 1), (long, 1)]),
        ("SEVENTH", &[(word, 1), (long, 1)]),
        ("Seventy", &[(word, 1), (long, 1)]),
        ("camelCase", &[(word, 2)]),
        ("ABc", &[(word, 1)]),
        ("123", &[(digits, 1)]),
        ("1234", &[(digits, 2)]),
        ("1234567", &[(digits, 3)]),
        ("a1b22", &[(word, 2), (digits, 2)]),
        ("no, no!!!", &[(word, 2), (marks, 2), (more, 2)]),
        ("a b  c", &[(word, 3), (gap, 1)]),
        ("a\nb", &[(word, 2), (gap, 1)]),
        ("a\n    b", &[(word, 2), (gap, 1)]),
        ("a\u{1}\u{2}b", &[(word, 2), (marks, 2)]),
        ("漢a字", &[(TextUnit::Kanji, 2), (word, 1)]),
    ];
    for (text, expected) in table {
        assert_eq!(units(text), *expected, "{text:?}");
    }
}

#[test]
fn white_space_is_a_gap_for_each_sixteen_characters() {
    for (spaces, gaps) in [(1, 0), (2, 1), (16, 1), (17, 2), (32, 2), (33, 3), (160, 10)] {
        let counts = TextCounts::of(&format!("a{}b", " ".repeat(spaces)));
        assert_eq!(counts.units(TextUnit::Gap(AsciiContext::Prose)), gaps, "{spaces}");
    }
}

#[test]
fn a_line_is_json_from_one_structural_mark_in_twelve() {
    let class_of = |text: &str| {
        let counts = TextCounts::of(text);
        (counts.characters(CharacterClass::Json), counts.characters(CharacterClass::Prose))
    };
    assert_eq!(class_of("a lot of te:"), (12, 0));
    assert_eq!(class_of("a lot of tex:"), (0, 13));
    assert_eq!(class_of("a sentence, with commas. And dots!"), (0, 34));
    assert_eq!(class_of("{\"a\":1}\nwords in a line"), (8, 15));
    assert_eq!(class_of("words in a line\n{\"a\":1}"), (7, 16));
    for mark in "{}[]\"<>=;:_()\\/|&$#*`".chars() {
        assert_eq!(class_of(&format!("word {mark}")), (6, 0), "{mark}");
    }
    for mark in "!%'+,-.?@^~".chars() {
        assert_eq!(class_of(&format!("word {mark}")), (0, 6), "{mark}");
    }
}

#[test]
fn an_address_goes_from_its_scheme_to_what_cannot_be_in_one() {
    let length = |text: &str| TextCounts::of(text).characters(CharacterClass::Url);
    for (text, expected) in [
        ("see https://example.com/a?b=1 there", 25),
        ("http://a", 8),
        ("www.a.jp", 8),
        ("{\"url\":\"http://a/b\"}", 10),
        ("<http://a/b>", 10),
        ("漫画http://a/bを読む", 10),
        ("http://a/b　次", 10),
        ("http:/a https:a awww.b xhttp://a", 0),
    ] {
        assert_eq!(length(text), expected, "{text}");
    }
    let counts = TextCounts::of("http://ab12.com");
    let count = |unit: fn(AsciiContext) -> TextUnit| counts.units(unit(AsciiContext::Url));
    assert_eq!((count(TextUnit::Word), count(TextUnit::Digits), count(TextUnit::Marks)), (3, 1, 2));
    assert_eq!(count(TextUnit::MoreMarks), 2);
}

#[test]
fn the_language_follows_from_the_share_of_japanese_letters() {
    for (japanese, other, language) in [
        (3, 7, TextLanguage::Mixed),
        (31, 69, TextLanguage::Japanese),
        (1, 9, TextLanguage::Mixed),
        (99, 901, TextLanguage::English),
        (0, 5, TextLanguage::English),
        (5, 0, TextLanguage::Japanese),
        (0, 0, TextLanguage::English),
    ] {
        let text = format!("{} {}", "本".repeat(japanese), "a".repeat(other));
        assert_eq!(TextCounts::of(&text).language(), language, "{japanese} and {other}");
    }
    // Neither punctuation nor emoji are letters; letters of other scripts are.
    assert_eq!(TextCounts::of("hello 😭😭。。。").language(), TextLanguage::English);
    assert_eq!(TextCounts::of("かカｶ Яéα가ส ab").language(), TextLanguage::Mixed);
}

#[test]
fn a_bound_by_bytes_knows_characters_that_become_longer() {
    for (text, most) in [
        ("a", 1),
        ("漫画", 6),
        ("こ", 3),
        ("😭", 4),
        ("한", 3),
        // キロメートル
        ("㌖", 18),
        // صلى الله عليه وسلم
        ("ﷺ", 33),
        ("株", 3),
    ] {
        assert_eq!(TextCounts::of(text).max_bytes(), most, "{text}");
    }
    assert!(TextCounts::of("½").max_bytes() >= 5);
    assert!(TextCounts::of("e\u{301}\u{323}").max_bytes() >= 9);
    assert_eq!(TextCounts::of("漫画").bytes(), 6);
}

/// Mostly special characters, so that runs and boundaries are covered.
fn text() -> impl Strategy<Value = String> {
    let pieces = [
        "a",
        "B",
        "word",
        "7",
        "1234",
        " ",
        "  ",
        "\n",
        "\t",
        ",",
        "{\"",
        "}",
        ":",
        "_",
        "http://",
        "https://x",
        "www.",
        "あ",
        "いうえおかきくけ",
        "ア",
        "ｶ",
        "ﾞ",
        "漢字",
        "。",
        "　",
        "😭",
        "\u{200d}",
        "☀",
        "★",
        "é",
        "я",
        "α",
        "한",
        "ส",
        "\u{0}",
        "㌖",
        "𠮷",
    ];
    vec(prop::sample::select(pieces.to_vec()), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn every_character_is_in_one_class_and_every_byte_is_counted(text in prop_oneof![text(), any::<String>()]) {
        let counts = TextCounts::of(&text);
        let characters: u64 = CharacterClass::ALL.iter().map(|class| counts.characters(*class)).sum();
        prop_assert_eq!(characters, text.chars().count() as u64);
        prop_assert_eq!(counts.bytes(), text.len() as u64);
        prop_assert!(counts.max_bytes() >= counts.bytes());
    }

    #[test]
    fn lines_counted_apart_add_up_to_the_whole(first in text(), second in text()) {
        let second = format!("x{second}");
        let whole = TextCounts::of(&format!("{first}\n{second}"));
        let parts = TextCounts::of(&format!("{first}\n")) + TextCounts::of(&second);
        prop_assert_eq!(whole, parts);
        let summed: TextCounts = [TextCounts::of(&first), TextCounts::of(&second)].into_iter().sum();
        prop_assert_eq!(summed, TextCounts::of(&first) + TextCounts::of(&second));
    }

    /// Naive reference: one character at a time, with iterators.
    #[test]
    fn runs_are_what_splitting_the_text_gives(text in "[a-z0-9 あいアｶ漢,!😭]{0,60}") {
        let counts = TextCounts::of(&text);
        let runs = |is: fn(char) -> bool| -> Vec<u64> {
            text.split(|character| !is(character)).map(|run| run.chars().count() as u64).filter(|length| *length > 0).collect()
        };
        let words = runs(|character| character.is_ascii_lowercase());
        prop_assert_eq!(counts.units(TextUnit::Word(AsciiContext::Prose)), words.len() as u64);
        prop_assert_eq!(counts.units(TextUnit::LongWord(AsciiContext::Prose)), words.iter().map(|word| word.saturating_sub(6)).sum::<u64>());
        let digits = runs(|character| character.is_ascii_digit());
        prop_assert_eq!(counts.units(TextUnit::Digits(AsciiContext::Prose)), digits.iter().map(|run| run.div_ceil(3)).sum::<u64>());
        let marks = runs(|character| ",!".contains(character));
        prop_assert_eq!(counts.units(TextUnit::Marks(AsciiContext::Prose)), marks.len() as u64);
        prop_assert_eq!(counts.units(TextUnit::MoreMarks(AsciiContext::Prose)), marks.iter().map(|run| run - 1).sum::<u64>());
        let hiragana = runs(|character| "あい".contains(character));
        prop_assert_eq!(counts.units(TextUnit::Hiragana), hiragana.iter().map(|run| (*run).min(6)).sum::<u64>());
        prop_assert_eq!(counts.units(TextUnit::LongHiragana), hiragana.iter().map(|run| run.saturating_sub(6)).sum::<u64>());
    }
}
