//! The bytes of a segment: a file of records that is only appended to.
//!
//! A segment begins with a marker, and each record is a frame: length, checksum, request id, end of the request, payload.
//! The checksum covers everything behind it and the length, so that a frame that was written only in part is recognised,
//! wherever the write stopped. A reader stops at the first frame that does not check out: behind it, nothing says where
//! the next one begins.

use seawall_core::time::UtcTime;
use std::ops::Range;

/// The first bytes of a segment. The last one is the version of the format.
pub(super) const MARKER: [u8; 8] = *b"SWREC\0\0\x01";
/// Length, checksum, id and time.
const HEAD: usize = 4 + 4 + 8 + 8;
/// Larger payloads are not written, and a larger length is damage.
pub(super) const MAX_PAYLOAD: usize = 1 << 20;

/// The place of a record in the bytes of its segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordFrame {
    /// The request ID.
    pub(super) id: u64,
    /// When the request ended, in nanoseconds since 1970.
    pub(super) ended: u64,
    /// Where the frame begins, and where it ends.
    pub(super) range: Range<usize>,
}

impl RecordFrame {
    /// Where the payload is.
    pub(super) fn payload(&self) -> Range<usize> {
        self.range.start + HEAD..self.range.end
    }
}

/// Appends a record. Returns whether it fits into a frame.
pub(super) fn append_frame(bytes: &mut Vec<u8>, id: u64, ended: UtcTime, payload: &[u8]) -> bool {
    let Ok(length) = u32::try_from(payload.len()) else { return false };
    if payload.len() > MAX_PAYLOAD {
        return false;
    }
    let mut covered = [0; 16];
    covered[..8].copy_from_slice(&id.to_le_bytes());
    covered[8..].copy_from_slice(&ended.as_nanos().to_le_bytes());
    let mut checksum = crc32fast::Hasher::new();
    for part in [&length.to_le_bytes()[..], &covered, payload] {
        checksum.update(part);
    }
    for part in [&length.to_le_bytes()[..], &checksum.finalize().to_le_bytes(), &covered, payload] {
        bytes.extend_from_slice(part);
    }
    true
}

/// The frame that begins at this offset, if it is complete and intact.
pub(super) fn frame_at(bytes: &[u8], offset: usize) -> Option<RecordFrame> {
    let head = bytes.get(offset..offset.checked_add(HEAD)?)?;
    let word = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
    let length = usize::try_from(word(0)?).ok().filter(|length| *length <= MAX_PAYLOAD)?;
    let end = offset + HEAD + length;
    let payload = bytes.get(offset + HEAD..end)?;
    let mut checksum = crc32fast::Hasher::new();
    for part in [&head[..4], &head[8..], payload] {
        checksum.update(part);
    }
    (checksum.finalize() == word(4)?).then_some(RecordFrame {
        id: long(8)?,
        ended: long(16)?,
        range: offset..end,
    })
}

/// The intact frames from this offset on, up to the first that is not.
pub(super) fn frames(bytes: &[u8], offset: usize) -> Vec<RecordFrame> {
    let mut next = offset;
    std::iter::from_fn(|| {
        let frame = frame_at(bytes, next)?;
        next = frame.range.end;
        Some(frame)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::{MARKER, MAX_PAYLOAD, append_frame, frames};
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
    use seawall_core::time::UtcTime;

    fn written(records: &[(u64, Vec<u8>)]) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut ends) = (MARKER.to_vec(), vec![MARKER.len()]);
        for (id, payload) in records {
            assert!(append_frame(&mut bytes, *id, UtcTime::from_nanos(id / 2), payload));
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    fn read(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let payload = |frame: super::RecordFrame| {
            assert_eq!(frame.ended, frame.id / 2);
            (frame.id, bytes[frame.payload()].to_vec())
        };
        frames(bytes, MARKER.len()).into_iter().map(payload).collect()
    }

    #[test]
    fn a_record_that_is_too_large_is_not_written() {
        let mut bytes = Vec::new();
        assert!(!append_frame(&mut bytes, 1, UtcTime::from_nanos(0), &vec![0; MAX_PAYLOAD + 1]));
        assert!(bytes.is_empty());
    }

    #[test]
    fn a_write_that_stopped_at_any_byte_loses_only_the_last_record() {
        let records: Vec<(u64, Vec<u8>)> =
            (0..4_u8).map(|id| (id.into(), vec![id; 7 * usize::from(id)])).collect();
        let (bytes, ends) = written(&records);
        for length in MARKER.len()..=bytes.len() {
            let complete = ends.iter().filter(|end| **end <= length).count() - 1;
            assert_eq!(read(&bytes[..length]), records[..complete], "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_and_a_damaged_byte_hides_nothing_before_it(
            records in prop::collection::vec((any::<u64>(), prop::collection::vec(any::<u8>(), 0..40)), 1..12),
            place in any::<prop::sample::Index>(),
            flipped in 1_u8..,
        ) {
            let (mut bytes, ends) = written(&records);
            prop_assert_eq!(&read(&bytes), &records);
            let place = MARKER.len() + place.index(bytes.len() - MARKER.len());
            bytes[place] ^= flipped;
            let intact = ends.iter().filter(|end| **end <= place).count() - 1;
            prop_assert_eq!(read(&bytes), &records[..intact]);
        }

        #[test]
        fn arbitrary_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(frames(&bytes, MARKER.len()).len() <= bytes.len());
        }
    }
}
