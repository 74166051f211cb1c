//! Encodes the arguments of scripts: one flat array in MessagePack, which the server unpacks in one step.
//!
//! It implements only what the scripts need: integers below 2^53, where a Lua number is exact, and bytes.

use seawall_core::time::Now;
use std::time::Duration;

/// The largest integer that a script can compute with exactly.
pub(super) const MAX_EXACT: u64 = (1 << 53) - 1;

/// An array under construction.
#[derive(Debug, Default)]
pub(super) struct ScriptArguments {
    bytes: Vec<u8>,
    items: u32,
}

impl ScriptArguments {
    pub(super) fn new() -> Self {
        // The header has a fixed width, so that the count can be filled in at the end.
        Self { bytes: vec![0xdd, 0, 0, 0, 0], items: 0 }
    }

    /// An integer; values too large to be exact are clamped to the largest that is.
    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.items += 1;
        let number = number.min(MAX_EXACT);
        match (u8::try_from(number), u32::try_from(number)) {
            (Ok(small @ 0..=0x7f), _) => self.bytes.push(small),
            (_, Ok(word)) => {
                self.bytes.push(0xce);
                self.bytes.extend_from_slice(&word.to_be_bytes());
            }
            _ => {
                self.bytes.push(0xcf);
                self.bytes.extend_from_slice(&number.to_be_bytes());
            }
        }
        self
    }

    /// -1, which stands for "none".
    pub(super) fn none(&mut self) -> &mut Self {
        self.items += 1;
        self.bytes.push(0xff);
        self
    }

    /// Raw bytes.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.items += 1;
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.bytes.push(0xdb);
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self.bytes.extend_from_slice(&bytes[..length as usize]);
        self
    }

    /// The time on both clocks in microseconds, or none where the server's clock is used.
    pub(super) fn time(&mut self, given: Option<Now>) -> &mut Self {
        match given {
            Some(now) => self.number(now.monotonic.as_nanos() / 1_000).number(now.utc.as_nanos() / 1_000),
            None => self.none().none(),
        }
    }

    /// A number that may be too large to be exact, as its two 32-bit halves.
    pub(super) fn halves(&mut self, number: u64) -> &mut Self {
        self.number(number >> 32).number(number & u64::from(u32::MAX))
    }

    /// A time span in microseconds, rounded up.
    pub(super) fn span(&mut self, span: Duration) -> &mut Self {
        self.number(micros(span))
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes[1..5].copy_from_slice(&self.items.to_be_bytes());
        self.bytes
    }
}

/// A sequence of fixed-width integers, which is the fastest encoding for a script to unpack.
#[derive(Debug, Default)]
pub(super) struct FixedWidthFields(Vec<u8>);

impl FixedWidthFields {
    /// An integer in this many bytes, at most seven; values that do not fit are clamped to the largest that does.
    pub(super) fn put<const BYTES: usize>(&mut self, number: u64) -> &mut Self {
        let max = (1_u64 << (8 * BYTES)) - 1;
        let bytes = number.min(max).min(MAX_EXACT).to_be_bytes();
        self.0.extend_from_slice(&bytes[8 - BYTES..]);
        self
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Whole microseconds, rounded up, so that rounding never makes a limit more generous.
pub(super) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX).min(MAX_EXACT)
}

#[cfg(test)]
mod tests {
    use super::{FixedWidthFields, MAX_EXACT, ScriptArguments, micros};
    use std::time::Duration;

    #[test]
    fn numbers_take_the_room_they_need_and_stay_exact() {
        let mut arguments = ScriptArguments::new();
        arguments.number(0).number(127).number(128).number(u64::from(u32::MAX)).number(1 << 32);
        arguments.number(u64::MAX).none().bytes(b"ab").span(Duration::from_nanos(1));
        let expected: Vec<u8> = [
            &[0xdd, 0, 0, 0, 9][..],
            &[0, 127],
            &[0xce, 0, 0, 0, 128],
            &[0xce, 0xff, 0xff, 0xff, 0xff],
            &[0xcf, 0, 0, 0, 1, 0, 0, 0, 0],
            &[0xcf, 0, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0xff],
            &[0xdb, 0, 0, 0, 2, b'a', b'b'],
            &[1],
        ]
        .concat();
        assert_eq!(arguments.finish(), expected);
    }

    #[test]
    fn fields_are_as_wide_as_they_should_be_and_never_wrap() {
        let mut fields = FixedWidthFields::default();
        fields.put::<1>(256).put::<4>(1).put::<7>(u64::MAX).bytes(b"x");
        let expected = [255, 0, 0, 0, 1, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, b'x'];
        assert_eq!(fields.finish(), expected);
    }

    #[test]
    fn a_span_is_rounded_up_and_stays_countable() {
        assert_eq!(micros(Duration::from_nanos(1_001)), 2);
        assert_eq!(micros(Duration::from_micros(7)), 7);
        assert_eq!(micros(Duration::MAX), MAX_EXACT);
    }
}
