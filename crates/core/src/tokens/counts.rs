//! Additive counts of what a text consists of.

use std::ops::{Add, AddAssign};

/// A visible class of characters. Every character belongs to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CharacterClass {
    /// Chinese characters.
    Kanji,
    /// Hiragana, katakana in both widths, and Japanese punctuation.
    Kana,
    /// Everything else outside ASCII: Hangul, Cyrillic, Thai, accents, stars and dashes.
    Other,
    /// Emoji, with their joiners and modifiers.
    Emoji,
    /// ASCII in ordinary lines.
    Prose,
    /// ASCII in lines that look like JSON or code.
    Json,
    /// URLs, from `http` to where they end.
    Url,
}

impl CharacterClass {
    /// Number of classes.
    pub const COUNT: usize = 7;
    /// Every class.
    pub const ALL: [Self; Self::COUNT] =
        [Self::Kanji, Self::Kana, Self::Other, Self::Emoji, Self::Prose, Self::Json, Self::Url];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kanji => "kanji",
            Self::Kana => "kana",
            Self::Other => "other",
            Self::Emoji => "emoji",
            Self::Prose => "prose",
            Self::Json => "json",
            Self::Url => "url",
        }
    }
}

/// A unit with a weight. Outside ASCII a unit is a character; within ASCII, tokenizers split at words, numbers and
/// punctuation, so that counting those is far more accurate than counting characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextUnit {
    /// A Chinese character.
    Kanji,
    /// One of the first six hiragana in a row: endings and particles, which tokenizers cover well.
    Hiragana,
    /// A hiragana after those: words usually written in kanji, which tokenizers cover less well.
    LongHiragana,
    /// A katakana.
    Katakana,
    /// A half-width katakana; its voicing marks are free.
    HalfKatakana,
    /// Japanese punctuation, a full-width letter, the ideographic space.
    JapaneseMark,
    /// A Korean syllable.
    Hangul,
    /// A Latin letter with an accent, or another character of that range.
    Accented,
    /// A Cyrillic letter.
    Cyrillic,
    /// A Greek, Hebrew or Arabic letter, or another of two bytes.
    ShortScript,
    /// A character of any other script.
    LongScript,
    /// Dashes, dots, quotes, arrows, stars and other symbols that are not emoji.
    Sign,
    /// An emoji of four bytes; half a flag.
    Emoji,
    /// An emoji of three bytes.
    SmallEmoji,
    /// A joiner, modifier or variation selector of an emoji.
    EmojiJoiner,
    /// The start of a word, also inside `camelCase`.
    Word(AsciiContext),
    /// A letter after the sixth of a word.
    LongWord(AsciiContext),
    /// Up to three digits.
    Digits(AsciiContext),
    /// A run of punctuation marks of any length.
    Marks(AsciiContext),
    /// A punctuation mark after the first in a run.
    MoreMarks(AsciiContext),
    /// White space other than a single space, such as a line break with its indentation; one unit per sixteen
    /// characters.
    Gap(AsciiContext),
}

/// The context of ASCII text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AsciiContext {
    /// In an ordinary line.
    Prose,
    /// In a line that looks like JSON or code.
    Json,
    /// In a URL.
    Url,
}

impl AsciiContext {
    const ALL: [Self; 3] = [Self::Prose, Self::Json, Self::Url];

    pub(super) const fn class(self) -> CharacterClass {
        match self {
            Self::Prose => CharacterClass::Prose,
            Self::Json => CharacterClass::Json,
            Self::Url => CharacterClass::Url,
        }
    }
}

/// Units outside ASCII.
const WIDE: usize = 15;
/// Kinds of ASCII units, for each context.
pub(super) const ASCII_UNITS: usize = 6;

impl TextUnit {
    /// Number of units.
    pub const COUNT: usize = WIDE + ASCII_UNITS * AsciiContext::ALL.len();

    const WIDE: [Self; WIDE] = [
        Self::Kanji,
        Self::Hiragana,
        Self::LongHiragana,
        Self::Katakana,
        Self::HalfKatakana,
        Self::JapaneseMark,
        Self::Hangul,
        Self::Accented,
        Self::Cyrillic,
        Self::ShortScript,
        Self::LongScript,
        Self::Sign,
        Self::Emoji,
        Self::SmallEmoji,
        Self::EmojiJoiner,
    ];

    /// Every unit, in the order of the weights.
    pub fn all() -> impl Iterator<Item = Self> {
        let narrow = |ascii| {
            [
                Self::Word(ascii),
                Self::LongWord(ascii),
                Self::Digits(ascii),
                Self::Marks(ascii),
                Self::MoreMarks(ascii),
                Self::Gap(ascii),
            ]
        };
        Self::WIDE.into_iter().chain(AsciiContext::ALL.into_iter().flat_map(narrow))
    }

    /// The index in [`TextUnit::all`].
    #[must_use]
    pub const fn index(self) -> usize {
        let (kind, ascii) = match self {
            Self::Kanji => return 0,
            Self::Hiragana => return 1,
            Self::LongHiragana => return 2,
            Self::Katakana => return 3,
            Self::HalfKatakana => return 4,
            Self::JapaneseMark => return 5,
            Self::Hangul => return 6,
            Self::Accented => return 7,
            Self::Cyrillic => return 8,
            Self::ShortScript => return 9,
            Self::LongScript => return 10,
            Self::Sign => return 11,
            Self::Emoji => return 12,
            Self::SmallEmoji => return 13,
            Self::EmojiJoiner => return 14,
            Self::Word(ascii) => (0, ascii),
            Self::LongWord(ascii) => (1, ascii),
            Self::Digits(ascii) => (2, ascii),
            Self::Marks(ascii) => (3, ascii),
            Self::MoreMarks(ascii) => (4, ascii),
            Self::Gap(ascii) => (5, ascii),
        };
        WIDE + ASCII_UNITS * ascii as usize + kind
    }

    /// The class that the unit is reported under.
    #[must_use]
    pub const fn class(self) -> CharacterClass {
        match self {
            Self::Kanji => CharacterClass::Kanji,
            Self::Hiragana
            | Self::LongHiragana
            | Self::Katakana
            | Self::HalfKatakana
            | Self::JapaneseMark => CharacterClass::Kana,
            Self::Hangul
            | Self::Accented
            | Self::Cyrillic
            | Self::ShortScript
            | Self::LongScript
            | Self::Sign => CharacterClass::Other,
            Self::Emoji | Self::SmallEmoji | Self::EmojiJoiner => CharacterClass::Emoji,
            Self::Word(ascii)
            | Self::LongWord(ascii)
            | Self::Digits(ascii)
            | Self::Marks(ascii)
            | Self::MoreMarks(ascii)
            | Self::Gap(ascii) => ascii.class(),
        }
    }
}

/// What a text consists of. Counts are additive, so that a history is counted once and stored.
///
/// ```
/// use seawall_core::tokens::{CharacterClass, TextCounts};
///
/// let history = TextCounts::of("こんにちは。");
/// let message = TextCounts::of("漫画 please");
/// let both = history + message;
/// assert_eq!(both.characters(CharacterClass::Kana), 6);
/// assert_eq!(both.characters(CharacterClass::Kanji), 2);
/// assert_eq!(both.characters(CharacterClass::Prose), 7);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextCounts {
    pub(super) units: [u64; TextUnit::COUNT],
    pub(super) characters: [u64; CharacterClass::COUNT],
    pub(super) letters: u64,
    pub(super) japanese_letters: u64,
    pub(super) bytes: u64,
    pub(super) growth: u64,
}

impl Default for TextCounts {
    fn default() -> Self {
        Self {
            units: [0; TextUnit::COUNT],
            characters: [0; CharacterClass::COUNT],
            letters: 0,
            japanese_letters: 0,
            bytes: 0,
            growth: 0,
        }
    }
}

impl TextCounts {
    /// Counts a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        super::scan::scan(text)
    }

    /// Characters of this class.
    #[must_use]
    pub const fn characters(&self, class: CharacterClass) -> u64 {
        self.characters[class as usize]
    }

    /// Occurrences of this unit.
    #[must_use]
    pub const fn units(&self, unit: TextUnit) -> u64 {
        self.units[unit.index()]
    }

    /// Length of the text in UTF-8 bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Upper bound of the bytes that a tokenizer sees: some normalise the text to NFKC first, in which `㌖` is
    /// `キロメートル`. No byte-level tokenizer makes more tokens than that.
    #[must_use]
    pub const fn max_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.growth)
    }

    /// The language, by the share of Japanese letters among all letters: above 0.3 Japanese, below 0.1 English.
    #[must_use]
    pub fn language(&self) -> TextLanguage {
        let (japanese, all) = (u128::from(self.japanese_letters), u128::from(self.letters));
        if japanese * 10 > all * 3 {
            TextLanguage::Japanese
        } else if japanese * 10 < all || all == 0 {
            TextLanguage::English
        } else {
            TextLanguage::Mixed
        }
    }
}

/// The language of a text, as far as its cost is concerned. The language of our own messages is a different type:
/// [`Language`](crate::strategy::Language).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextLanguage {
    /// Japanese.
    Japanese,
    /// English, and any other language than Japanese.
    English,
    /// Japanese and other text mixed.
    Mixed,
}

impl TextLanguage {
    /// Every language.
    pub const ALL: [Self; 3] = [Self::Japanese, Self::English, Self::Mixed];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Japanese => "ja",
            Self::English => "en",
            Self::Mixed => "mixed",
        }
    }
}

impl AddAssign for TextCounts {
    fn add_assign(&mut self, other: Self) {
        fn add<const N: usize>(to: &mut [u64; N], from: [u64; N]) {
            for (to, from) in to.iter_mut().zip(from) {
                *to = to.saturating_add(from);
            }
        }
        add(&mut self.units, other.units);
        add(&mut self.characters, other.characters);
        self.letters = self.letters.saturating_add(other.letters);
        self.japanese_letters = self.japanese_letters.saturating_add(other.japanese_letters);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.growth = self.growth.saturating_add(other.growth);
    }
}

impl Add for TextCounts {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl std::iter::Sum for TextCounts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), Add::add)
    }
}
