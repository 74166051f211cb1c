//! The segment files of the journal.
//!
//! A segment begins with a header that identifies the file and its number; frames follow. A frame is the length of its
//! payload, a checksum over both, and the payload. It is written with one system call, so that a killed process leaves
//! whole frames or, at the very end, the beginning of one.
//!
//! **Recovery.** An incomplete frame at the end of the last segment is what a kill or a power cut leaves of a write
//! that was never acknowledged, and is truncated. So are zeros there, which come from a file that was extended but not
//! yet written. Anything else that is not a frame is damage and refused, because the reservations behind it would be
//! lost.

use super::refusal::OpenError;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"SEAWALLJ";
/// The format that this program writes, and the newest that it reads. Version 2 added records of whole calls, version 3
/// added rate-limit counts and idempotency keys.
const FORMAT: u32 = 3;
/// Magic, format, number, checksum.
pub(super) const HEADER: usize = 24;
/// The length and checksum of a frame.
const FRAME_HEAD: usize = 8;
/// The largest payload of a frame. A larger length is invalid. It also bounds what an interrupted write can leave, all
/// of which is searched for frames.
pub(super) const MOST_IN_A_FRAME: usize = 1 << 16;
/// How much of a segment is read at a time.
const READ_AT_ONCE: usize = 1 << 17;

/// The path of a segment.
pub(super) fn segment_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("journal-{number:020}.log"))
}

fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("journal-")?.strip_suffix(".log")?;
    (digits.len() == 20 && digits.bytes().all(|digit| digit.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// The numbers of all segments in a directory, in order.
pub(super) fn list(folder: &Path) -> Result<Vec<u64>, OpenError> {
    let unusable = |error: &io::Error| OpenError::unusable(folder, error);
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| unusable(&error))? {
        let name = entry.map_err(|error| unusable(&error))?.file_name();
        numbers.extend(name.to_str().and_then(segment_number));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The header of a segment.
pub(super) fn header(number: u64) -> [u8; HEADER] {
    header_in(FORMAT, number)
}

fn header_in(format: u32, number: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&format.to_be_bytes());
    header[12..20].copy_from_slice(&number.to_be_bytes());
    let sum = crc32fast::hash(&header[..20]);
    header[20..].copy_from_slice(&sum.to_be_bytes());
    header
}

/// Opens a frame at the end of `bytes`, to be closed with [`close_frame`].
pub(super) fn open_frame(bytes: &mut Vec<u8>) -> usize {
    let start = bytes.len();
    bytes.extend([0; FRAME_HEAD]);
    start
}

/// Closes a frame. Returns whether the payload fits.
pub(super) fn close_frame(bytes: &mut [u8], start: usize) -> bool {
    let Some((head, carried)) = bytes[start..].split_at_mut_checked(FRAME_HEAD) else { return false };
    let Ok(length) = u32::try_from(carried.len()) else { return false };
    head[..4].copy_from_slice(&length.to_be_bytes());
    head[4..].copy_from_slice(&checksum(length, carried).to_be_bytes());
    carried.len() <= MOST_IN_A_FRAME
}

fn checksum(length: u32, carried: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&length.to_be_bytes());
    sum.update(carried);
    sum.finalize()
}

/// The content of a segment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SegmentText {
    bytes: Vec<u8>,
    /// The start and end of each frame's payload.
    frames: Vec<(usize, usize)>,
    /// The number of bytes at the end that were left of an interrupted write.
    pub(super) cut: u64,
}

impl SegmentText {
    /// Whether the header is complete; if not, the segment was still being created.
    pub(super) const fn has_header(&self) -> bool {
        self.bytes.len() >= HEADER
    }

    /// The payloads of the frames, in order.
    pub(super) fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.frames.iter().map(|&(start, end)| &self.bytes[start..end])
    }
}

enum Frame {
    /// A valid frame that ends at this offset.
    Whole(usize),
    /// A frame that extends beyond the end of the file, or ends there and has a wrong checksum.
    Incomplete,
    Wrong,
}

fn frame_at(bytes: &[u8], start: usize) -> Frame {
    let Some(head) = bytes[start..].first_chunk::<FRAME_HEAD>() else { return Frame::Incomplete };
    let [a, b, c, d, sum @ ..] = *head;
    let length = u32::from_be_bytes([a, b, c, d]);
    let Some(end) = usize::try_from(length).ok().filter(|length| *length <= MOST_IN_A_FRAME) else {
        return Frame::Wrong;
    };
    let carried = start + FRAME_HEAD;
    let end = carried + end;
    match bytes.get(carried..end) {
        None => Frame::Incomplete,
        Some(text) if checksum(length, text) == u32::from_be_bytes(sum) && length > 0 => Frame::Whole(end),
        Some(_) if end == bytes.len() => Frame::Incomplete,
        Some(_) => Frame::Wrong,
    }
}

/// Reads a segment. Only the last one may have a truncated end.
pub(super) fn read(path: &Path, number: u64, is_last: bool) -> Result<SegmentText, OpenError> {
    let bytes = fs::read(path).map_err(|error| OpenError::unusable(path, &error))?;
    let is_begun = |bytes: &[u8]| (1..=FORMAT).any(|format| header_in(format, number).starts_with(bytes));
    if bytes.len() < HEADER && is_last && (is_begun(&bytes) || bytes.iter().all(|byte| *byte == 0)) {
        return Ok(SegmentText { cut: bytes.len() as u64, ..SegmentText::default() });
    }
    check_header(path, &bytes, number)?;
    let mut frames = Vec::new();
    let mut start = HEADER;
    while start < bytes.len() {
        match frame_at(&bytes, start) {
            Frame::Whole(end) => {
                frames.push((start + FRAME_HEAD, end));
                start = end;
            }
            Frame::Incomplete if is_last && !holds_a_frame(&bytes, start + 1) => break,
            _ if is_last && bytes[start..].iter().all(|byte| *byte == 0) => break,
            _ => return Err(OpenError::damaged(path, format_args!("no record at byte {start}"))),
        }
    }
    let cut = (bytes.len() - start.min(bytes.len())) as u64;
    Ok(SegmentText { bytes, frames, cut })
}

/// Passes each payload of a segment to `take`, in order, without loading the whole file. The segment has a successor,
/// so its end must be complete.
pub(super) fn each_frame(
    path: &Path,
    number: u64,
    mut take: impl FnMut(&[u8]) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let unusable = |error: &io::Error| OpenError::unusable(path, error);
    let mut file = File::open(path).map_err(|error| unusable(&error))?;
    let mut bytes = Vec::with_capacity(READ_AT_ONCE + FRAME_HEAD + MOST_IN_A_FRAME);
    // The file offset at which `bytes` begins, and how many of them have been consumed.
    let (mut base, mut start, mut is_begun) = (0, 0, false);
    loop {
        bytes.drain(..start);
        base += start;
        start = 0;
        let more = Read::by_ref(&mut file).take(READ_AT_ONCE as u64).read_to_end(&mut bytes);
        let is_over = more.map_err(|error| unusable(&error))? == 0;
        if !is_begun {
            check_header(path, &bytes, number)?;
            (start, is_begun) = (HEADER, true);
        }
        while start < bytes.len() {
            match frame_at(&bytes, start) {
                Frame::Whole(end) => {
                    take(bytes.get(start + FRAME_HEAD..end).unwrap_or_default())?;
                    start = end;
                }
                Frame::Incomplete if !is_over => break,
                _ => {
                    let place = base + start;
                    return Err(OpenError::damaged(path, format_args!("no record at byte {place}")));
                }
            }
        }
        if is_over {
            return Ok(());
        }
    }
}

/// Whether a complete frame begins anywhere after `from`; then what precedes it is damage and not a truncated end.
fn holds_a_frame(bytes: &[u8], from: usize) -> bool {
    (from..bytes.len()).any(|start| matches!(frame_at(bytes, start), Frame::Whole(_)))
}

fn check_header(path: &Path, bytes: &[u8], number: u64) -> Result<(), OpenError> {
    if !bytes.starts_with(&MAGIC) {
        return Err(if bytes.is_empty() || MAGIC.starts_with(bytes) {
            OpenError::damaged(path, "the file is cut short")
        } else {
            OpenError::foreign(path, "it begins differently")
        });
    }
    let Some(header) = bytes.first_chunk::<HEADER>() else {
        return Err(OpenError::damaged(path, "the file is cut short"));
    };
    let sum = crc32fast::hash(&header[..20]).to_be_bytes();
    if header[20..] != sum {
        return Err(OpenError::damaged(path, "its header is wrong"));
    }
    let mut found = [0; 4];
    found.copy_from_slice(&header[8..12]);
    let found = u32::from_be_bytes(found);
    if found > FORMAT {
        return Err(OpenError::Newer { path: path.into(), found, known: FORMAT });
    }
    if *header != header_in(found, number) {
        return Err(OpenError::damaged(path, "it is another segment than its name says"));
    }
    Ok(())
}
