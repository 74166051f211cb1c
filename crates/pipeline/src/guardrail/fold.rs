//! Text as it is compared: one spelling for what looks alike.
//!
//! Widths, spaces and the marks of kana are folded as the cache folds them. Beyond that, all letters lose their case, and
//! what nobody sees is left out. It goes character by character, and each comes with the place of the text that it began at.

use seawall_core::cache_policy::normalise;

/// Folds a text as it comes.
#[derive(Debug)]
pub(super) struct Folding {
    /// A kana that a mark may still follow, and where it began.
    pending: Option<(char, u64)>,
    /// Whether the last thing was space: of several in a row there is one, and none at the beginning.
    is_after_space: bool,
}

impl Folding {
    pub(super) const fn new() -> Self {
        Self { pending: None, is_after_space: true }
    }

    /// Takes the character at this place. `give` gets what is certain by now.
    pub(super) fn take(&mut self, character: char, at: u64, give: &mut impl FnMut(char, u64)) {
        if is_invisible(character) {
            return;
        }
        let character = in_usual_width(character);
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

    /// No more follows what was taken.
    pub(super) fn end(&mut self, give: &mut impl FnMut(char, u64)) {
        if let Some((character, start)) = self.pending.take() {
            give(character, start);
        }
    }

    /// Where what is not certain began.
    pub(super) fn pending_from(&self) -> Option<u64> {
        self.pending.map(|(_, start)| start)
    }
}

/// A whole text, without space around it.
pub(super) fn folded(text: &str) -> String {
    let (mut folding, mut out) = (Folding::new(), String::new());
    for character in text.chars() {
        folding.take(character, 0, &mut |folded, _| out.push(folded));
    }
    folding.end(&mut |folded, _| out.push(folded));
    out.truncate(out.trim_end_matches(' ').len());
    out
}

/// What nobody sees: controls, marks of direction, joiners, variation selectors, tags.
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

/// Down, up and down again, so that what shares a small letter or a capital with another is the same.
pub(super) fn without_case(character: char) -> impl Iterator<Item = char> {
    character.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

pub(super) fn in_usual_width(character: char) -> char {
    let code = u32::from(character);
    match code {
        0xFF01..=0xFF5E => char::from_u32(code - 0xFEE0).unwrap_or(character),
        // Rare enough to ask who has the table.
        0xFF61..=0xFF9F => only(&normalise(character.encode_utf8(&mut [0; 4]))).unwrap_or(character),
        _ if character.is_whitespace() => ' ',
        _ => character,
    }
}

/// A kana with the mark that follows it, where the two are one letter.
fn join(base: char, mark: char) -> Option<char> {
    let is_mark = matches!(mark, '\u{3099}'..='\u{309C}');
    if is_mark { only(&normalise(&String::from_iter([base, mark]))) } else { None }
}

/// The character of a text that has only one.
fn only(text: &str) -> Option<char> {
    let mut characters = text.chars();
    characters.next().filter(|_| characters.next().is_none())
}
