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
pub(super) struct Output(Vec<u8>);

impl Output {
    /// Preallocates this length plus the checksum, because rows may be kept for a while and should not waste memory.
    pub(super) fn with_room(length: usize) -> Self {
        Self(Vec::with_capacity(length.saturating_add(4)))
    }

    pub(super) fn byte(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub(super) fn short(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn number(mut self, value: u64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn long(mut self, value: u128) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn fixed(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// Writes a text, prefixed with its length. No stored text comes near the limit of 4 GiB.
    pub(super) fn text(self, text: &str) -> Self {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.short(length).fixed(text.as_bytes())
    }

    pub(super) fn optional(self, value: Option<u64>) -> Self {
        match value {
            None => self.byte(0),
            Some(value) => self.byte(1).number(value),
        }
    }

    pub(super) fn money(self, value: Money) -> Self {
        self.number(value.as_nanos())
    }

    pub(super) fn moment(self, value: UtcTime) -> Self {
        self.number(value.as_nanos())
    }

    pub(super) fn duration(self, value: Duration) -> Self {
        self.number(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn usage(self, value: &Usage) -> Self {
        self.number(value.input).number(value.cache_read).number(value.cache_write).number(value.output)
    }

    pub(super) fn tier(self, value: Tier) -> Self {
        self.place(value.index())
    }

    pub(super) fn ceiling(self, value: Option<Ceiling>) -> Self {
        self.place(value.map_or(0, |ceiling| ceiling.index() + 1))
    }

    /// Writes the index of a value in its list.
    pub(super) fn place(self, place: usize) -> Self {
        self.byte(u8::try_from(place).unwrap_or(u8::MAX))
    }

    /// The encoded bytes as a key.
    pub(super) fn key(self) -> Vec<u8> {
        self.0
    }

    /// The encoded bytes as a value, with its checksum.
    pub(super) fn row(self) -> Vec<u8> {
        let sum = crc32fast::hash(&self.0);
        self.short(sum).0
    }
}

/// A decoder.
#[derive(Debug)]
pub(super) struct Input<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Input<'a> {
    /// Decodes a key of the named table.
    pub(super) fn key(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, what }
    }

    /// Decodes a value of the named table, after verifying its checksum.
    pub(super) fn row(what: &'static str, bytes: &'a [u8]) -> Result<Self, StoreError> {
        let wrong = || StoreError::broken(STORE, format_args!("a row of {what} is damaged"));
        let (rest, sum) = bytes.split_last_chunk::<4>().ok_or_else(wrong)?;
        if crc32fast::hash(rest) != u32::from_be_bytes(*sum) {
            return Err(wrong());
        }
        Ok(Self { rest, what })
    }

    /// The error for content that is not valid.
    pub(super) fn wrong(&self) -> StoreError {
        StoreError::broken(STORE, format_args!("a row of {} makes no sense", self.what))
    }

    pub(super) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let (first, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.wrong())?;
        self.rest = rest;
        Ok(*first)
    }

    pub(super) fn byte(&mut self) -> Result<u8, StoreError> {
        self.fixed::<1>().map(|[byte]| byte)
    }

    pub(super) fn short(&mut self) -> Result<u32, StoreError> {
        self.fixed().map(u32::from_be_bytes)
    }

    pub(super) fn number(&mut self) -> Result<u64, StoreError> {
        self.fixed().map(u64::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Result<u128, StoreError> {
        self.fixed().map(u128::from_be_bytes)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, StoreError> {
        let length = usize::try_from(self.short()?).map_err(|_| self.wrong())?;
        let (text, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.wrong())?;
        self.rest = rest;
        std::str::from_utf8(text).map_err(|_| self.wrong())
    }

    pub(super) fn optional(&mut self) -> Result<Option<u64>, StoreError> {
        match self.byte()? {
            0 => Ok(None),
            1 => self.number().map(Some),
            _ => Err(self.wrong()),
        }
    }

    pub(super) fn money(&mut self) -> Result<Money, StoreError> {
        self.number().map(Money::from_nanos)
    }

    pub(super) fn moment(&mut self) -> Result<UtcTime, StoreError> {
        self.number().map(UtcTime::from_nanos)
    }

    pub(super) fn duration(&mut self) -> Result<Duration, StoreError> {
        self.number().map(Duration::from_nanos)
    }

    pub(super) fn usage(&mut self) -> Result<Usage, StoreError> {
        let [input, cache_read, cache_write, output] =
            [self.number()?, self.number()?, self.number()?, self.number()?];
        Ok(Usage { input, cache_read, cache_write, output, ..Usage::default() })
    }

    /// Reads a value by its index in this list.
    pub(super) fn word<T: Copy>(&mut self, all: &[T]) -> Result<T, StoreError> {
        let place = usize::from(self.byte()?);
        all.get(place).copied().ok_or_else(|| self.wrong())
    }

    pub(super) fn ceiling(&mut self) -> Result<Option<Ceiling>, StoreError> {
        let [none, fast, strong] = Ceiling::ALL.map(Some);
        self.word(&[None, none, fast, strong])
    }

    /// Everything that is left.
    pub(super) const fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Everything that is left, as text.
    pub(super) fn rest_text(self) -> Result<&'a str, StoreError> {
        std::str::from_utf8(self.rest).map_err(|_| self.wrong())
    }

    /// Whether nothing is left.
    pub(super) const fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Fails if anything is left.
    pub(super) fn end<T>(self, value: T) -> Result<T, StoreError> {
        if self.rest.is_empty() { Ok(value) } else { Err(self.wrong()) }
    }
}

/// Hashes a name that a caller chose, so that it cannot be read from a stolen file. The caller is part of the hash: the
/// same name of two callers gives two keys.
pub(super) fn name_hash(kind: &str, caller: u64, name: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(Output::default().text(kind).number(caller).text(name).key());
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::{Input, Output, name_hash};
    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use seawall_core::money::{Money, Usage};
    use seawall_core::time::UtcTime;
    use seawall_core::vocabulary::{Ceiling, Tier};
    use std::time::Duration;

    #[test]
    fn the_same_name_of_two_callers_or_kinds_is_two_names() {
        let hashes =
            [name_hash("a", 1, "x"), name_hash("a", 2, "x"), name_hash("b", 1, "x"), name_hash("a", 1, "y")];
        for (place, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..place].contains(hash));
        }
        assert_eq!(hashes[0], name_hash("a", 1, "x"));
    }

    #[test]
    fn a_word_that_nobody_knows_and_bytes_left_over_are_errors() {
        let row = Output::default().place(3).row();
        assert!(Input::row("x", &row).unwrap().word(&Tier::ALL).is_err());
        let row = Output::default().byte(2).row();
        let error = Input::row("sessions", &row).unwrap().optional().unwrap_err();
        assert_eq!(error.to_string(), "the embedded store is broken: a row of sessions makes no sense");
        let row = Output::default().byte(2).byte(3).row();
        let mut input = Input::row("x", &row).unwrap();
        assert_eq!(input.byte(), Ok(2));
        assert!(input.end(()).is_err());
        assert!(Input::row("x", &[1, 2, 3]).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            numbers in any::<(u8, u32, u64, u128, Option<u64>)>(), text in ".{0,20}", nanos in any::<u64>(),
        ) {
            let usage = Usage { input: nanos, cache_read: 1, cache_write: 2, output: 3, ..Usage::default() };
            let row = Output::default().byte(numbers.0).short(numbers.1).number(numbers.2).long(numbers.3)
                .optional(numbers.4).text(&text).money(Money::from_nanos(nanos)).moment(UtcTime::from_nanos(nanos))
                .duration(Duration::from_nanos(nanos)).usage(&usage).tier(Tier::Guest).ceiling(Some(Ceiling::Fast))
                .ceiling(None).row();
            let mut input = Input::row("x", &row).unwrap();
            prop_assert_eq!(input.byte().unwrap(), numbers.0);
            prop_assert_eq!(input.short().unwrap(), numbers.1);
            prop_assert_eq!(input.number().unwrap(), numbers.2);
            prop_assert_eq!(input.long().unwrap(), numbers.3);
            prop_assert_eq!(input.optional().unwrap(), numbers.4);
            prop_assert_eq!(input.text().unwrap(), &text);
            prop_assert_eq!(input.money().unwrap(), Money::from_nanos(nanos));
            prop_assert_eq!(input.moment().unwrap(), UtcTime::from_nanos(nanos));
            prop_assert_eq!(input.duration().unwrap(), Duration::from_nanos(nanos));
            prop_assert_eq!(input.usage().unwrap(), usage);
            prop_assert_eq!(input.word(&Tier::ALL).unwrap(), Tier::Guest);
            prop_assert_eq!(input.ceiling().unwrap(), Some(Ceiling::Fast));
            prop_assert_eq!(input.ceiling().unwrap(), None);
            prop_assert!(input.end(()).is_ok());
        }

        #[test]
        fn a_bit_that_was_turned_over_is_noticed(bytes in vec(any::<u8>(), 0..40), bit in any::<usize>()) {
            let mut row = Output::default().fixed(&bytes).row();
            prop_assert!(Input::row("x", &row).is_ok());
            let place = bit % (row.len() * 8);
            row[place / 8] ^= 1 << (place % 8);
            prop_assert!(Input::row("x", &row).is_err());
        }
    }
}
