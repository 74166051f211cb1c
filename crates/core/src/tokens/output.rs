//! Output as it arrives: how many tokens it has by now, and whether it has passed its limit.
//!
//! A request says how many tokens its answer may have, and money is reserved for them. A model that talks on is stopped, but
//! one that stops exactly at its limit must never be: nobody outside the vendor knows where tokens begin and end. So a stream
//! is stopped by the vendor's own count where it sends one; otherwise only when both the number of events and the text say
//! that the limit has been passed, or when the text alone says so by far.
//!
//! Text is counted as it stands inside JSON strings, across the borders of events: a word that arrives in three pieces is
//! one word. A character that repeats itself is counted a few times only, because tokenizers have long tokens for those.

use super::counts::{Ascii, ClassCounts, Unit};
use super::family::Family;
use super::scan::{Narrow, Run, decode, wide};

/// A character counts so often in a row; behind that every [`REPEATED`]th does.
const FEW: u32 = 4;
const REPEATED: u32 = 64;
/// Tokens around one block of content (its name, its kind, its beginning and its end) that are not among its text.
const AROUND_BLOCK: u64 = 16;

/// What has arrived of an answer.
#[derive(Clone, Debug, Default)]
pub struct OutputMeter {
    wide: ClassCounts,
    narrow: Narrow,
    run: Run,
    last: u32,
    repeats: u32,
    /// The first half of a character that JSON writes in two.
    half: Option<u32>,
    bytes: u64,
    events: u64,
    blocks: u64,
    may_hide: bool,
    counted: Option<Counted>,
}

/// What the vendor has counted, and what had arrived by then.
#[derive(Clone, Copy, Debug)]
struct Counted {
    tokens: u64,
    upper: u64,
    events: u64,
}

impl OutputMeter {
    /// An event with content has arrived; its text is [added](Self::add_json) besides.
    pub const fn note_event(&mut self) {
        self.events = self.events.saturating_add(1);
    }

    /// A block of content has begun.
    pub const fn note_block(&mut self) {
        self.blocks = self.blocks.saturating_add(1);
    }

    /// The answer has parts that are billed and not shown, such as reasoning or the rounds of a server's own tools.
    pub const fn note_hidden(&mut self) {
        self.may_hide = true;
    }

    /// The vendor has counted this many tokens of output so far.
    pub const fn note_counted(&mut self, tokens: u64) {
        self.counted = Some(Counted { tokens, upper: self.upper(), events: self.events });
    }

    /// Adds text as it stands inside a JSON string, without its quotes. Nothing is allocated.
    pub fn add_json(&mut self, text: &[u8]) {
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            let (code, length) = match byte {
                b'\\' => escaped(&text[at + 1..]),
                0..0x80 => (u32::from(byte), 1),
                _ => decode(byte, &text[at + 1..]),
            };
            at += length;
            self.add(code);
        }
    }

    fn add(&mut self, code: u32) {
        let code = match (self.half.take(), code) {
            (_, high @ 0xD800..0xDC00) => {
                self.half = Some(high);
                return;
            }
            (Some(high), low @ 0xDC00..0xE000) => 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00),
            (_, code) => code,
        };
        self.bytes = self.bytes.saturating_add(utf8_length(code));
        if code == self.last {
            self.repeats = self.repeats.saturating_add(1);
            if self.repeats >= FEW && !self.repeats.is_multiple_of(REPEATED) {
                return;
            }
        } else {
            (self.last, self.repeats) = (code, 0);
        }
        self.run = match u8::try_from(code) {
            Ok(byte) if byte < 0x80 => self.narrow.step(byte, self.run),
            _ => wide(code, self.run, &mut self.wide),
        };
    }

    /// Events with content so far.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Whether anything has arrived.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.events == 0 && self.bytes == 0
    }

    /// Whether the answer has parts that are billed and not shown.
    #[must_use]
    pub const fn may_hide(&self) -> bool {
        self.may_hide
    }

    /// The most tokens that what has arrived can have: no tokenizer makes more tokens than bytes.
    #[must_use]
    pub const fn upper(&self) -> u64 {
        let text = self.bytes.saturating_add(self.wide.growth);
        text.saturating_add(self.blocks.saturating_mul(AROUND_BLOCK))
    }

    /// What the vendor has counted, where nothing has arrived since.
    #[must_use]
    pub fn counted(&self) -> Option<u64> {
        self.counted.filter(|counted| counted.events == self.events).map(|counted| counted.tokens)
    }

    /// The most tokens that the vendor can have billed for what has arrived; nothing where what has arrived does not say,
    /// because some of it is hidden.
    #[must_use]
    pub fn billed_at_most(&self) -> Option<u64> {
        if self.may_hide {
            return self.counted();
        }
        let upper = self.upper();
        Some(self.counted.map_or(upper, |counted| counted.tokens.saturating_add(upper - counted.upper)))
    }

    /// The most likely number of tokens of what has arrived.
    #[must_use]
    pub fn best(&self, family: Family) -> u64 {
        let kinds = |ascii| {
            [
                Unit::Word(ascii),
                Unit::LongWord(ascii),
                Unit::Digits(ascii),
                Unit::Marks(ascii),
                Unit::MoreMarks(ascii),
                Unit::Gap(ascii),
            ]
        };
        // Whether a line is prose or JSON is not known before its end: each unit weighs the lighter of both.
        let weights = kinds(Ascii::Prose).into_iter().zip(kinds(Ascii::Json));
        let weights = weights.map(|(prose, json)| family.weight(prose).min(family.weight(json)));
        let narrow = weights
            .zip(self.narrow.units)
            .fold(0_u64, |sum, (weight, count)| sum.saturating_add(count.saturating_mul(weight.into())));
        let wide = family.tokens(&self.wide);
        narrow.div_ceil(1_000).saturating_add(wide).min(self.bytes)
    }
}

/// The character that an escape stands for, and how long the escape is with its backslash.
fn escaped(rest: &[u8]) -> (u32, usize) {
    let Some((&kind, digits)) = rest.split_first() else { return (u32::from(b'\\'), 1) };
    let plain = match kind {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' | b'f' => b' ',
        b'u' => {
            let digits = digits.get(..4).unwrap_or(digits);
            let code = digits
                .iter()
                .fold(0, |code, digit| code << 4 | char::from(*digit).to_digit(16).unwrap_or_default());
            return (code, 2 + digits.len());
        }
        other => other,
    };
    (u32::from(plain), 2)
}

const fn utf8_length(code: u32) -> u64 {
    match code {
        0..0x80 => 1,
        0x80..0x800 => 2,
        0x800..0x1_0000 => 3,
        _ => 4,
    }
}

/// How many tokens an answer may have, and what that means for a stream.
///
/// ```
/// use seawall_core::tokens::OutputLimit;
///
/// assert_eq!(OutputLimit::new(5).reserved(), 22);
/// assert_eq!(OutputLimit::new(1_000).reserved(), 1_116);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimit(u64);

impl OutputLimit {
    /// The most tokens that the request allows.
    #[must_use]
    pub const fn new(tokens: u64) -> Self {
        Self(tokens)
    }

    /// The tokens that money is reserved for: a tenth and sixteen more than the limit, within which a stream that goes on
    /// is noticed and stopped.
    #[must_use]
    pub const fn reserved(self) -> u64 {
        self.0.saturating_add(self.0.div_ceil(10)).saturating_add(16)
    }

    /// Whether a stream has passed its limit, by the vendor's count where there is one, and otherwise by what has arrived.
    #[must_use]
    pub fn is_passed(self, meter: &OutputMeter, family: Family) -> bool {
        let limit = self.0;
        if let Some(counted) = meter.counted() {
            return counted > limit;
        }
        let many_events = meter.events > self.reserved();
        let far = limit.saturating_mul(2).saturating_add(64);
        // Most streams end here, without anything being weighed.
        if meter.bytes <= limit || !(many_events || meter.bytes > far) {
            return false;
        }
        let best = meter.best(family);
        // Who sends characters one by one sends more events than tokens: an estimate may be wrong by a fifth.
        many_events && best.saturating_mul(4) > limit.saturating_mul(5) || best > far
    }
}
