//! The encoding of keys and values.
//!
//! Numbers are big-endian, so that rows sort by the values in their keys. A row's value ends with a checksum, so that
//! bit rot is detected instead of believed. Decoding never panics and never guesses: missing bytes, trailing bytes and
//! unknown kinds are errors.

use crate::StoreError;
use seawall_core::money::{Money, Usage};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Ceiling, Tier};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// The name of this store in errors.
pub(super) const STORE: &str = "embedded";

/// An encoder.
#[derive(Debug, Default)]
pub(super) struct RowEncoder(Vec<u8>);

impl RowEncoder {
    /// Preallocates this length plus the checksum, because rows may be kept for a while and should not waste memory.
    pub(super) fn with_room(length: usize) -> Self {
        Self(Vec::with_capacity(length.saturating_add(4)))
    }

    pub(super) fn byte(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub(super) fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn u128(mut self, value: u128) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// Writes a text, prefixed with its length. No stored text comes near the limit of 4 GiB.
    pub(super) fn text(self, text: &str) -> Self {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.u32(length).bytes(text.as_bytes())
    }

    pub(super) fn optional(self, value: Option<u64>) -> Self {
        match value {
            None => self.byte(0),
            Some(value) => self.byte(1).u64(value),
        }
    }

    pub(super) fn money(self, value: Money) -> Self {
        self.u64(value.as_nanos())
    }

    pub(super) fn time(self, value: UtcTime) -> Self {
        self.u64(value.as_nanos())
    }

    pub(super) fn duration(self, value: Duration) -> Self {
        self.u64(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn usage(self, value: &Usage) -> Self {
        self.u64(value.input).u64(value.cache_read).u64(value.cache_write).u64(value.output)
    }

    pub(super) fn tier(self, value: Tier) -> Self {
        self.index(value.index())
    }

    pub(super) fn ceiling(self, value: Option<Ceiling>) -> Self {
        self.index(value.map_or(0, |ceiling| ceiling.index() + 1))
    }

    /// Writes the index of a value in its list.
    pub(super) fn index(self, index: usize) -> Self {
        self.byte(u8::try_from(index).unwrap_or(u8::MAX))
    }

    /// The encoded bytes as a key.
    pub(super) fn key(self) -> Vec<u8> {
        self.0
    }

    /// The encoded bytes as a value, with its checksum.
    pub(super) fn row(self) -> Vec<u8> {
        let sum = crc32fast::hash(&self.0);
        self.u32(sum).0
    }
}

/// A decoder.
#[derive(Debug)]
pub(super) struct RowDecoder<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> RowDecoder<'a> {
    /// Decodes a key of the named table.
    pub(super) fn key(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, what }
    }

    /// Decodes a value of the named table, after verifying its checksum.
    pub(super) fn row(what: &'static str, bytes: &'a [u8]) -> Result<Self, StoreError> {
        let wrong_checksum =
            || StoreError::failed(STORE, format_args!("a row of table {what} has a wrong checksum"));
        let (rest, sum) = bytes.split_last_chunk::<4>().ok_or_else(wrong_checksum)?;
        if crc32fast::hash(rest) != u32::from_be_bytes(*sum) {
            return Err(wrong_checksum());
        }
        Ok(Self { rest, what })
    }

    /// The error for content that is not valid.
    pub(super) fn invalid(&self) -> StoreError {
        StoreError::failed(STORE, format_args!("a row of table {} is invalid", self.what))
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let (first, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.invalid())?;
        self.rest = rest;
        Ok(*first)
    }

    pub(super) fn byte(&mut self) -> Result<u8, StoreError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32, StoreError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, StoreError> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn u128(&mut self) -> Result<u128, StoreError> {
        self.array().map(u128::from_be_bytes)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, StoreError> {
        let length = usize::try_from(self.u32()?).map_err(|_| self.invalid())?;
        let (text, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.invalid())?;
        self.rest = rest;
        std::str::from_utf8(text).map_err(|_| self.invalid())
    }

    /// The next bytes, as many as this.
    pub(super) fn take(&mut self, length: u64) -> Result<&'a [u8], StoreError> {
        let length = usize::try_from(length).map_err(|_| self.invalid())?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.invalid())?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn optional(&mut self) -> Result<Option<u64>, StoreError> {
        match self.byte()? {
            0 => Ok(None),
            1 => self.u64().map(Some),
            _ => Err(self.invalid()),
        }
    }

    pub(super) fn money(&mut self) -> Result<Money, StoreError> {
        self.u64().map(Money::from_nanos)
    }

    pub(super) fn time(&mut self) -> Result<UtcTime, StoreError> {
        self.u64().map(UtcTime::from_nanos)
    }

    pub(super) fn duration(&mut self) -> Result<Duration, StoreError> {
        self.u64().map(Duration::from_nanos)
    }

    pub(super) fn usage(&mut self) -> Result<Usage, StoreError> {
        let [input, cache_read, cache_write, output] = [self.u64()?, self.u64()?, self.u64()?, self.u64()?];
        Ok(Usage { input, cache_read, cache_write, output, ..Usage::default() })
    }

    /// Reads a value by its index in this list.
    pub(super) fn choice<T: Copy>(&mut self, all: &[T]) -> Result<T, StoreError> {
        let index = usize::from(self.byte()?);
        all.get(index).copied().ok_or_else(|| self.invalid())
    }

    pub(super) fn ceiling(&mut self) -> Result<Option<Ceiling>, StoreError> {
        let [none, fast, strong] = Ceiling::ALL.map(Some);
        self.choice(&[None, none, fast, strong])
    }

    /// Everything that is left.
    pub(super) const fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Everything that is left, as text.
    pub(super) fn rest_text(self) -> Result<&'a str, StoreError> {
        std::str::from_utf8(self.rest).map_err(|_| self.invalid())
    }

    /// Whether nothing is left.
    pub(super) const fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Fails if anything is left.
    pub(super) fn end<T>(self, value: T) -> Result<T, StoreError> {
        if self.rest.is_empty() { Ok(value) } else { Err(self.invalid()) }
    }
}

/// Hashes a name that a caller chose, so that it cannot be read from a stolen file. The caller is part of the hash: the
/// same name of two callers gives two keys.
pub(super) fn key_hash(kind: &str, caller: u64, name: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(RowEncoder::default().text(kind).u64(caller).text(name).key());
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::{RowDecoder, RowEncoder, key_hash};
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use seawall_core::money::{Money, Usage};
    use seawall_core::time::UtcTime;
    use seawall_core::vocabulary::{Ceiling, Tier};
    use std::time::Duration;

    #[test]
    fn the_same_name_of_two_callers_or_kinds_is_two_names() {
        let hashes =
            [key_hash("a", 1, "x"), key_hash("a", 2, "x"), key_hash("b", 1, "x"), key_hash("a", 1, "y")];
        for (index, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..index].contains(hash));
        }
        assert_eq!(hashes[0], key_hash("a", 1, "x"));
    }

    #[test]
    fn an_unknown_choice_and_trailing_bytes_are_errors() {
        let row = RowEncoder::default().index(3).row();
        assert!(RowDecoder::row("x", &row).unwrap().choice(&Tier::ALL).is_err());
        let row = RowEncoder::default().byte(2).row();
        let error = RowDecoder::row("sessions", &row).unwrap().optional().unwrap_err();
        assert_eq!(error.to_string(), "the embedded store failed: a row of table sessions is invalid");
        let row = RowEncoder::default().byte(2).byte(3).row();
        let mut input = RowDecoder::row("x", &row).unwrap();
        assert_eq!(input.byte(), Ok(2));
        assert!(input.end(()).is_err());
        assert!(RowDecoder::row("x", &[1, 2, 3]).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            numbers in any::<(u8, u32, u64, u128, Option<u64>)>(), text in ".{0,20}", nanos in any::<u64>(),
        ) {
            let usage = Usage { input: nanos, cache_read: 1, cache_write: 2, output: 3, ..Usage::default() };
            let row = RowEncoder::default().byte(numbers.0).u32(numbers.1).u64(numbers.2).u128(numbers.3)
                .optional(numbers.4).text(&text).money(Money::from_nanos(nanos)).time(UtcTime::from_nanos(nanos))
                .duration(Duration::from_nanos(nanos)).usage(&usage).tier(Tier::Guest).ceiling(Some(Ceiling::Fast))
                .ceiling(None).row();
            let mut input = RowDecoder::row("x", &row).unwrap();
            prop_assert_eq!(input.byte().unwrap(), numbers.0);
            prop_assert_eq!(input.u32().unwrap(), numbers.1);
            prop_assert_eq!(input.u64().unwrap(), numbers.2);
            prop_assert_eq!(input.u128().unwrap(), numbers.3);
            prop_assert_eq!(input.optional().unwrap(), numbers.4);
            prop_assert_eq!(input.text().unwrap(), &text);
            prop_assert_eq!(input.money().unwrap(), Money::from_nanos(nanos));
            prop_assert_eq!(input.time().unwrap(), UtcTime::from_nanos(nanos));
            prop_assert_eq!(input.duration().unwrap(), Duration::from_nanos(nanos));
            prop_assert_eq!(input.usage().unwrap(), usage);
            prop_assert_eq!(input.choice(&Tier::ALL).unwrap(), Tier::Guest);
            prop_assert_eq!(input.ceiling().unwrap(), Some(Ceiling::Fast));
            prop_assert_eq!(input.ceiling().unwrap(), None);
            prop_assert!(input.end(()).is_ok());
        }

        #[test]
        fn a_bit_that_was_turned_over_is_noticed(bytes in vec(any::<u8>(), 0..40), bit in any::<usize>()) {
            let mut row = RowEncoder::default().bytes(&bytes).row();
            prop_assert!(RowDecoder::row("x", &row).is_ok());
            let index = bit % (row.len() * 8);
            row[index / 8] ^= 1 << (index % 8);
            prop_assert!(RowDecoder::row("x", &row).is_err());
        }
    }
}
