//! What a text is made of, as numbers that can be added.

use std::ops::{Add, AddAssign};

/// What a reader sees in a text. Every character is of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Chinese characters.
    Kanji,
    /// Hiragana, katakana in both widths, and the marks of Japanese text.
    Kana,
    /// Everything else outside ASCII: Hangul, Cyrillic, Thai, accents, stars and dashes.
    Other,
    /// Pictures, with what joins and tints them.
    Emoji,
    /// ASCII in ordinary lines.
    Prose,
    /// ASCII in lines that look like JSON or code.
    Json,
    /// Addresses, from `http` to where they end.
    Url,
}

impl Class {
    /// How many there are.
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

/// What has a weight. Outside ASCII that is a character; inside, tokenizers cut at words, numbers and marks, so that
/// counting those says far more than counting characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// A Chinese character.
    Kanji,
    /// One of the first six hiragana in a row: endings and particles, which tokenizers know well.
    Hiragana,
    /// A hiragana after those: words that are usually written in kanji, which they know less well.
    LongHiragana,
    /// A katakana.
    Katakana,
    /// A half-width katakana; its voice marks are free.
    HalfKatakana,
    /// A Japanese mark, a full-width letter, the wide space.
    JapaneseMark,
    /// A Korean syllable.
    Hangul,
    /// A Latin letter with an accent, or another character of that range.
    Accented,
    /// A Cyrillic letter.
    Cyrillic,
    /// A Greek, Hebrew or Arabic letter, or another of two bytes.
    ShortScript,
    /// A character of any script without a row of its own.
    LongScript,
    /// Dashes, dots, quotes, arrows, stars and other signs that are not pictures.
    Sign,
    /// A picture of four bytes; half a flag.
    Emoji,
    /// A picture of three bytes.
    SmallEmoji,
    /// What joins, tints or shapes the picture before it.
    EmojiJoiner,
    /// The start of a word, also inside `camelCase`.
    Word(Ascii),
    /// A letter after the sixth of a word.
    LongWord(Ascii),
    /// Up to three digits.
    Digits(Ascii),
    /// Marks in a row, however many.
    Marks(Ascii),
    /// A mark after the first in a row.
    MoreMarks(Ascii),
    /// White space that is more than one space: a line's end with its indentation; each sixteen characters of it.
    Gap(Ascii),
}

/// Where ASCII stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ascii {
    /// In an ordinary line.
    Prose,
    /// In a line that looks like JSON or code.
    Json,
    /// In an address.
    Url,
}

impl Ascii {
    const ALL: [Self; 3] = [Self::Prose, Self::Json, Self::Url];

    pub(super) const fn class(self) -> Class {
        match self {
            Self::Prose => Class::Prose,
            Self::Json => Class::Json,
            Self::Url => Class::Url,
        }
    }
}

/// Units outside ASCII.
const WIDE: usize = 15;
/// Kinds of units inside ASCII, for each place it may stand in.
pub(super) const NARROW: usize = 6;

impl Unit {
    /// How many there are.
    pub const COUNT: usize = WIDE + NARROW * Ascii::ALL.len();

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
        Self::WIDE.into_iter().chain(Ascii::ALL.into_iter().flat_map(narrow))
    }

    /// The place in [`Unit::all`].
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
        WIDE + NARROW * ascii as usize + kind
    }

    /// The class it is shown under.
    #[must_use]
    pub const fn class(self) -> Class {
        match self {
            Self::Kanji => Class::Kanji,
            Self::Hiragana
            | Self::LongHiragana
            | Self::Katakana
            | Self::HalfKatakana
            | Self::JapaneseMark => Class::Kana,
            Self::Hangul
            | Self::Accented
            | Self::Cyrillic
            | Self::ShortScript
            | Self::LongScript
            | Self::Sign => Class::Other,
            Self::Emoji | Self::SmallEmoji | Self::EmojiJoiner => Class::Emoji,
            Self::Word(ascii)
            | Self::LongWord(ascii)
            | Self::Digits(ascii)
            | Self::Marks(ascii)
            | Self::MoreMarks(ascii)
            | Self::Gap(ascii) => ascii.class(),
        }
    }
}

/// What a text is made of. Counts of parts add up, so that a history is counted once and remembered.
///
/// ```
/// use seawall_core::tokens::{Class, ClassCounts};
///
/// let history = ClassCounts::of("こんにちは。");
/// let message = ClassCounts::of("漫画 please");
/// let both = history + message;
/// assert_eq!(both.characters(Class::Kana), 6);
/// assert_eq!(both.characters(Class::Kanji), 2);
/// assert_eq!(both.characters(Class::Prose), 7);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassCounts {
    pub(super) units: [u64; Unit::COUNT],
    pub(super) characters: [u64; Class::COUNT],
    pub(super) letters: u64,
    pub(super) japanese_letters: u64,
    pub(super) bytes: u64,
    pub(super) growth: u64,
}

impl Default for ClassCounts {
    fn default() -> Self {
        Self {
            units: [0; Unit::COUNT],
            characters: [0; Class::COUNT],
            letters: 0,
            japanese_letters: 0,
            bytes: 0,
            growth: 0,
        }
    }
}

impl ClassCounts {
    /// Counts a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        super::scan::scan(text)
    }

    /// Characters of this class.
    #[must_use]
    pub const fn characters(&self, class: Class) -> u64 {
        self.characters[class as usize]
    }

    /// How often this unit occurs.
    #[must_use]
    pub const fn units(&self, unit: Unit) -> u64 {
        self.units[unit.index()]
    }

    /// The text's length in UTF-8.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The most bytes that a tokenizer can see of this text: some bring it into a form first in which `㌖` is
    /// `キロメートル` (NFKC). No byte-level tokenizer makes more tokens than that.
    #[must_use]
    pub const fn most_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.growth)
    }

    /// The language, by the share of Japanese among all letters: above 0.3 Japanese, below 0.1 English.
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

/// What a text is written in, as far as its cost is concerned. What we write in ourselves is another question:
/// [`Language`](crate::strategy::Language).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TextLanguage {
    /// Japanese.
    Japanese,
    /// English, and whatever else is not Japanese.
    English,
    /// Both.
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

impl AddAssign for ClassCounts {
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

impl Add for ClassCounts {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl std::iter::Sum for ClassCounts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), Add::add)
    }
}
