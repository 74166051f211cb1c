//! Length of a text as a JSON string, and where to split one that is too long.

/// Escaped length of each byte in a JSON string. Bytes of multi-byte characters are not escaped, so that a table over
/// bytes is exact for every text.
const WIDTHS: [u8; 256] = widths();

/// Maximum escaped length of a byte.
pub(super) const WIDEST: usize = 6;

/// How far back a split looks for a boundary between two emoji.
const LOOK_BACK: usize = 64;

const fn widths() -> [u8; 256] {
    let mut widths = [1; 256];
    let mut control = 0;
    while control < 0x20 {
        widths[control] = 6;
        control += 1;
    }
    let mut short = 0;
    let with_short_form = *b"\"\\\n\r\t\x08\x0c";
    while short < with_short_form.len() {
        widths[with_short_form[short] as usize] = 2;
        short += 1;
    }
    widths
}

/// Bytes that `text` takes inside a JSON string, without the quotes around it.
///
/// ```
/// use seawall_core::framing::escaped_len;
/// assert_eq!(escaped_len("say \"漫\"\n"), 13);
/// ```
#[must_use]
pub fn escaped_len(text: &str) -> usize {
    text.bytes().map(|byte| usize::from(WIDTHS[usize::from(byte)])).sum()
}

/// How many bytes of `text` fit into a frame with `room` for escaped bytes.
///
/// Never splits a character, and prefers not to split an emoji sequence. Takes at least the first character, so that a
/// stream cannot stall.
pub(super) fn fitting_len(text: &str, room: usize) -> usize {
    if text.len().saturating_mul(WIDEST) <= room {
        return text.len();
    }
    let mut used = 0_usize;
    let too_far = text.bytes().position(|byte| {
        used += usize::from(WIDTHS[usize::from(byte)]);
        used > room
    });
    let Some(too_far) = too_far else {
        return text.len();
    };
    let max = text.floor_char_boundary(too_far);
    if max == 0 {
        return text.chars().next().map_or(0, char::len_utf8);
    }
    between_emoji(text, max)
}

/// The last boundary at or shortly before `max` that splits no emoji sequence; `max` if there is none.
fn between_emoji(text: &str, max: usize) -> usize {
    let mut split = max;
    while max - split <= LOOK_BACK {
        let (before, after) = text.split_at(split);
        let (Some(last), Some(first)) = (before.chars().next_back(), after.chars().next()) else {
            return max;
        };
        if !belongs_together(last, first) {
            return split;
        }
        split -= last.len_utf8();
    }
    max
}

/// Whether the second character modifies or continues the first: joiners, variation selectors, skin tones, keycaps,
/// combining marks and tags. Flags made of two regional indicators are not considered.
fn belongs_together(last: char, first: char) -> bool {
    const JOINER: char = '\u{200D}';
    last == JOINER
        || matches!(first,
            JOINER
            | '\u{0300}'..='\u{036F}'
            | '\u{20E3}'
            | '\u{FE00}'..='\u{FE0F}'
            | '\u{1F3FB}'..='\u{1F3FF}'
            | '\u{E0020}'..='\u{E007F}')
}
