//! Metering of streamed output: tokens so far, and enforcement of the output limit.
//!
//! A request limits the tokens of its answer, and money is reserved for them. A model that exceeds the limit is
//! stopped, but one that ends exactly at the limit must never be: token boundaries are known only to the vendor. A
//! stream is therefore stopped by the vendor's own count if it sends one; otherwise only when both the number of
//! events and the text exceed the limit, or when the text alone exceeds it by far.
//!
//! Text is counted as it appears inside JSON strings, across event boundaries: a word that arrives in three pieces is
//! one word. A repeated character is counted only a few times, because tokenizers have long tokens for such runs.
//!
//! An estimate is needed only when a stream has as many bytes as its limit has tokens, which few streams reach. Plain
//! ASCII is therefore buffered, up to a bound, and classified when an estimate is asked for.

use super::counts::{AsciiContext, TextCounts, TextUnit};
use super::family::TokenizerFamily;
use super::scan::{AsciiCounts, CharacterRun, decode, wide};

/// A repeated character counts this often in a row; after that only every [`REPEAT_INTERVAL`]th does.
const COUNTED_REPEATS: u32 = 4;
const REPEAT_INTERVAL: u32 = 64;
/// Tokens around one content block (its name, type, begin and end) that are not part of its text.
const BLOCK_OVERHEAD: u64 = 16;
/// Plain text that is buffered before it is classified.
const MAX_PENDING: usize = 8 << 10;

/// Meters the output of one response as it arrives.
#[derive(Clone, Debug, Default)]
pub struct OutputMeter {
    wide: TextCounts,
    narrow: AsciiCounts,
    run: CharacterRun,
    last: u32,
    repeats: u32,
    /// The high surrogate of a character that JSON writes as a surrogate pair.
    high_surrogate: Option<u32>,
    bytes: u64,
    events: u64,
    blocks: u64,
    has_hidden_output: bool,
    counted: Option<VendorCount>,
    /// Plain ASCII that is in `bytes` and not classified yet.
    pending: Vec<u8>,
}

/// The vendor's token count, and what had arrived by then.
#[derive(Clone, Copy, Debug)]
struct VendorCount {
    tokens: u64,
    upper: u64,
    events: u64,
}

impl OutputMeter {
    /// Records an event with content; its text is [added](Self::add_json) separately.
    pub const fn record_event(&mut self) {
        self.events = self.events.saturating_add(1);
    }

    /// Records the beginning of a content block.
    pub const fn record_block(&mut self) {
        self.blocks = self.blocks.saturating_add(1);
    }

    /// Records that the response has billed parts that are not visible, such as reasoning or the rounds of server
    /// tools.
    pub const fn record_hidden(&mut self) {
        self.has_hidden_output = true;
    }

    /// Records the vendor's count of output tokens so far.
    pub const fn record_vendor_count(&mut self, tokens: u64) {
        self.counted = Some(VendorCount { tokens, upper: self.upper(), events: self.events });
    }

    /// Adds text as it appears inside a JSON string, without the quotes.
    pub fn add_json(&mut self, text: &[u8]) {
        if self.high_surrogate.is_none() && is_plain(text) {
            self.bytes = self.bytes.saturating_add(text.len() as u64);
            if self.pending.len() + text.len() <= MAX_PENDING {
                self.pending.extend_from_slice(text);
            } else {
                self.classify_pending();
                self.add_ascii(text);
            }
            return;
        }
        self.classify_pending();
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            let (code, length) = match byte {
                b'\\' => escaped(&text[at + 1..]),
                0..0x80 if self.high_surrogate.is_none() => {
                    let length = self.add_ascii(&text[at..]);
                    self.bytes = self.bytes.saturating_add(length as u64);
                    at += length;
                    continue;
                }
                0..0x80 => (u32::from(byte), 1),
                _ => decode(byte, &text[at + 1..]),
            };
            at += length;
            self.add(code);
        }
    }

    fn classify_pending(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let mut pending = std::mem::take(&mut self.pending);
        self.add_ascii(&pending);
        pending.clear();
        self.pending = pending;
    }

    /// Classifies the ASCII at the start of this text, up to an escape or a wide character, and returns its length.
    /// This is [`add`](Self::add) without its sum of bytes; it keeps its state in registers.
    fn add_ascii(&mut self, text: &[u8]) -> usize {
        let (mut run, mut last, mut repeats) = (self.run, self.last, self.repeats);
        let mut at = 0;
        while let Some(&byte) = text.get(at).filter(|byte| byte.is_ascii() && **byte != b'\\') {
            if let CharacterRun::Lower(length) = run {
                // Fast path: most of a response is the inside of words.
                let more = letters_ahead(&text[at..], &mut last);
                if more > 0 {
                    run = self.narrow.lengthen(length, more as u64);
                    (at, repeats) = (at + more, 0);
                    continue;
                }
            }
            at += 1;
            if u32::from(byte) == last {
                repeats = repeats.wrapping_add(1);
                if is_skipped(repeats) {
                    continue;
                }
            } else {
                (last, repeats) = (u32::from(byte), 0);
            }
            run = self.narrow.step(byte, run);
        }
        (self.run, self.last, self.repeats) = (run, last, repeats);
        at
    }

    fn add(&mut self, code: u32) {
        let code = match (self.high_surrogate.take(), code) {
            (_, high @ 0xD800..0xDC00) => {
                self.high_surrogate = Some(high);
                return;
            }
            (Some(high), low @ 0xDC00..0xE000) => 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00),
            (_, code) => code,
        };
        self.bytes = self.bytes.saturating_add(utf8_length(code));
        if code == self.last {
            self.repeats = self.repeats.wrapping_add(1);
            if is_skipped(self.repeats) {
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

    /// Whether nothing has arrived.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.events == 0 && self.bytes == 0
    }

    /// Whether the response has billed parts that are not visible.
    #[must_use]
    pub const fn has_hidden_output(&self) -> bool {
        self.has_hidden_output
    }

    /// Upper bound of the tokens that have arrived: no tokenizer makes more tokens than bytes.
    #[must_use]
    pub const fn upper(&self) -> u64 {
        let text = self.bytes.saturating_add(self.wide.growth);
        text.saturating_add(self.blocks.saturating_mul(BLOCK_OVERHEAD))
    }

    /// The vendor's count, if nothing has arrived since.
    #[must_use]
    pub fn counted(&self) -> Option<u64> {
        self.counted.filter(|counted| counted.events == self.events).map(|counted| counted.tokens)
    }

    /// Upper bound of the tokens billed for what has arrived; `None` if parts are hidden and the vendor has not
    /// counted them.
    #[must_use]
    pub fn max_billed(&self) -> Option<u64> {
        if self.has_hidden_output {
            return self.counted();
        }
        let upper = self.upper();
        Some(self.counted.map_or(upper, |counted| counted.tokens.saturating_add(upper - counted.upper)))
    }

    /// Best estimate of the tokens that have arrived.
    #[must_use]
    pub fn best(&mut self, family: TokenizerFamily) -> u64 {
        self.classify_pending();
        let kinds = |ascii| {
            [
                TextUnit::Word(ascii),
                TextUnit::LongWord(ascii),
                TextUnit::Digits(ascii),
                TextUnit::Marks(ascii),
                TextUnit::MoreMarks(ascii),
                TextUnit::Gap(ascii),
            ]
        };
        // Whether a line is prose or JSON is unknown before its end, so that each unit has the smaller of both
        // weights.
        let weights = kinds(AsciiContext::Prose).into_iter().zip(kinds(AsciiContext::Json));
        let weights = weights.map(|(prose, json)| family.weight(prose).min(family.weight(json)));
        let narrow = weights
            .zip(self.narrow.units)
            .fold(0_u64, |sum, (weight, count)| sum.saturating_add(count.saturating_mul(weight.into())));
        let wide = family.tokens(&self.wide);
        narrow.div_ceil(1_000).saturating_add(wide).min(self.bytes)
    }
}

/// Number of lower-case letters at the start of this text, each different from the one before; `last` is updated.
fn letters_ahead(text: &[u8], last: &mut u32) -> usize {
    let is_new = |byte: &&u8| {
        let is_new = byte.is_ascii_lowercase() && u32::from(**byte) != *last;
        if is_new {
            *last = u32::from(**byte);
        }
        is_new
    };
    text.iter().take_while(is_new).count()
}

/// Whether this is ASCII without an escape. It has no early exit, so that it compiles to vector instructions.
fn is_plain(text: &[u8]) -> bool {
    !text.iter().fold(false, |is_other, &byte| is_other | !byte.is_ascii() | (byte == b'\\'))
}

/// Whether a character that has been repeated this often is not counted.
const fn is_skipped(repeats: u32) -> bool {
    repeats >= COUNTED_REPEATS && !repeats.is_multiple_of(REPEAT_INTERVAL)
}

/// The character that an escape sequence stands for, and the length of the sequence with its backslash.
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

/// The output limit of a request, and its enforcement on a stream.
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
    /// A limit of this many tokens.
    #[must_use]
    pub const fn new(tokens: u64) -> Self {
        Self(tokens)
    }

    /// The tokens that money is reserved for: the limit plus a tenth plus sixteen, within which an overrun is detected
    /// and the stream is stopped.
    #[must_use]
    pub const fn reserved(self) -> u64 {
        self.0.saturating_add(self.0.div_ceil(10)).saturating_add(16)
    }

    /// Whether a stream has exceeded its limit: by the vendor's count if there is one, otherwise by what has arrived.
    #[must_use]
    pub fn is_exceeded(self, meter: &mut OutputMeter, family: TokenizerFamily) -> bool {
        let limit = self.0;
        if let Some(counted) = meter.counted() {
            return counted > limit;
        }
        let many_events = meter.events > self.reserved();
        let far = limit.saturating_mul(2).saturating_add(64);
        // Fast path: most streams need no estimate.
        if meter.bytes <= limit || !(many_events || meter.bytes > far) {
            return false;
        }
        let best = meter.best(family);
        // A model that streams single characters sends more events than tokens, and an estimate may be off by a fifth.
        many_events && best.saturating_mul(4) > limit.saturating_mul(5) || best > far
    }
}
