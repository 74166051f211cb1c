//! Canonical encoding of numbers and texts as bytes.
//!
//! Every value has exactly one encoding, so that hashes or bytes are equal exactly when the values are. Decoding never
//! panics: input that is truncated, too long or not in its shortest form gives `None`.

/// Writes a LEB128 varint: seven bits a byte, the lowest first; the eighth bit marks that more bytes follow.
pub(crate) fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(low_bits(number) | 0x80);
        number >>= 7;
    }
    bytes.push(low_bits(number));
}

/// Writes a text, prefixed with its length.
pub(crate) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_varint(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

const fn low_bits(number: u64) -> u8 {
    number.to_le_bytes()[0] & 0x7f
}

/// The bytes that have not been read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    #[cfg(feature = "embedded")]
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for index in 0..10 {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // Nine bytes hold 63 bits, so that the tenth byte has room for one.
            if index == 9 && bits > 1 {
                return None;
            }
            number |= bits << (7 * index);
            if byte & 0x80 == 0 {
                let is_longer_than_needed = byte == 0 && index > 0;
                return (!is_longer_than_needed).then_some(number);
            }
        }
        None
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.varint()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Succeeds only if no bytes are left.
    pub(crate) fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::{ByteReader, put_text, put_varint};
    use proptest::prelude::{any, prop_assert_eq, proptest};

    fn read(bytes: &[u8]) -> Option<u64> {
        let mut reader = ByteReader::new(bytes);
        let number = reader.varint()?;
        reader.end().map(|()| number)
    }

    #[test]
    fn a_number_has_one_encoding() {
        for (number, length) in [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (u64::MAX, 10)] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            assert_eq!((bytes.len(), read(&bytes)), (length, Some(number)));
            for cut in 0..length {
                assert_eq!(read(&bytes[..cut]), None);
            }
        }
        assert_eq!(read(&[0x80, 0]), None, "a longer way to write nothing");
        assert_eq!(read(&[0xff; 10]), None);
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), None, "too large");
        assert_eq!(read(&[1, 1]), None, "something is left");
    }

    #[test]
    fn a_text_that_is_longer_than_its_bytes_is_none() {
        let mut bytes = Vec::new();
        put_text(&mut bytes, "漫画");
        assert_eq!(ByteReader::new(&bytes).text(), Some("漫画"));
        assert_eq!(ByteReader::new(&bytes[..6]).text(), None);
        assert_eq!(ByteReader::new(&[2, 0xff, 0xff]).text(), None);
        assert_eq!(ByteReader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).text(), None);
        assert_eq!((ByteReader::new(&[0]).flag(), ByteReader::new(&[1]).flag()), (Some(false), Some(true)));
        assert_eq!((ByteReader::new(&[2]).flag(), ByteReader::new(&[]).flag()), (None, None));
    }

    proptest! {
        #[test]
        fn every_number_survives(number in any::<u64>(), shift in 0_u32..64) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number >> shift);
            prop_assert_eq!(read(&bytes), Some(number >> shift));
        }
    }
}
