//! Compares deny lists with a naive model, and tests inspectors that misbehave.

use super::fold::{folded, is_invisible};
use super::{
    AnswerInspector, CheckedDecision, DenyList, GuardedText, Guardrail, GuardrailDecision, Guardrails,
    InspectionDecision,
};
use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, proptest};
use proptest::sample::{Index, select};
use seawall_core::cache_policy::normalise;
use std::sync::Arc;

fn list(patterns: &[&str]) -> DenyList {
    let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    DenyList::new(&patterns).unwrap()
}

fn is_blocked(list: &DenyList, text: &str) -> bool {
    list.check_question(text) != GuardrailDecision::Pass
}

/// Feeds a text in these pieces; returns the released text and the rule that blocked it.
fn play<'a>(
    inspector: Box<dyn AnswerInspector>,
    pieces: impl IntoIterator<Item = &'a str>,
) -> (String, Option<String>) {
    let mut text = GuardedText::new(inspector);
    let mut released: String = pieces.into_iter().map(|piece| text.take(piece)).collect();
    released += &text.end();
    let rule = text.blocked_by().map(str::to_owned);
    assert!(rule.is_none() || text.take("more").is_empty() && text.end().is_empty());
    (released, rule)
}

/// The cache's folding without invisible characters. The marker at the end preserves trailing space.
fn slowly_folded(text: &str) -> String {
    let seen: String = text.chars().filter(|character| !is_invisible(*character)).collect();
    normalise(&format!("{seen}|")).trim_end_matches('|').to_owned()
}

fn slowly_contains(text: &str, patterns: &[String]) -> bool {
    patterns.iter().any(|pattern| slowly_folded(text).contains(slowly_folded(pattern).trim_end()))
}

/// The start of the text that must be held back: the shortest prefix whose remainder could, folded, begin a pattern. A
/// kana at the end could still combine with a mark.
fn slowly_held_from(text: &str, patterns: &[String]) -> usize {
    let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
    let seen = |place: &usize| text[*place..].chars().next().filter(|seen| !is_invisible(*seen));
    let is_kana = |character: char| matches!(character, '\u{3040}'..='\u{30FF}' | '\u{FF65}'..='\u{FF9F}');
    let begins = |place: usize| {
        let first = seen(&place)?;
        let rest = slowly_folded(&text[place..]);
        let last = text.chars().rev().find(|character| !is_invisible(*character))?;
        let mut certain = rest.clone();
        if is_kana(last) {
            certain.pop();
        }
        let could = |pattern: &String| slowly_folded(pattern).trim_end().starts_with(&certain);
        // A mark combines with the preceding kana, if possible.
        let joins = slowly_folded(&text[..place]).chars().count() + rest.chars().count()
            > slowly_folded(text).chars().count();
        let is_open = certain.is_empty() || patterns.iter().any(could);
        (!first.is_whitespace() && !joins && is_open).then_some(place)
    };
    places.into_iter().find_map(begins).unwrap_or(text.len())
}

const ALPHABET: [&str; 22] = [
    "a", "A", "ａ", "Ａ", "b", "B", "c", " ", "　", "\n", "\u{200B}", "\u{FEFF}", "か", "が", "ｶ", "ガ", "ﾞ",
    "\u{3099}", "は", "゜", "！", "!",
];

fn text(most: usize) -> impl Strategy<Value = String> {
    vec(select(&ALPHABET[..]), 0..most).prop_map(|letters| letters.concat())
}

fn patterns() -> impl Strategy<Value = Vec<String>> {
    // A pattern without visible characters would be rejected.
    let seen = |pattern: String| if folded(&pattern).is_empty() { "a".to_owned() } else { pattern };
    vec(text(5).prop_map(seen), 0..5)
}

fn split<'a>(text: &'a str, places: &[Index]) -> Vec<&'a str> {
    let mut places: Vec<usize> =
        places.iter().map(|place| text.floor_char_boundary(place.index(text.len() + 1))).collect();
    places.extend([0, text.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn what_is_released_never_contains_a_match_and_all_else_is_released_as_it_came(
        patterns in patterns(), text in text(30), places: Vec<Index>,
    ) {
        let list = DenyList::new(&patterns).unwrap();
        let pieces = split(&text, &places);
        let (released, rule) = play(list.inspect_answer(), pieces);
        let contains = slowly_contains(&text, &patterns);
        prop_assert_eq!(rule.is_some(), contains);
        prop_assert_eq!(is_blocked(&list, &text), contains);
        prop_assert!(text.starts_with(&released) && !slowly_contains(&released, &patterns));
        prop_assert_eq!(released == text, !contains);
        prop_assert_eq!(&play(list.inspect_answer(), [text.as_str()]), &(released, rule));
    }

    #[test]
    fn exactly_what_could_become_a_match_is_kept_back(patterns in patterns(), text in text(20)) {
        let list = DenyList::new(&patterns).unwrap();
        let mut inspector = list.inspect_answer();
        for (place, character) in text.char_indices() {
            let end = place + character.len_utf8();
            match inspector.take(&text[place..end]) {
                InspectionDecision::Release(release) => {
                    let expected = slowly_held_from(&text[..end], &patterns);
                    prop_assert_eq!(release, expected as u64, "{:?}", &text[..end]);
                }
                InspectionDecision::Block { .. } => break,
                InspectionDecision::Failed => prop_assert!(false),
            }
        }
    }

    #[test]
    fn the_rule_is_the_first_of_those_that_match_first(patterns in patterns(), text in text(20)) {
        let whole = slowly_folded(&text);
        let ends = (0..=whole.len()).filter(|end| whole.is_char_boundary(*end));
        let rule_at = |end: usize| {
            patterns.iter().position(|pattern| whole[..end].ends_with(slowly_folded(pattern).trim_end()))
        };
        let expected = ends.into_iter().find_map(rule_at).map(|rule| format!("deny_list.{}", rule + 1));
        prop_assert_eq!(play(DenyList::new(&patterns).unwrap().inspect_answer(), [text.as_str()]).1, expected);
    }

    #[test]
    fn several_release_no_more_than_each(
        first in patterns(), second in patterns(), text in text(30), places: Vec<Index>,
    ) {
        let lists = [DenyList::new(&first).unwrap(), DenyList::new(&second).unwrap()];
        let all = Guardrails(lists.iter().map(|list| Arc::new(list.clone()) as Arc<dyn Guardrail>).collect());
        let (mut together, mut alone) = (all.inspect_answer(), lists.each_ref().map(DenyList::inspect_answer));
        for piece in split(&text, &places) {
            let decisions = alone.each_mut().map(|inspector| inspector.take(piece));
            let least = decisions.iter().map(|decision| match decision {
                InspectionDecision::Release(release) | InspectionDecision::Block { release, .. } => *release,
                InspectionDecision::Failed => 0,
            }).min().unwrap();
            let rule = decisions.iter().find_map(|decision| match decision {
                InspectionDecision::Block { rule, .. } => Some(rule.clone()),
                _ => None,
            });
            let expected = match rule {
                Some(rule) => InspectionDecision::Block { rule, release: least },
                None => InspectionDecision::Release(least),
            };
            let decision = together.take(piece);
            prop_assert_eq!(&decision, &expected);
            if matches!(decision, InspectionDecision::Block { .. }) {
                prop_assert_eq!(&together.take("more"), &decision);
                prop_assert_eq!(together.end(), decision);
                break;
            }
        }
        let blocks = slowly_contains(&text, &first) || slowly_contains(&text, &second);
        prop_assert_eq!(all.check_question(&text) != GuardrailDecision::Pass, blocks);
        prop_assert_eq!(all.check_answer(&text) != GuardrailDecision::Pass, blocks);
    }
}

#[test]
fn case_width_space_and_invisible_characters_hide_nothing() {
    let list = list(&["Forbidden  Fruit", "ガラス", "Straße", "ΟΔΟΣ"]);
    for text in [
        "forbidden fruit",
        "FORBIDDEN\r\n\tFRUIT",
        "ｆｏｒｂｉｄｄｅｎ　ｆｒｕｉｔ",
        "for\u{200B}bid\u{AD}den \u{2060} fr\u{E0041}uit",
        "ｶﾞﾗｽ",
        "カ\u{3099}ラス",
        "カ\u{200D}゛ラス",
        "STRASSE",
        "strasse",
        "straẞe",
        "οδος",
        "οδοσ",
    ] {
        assert!(is_blocked(&list, &format!("x{text}x")), "{text}");
    }
    for text in ["forbiddenfruit", "forbidden, fruit", "カラス", "stra se", ""] {
        assert!(!is_blocked(&list, text), "{text}");
    }
}

#[test]
fn invisible_characters_are_dropped_and_spaces_are_not() {
    for code in 0..=0x10_FFFF {
        let Some(character) = char::from_u32(code) else { continue };
        if is_invisible(character) {
            assert!(
                !character.is_whitespace() && !character.is_alphanumeric() || is_filler(character),
                "{code:X}"
            );
        }
        let is_control = character.is_control() && !character.is_whitespace();
        assert!(!is_control || is_invisible(character), "{code:X}");
    }
    for character in
        ['\u{AD}', '\u{200B}', '\u{200F}', '\u{2060}', '\u{206F}', '\u{FE0F}', '\u{FEFF}', '\u{E0FFF}']
    {
        assert_eq!(folded(&format!("a{character}b")), "ab");
    }
    for character in ['\u{200A}', '\u{2010}', '\u{2070}', '\u{FE10}', '\u{AE}', '\u{FFFC}', '\u{E1000}'] {
        assert!(!is_invisible(character), "{character:?}");
    }
}

/// Characters classified as letters that no font displays.
fn is_filler(character: char) -> bool {
    matches!(character, '\u{115F}' | '\u{1160}' | '\u{3164}' | '\u{FFA0}' | '\u{17B4}' | '\u{17B5}')
        || character.is_alphanumeric() && matches!(character, '\u{E0000}'..='\u{E0FFF}')
}

#[test]
fn a_match_is_found_at_every_split_of_two() {
    let list = list(&["ｶﾞﾗｽ の 靴", "abcabd"]);
    for text in ["これはガ\u{200B}ラス　の 靴です", "xabcabcabd"] {
        for place in (0..=text.len()).filter(|place| text.is_char_boundary(*place)) {
            let (released, rule) = play(list.inspect_answer(), [&text[..place], &text[place..]]);
            assert!(rule.is_some() && text.starts_with(&released), "{text} {place}");
            assert_eq!(released, if text.starts_with('x') { "xabc" } else { "これは" });
        }
    }
}

#[test]
fn text_padded_with_invisible_characters_is_not_held_back_forever() {
    let list = list(&["bad"]);
    // Four times three bytes, plus 4,096.
    let most = 4_096 + 12;
    let padded = |bytes: usize| format!("so b{}x", "\0".repeat(bytes));
    for size in [1, 7, 10_000] {
        let play = |text: &str| {
            let pieces = text.as_bytes().chunks(size).map(|piece| str::from_utf8(piece).unwrap());
            play(list.inspect_answer(), pieces)
        };
        let fits = padded(most);
        assert_eq!(play(&fits), (fits.clone(), None));
        let (released, rule) = play(&padded(most + 1));
        assert_eq!((released.as_str(), rule.as_deref()), ("so ", Some("deny_list.padded")));
    }
    let calm = format!("so {}", "\0".repeat(50_000));
    let (released, rule) = play(list.inspect_answer(), [calm.as_str()]);
    assert!(released == calm && rule.is_none());
}

#[test]
fn invalid_patterns_are_rejected_by_their_number_alone() {
    let refused = |pattern: String| DenyList::new(&["fine".to_owned(), pattern]).unwrap_err().to_string();
    assert_eq!(refused(" \u{200B}\n".to_owned()), "deny_list: pattern 2 is empty");
    assert_eq!(refused("か".repeat(1_001)), "deny_list: pattern 2 has more than 1000 characters");
    assert!(DenyList::new(&["か".repeat(1_000)]).is_ok());
    assert_eq!(format!("{:?}", list(&["secret", "word"])), "DenyList(2)");
}

#[test]
fn held_text_is_not_printed_either() {
    let mut text = GuardedText::new(list(&["secret"]).inspect_answer());
    assert_eq!(text.take("a secre"), "a ");
    assert_eq!(format!("{text:?}"), "GuardedText { held: 5, released: 2, blocked_by: None }");
    assert_eq!(text.end(), "secre");
}

/// An inspector that returns the given decisions.
struct Puppet(Vec<InspectionDecision>);

impl AnswerInspector for Puppet {
    fn take(&mut self, _: &str) -> InspectionDecision {
        self.0.remove(0)
    }

    fn end(&mut self) -> InspectionDecision {
        self.0.remove(0)
    }
}

impl Guardrail for Vec<InspectionDecision> {
    fn check_question(&self, _: &str) -> GuardrailDecision {
        GuardrailDecision::Block { rule: "puppet".into() }
    }

    fn inspect_answer(&self) -> Box<dyn AnswerInspector> {
        Box::new(Puppet(self.clone()))
    }
}

#[test]
fn a_watch_that_fails_or_returns_an_impossible_decision_blocks() {
    let release = InspectionDecision::Release;
    let block = |release| InspectionDecision::Block { rule: "r".into(), release };
    for (decisions, released, rule) in [
        (vec![release(2), release(4), release(4)], "abあ", None),
        (vec![release(2), InspectionDecision::Failed], "ab", Some("failed")),
        (vec![release(2), release(5), release(5)], "abあ", None),
        (vec![release(2), release(6)], "ab", Some("failed")),
        (vec![release(3)], "", Some("failed")),
        (vec![release(2), release(1)], "ab", Some("failed")),
        (vec![release(1), release(5), release(4)], "abあ", Some("failed")),
        (vec![release(1), release(2), InspectionDecision::Failed], "ab", Some("failed")),
        (vec![release(1), block(2)], "ab", Some("r")),
        (vec![release(1), block(0)], "a", Some("r")),
        (vec![release(1), block(6)], "a", Some("r")),
    ] {
        // Both offsets lie inside the last character; the first case releases up to one of them.
        let is_first = decisions[1..].first() == Some(&release(4));
        let expected = if is_first { ("ab", Some("failed")) } else { (released, rule) };
        let alone = play(decisions.inspect_answer(), ["ab", "あ"]);
        assert_eq!((alone.0.as_str(), alone.1.as_deref()), expected, "{decisions:?}");
        let all = Guardrails(vec![Arc::new(list(&[])), Arc::new(decisions.clone())]);
        let together = play(all.inspect_answer(), ["ab", "あ"]);
        assert_eq!(together, alone, "{decisions:?}");
        assert_eq!(all.check_question("?"), GuardrailDecision::Block { rule: "puppet".into() });
    }
    assert_eq!(Guardrails::default().check_answer("anything"), GuardrailDecision::Pass);
    assert_eq!(Guardrails::default().check_question("anything"), GuardrailDecision::Pass);
    assert_eq!(format!("{:?}", Guardrails::default()), "Guardrails(0)");
    let all = Guardrails(vec![Arc::new(vec![release(3), InspectionDecision::Failed])]);
    assert_eq!(all.check_answer("abc"), GuardrailDecision::Block { rule: "failed".into() });
    assert_eq!(CheckedDecision::of(release(3), 3, 3, true).release, 3);
}

/// Both lists of a gateway, combined.
fn whole(patterns: &[&str]) -> Guardrails {
    let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    Guardrails(DenyList::both(&patterns).unwrap())
}

#[test]
fn however_it_is_spelled_it_is_the_same_text() {
    let list = whole(&["Forbidden fruit", "ガラスの靴", "kabuki"]);
    let spellings = [
        "forbidden fruit",
        "FoRbIdDeN FRUIT",
        "ｆｏｒｂｉｄｄｅｎ　ｆｒｕｉｔ",
        "for\u{200B}bidden fruit",
        "for\u{200D}bid\u{2060}den fruit",
        "for\u{AD}bidden fruit",
        "for\u{202E}bidden\u{202C} fruit",
        "\u{2066}forbidden\u{2069} fr\u{200F}uit",
        "fоrbiddеn fruit", // Cyrillic о and е
        "fοrbιdden frυit", // Greek ο, ι and υ
        "FОRВIDDЕN FRUIТ", // Cyrillic capitals
        "fօrbidden fruit", // Armenian օ
        "f-o-r-b-i-d-d-e-n f-r-u-i-t",
        "f.o.r.b.i.d.d.e.n f.r.u.i.t",
        "f*o*r*b*i*d*d*e*n fruit",
        "for_bid_den fruit",
        "forbidden, fruit",
        "fórbíddèn früit",
        "fo\u{301}rbi\u{308}dden fruit",
        "f̶o̶r̶b̶i̶d̶d̶e̶n̶ fruit",
        "𝐟𝐨𝐫𝐛𝐢𝐝𝐝𝐞𝐧 𝐟𝐫𝐮𝐢𝐭",
        "ⓕⓞⓡⓑⓘⓓⓓⓔⓝ ⓕⓡⓤⓘⓣ",
        "𝒻ℴ𝓇𝒷𝒾𝒹𝒹ℯ𝓃 𝒻𝓇𝓊𝒾𝓉",
        "forbıdden fruit",
        "forbid\u{FE0F}den fruit",
        "for\u{E0062}bidden fruit",
        "forbidden\n\tfruit",
        "k a b u k i",
        "K. A. B. U. K. I.",
        "k🍎a🍎b🍎u🍎k🍎i",
        "ガラスの靴",
        "ｶﾞﾗｽの靴",
        "カ\u{3099}ラスの靴",
        "がらすの靴",
        "ガ・ラ・ス・の・靴",
        "が ら す の 靴",
    ];
    assert!(spellings.len() >= 27);
    let missed: Vec<&str> = spellings
        .into_iter()
        .filter(|text| list.check_question(&format!("Tell me of {text} now")) == GuardrailDecision::Pass)
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
    for text in spellings {
        let text = format!("Tell me of {text} now");
        // The same applies to answers, however they are split.
        let pieces = text.split_inclusive(|_: char| true);
        let (released, rule) = play(list.inspect_answer(), pieces);
        assert!(rule.is_some() && text.starts_with(&released) && !released.contains("now"), "{text}");
    }
}

#[test]
fn similar_text_passes() {
    let list = whole(&["ass", "kabuki", "C++", "ガラス", "нет"]);
    let harmless = [
        "He has some time",
        "Is it as simple as that?",
        "I was reading a b c today",
        "The letter C is harmless, and so is a plus.",
        "カラスの歌",
        "k4buki", // digits are not read as letters
        "kabki",
        "The hen went home.",
        "a, b, c, d and e",
        "-----------------------------------------------------------------",
        "",
    ];
    for text in harmless {
        assert_eq!(list.check_question(text), GuardrailDecision::Pass, "{text}");
        assert_eq!(
            play(list.inspect_answer(), text.split_inclusive(|_: char| true)),
            (text.to_owned(), None),
            "{text}"
        );
    }
    for text in ["I like c++.", "нет!", "a.s.s", "pass"] {
        assert_ne!(list.check_question(text), GuardrailDecision::Pass, "{text}");
    }
    // A line of dashes after a partial match is not padding.
    let rule = "-".repeat(10_000);
    assert_eq!(list.check_question(&format!("kabu{rule}la")), GuardrailDecision::Pass);
    assert_eq!(list.check_question(&format!("kabu{}la", "\n".repeat(3_000))), GuardrailDecision::Pass);
}

const DISGUISES: [&str; 24] = [
    "a", "A", "á", "а", "b", "β", "c", " ", "　", "-", ".", "\u{200B}", "\u{301}", "か", "が", "ｶ", "ガ", "ﾞ",
    "\u{3099}", "は", "゜", "ﬁ", "x", "\n",
];

proptest! {
    #[test]
    fn how_an_answer_is_split_changes_nothing_of_what_is_found_in_it(
        patterns in vec(vec(select(&DISGUISES[..]), 3..7), 0..5),
        text in vec(select(&DISGUISES[..]), 0..40), places: Vec<Index>,
    ) {
        let patterns: Vec<String> = patterns.into_iter().map(|letters| letters.concat()).collect();
        let (list, text) = (DenyList::undisguising(&patterns).unwrap(), text.concat());
        let (released, rule) = play(list.inspect_answer(), split(&text, &places));
        prop_assert!(text.starts_with(&released));
        prop_assert_eq!(released == text, rule.is_none());
        prop_assert_eq!(is_blocked(&list, &text), rule.is_some());
        prop_assert_eq!(play(list.inspect_answer(), [text.as_str()]), (released, rule));
    }
}
