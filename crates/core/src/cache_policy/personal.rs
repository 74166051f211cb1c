//! Heuristic detector of personal data in a text.

use super::names::contains_name;
use super::numbers::{has_mixed_number, number};
use super::text::normalise_width;
use crate::vocabulary::named_enum;

named_enum! {
    /// The kind of personal data found in a text.
    pub enum PersonalData as "personal data" {
        /// An e-mail address.
        Email = "email",
        /// A payment card number.
        Card = "card",
        /// A telephone number.
        Phone = "phone",
        /// A postal code.
        PostalCode = "postal_code",
        /// Another identifying number, or the mention of one: an order, a customer, a parcel.
        Number = "number",
        /// A person addressed or introduced by name.
        Name = "name",
        /// A street address.
        Address = "address",
    }
}

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
const ADDRESS_WORDS: [&str; 4] = ["丁目", "番地", "住所は", "my address is"];

/// The personal data found in this text, or `None`. Linear in the length of the text.
///
/// It errs on the private side: a hyphenated date, an ISBN and a title such as かぐや様 or Mr. Osomatsu count as personal.
/// A false positive costs a cache hit; a false negative would show one customer's answer to another. Full-width and
/// other digits count as digits.
///
/// **What it misses.** Names without an honorific, or with one that is not on its lists (`Dr Tanaka`); names in
/// hiragana before くんです, which reads like the end of a verb; lower-case names after `Hi`; numbers in kanji or in
/// words; fewer than seven digits without a word such as 注文 or `order` next to them; long numbers in pairs, which read
/// like times; addresses without 丁目 or 番地. Code that knows that account data went into an answer must declare it:
/// [`Question::uses_account`](super::Question::uses_account).
///
/// ```
/// use seawall_core::cache_policy::{PersonalData, personal_data};
/// assert_eq!(personal_data("電話は０９０－１２３４－５６７８です"), Some(PersonalData::Phone));
/// assert_eq!(personal_data("田中さん、ご注文ありがとうございます"), Some(PersonalData::Name));
/// assert_eq!(personal_data("order 123456 is late"), Some(PersonalData::Number));
/// assert_eq!(personal_data("お客様へ: 第110巻は528円、10:00~19:00にお届けします。"), None);
/// ```
#[must_use]
pub fn personal_data(text: &str) -> Option<PersonalData> {
    let cased: String = text.chars().map(normalise_width).collect();
    let folded = cased.to_ascii_lowercase();
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
    if contains_name(&cased, &folded) {
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
