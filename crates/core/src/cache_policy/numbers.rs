//! Detects numbers that identify a person or an order.
//!
//! Two kinds of separators occur between the digits of one number. Hyphens, blanks and the like always join digits. A
//! comma, a colon, a middle dot and a tilde also occur in amounts, lists and times, so that they join digits only
//! where they stand alone between two; and a run that reads as an amount or as times is not an identifying number.

use super::personal::PersonalData;

/// Digits in a row, ignoring separators, from which a number counts as identifying.
const LONG_NUMBER: usize = 7;
/// The same after a number sign, or next to a word such as 注文.
const MARKED_NUMBER: usize = 4;
/// The same in one word with letters.
const MIXED_NUMBER: usize = 5;
/// Maximum number of separators between two digits of one number, as in `03 - 1234`.
const MAX_SEPARATORS: usize = 3;
/// Digits of an hour, a minute, or a volume in a list.
const PAIR: usize = 2;
/// Digits between the commas of an amount.
const THOUSANDS: usize = 3;

/// Words whose number identifies an order or a person.
const OWNED_WORDS: [&str; 22] = [
    "注文",
    "予約",
    "会員",
    "顧客",
    "お客様",
    "伝票",
    "追跡",
    "受付",
    "問い合わせ",
    "番号",
    "order",
    "orders",
    "booking",
    "reservation",
    "customer",
    "member",
    "account",
    "invoice",
    "tracking",
    "ticket",
    "parcel",
    "number",
];
/// What may stand between such a word and its number.
const LINKS: [&str; 10] = ["番号", "は", "が", "の", "コード", "number", "no", "id", "is", "nr"];
/// What may stand between a number and such a word after it.
const LINKS_BACK: [&str; 4] = ["番の", "の", "番", ""];
/// Units that make a number an amount: 注文5000円以上.
const UNITS: [&str; 20] = [
    "円",
    "年",
    "月",
    "日",
    "冊",
    "点",
    "個",
    "件",
    "巻",
    "話",
    "部",
    "枚",
    "名",
    "人",
    "回",
    "ポイント",
    "%",
    "yen",
    "points",
    "jpy",
];

/// Separator between two digits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joint {
    /// Separators that occur only inside numbers, with their count.
    Hard(usize),
    Comma,
    Tilde,
    /// A colon or a middle dot.
    Other,
}

impl Joint {
    fn of(character: char) -> Option<Self> {
        match character {
            // ー is what a Japanese keyboard offers for a hyphen.
            ' ' | '-' | '.' | '/' | '_' | '(' | ')' | '‐' | '‑' | '‒' | '–' | '—' | '−' | 'ー' => {
                Some(Self::Hard(1))
            }
            ',' => Some(Self::Comma),
            '~' | '〜' => Some(Self::Tilde),
            ':' | '・' => Some(Self::Other),
            _ => None,
        }
    }

    /// Combines two separators; `None` if together they end the number. A comma followed by a blank ends a clause.
    fn and(self, next: Self) -> Option<Self> {
        match (self, next) {
            (Self::Hard(count), Self::Hard(_)) if count < MAX_SEPARATORS => Some(Self::Hard(count + 1)),
            _ => None,
        }
    }
}

/// A run of digits that belong together, and how they are grouped.
struct DigitRun<'a> {
    text: &'a str,
    start: usize,
    /// Where its last digit ends.
    end: usize,
    digits: Vec<char>,
    /// Digits since the last separator.
    group: usize,
    longest_group: usize,
    /// Separators since the last digit.
    joint: Option<Joint>,
    /// Whether the first separator came after the third digit.
    split_at_three: bool,
    /// Whether a comma, a colon or the like is among the separators.
    is_soft: bool,
    /// Whether it may still be an amount or a range of amounts, such as `1,980~12,980`.
    is_amount: bool,
    opened_by: Option<Joint>,
}

impl<'a> DigitRun<'a> {
    fn new(text: &'a str, start: usize) -> Self {
        Self {
            text,
            start,
            end: start,
            digits: Vec::new(),
            group: 0,
            longest_group: 0,
            joint: None,
            split_at_three: false,
            is_soft: false,
            is_amount: true,
            opened_by: None,
        }
    }

    fn push(&mut self, digit: char, at: usize) {
        if let Some(joint) = self.joint.take() {
            self.close_group();
            self.split_at_three |= self.digits.len() == 3;
            self.is_soft |= !matches!(joint, Joint::Hard(_));
            self.opened_by = Some(joint);
            self.group = 0;
        }
        // An amount does not begin with a zero.
        self.is_amount &= digit != '0' || self.group > 0 || self.opened_by == Some(Joint::Comma);
        self.group += 1;
        self.longest_group = self.longest_group.max(self.group);
        self.digits.push(digit);
        self.end = at + digit.len_utf8();
    }

    fn close_group(&mut self) {
        self.is_amount &= match self.opened_by {
            None | Some(Joint::Tilde) => self.group <= THOUSANDS,
            Some(Joint::Comma) => self.group == THOUSANDS,
            Some(Joint::Hard(_) | Joint::Other) => false,
        };
    }

    /// Adds a separator, and returns whether the number may continue after it.
    fn separate(&mut self, joint: Joint) -> bool {
        self.joint = match self.joint {
            None => Some(joint),
            Some(before) => before.and(joint),
        };
        self.joint.is_some()
    }

    fn classify(mut self) -> Option<PersonalData> {
        self.close_group();
        let count = self.digits.len();
        let before = self.text.get(..self.start).unwrap_or_default();
        let sign = before.chars().next_back();
        let is_local = self.digits.first() == Some(&'0') && (10..=11).contains(&count);
        let is_times = self.longest_group <= PAIR && !is_local;
        if self.is_soft && (self.is_amount || is_times) {
            return None;
        }
        if count < LONG_NUMBER {
            let is_marked = matches!(sign, Some('#' | '№')) || self.is_owned(before);
            return (is_marked && count >= MARKED_NUMBER).then_some(PersonalData::Number);
        }
        Some(match count {
            13..=19 if passes_luhn(&self.digits) => PersonalData::Card,
            _ if is_local || sign == Some('+') => PersonalData::Phone,
            7 if self.split_at_three => PersonalData::PostalCode,
            _ => PersonalData::Number,
        })
    }

    /// Whether it stands next to a word whose number is identifying, and has no unit.
    fn is_owned(&self, before: &str) -> bool {
        let after = self.text.get(self.end..).unwrap_or_default().trim_start();
        if UNITS.iter().any(|unit| after.starts_with(unit)) {
            return false;
        }
        let follows = |link: &str| {
            let rest = after.strip_prefix(link).map(|rest| rest.trim_start().trim_start_matches('ご'));
            rest.is_some_and(|rest| OWNED_WORDS.iter().any(|word| rest.starts_with(word)))
        };
        follows_owned_word(before) || LINKS_BACK.iter().any(|link| follows(link))
    }
}

/// Whether a text ends in a word whose number is identifying, followed by at most two links.
fn follows_owned_word(text: &str) -> bool {
    let bare = |text: &'_ str| text.trim_end_matches(|c: char| !c.is_alphanumeric()).len();
    let mut rest = text.get(..bare(text)).unwrap_or_default();
    for _ in 0..=2 {
        if OWNED_WORDS.iter().any(|word| rest.ends_with(word)) {
            return true;
        }
        let Some(shorter) = LINKS.iter().find_map(|link| rest.strip_suffix(link)) else { return false };
        rest = shorter.get(..bare(shorter)).unwrap_or_default();
    }
    false
}

/// The first identifying number in the text.
pub(super) fn number(text: &str) -> Option<PersonalData> {
    let mut run: Option<DigitRun<'_>> = None;
    for (at, character) in text.char_indices() {
        if character.is_numeric() {
            run.get_or_insert_with(|| DigitRun::new(text, at)).push(character, at);
        } else if let Some(mut ended) = run.take() {
            if Joint::of(character).is_some_and(|joint| ended.separate(joint)) {
                run = Some(ended);
            } else if let Some(meaning) = ended.classify() {
                return Some(meaning);
            }
        }
    }
    run.and_then(DigitRun::classify)
}

/// The Luhn check of payment cards.
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
pub(super) fn has_mixed_number(text: &str) -> bool {
    text.split(|character: char| !character.is_ascii_alphanumeric() && !"-_".contains(character)).any(
        |word| {
            let digits = word.chars().filter(char::is_ascii_digit).count();
            digits >= MIXED_NUMBER && word.chars().any(|character| character.is_ascii_alphabetic())
        },
    )
}
