//! How many bytes a character can gain by normalisation before tokenization.
//!
//! Some tokenizers first normalise text to Unicode's compatibility form (NFKC). That makes `㌖` six letters and `ﷺ`
//! eighteen, so that a bound by bytes alone would be too low for text made of such characters.

/// Ranges of characters whose compatibility form has more bytes: first, last, and the maximum gain of any of them.
/// Ranges are generous, so that the table is short. Sorted.
#[rustfmt::skip]
const LONGER: &[(u32, u32, u64)] = &[
    (0x00A8, 0x00BE, 3),
    (0x013F, 0x0149, 1),
    (0x01C4, 0x01C6, 1),
    (0x02D8, 0x02DD, 1),
    (0x0344, 0x0344, 2),
    (0x037A, 0x0385, 3),
    (0x0587, 0x0587, 2),
    (0x0675, 0x0678, 2),
    (0x0958, 0x095F, 3),
    (0x09DC, 0x09DF, 3),
    (0x0A33, 0x0A36, 3),
    (0x0A59, 0x0A5E, 3),
    (0x0B5C, 0x0B5D, 3),
    (0x0E33, 0x0E33, 3),
    (0x0EB3, 0x0EB3, 3),
    (0x0EDC, 0x0EDD, 3),
    (0x0F43, 0x0F81, 6),
    (0x0F93, 0x0FB9, 3),
    (0x1FC1, 0x1FEE, 2),
    (0x2033, 0x2037, 6),
    (0x2057, 0x2057, 9),
    (0x2150, 0x2177, 3),
    (0x2189, 0x2189, 2),
    (0x222C, 0x2230, 6),
    (0x247D, 0x2487, 1),
    (0x2A0C, 0x2A0C, 9),
    (0x2ADC, 0x2ADC, 2),
    (0x309B, 0x309F, 3),
    (0x30FF, 0x30FF, 3),
    (0x3200, 0x3243, 5),
    (0x327C, 0x327D, 3),
    (0x32C0, 0x32CB, 2),
    (0x32FF, 0x3389, 15),
    (0x33A7, 0x33AF, 5),
    (0x33C2, 0x33C6, 3),
    (0x33D8, 0x33FE, 2),
    (0xFA6C, 0xFA6C, 1),
    (0xFACF, 0xFAD7, 1),
    (0xFB13, 0xFB4F, 3),
    (0xFBDD, 0xFD3D, 3),
    (0xFD50, 0xFDC7, 3),
    (0xFDF0, 0xFDF9, 5),
    (0xFDFA, 0xFDFA, 30),
    (0xFDFB, 0xFDFC, 12),
    (0xFE71, 0xFE7F, 1),
    (0xFEF5, 0xFEFC, 1),
    (0x1_D15E, 0x1_D164, 8),
    (0x1_D1BB, 0x1_D1C0, 8),
    (0x1_F12A, 0x1_F12A, 3),
    (0x1_F200, 0x1_F201, 2),
    (0x1_F240, 0x1_F248, 5),
];

/// Combining marks. In a non-canonical order, two of them can decompose a precomposed letter.
const COMBINING: std::ops::RangeInclusive<u32> = 0x0300..=0x036F;

/// Maximum number of bytes that this character can gain.
pub(super) fn growth(code: u32) -> u64 {
    let after = LONGER.partition_point(|(first, _, _)| *first <= code);
    let found = after.checked_sub(1).and_then(|at| LONGER.get(at));
    let gained = found.filter(|(_, last, _)| code <= *last).map_or(0, |(_, _, gained)| *gained);
    gained.max(if COMBINING.contains(&code) { 4 } else { 0 })
}
