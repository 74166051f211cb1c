//! Counts a text in one pass over its bytes, without allocating.
//!
//! ASCII is classified per line: whether a line is prose or JSON is known only at its end, so that its counts are
//! buffered until then.

use super::counts::{ASCII_UNITS, AsciiContext, CharacterClass, TextCounts, TextUnit};
use super::growth::growth;

/// Hiragana in a row that count as endings and particles.
const SHORT_HIRAGANA: u32 = 6;
/// Letters of a word that are covered by its start.
const SHORT_WORD: u32 = 6;
/// Digits per unit.
const DIGITS: u32 = 3;
/// White space characters per gap.
const GAP: u32 = 16;
/// A line is JSON or code if it has at least one structural mark per this many ASCII characters.
const STRUCTURE: u64 = 12;

/// The kind of an ASCII byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AsciiKind {
    Lower,
    Upper,
    Digit,
    Mark,
    /// Punctuation that is frequent in JSON and code.
    Structure,
    Space,
    Control,
}

const KINDS: [AsciiKind; 128] = {
    let mut kinds = [AsciiKind::Control; 128];
    let mut at = 0;
    while at < 128 {
        #[expect(clippy::cast_possible_truncation, reason = "below 128")]
        let byte = at as u8;
        kinds[at] = match byte {
            b'a'..=b'z' => AsciiKind::Lower,
            b'A'..=b'Z' => AsciiKind::Upper,
            b'0'..=b'9' => AsciiKind::Digit,
            b' ' | b'\t' | b'\r' | b'\n' => AsciiKind::Space,
            b'{' | b'}' | b'[' | b']' | b'"' | b'<' | b'>' | b'=' | b';' | b':' | b'_' | b'(' | b')'
            | b'\\' | b'/' | b'|' | b'&' | b'$' | b'#' | b'*' | b'`' => AsciiKind::Structure,
            b'!'..=b'~' => AsciiKind::Mark,
            _ => AsciiKind::Control,
        };
        at += 1;
    }
    kinds
};

/// The kind of the preceding characters, and how many in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CharacterRun {
    #[default]
    Nothing,
    Lower(u32),
    Upper(u32),
    Digits(u32),
    Marks,
    Space {
        length: u32,
        is_gap: bool,
    },
    Hiragana(u32),
}

/// ASCII counts whose context is not known yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AsciiCounts {
    pub(super) units: [u64; ASCII_UNITS],
    characters: u64,
    structure: u64,
    letters: u64,
}

impl AsciiCounts {
    #[inline]
    pub(super) fn step(&mut self, byte: u8, run: CharacterRun) -> CharacterRun {
        let [words, long_words, digits, marks, more_marks, gaps] = &mut self.units;
        self.characters += 1;
        match KINDS[usize::from(byte & 0x7F)] {
            AsciiKind::Lower => {
                self.letters += 1;
                match run {
                    CharacterRun::Lower(length) | CharacterRun::Upper(length) => {
                        *long_words += u64::from(length >= SHORT_WORD);
                        CharacterRun::Lower(length.saturating_add(1))
                    }
                    _ => {
                        *words += 1;
                        CharacterRun::Lower(1)
                    }
                }
            }
            AsciiKind::Upper => {
                self.letters += 1;
                if let CharacterRun::Upper(length) = run {
                    *long_words += u64::from(length >= SHORT_WORD);
                    return CharacterRun::Upper(length.saturating_add(1));
                }
                *words += 1;
                CharacterRun::Upper(1)
            }
            AsciiKind::Digit => {
                let length = if let CharacterRun::Digits(length) = run { length } else { 0 };
                *digits += u64::from(length == 0);
                CharacterRun::Digits((length + 1) % DIGITS)
            }
            kind @ (AsciiKind::Mark | AsciiKind::Structure) => {
                self.structure += u64::from(kind == AsciiKind::Structure);
                *(if run == CharacterRun::Marks { more_marks } else { marks }) += 1;
                CharacterRun::Marks
            }
            AsciiKind::Space => {
                let (length, was_gap) = if let CharacterRun::Space { length, is_gap } = run {
                    (length, is_gap)
                } else {
                    (0, false)
                };
                let is_gap = was_gap || length > 0 || byte == b'\n';
                *gaps += u64::from((is_gap && !was_gap) || length == GAP);
                CharacterRun::Space { length: if length == GAP { 1 } else { length + 1 }, is_gap }
            }
            AsciiKind::Control => {
                *marks += 1;
                CharacterRun::Nothing
            }
        }
    }

    /// Equivalent to `more` steps over lower-case letters, inside a word of this length.
    #[inline]
    pub(super) fn lengthen(&mut self, length: u32, more: u64) -> CharacterRun {
        let (before, short) = (u64::from(length), u64::from(SHORT_WORD));
        let after = before.saturating_add(more);
        self.units[1] += after.max(short) - before.max(short);
        self.characters += more;
        self.letters += more;
        CharacterRun::Lower(u32::try_from(after).unwrap_or(u32::MAX))
    }

    fn settle(&mut self, counts: &mut TextCounts, ascii: AsciiContext) {
        let start = TextUnit::Word(ascii).index();
        for (to, from) in counts.units[start..].iter_mut().zip(self.units) {
            *to += from;
        }
        counts.characters[ascii.class() as usize] += self.characters;
        counts.letters += self.letters;
        *self = Self::default();
    }

    fn settle_line(&mut self, counts: &mut TextCounts) {
        let is_json = self.structure * STRUCTURE >= self.characters;
        self.settle(counts, if is_json { AsciiContext::Json } else { AsciiContext::Prose });
    }
}

pub(super) fn scan(text: &str) -> TextCounts {
    let bytes = text.as_bytes();
    let mut counts = TextCounts { bytes: bytes.len() as u64, ..TextCounts::default() };
    let mut line = AsciiCounts::default();
    let mut run = CharacterRun::Nothing;
    let mut at = 0;
    while let Some(&lead) = bytes.get(at) {
        if lead < 0x80 {
            let begins_word = matches!(lead, b'h' | b'w')
                && !matches!(run, CharacterRun::Lower(_) | CharacterRun::Upper(_));
            if begins_word && let Some(length) = url_length(&bytes[at..]) {
                let mut url_length = AsciiCounts::default();
                let mut inside = CharacterRun::Nothing;
                for &byte in &bytes[at..at + length] {
                    inside = url_length.step(byte, inside);
                }
                url_length.settle(&mut counts, AsciiContext::Url);
                (run, at) = (CharacterRun::Nothing, at + length);
                continue;
            }
            run = line.step(lead, run);
            at += 1;
            if let CharacterRun::Lower(length) = run {
                // Fast path: most ASCII is the inside of words.
                let more = bytes[at..].iter().take_while(|byte| byte.is_ascii_lowercase()).count();
                run = line.lengthen(length, more as u64);
                at += more;
            }
            if lead == b'\n' {
                line.settle_line(&mut counts);
            }
            continue;
        }
        let (code, length) = decode(lead, &bytes[at + 1..]);
        run = wide(code, run, &mut counts);
        at += length;
    }
    line.settle_line(&mut counts);
    counts
}

/// The length of the URL that begins here, if one does.
fn url_length(bytes: &[u8]) -> Option<usize> {
    let starts: [&[u8]; 3] = [b"https://", b"http://", b"www."];
    let start = starts.iter().find(|start| bytes.starts_with(start))?.len();
    let ends = |byte: &u8| !byte.is_ascii_graphic() || b"\"<>`{}|\\^".contains(byte);
    Some(bytes[start..].iter().position(ends).map_or(bytes.len(), |length| start + length))
}

/// Decodes the multi-byte character that begins with this byte. The input is valid UTF-8, so that there are always
/// enough bytes.
pub(super) fn decode(lead: u8, rest: &[u8]) -> (u32, usize) {
    let next = |at: usize| u32::from(rest.get(at).copied().unwrap_or_default() & 0x3F);
    let lead = u32::from(lead);
    if lead < 0xE0 {
        ((lead & 0x1F) << 6 | next(0), 2)
    } else if lead < 0xF0 {
        ((lead & 0x0F) << 12 | next(0) << 6 | next(1), 3)
    } else {
        ((lead & 0x07) << 18 | next(0) << 12 | next(1) << 6 | next(2), 4)
    }
}

/// Counts one character outside ASCII, with the common ranges first.
pub(super) fn wide(code: u32, run: CharacterRun, counts: &mut TextCounts) -> CharacterRun {
    let unit = match code {
        0x3041..=0x309A | 0x309D..=0x309F => {
            let length = if let CharacterRun::Hiragana(length) = run { length } else { 0 };
            let is_long = length >= SHORT_HIRAGANA;
            note(counts, if is_long { TextUnit::LongHiragana } else { TextUnit::Hiragana }, code);
            return CharacterRun::Hiragana(if is_long { length } else { length + 1 });
        }
        0x4E00..=0x9FFF | 0x3005 | 0x3007 | 0x3400..=0x4DBF | 0xF900..=0xFAFF | 0x2_0000..=0x3_FFFF => {
            TextUnit::Kanji
        }
        0x30A1..=0x30FA | 0x30FC..=0x30FF | 0x31F0..=0x31FF => TextUnit::Katakana,
        0xFF9E | 0xFF9F => {
            // A voicing mark is merged into the letter before it.
            counts.characters[CharacterClass::Kana as usize] += 1;
            return CharacterRun::Nothing;
        }
        0xFF65..=0xFF9D => TextUnit::HalfKatakana,
        0x3000..=0x303F | 0x309B | 0x309C | 0x30A0 | 0x30FB | 0xFF00..=0xFF64 => TextUnit::JapaneseMark,
        0x200D | 0xFE00..=0xFE0F | 0x20E3 | 0x1_F3FB..=0x1_F3FF | 0xE_0000..=0xE_007F => {
            TextUnit::EmojiJoiner
        }
        0x1_F000..=0x1_FAFF => TextUnit::Emoji,
        0x2605 | 0x2606 | 0x2660..=0x2667 | 0x2669..=0x266F => TextUnit::Sign,
        0x2600..=0x27BF
        | 0x231A
        | 0x231B
        | 0x23E9..=0x23F3
        | 0x2B05..=0x2B07
        | 0x2B1B
        | 0x2B1C
        | 0x2B50
        | 0x2B55 => TextUnit::SmallEmoji,
        0x2000..=0x2BFF => TextUnit::Sign,
        0xAC00..=0xD7AF => TextUnit::Hangul,
        0..=0x036F => TextUnit::Accented,
        0x0400..=0x052F => TextUnit::Cyrillic,
        0x0370..=0x07FF => TextUnit::ShortScript,
        _ => TextUnit::LongScript,
    };
    note(counts, unit, code);
    CharacterRun::Nothing
}

fn note(counts: &mut TextCounts, unit: TextUnit, code: u32) {
    counts.units[unit.index()] += 1;
    counts.characters[unit.class() as usize] += 1;
    match unit {
        TextUnit::Kanji
        | TextUnit::Hiragana
        | TextUnit::LongHiragana
        | TextUnit::Katakana
        | TextUnit::HalfKatakana => {
            counts.letters += 1;
            counts.japanese_letters += 1;
        }
        TextUnit::Hangul
        | TextUnit::Accented
        | TextUnit::Cyrillic
        | TextUnit::ShortScript
        | TextUnit::LongScript => {
            counts.letters += 1;
        }
        _ => {}
    }
    // For mostly Japanese text this avoids nearly every table lookup.
    if !matches!(code, 0x3041..=0x309A | 0x30A1..=0x30FE | 0x4E00..=0x9FFF) {
        counts.growth += growth(code);
    }
}
