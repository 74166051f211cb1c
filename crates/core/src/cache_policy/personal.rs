//! Whether a text looks as if it were about one person.

use super::text::fold;
use crate::vocabulary::words;

words! {
    /// What makes a text look personal.
    pub enum PersonalData as "personal data" {
        /// An e-mail address.
        Email = "email",
        /// The number of a payment card.
        Card = "card",
        /// A telephone number.
        Phone = "phone",
        /// A postal code.
        PostalCode = "postal_code",
        /// Another long number, or the mention of one: an order, a customer, a parcel.
        Number = "number",
        /// Somebody addressed or introduced by name.
        Name = "name",
        /// A street address.
        Address = "address",
    }
}

/// So many digits in a row, separators left out, are a number that means something to somebody.
const LONG_NUMBER: usize = 7;
/// So many after a number sign.
const SIGNED_NUMBER: usize = 4;
/// So many in one word with letters.
const MIXED_NUMBER: usize = 5;
/// Separators that may stand between two digits of one number, as in `03 - 1234`.
const MOST_SEPARATORS: usize = 3;

const NUMBER_WORDS: [&str; 10] = [
    "注文番号",
    "会員番号",
    "お客様番号",
    "予約番号",
    "追跡番号",
    "order number",
    "order no",
    "order id",
    "tracking number",
    "customer number",
];
const NAME_WORDS: [&str; 8] =
    ["と申します", "私の名前", "わたしの名前", "僕の名前", "my name is", "dear mr", "dear ms", "dear mrs"];
const ADDRESS_WORDS: [&str; 4] = ["丁目", "番地", "住所は", "my address is"];

/// Words that end in 様 and address nobody by name.
const BEFORE_SAMA: [&str; 16] = [
    "お客", "御客", "皆", "仕", "模", "同", "多", "有", "異", "一", "神", "王", "この", "その", "あの",
    "どの",
];
/// What follows 様 where it is the beginning of another word.
const AFTER_SAMA: [char; 5] = ['々', '子', '式', '相', '態'];

/// What makes this text look personal, or nothing.
///
/// It errs on the private side: a hyphenated date, an ISBN and a title such as かぐや様 look personal. That costs a
/// hit; the other mistake would show one customer's answer to another. Full-width and other digits count as digits.
///
/// ```
/// use seawall_core::cache_policy::{PersonalData, personal_data};
/// assert_eq!(personal_data("電話は０９０－１２３４－５６７８です"), Some(PersonalData::Phone));
/// assert_eq!(personal_data("田中様、ご注文ありがとうございます"), Some(PersonalData::Name));
/// assert_eq!(personal_data("お客様へ: 第110巻は528円です。"), None);
/// ```
#[must_use]
pub fn personal_data(text: &str) -> Option<PersonalData> {
    let folded: String = text.chars().map(fold).collect();
    let holds = |words: &[&str]| words.iter().any(|word| folded.contains(word));
    if has_email(&folded) {
        return Some(PersonalData::Email);
    }
    if let Some(number) = number(&folded) {
        return Some(number);
    }
    if folded.contains('〒') {
        return Some(PersonalData::PostalCode);
    }
    if holds(&NUMBER_WORDS) || has_mixed_number(&folded) {
        return Some(PersonalData::Number);
    }
    if holds(&NAME_WORDS) || addresses_somebody(&folded) {
        return Some(PersonalData::Name);
    }
    holds(&ADDRESS_WORDS).then_some(PersonalData::Address)
}

fn has_email(text: &str) -> bool {
    text.match_indices('@').any(|(at, sign)| {
        let before = text[..at].chars().next_back();
        let after = text[at + sign.len()..].chars().next();
        before.is_some_and(|before| before.is_alphanumeric() || "._%+-".contains(before))
            && after.is_some_and(char::is_alphanumeric)
    })
}

/// Digits that belong together, and how they are written.
#[derive(Default)]
struct Run {
    digits: Vec<char>,
    /// Separators since the last digit.
    separators: usize,
    /// Whether the first separator came after the third digit.
    split_at_three: bool,
    /// What stood before the first digit.
    before: Option<char>,
}

impl Run {
    fn meaning(&self) -> Option<PersonalData> {
        let count = self.digits.len();
        let signed = matches!(self.before, Some('#' | '№'));
        if count < LONG_NUMBER {
            return (signed && count >= SIGNED_NUMBER).then_some(PersonalData::Number);
        }
        let local = self.digits.first() == Some(&'0') && (10..=11).contains(&count);
        Some(match count {
            13..=19 if passes_luhn(&self.digits) => PersonalData::Card,
            _ if local || self.before == Some('+') => PersonalData::Phone,
            7 if self.split_at_three => PersonalData::PostalCode,
            _ => PersonalData::Number,
        })
    }
}

/// The first number that is long enough to mean something to somebody.
fn number(text: &str) -> Option<PersonalData> {
    let mut run = Run::default();
    let mut previous = None;
    for character in text.chars() {
        if character.is_numeric() {
            if run.digits.is_empty() {
                run.before = previous;
            } else if run.separators > 0 && run.digits.len() == 3 {
                run.split_at_three = true;
            }
            run.separators = 0;
            run.digits.push(character);
        } else if separates(character) && !run.digits.is_empty() && run.separators < MOST_SEPARATORS {
            run.separators += 1;
        } else {
            if let Some(meaning) = run.meaning() {
                return Some(meaning);
            }
            run = Run::default();
        }
        previous = Some(character);
    }
    run.meaning()
}

/// What people write between the digits of one number; ー is what a Japanese keyboard offers for a hyphen.
fn separates(character: char) -> bool {
    matches!(character, ' ' | '-' | '.' | '/' | '_' | '(' | ')' | '‐' | '‑' | '‒' | '–' | '—' | '−' | 'ー')
}

/// The check digit of payment cards.
fn passes_luhn(digits: &[char]) -> bool {
    let mut sum = 0;
    for (place, digit) in digits.iter().rev().enumerate() {
        let Some(digit) = digit.to_digit(10) else { return false };
        let doubled = if place % 2 == 1 { digit * 2 } else { digit };
        sum += if doubled > 9 { doubled - 9 } else { doubled };
    }
    sum % 10 == 0
}

/// Whether a word such as `ord-12a345` has letters and many digits.
fn has_mixed_number(text: &str) -> bool {
    text.split(|character: char| !character.is_ascii_alphanumeric() && !"-_".contains(character)).any(
        |word| {
            let digits = word.chars().filter(char::is_ascii_digit).count();
            digits >= MIXED_NUMBER && word.chars().any(|character| character.is_ascii_alphabetic())
        },
    )
}

/// Whether 様 follows what may be a name.
fn addresses_somebody(text: &str) -> bool {
    text.match_indices('様').any(|(at, sama)| {
        let before = &text[..at];
        let after = text[at + sama.len()..].chars().next();
        let follows_word = before.chars().next_back().is_some_and(char::is_alphanumeric);
        let ordinary = BEFORE_SAMA.iter().any(|word| before.ends_with(word))
            || after.is_some_and(|after| AFTER_SAMA.contains(&after));
        follows_word && !ordinary
    })
}
