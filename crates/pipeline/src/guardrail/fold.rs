//! Folds text for comparison, so that texts that look alike compare equal.
//!
//! Widths, spaces and kana marks are folded like cache keys. In addition, case is removed and invisible characters are
//! dropped. It works character by character and returns each one with the position at which it began.

use seawall_core::cache_policy::normalise;

/// Incremental folding.
#[derive(Debug)]
pub(super) struct Folding {
    /// A kana that a mark may still follow, and its position.
    pending: Option<(char, u64)>,
    /// Whether the last character was a space: runs are collapsed, and leading space is dropped.
    is_after_space: bool,
}

impl Folding {
    pub(super) const fn new() -> Self {
        Self { pending: None, is_after_space: true }
    }

    /// Takes the character at this position. `give` receives the characters that are final.
    pub(super) fn take(&mut self, character: char, at: u64, give: &mut impl FnMut(char, u64)) {
        if is_invisible(character) {
            return;
        }
        let character = normalize_width(character);
        if let Some((base, start)) = self.pending {
            if let Some(joined) = join(base, character) {
                self.pending = Some((joined, start));
                return;
            }
            self.end(give);
        }
        if character == ' ' {
            if !self.is_after_space {
                give(' ', at);
            }
            self.is_after_space = true;
            return;
        }
        self.is_after_space = false;
        match character {
            'A'..='Z' => give(character.to_ascii_lowercase(), at),
            '\u{3040}'..='\u{30FF}' => self.pending = Some((character, at)),
            _ if character.is_ascii() => give(character, at),
            _ => without_case(character).for_each(|folded| give(folded, at)),
        }
    }

    /// Flushes the pending character at the end of the text.
    pub(super) fn end(&mut self, give: &mut impl FnMut(char, u64)) {
        if let Some((character, start)) = self.pending.take() {
            give(character, start);
        }
    }

    /// The position of the pending character.
    pub(super) fn pending_from(&self) -> Option<u64> {
        self.pending.map(|(_, start)| start)
    }
}

/// Folds a complete text and trims it.
pub(super) fn folded(text: &str) -> String {
    let (mut folding, mut out) = (Folding::new(), String::new());
    for character in text.chars() {
        folding.take(character, 0, &mut |folded, _| out.push(folded));
    }
    folding.end(&mut |folded, _| out.push(folded));
    out.truncate(out.trim_end_matches(' ').len());
    out
}

/// Characters without a visible glyph: controls, direction marks, joiners, variation selectors, tags.
pub(super) const fn is_invisible(character: char) -> bool {
    match character {
        '\t'..='\r' | '\u{85}' => false,
        '\u{0}'..='\u{1F}'
        | '\u{7F}'..='\u{9F}'
        | '\u{AD}'
        | '\u{34F}'
        | '\u{61C}'
        | '\u{115F}'..='\u{1160}'
        | '\u{17B4}'..='\u{17B5}'
        | '\u{180B}'..='\u{180F}'
        | '\u{200B}'..='\u{200F}'
        | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}'
        | '\u{3164}'
        | '\u{FE00}'..='\u{FE0F}'
        | '\u{FEFF}'
        | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFFB}'
        | '\u{1BCA0}'..='\u{1BCA3}'
        | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}' => true,
        _ => false,
    }
}

/// Lower, upper and lower case again, so that characters that share a lowercase or an uppercase letter compare equal.
pub(super) fn without_case(character: char) -> impl Iterator<Item = char> {
    character.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

pub(super) fn normalize_width(character: char) -> char {
    let code = u32::from(character);
    match code {
        0xFF01..=0xFF5E => char::from_u32(code - 0xFEE0).unwrap_or(character),
        // Rare, so the general table lookup is fast enough.
        0xFF61..=0xFF9F => only(&normalise(character.encode_utf8(&mut [0; 4]))).unwrap_or(character),
        _ if character.is_whitespace() => ' ',
        _ => character,
    }
}

/// Combines a kana with the mark that follows it, if the two form one letter.
fn join(base: char, mark: char) -> Option<char> {
    let is_mark = matches!(mark, '\u{3099}'..='\u{309C}');
    if is_mark { only(&normalise(&String::from_iter([base, mark]))) } else { None }
}

/// The character of a text that has exactly one.
fn only(text: &str) -> Option<char> {
    let mut characters = text.chars();
    characters.next().filter(|_| characters.next().is_none())
}
