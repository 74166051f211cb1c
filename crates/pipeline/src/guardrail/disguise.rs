//! Normalizes disguised text, so that different spellings of the same word compare equal.
//!
//! In addition to [`Folding`](super::fold::Folding), it ignores compatibility forms (NFKC), accents and other combining
//! marks, look-alike letters of other scripts, the difference between katakana and hiragana, and separators inside
//! words. It works character by character and returns each one with the position at which it began.
//!
//! | written | compared as |
//! | --- | --- |
//! | `ﬁ`, `ⓕ`, `𝐟`, `Ｆ`, `㌔` | their compatibility decomposition |
//! | `é`, `o̶` | without the mark; the voicing marks of kana stay |
//! | Cyrillic, Greek and Armenian letters that look like Latin ones | the Latin letter |
//! | katakana | hiragana |
//! | punctuation and symbols, up to 31 in a row | nothing |
//! | space between single letters (`a p p l e`) | nothing; other space stays |
//!
//! **What it does not do.** It does not map digits to letters (`4pple`), does not correct missing or doubled letters
//! (`aple`, `appple`), does not translate, and does not treat `l`, `I` and `1` as equal.

use super::fold::{is_invisible, normalize_width, without_case};
use unicode_normalization::char::{canonical_combining_class, compose, decompose_compatible};

/// Incremental normalization.
#[derive(Debug, Default)]
pub(super) struct Disguise {
    /// A kana that a voicing mark may still follow, and its position.
    kana: Option<(char, u64)>,
    spacing: Spacing,
}

impl Disguise {
    /// Takes the character at this position. `give` receives the characters that are final.
    pub(super) fn take(&mut self, character: char, at: u64, give: &mut impl FnMut(char, u64)) {
        if is_invisible(character) {
            return;
        }
        if character.is_ascii() {
            self.settle_kana(give);
            return self.spacing.take(character.to_ascii_lowercase(), at, give);
        }
        match normalize_width(character) {
            // On their own, these decompose into a space and the mark.
            '\u{309B}' => self.piece('\u{3099}', at, give),
            '\u{309C}' => self.piece('\u{309A}', at, give),
            usual => decompose_compatible(usual, |piece| self.piece(piece, at, give)),
        }
    }

    /// Flushes the pending characters at the end of the text.
    pub(super) fn end(&mut self, give: &mut impl FnMut(char, u64)) {
        self.settle_kana(give);
        self.spacing.end(give);
    }

    /// The position of the first pending character.
    pub(super) fn pending_from(&self) -> Option<u64> {
        let kana = self.kana.map(|(_, at)| at);
        kana.into_iter().chain(self.spacing.letter.map(|(_, at)| at)).min()
    }

    fn piece(&mut self, piece: char, at: u64, give: &mut impl FnMut(char, u64)) {
        if let ('\u{3099}' | '\u{309A}', Some((base, start))) = (piece, self.kana) {
            if let Some(joined) = compose(base, piece) {
                self.kana = Some((joined, start));
            }
            return;
        }
        if is_invisible(piece) || canonical_combining_class(piece) != 0 {
            return;
        }
        self.settle_kana(give);
        match piece {
            '\u{30A1}'..='\u{30F6}' => {
                let hiragana = u32::from(piece).checked_sub(0x60).and_then(char::from_u32);
                self.kana = Some((hiragana.unwrap_or(piece), at));
            }
            '\u{3041}'..='\u{3096}' => self.kana = Some((piece, at)),
            _ => {
                if let Some(latin) = look_alike(piece) {
                    return self.spacing.take(latin, at, give);
                }
                without_case(piece).for_each(|folded| {
                    self.spacing.take(look_alike(folded).unwrap_or(folded), at, give);
                });
            }
        }
    }

    fn settle_kana(&mut self, give: &mut impl FnMut(char, u64)) {
        if let Some((kana, start)) = self.kana.take() {
            self.spacing.take(kana, start, give);
        }
    }
}

/// This many separators in a row end whatever was being matched: a line of dashes is not a disguise, and the text
/// before it need not be held back any longer.
const MAX_SEPARATORS: u8 = 32;

/// Drops separators. A space stays, unless the words on both sides are single letters.
#[derive(Debug, Default)]
struct Spacing {
    /// Consecutive separators, including spaces.
    separators: u8,
    /// Letters of the word before the space, or of the current word; capped at two.
    letters: u8,
    /// The position of a pending space.
    space: Option<u64>,
    /// The first letter after the pending space; the word may turn out longer.
    letter: Option<(char, u64)>,
}

impl Spacing {
    fn take(&mut self, character: char, at: u64, give: &mut impl FnMut(char, u64)) {
        if !character.is_alphanumeric() {
            self.separators = self.separators.saturating_add(1);
            if self.separators == MAX_SEPARATORS {
                self.end(give);
                self.separators = MAX_SEPARATORS;
                // No pattern contains two consecutive spaces, so this ends every partial match.
                give(' ', at);
                give(' ', at);
            } else if character.is_whitespace() && self.separators < MAX_SEPARATORS {
                self.take_space(at, give);
            }
            return;
        }
        self.separators = 0;
        let Some(space) = self.space else {
            self.letters = (self.letters + 1).min(2);
            return give(character, at);
        };
        match self.letter.take() {
            // A second letter: the word after the space is longer than one letter.
            Some((first, first_at)) => {
                give(' ', space);
                give(first, first_at);
                give(character, at);
                (self.space, self.letters) = (None, 2);
            }
            None if self.letters == 1 => self.letter = Some((character, at)),
            None => {
                give(' ', space);
                give(character, at);
                (self.space, self.letters) = (None, 1);
            }
        }
    }

    fn take_space(&mut self, at: u64, give: &mut impl FnMut(char, u64)) {
        if let Some((letter, letter_at)) = self.letter.take() {
            // Single letters on both sides: drop the space between them.
            give(letter, letter_at);
            (self.space, self.letters) = (Some(at), 1);
        } else if self.space.is_none() && self.letters > 0 {
            self.space = Some(at);
        }
    }

    fn end(&mut self, give: &mut impl FnMut(char, u64)) {
        if let Some((letter, at)) = self.letter.take() {
            give(letter, at);
        }
        *self = Self::default();
    }
}

/// Normalizes a pattern. `None` if too little of it would remain, so that it would match everywhere, or if it contains
/// letters of the look-alike scripts itself.
pub(super) fn undisguised(pattern: &str) -> Option<String> {
    let is_other = |character: char| matches!(character, '\u{370}'..='\u{58F}' | '\u{1F00}'..='\u{1FFF}');
    if pattern.chars().any(is_other) {
        return None;
    }
    let (mut disguise, mut out) = (Disguise::default(), String::new());
    for character in pattern.chars() {
        disguise.take(character, 0, &mut |folded, _| out.push(folded));
    }
    disguise.end(&mut |folded, _| out.push(folded));
    let letters = out.chars().filter(|character| *character != ' ');
    let is_wide = |character: char| matches!(character, '\u{3000}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}');
    let min_letters = if letters.clone().all(is_wide) { 2 } else { 3 };
    (letters.count() >= min_letters).then_some(out)
}

/// The Latin letter that a letter of another script resembles.
const fn look_alike(character: char) -> Option<char> {
    Some(match character {
        // Capitals whose lowercase letters resemble a different letter.
        'Η' | 'Н' | 'н' | 'һ' | 'հ' => 'h',
        'Ν' | 'η' | 'п' | 'ո' | 'ռ' => 'n',
        'Υ' | 'Ү' | 'У' | 'у' | 'γ' | 'ү' | 'ყ' => 'y',
        'Μ' | 'М' | 'м' => 'm',
        'В' | 'в' | 'Β' | 'β' => 'b',
        'Т' | 'т' | 'Τ' | 'τ' => 't',
        'Α' | 'α' | 'А' | 'а' | 'ɑ' => 'a',
        'Ε' | 'ε' | 'Е' | 'е' | 'є' | 'ҽ' => 'e',
        'Ζ' => 'z',
        'Ι' | 'ι' | 'І' | 'і' | 'ı' | 'ɩ' => 'i',
        'Κ' | 'κ' | 'К' | 'к' | 'қ' => 'k',
        'Ο' | 'ο' | 'О' | 'о' | 'օ' | 'ø' | 'Ø' | 'σ' => 'o',
        'Ρ' | 'ρ' | 'Р' | 'р' => 'p',
        'Χ' | 'χ' | 'Х' | 'х' => 'x',
        'ν' | 'ѵ' => 'v',
        'υ' | 'ս' | 'μ' => 'u',
        'ω' | 'ԝ' => 'w',
        'С' | 'с' | 'ϲ' => 'c',
        'Ѕ' | 'ѕ' | 'ʂ' => 's',
        'Ј' | 'ј' | 'ϳ' => 'j',
        'ԁ' | 'đ' | 'Đ' => 'd',
        'ԛ' => 'q',
        'ӏ' | 'ł' | 'Ł' | 'ʟ' => 'l',
        'ɡ' | 'ց' => 'g',
        'ƒ' | 'ғ' => 'f',
        'г' | 'ɍ' => 'r',
        _ => return None,
    })
}
