use crate::framing::escape::{escaped_len, fitting_len};
use proptest::prelude::{any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::{Just, Strategy};

fn encoded(text: &str) -> usize {
    serde_json::to_string(text).unwrap().len() - 2
}

/// Text with all kinds of awkward characters.
pub(super) fn awkward_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<char>().prop_map(String::from),
        (0_u8..0x20).prop_map(|control| char::from(control).to_string()),
        Just("\"".to_owned()),
        Just("\\".to_owned()),
        Just("漫".to_owned()),
        Just("a".to_owned()),
        Just("👩‍👩‍👧‍👦".to_owned()),
        Just("👍🏽".to_owned()),
        Just("e\u{301}".to_owned()),
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

#[test]
fn every_ascii_character_is_measured_as_it_is_encoded() {
    for byte in 0..128_u8 {
        let text = char::from(byte).to_string();
        assert_eq!(escaped_len(&text), encoded(&text), "{byte:#x}");
    }
    assert_eq!(escaped_len("\u{0}\u{1f}\u{7f}\"\\漫👍"), 6 + 6 + 1 + 2 + 2 + 3 + 4);
}

#[test]
fn a_text_that_fits_exactly_is_not_split() {
    for (text, length) in [("abcd", 4), ("\"\"", 4), ("漫a", 4), ("👍", 4)] {
        assert_eq!(fitting_len(text, length), text.len());
        assert!(fitting_len(&text.repeat(2), length) == text.len());
    }
    assert_eq!(fitting_len("\u{1}a", 6), 1);
    assert_eq!(fitting_len("\u{1}a", 7), 2);
    assert_eq!(fitting_len("漫漫", 5), 3);
    assert_eq!(fitting_len("", 0), 0);
}

#[test]
fn the_first_character_is_taken_even_without_room() {
    assert_eq!(fitting_len("漫画", 2), 3);
    assert_eq!(fitting_len("\u{1}a", 0), 1);
}

#[test]
fn an_emoji_of_several_characters_stays_whole_where_that_is_cheap() {
    let family = "👩‍👩‍👧‍👦";
    assert_eq!(family.len(), 25);
    for rest in 0..family.len() {
        assert_eq!(fitting_len(&format!("ab{family}"), 2 + rest), 2, "{rest}");
    }
    assert_eq!(fitting_len(&format!("ab{family}!"), 27), 27);
    for (text, whole) in [("a👍🏽", 1), ("a❤\u{fe0f}", 1), ("a1\u{20e3}", 1), ("ae\u{301}", 1)] {
        assert_eq!(fitting_len(text, text.len() - 1), whole, "{text}");
    }
    let tagged = "a🏴\u{e0067}\u{e007f}";
    assert_eq!(fitting_len(tagged, 5), 1);
    assert_eq!(fitting_len("ba\u{300}\u{36f}", 4), 1);
}

#[test]
fn a_chain_of_joiners_without_end_is_split_where_the_room_ends() {
    let chain = "\u{200D}".repeat(100);
    assert_eq!(fitting_len(&chain, 150), 150);
    let word = format!("word{}", "\u{200D}".repeat(22));
    // The letter before the chain belongs to it: the boundary is 61, then 64 bytes back.
    assert_eq!(fitting_len(&word, 4 + 60), 3);
    assert_eq!(fitting_len(&word, 4 + 63), 3);
    // Here it would be 65.
    assert_eq!(fitting_len(&format!("wé{}", "\u{200D}".repeat(22)), 3 + 63), 3 + 63);
}

proptest! {
    #[test]
    fn lengths_are_those_of_the_encoder(text in awkward_text()) {
        prop_assert_eq!(escaped_len(&text), encoded(&text));
    }

    /// Compared with every possible boundary: within the room, and at most one look-back from the last one.
    #[test]
    fn a_split_fits_and_wastes_little(text in awkward_text(), room in 0_usize..200) {
        let length = fitting_len(&text, room);
        prop_assert!(text.is_char_boundary(length));
        let most = (0..=text.len())
            .filter(|end| text.is_char_boundary(*end) && encoded(&text[..*end]) <= room)
            .max()
            .unwrap_or(0);
        let first = text.chars().next().map_or(0, char::len_utf8);
        prop_assert!(length <= most.max(first));
        prop_assert!(length >= first);
        prop_assert!(length + 68 > most);
        if most == text.len() {
            prop_assert_eq!(length, most);
        }
    }
}
