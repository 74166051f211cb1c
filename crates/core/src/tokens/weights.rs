//! What each unit weighs, in thousandths of a token.
//!
//! Written by `cargo xtask tokens` from the corpus texts at even positions; do not edit.

use super::counts::TextUnit;

/// Anthropic's published tokenizer.
#[rustfmt::skip]
pub(super) const CLAUDE: [u32; TextUnit::COUNT] = [
    1374, // Kanji
    850, // Hiragana
    1110, // LongHiragana
    1100, // Katakana
    1378, // HalfKatakana
    1100, // JapaneseMark
    1288, // Hangul
    1357, // Accented
    583, // Cyrillic
    1156, // ShortScript
    1711, // LongScript
    1564, // Sign
    2724, // Emoji
    2963, // SmallEmoji
    1241, // EmojiJoiner
    975, // Word(Prose)
    61, // LongWord(Prose)
    779, // Digits(Prose)
    1208, // Marks(Prose)
    60, // MoreMarks(Prose)
    595, // Gap(Prose)
    975, // Word(Json)
    61, // LongWord(Json)
    779, // Digits(Json)
    1165, // Marks(Json)
    60, // MoreMarks(Json)
    595, // Gap(Json)
    975, // Word(Url)
    61, // LongWord(Url)
    779, // Digits(Url)
    1208, // Marks(Url)
    60, // MoreMarks(Url)
    595, // Gap(Url)
];

/// `o200k_base`.
#[rustfmt::skip]
pub(super) const OPENAI: [u32; TextUnit::COUNT] = [
    877, // Kanji
    583, // Hiragana
    871, // LongHiragana
    734, // Katakana
    2036, // HalfKatakana
    1205, // JapaneseMark
    645, // Hangul
    54, // Accented
    216, // Cyrillic
    409, // ShortScript
    455, // LongScript
    1139, // Sign
    1964, // Emoji
    2835, // SmallEmoji
    951, // EmojiJoiner
    964, // Word(Prose)
    173, // LongWord(Prose)
    891, // Digits(Prose)
    698, // Marks(Prose)
    64, // MoreMarks(Prose)
    485, // Gap(Prose)
    964, // Word(Json)
    173, // LongWord(Json)
    891, // Digits(Json)
    960, // Marks(Json)
    64, // MoreMarks(Json)
    485, // Gap(Json)
    964, // Word(Url)
    173, // LongWord(Url)
    891, // Digits(Url)
    698, // Marks(Url)
    64, // MoreMarks(Url)
    485, // Gap(Url)
];

/// `cl100k_base`.
#[rustfmt::skip]
pub(super) const OLDER_OPENAI: [u32; TextUnit::COUNT] = [
    1437, // Kanji
    825, // Hiragana
    986, // LongHiragana
    1009, // Katakana
    2385, // HalfKatakana
    1292, // JapaneseMark
    1154, // Hangul
    808, // Accented
    493, // Cyrillic
    971, // ShortScript
    972, // LongScript
    1217, // Sign
    2860, // Emoji
    2939, // SmallEmoji
    1278, // EmojiJoiner
    1006, // Word(Prose)
    124, // LongWord(Prose)
    864, // Digits(Prose)
    696, // Marks(Prose)
    86, // MoreMarks(Prose)
    516, // Gap(Prose)
    1006, // Word(Json)
    124, // LongWord(Json)
    864, // Digits(Json)
    904, // Marks(Json)
    86, // MoreMarks(Json)
    516, // Gap(Json)
    1006, // Word(Url)
    124, // LongWord(Url)
    864, // Digits(Url)
    696, // Marks(Url)
    86, // MoreMarks(Url)
    516, // Gap(Url)
];
