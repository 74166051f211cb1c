//! The byte format of journal segments.

use crate::embedded::OpenError;
use crate::embedded::segment::{
    HEADER_BYTES, MAX_FRAME_BYTES, close_frame, header, list, open_frame, read, segment_path,
};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use seawall_testkit::TestDirectory;
use std::fs;

fn segment(number: u64, frames: &[&[u8]]) -> Vec<u8> {
    let mut bytes = header(number).to_vec();
    for frame in frames {
        let start = open_frame(&mut bytes);
        bytes.extend_from_slice(frame);
        assert!(close_frame(&mut bytes, start));
    }
    bytes
}

fn read_back(bytes: &[u8], is_last: bool) -> Result<(Vec<Vec<u8>>, u64), OpenError> {
    let scratch = TestDirectory::in_memory().unwrap();
    let path = segment_path(scratch.path(), 7);
    fs::write(&path, bytes).unwrap();
    let text = read(&path, 7, is_last)?;
    Ok((text.frames().map(<[u8]>::to_vec).collect(), text.truncated))
}

#[test]
fn only_names_of_segments_are_listed_and_in_order() {
    let scratch = TestDirectory::in_memory().unwrap();
    for name in ["journal-1.log", "journal-00000000000000000002.txt", "x", "journal-0000000000000000000x.log"]
    {
        fs::write(scratch.path().join(name), "").unwrap();
    }
    for number in [10, 9, u64::MAX] {
        fs::write(segment_path(scratch.path(), number), "").unwrap();
    }
    assert_eq!(list(scratch.path()).unwrap(), [9, 10, u64::MAX]);
}

#[test]
fn a_frame_has_a_maximum_size() {
    let close = |length: usize| {
        let mut bytes = Vec::new();
        let start = open_frame(&mut bytes);
        bytes.resize(start + 8 + length, 7);
        close_frame(&mut bytes, start)
    };
    assert!(close(MAX_FRAME_BYTES) && !close(MAX_FRAME_BYTES + 1));
    let large = vec![7; MAX_FRAME_BYTES];
    assert_eq!(read_back(&segment(7, &[&large]), false).unwrap().0, [large]);
}

#[test]
fn only_the_last_segment_may_be_truncated() {
    let whole = segment(7, &[b"first", b"second"]);
    let last = whole.len() - 8 - b"second".len();
    for length in last + 1..whole.len() {
        let (frames, cut) = read_back(&whole[..length], true).unwrap();
        assert_eq!((frames, cut), (vec![b"first".to_vec()], (length - last) as u64));
        assert!(matches!(read_back(&whole[..length], false), Err(OpenError::Damaged { .. })));
    }
    for is_last in [true, false] {
        assert_eq!(read_back(&whole, is_last).unwrap().1, 0);
        assert_eq!(read_back(&whole[..last], is_last).unwrap(), (vec![b"first".to_vec()], 0));
        assert_eq!(read_back(&whole[..HEADER_BYTES], is_last).unwrap(), (vec![], 0));
    }
}

#[test]
fn zeros_at_the_end_of_the_last_segment_are_truncated() {
    let mut whole = segment(7, &[b"first"]);
    whole.extend([0; 5_000]);
    assert_eq!(read_back(&whole, true).unwrap(), (vec![b"first".to_vec()], 5_000));
    assert!(read_back(&whole, false).is_err());
    whole.push(1);
    assert!(read_back(&whole, true).is_err());
}

#[test]
fn a_partial_header_is_an_empty_segment_if_it_is_the_last() {
    let whole = segment(7, &[]);
    for length in 0..HEADER_BYTES {
        assert_eq!(read_back(&whole[..length], true).unwrap(), (vec![], length as u64));
        assert!(matches!(read_back(&whole[..length], false), Err(OpenError::Damaged { .. })), "{length}");
        assert_eq!(read_back(&vec![0; length], true).unwrap().1, length as u64);
    }
}

#[test]
fn a_header_has_owner_number_and_version() {
    assert!(matches!(read_back(b"\x89PNG and some more that follows", true), Err(OpenError::Foreign { .. })));
    assert!(matches!(read_back(&[1], true), Err(OpenError::Foreign { .. })));
    let refusal = read_back(&segment(8, &[b"x"]), true).unwrap_err();
    assert!(refusal.to_string().contains("the segment number in the header differs from the file name"));
    let mut newer = segment(7, &[]);
    newer[11] = 5;
    assert!(matches!(read_back(&newer, true), Err(OpenError::Damaged { .. })));
    let sum = crc32fast::hash(&newer[..20]);
    newer[20..HEADER_BYTES].copy_from_slice(&sum.to_be_bytes());
    assert!(matches!(read_back(&newer, true), Err(OpenError::Newer { version: 5, supported: 4, .. })));
}

proptest! {
    #[test]
    fn damage_before_the_last_frame_is_rejected(
        frames in vec(vec(any::<u8>(), 1..40), 2..6), position in any::<usize>(), bit in 0_u32..8,
    ) {
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        let mut bytes = segment(7, &frames);
        let last = bytes.len() - 8 - frames[frames.len() - 1].len();
        bytes[position % last] ^= 1 << bit;
        prop_assert!(read_back(&bytes, true).is_err());
    }

    #[test]
    fn damage_in_the_last_frame_is_truncated_or_rejected_and_never_read(
        frames in vec(vec(any::<u8>(), 1..40), 1..4), position in any::<usize>(), bit in 0_u32..8,
    ) {
        let whole: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        let mut bytes = segment(7, &whole);
        let length = 8 + whole[whole.len() - 1].len();
        let last = bytes.len() - length;
        bytes[last + position % length] ^= 1 << bit;
        if let Ok((read, cut)) = read_back(&bytes, true) {
            prop_assert_eq!(&read[..], &frames[..frames.len() - 1]);
            prop_assert_eq!(cut, length as u64);
        }
        prop_assert!(read_back(&bytes, false).is_err());
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..200)) {
        let mut partial = header(7).to_vec();
        partial.extend(&bytes);
        let _ = (read_back(&bytes, true), read_back(&partial, true), read_back(&partial, false));
    }
}
