//! Text normalisation for cache keys.

/// The half-width forms from U+FF61 to U+FF9F, in full width.
const FULL_KATAKANA: [char; 63] = [
    '。', '「', '」', '、', '・', 'ヲ', 'ァ', 'ィ', 'ゥ', 'ェ', 'ォ', 'ャ', 'ュ', 'ョ', 'ッ', 'ー', 'ア',
    'イ', 'ウ', 'エ', 'オ', 'カ', 'キ', 'ク', 'ケ', 'コ', 'サ', 'シ', 'ス', 'セ', 'ソ', 'タ', 'チ', 'ツ',
    'テ', 'ト', 'ナ', 'ニ', 'ヌ', 'ネ', 'ノ', 'ハ', 'ヒ', 'フ', 'ヘ', 'ホ', 'マ', 'ミ', 'ム', 'メ', 'モ',
    'ヤ', 'ユ', 'ヨ', 'ラ', 'リ', 'ル', 'レ', 'ロ', 'ワ', 'ン', '゛', '゜',
];

/// Trailing characters that do not change the meaning, after folding.
const ENDINGS: [char; 5] = ['。', '.', '!', '?', ' '];

/// Normalises a text for the cache key: trims it, collapses white space to one blank, maps full-width letters and
/// digits to ASCII and half-width katakana to full width with their marks joined, lower-cases ASCII letters, and
/// strips trailing full stops, exclamation and question marks. A text that consists only of those keeps them.
///
/// ```
/// use seawall_core::cache_policy::normalise;
/// assert_eq!(normalise("　ＯＮＥ　 Piece ｶﾞ好き！！ "), "one piece ガ好き");
/// ```
#[must_use]
pub fn normalise(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for character in text.chars().map(fold) {
        let last = folded.chars().next_back();
        if character == ' ' && last.is_none_or(|last| last == ' ') {
            continue;
        }
        if let Some(joined) = last.and_then(|base| join(base, character)) {
            folded.pop();
            folded.push(joined);
        } else {
            folded.push(character);
        }
    }
    let whole = folded.trim_end_matches(' ').len();
    let bare = folded.trim_end_matches(ENDINGS).len();
    folded.truncate(if bare == 0 { whole } else { bare });
    folded
}

/// Maps one character to its usual width and to lower case.
pub(super) fn fold(character: char) -> char {
    normalise_width(character).to_ascii_lowercase()
}

/// Maps one character to its usual width.
pub(super) fn normalise_width(character: char) -> char {
    let code = u32::from(character);
    match code {
        0xFF01..=0xFF5E => char::from_u32(code - 0xFEE0).unwrap_or(character),
        0xFF61..=0xFF9F => FULL_KATAKANA.get(code as usize - 0xFF61).copied().unwrap_or(character),
        _ if character.is_whitespace() => ' ',
        _ => character,
    }
}

/// Joins a kana and the voicing mark that follows it, if they form one letter.
fn join(base: char, mark: char) -> Option<char> {
    let next = |by: u32| char::from_u32(u32::from(base) + by);
    match mark {
        '゛' | '\u{3099}' => match base {
            'う' => Some('ゔ'),
            'ウ' => Some('ヴ'),
            'ワ' => Some('ヷ'),
            'ヲ' => Some('ヺ'),
            'か' | 'き' | 'く' | 'け' | 'こ' | 'さ' | 'し' | 'す' | 'せ' | 'そ' | 'た' | 'ち' | 'つ'
            | 'て' | 'と' | 'は' | 'ひ' | 'ふ' | 'へ' | 'ほ' | 'カ' | 'キ' | 'ク' | 'ケ' | 'コ' | 'サ'
            | 'シ' | 'ス' | 'セ' | 'ソ' | 'タ' | 'チ' | 'ツ' | 'テ' | 'ト' | 'ハ' | 'ヒ' | 'フ' | 'ヘ'
            | 'ホ' => next(1),
            _ => None,
        },
        '゜' | '\u{309A}' => match base {
            'は' | 'ひ' | 'ふ' | 'へ' | 'ほ' | 'ハ' | 'ヒ' | 'フ' | 'ヘ' | 'ホ' => next(2),
            _ => None,
        },
        _ => None,
    }
}
