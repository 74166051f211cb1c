//! The index of a complete segment: the place of each record, sorted by request id.
//!
//! It lies beside the segment and is written when the segment is complete. One that is missing or damaged is made again
//! from the segment, so losing an index loses nothing.

use super::segment::RecordFrame;

/// The first bytes of an index. The last one is the version of the format.
const MARKER: [u8; 8] = *b"SWIDX\0\0\x01";
/// Marker, size of the segment, oldest and newest end.
const HEAD: usize = 8 + 8 + 8 + 8;
/// Id and offset.
const ENTRY: usize = 8 + 4;
const CHECKSUM: usize = 4;

/// The places of the records of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SegmentIndex {
    /// How much of the segment is intact, in bytes.
    pub(super) segment_size: u64,
    /// The earliest and the latest end of a request, in nanoseconds since 1970.
    pub(super) oldest: u64,
    pub(super) newest: u64,
    /// Ids and offsets, sorted.
    entries: Vec<(u64, u32)>,
}

impl SegmentIndex {
    /// The index of a segment with these frames.
    pub(super) fn of(frames: &[RecordFrame], segment_size: u64) -> Self {
        let offset = |frame: &RecordFrame| u32::try_from(frame.range.start).ok();
        let mut entries: Vec<_> =
            frames.iter().filter_map(|frame| Some((frame.id, offset(frame)?))).collect();
        entries.sort_unstable();
        let ends = || frames.iter().map(|frame| frame.ended);
        Self {
            segment_size,
            oldest: ends().min().unwrap_or_default(),
            newest: ends().max().unwrap_or_default(),
            entries,
        }
    }

    /// The offsets of the records with this id, the last one first. A counted rejection has the id of one that it counts.
    pub(super) fn find(&self, id: u64) -> impl Iterator<Item = u64> {
        let from = self.entries.partition_point(|(known, _)| *known < id);
        let until = self.entries.partition_point(|(known, _)| *known <= id);
        self.entries[from..until].iter().rev().map(|(_, offset)| u64::from(*offset))
    }

    /// The bytes of the index file.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + self.entries.len() * ENTRY + CHECKSUM);
        bytes.extend_from_slice(&MARKER);
        for number in [self.segment_size, self.oldest, self.newest] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for (id, offset) in &self.entries {
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(&offset.to_le_bytes());
        }
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads an index file; `None` if it is damaged.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (covered, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM)?)?;
        if crc32fast::hash(covered) != u32::from_le_bytes(checksum.try_into().ok()?) {
            return None;
        }
        let entries = covered.strip_prefix(&MARKER)?.get(HEAD - MARKER.len()..)?;
        let long = |at: usize| Some(u64::from_le_bytes(covered.get(at..at + 8)?.try_into().ok()?));
        let entry = |entry: &[u8]| {
            let (id, offset) = entry.split_at_checked(8)?;
            Some((u64::from_le_bytes(id.try_into().ok()?), u32::from_le_bytes(offset.try_into().ok()?)))
        };
        if !entries.len().is_multiple_of(ENTRY) {
            return None;
        }
        let entries = entries.chunks_exact(ENTRY).map(entry).collect::<Option<Vec<_>>>()?;
        Some(Self { segment_size: long(8)?, oldest: long(16)?, newest: long(24)?, entries })
    }
}

#[cfg(test)]
mod tests {
    use super::SegmentIndex;
    use crate::records::segment::RecordFrame;
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn an_index_finds_exactly_what_was_written_and_damage_is_noticed(
            ids in prop::collection::vec(0_u64..40, 0..60),
            place in any::<prop::sample::Index>(),
            flipped in 1_u8..,
        ) {
            let frames: Vec<_> = ids.iter().enumerate().map(|(index, id)| {
                RecordFrame { id: *id, ended: index as u64, range: index * 10..index * 10 + 10 }
            }).collect();
            let index = SegmentIndex::of(&frames, 7);
            for id in 0..40 {
                let expected: Vec<u64> = frames.iter().rev()
                    .filter(|frame| frame.id == id)
                    .map(|frame| frame.range.start as u64)
                    .collect();
                prop_assert_eq!(index.find(id).collect::<Vec<_>>(), expected);
            }
            let mut bytes = index.to_bytes();
            prop_assert_eq!(SegmentIndex::from_bytes(&bytes), Some(index));
            let place = place.index(bytes.len());
            prop_assert!(SegmentIndex::from_bytes(&bytes[..place]).is_none());
            bytes[place] ^= flipped;
            prop_assert!(SegmentIndex::from_bytes(&bytes).is_none());
        }
    }
}
