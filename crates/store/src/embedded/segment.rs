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

use super::open_error::OpenError;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"SEAWALLJ";
/// The format that this program writes, and the newest that it reads. Version 2 added records of whole calls, version 3
/// added rate-limit counts and idempotency keys, version 4 labels of calls and windows of budgets.
const FORMAT_VERSION: u32 = 4;
/// Magic, format, number, checksum.
pub(super) const HEADER_BYTES: usize = 24;
/// The length and checksum of a frame.
const FRAME_HEADER_BYTES: usize = 8;
/// The largest payload of a frame. A larger length is invalid. It also bounds what an interrupted write can leave, all
/// of which is searched for frames.
pub(super) const MAX_FRAME_BYTES: usize = 1 << 16;
/// How much of a segment is read at a time.
const READ_BYTES: usize = 1 << 17;

pub(super) fn segment_path(data_dir: &Path, number: u64) -> PathBuf {
    data_dir.join(format!("journal-{number:020}.log"))
}

fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("journal-")?.strip_suffix(".log")?;
    (digits.len() == 20 && digits.bytes().all(|digit| digit.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// The numbers of all segments in a directory, in order.
pub(super) fn list(data_dir: &Path) -> Result<Vec<u64>, OpenError> {
    let unusable = |error: &io::Error| OpenError::unusable(data_dir, error);
    let mut numbers = Vec::new();
    for entry in fs::read_dir(data_dir).map_err(|error| unusable(&error))? {
        let name = entry.map_err(|error| unusable(&error))?.file_name();
        numbers.extend(name.to_str().and_then(segment_number));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The header of a segment.
pub(super) fn header(number: u64) -> [u8; HEADER_BYTES] {
    header_of_version(FORMAT_VERSION, number)
}

fn header_of_version(version: u32, number: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&version.to_be_bytes());
    header[12..20].copy_from_slice(&number.to_be_bytes());
    let checksum = crc32fast::hash(&header[..20]);
    header[20..].copy_from_slice(&checksum.to_be_bytes());
    header
}

/// Opens a frame at the end of `bytes`, to be closed with [`close_frame`].
pub(super) fn open_frame(bytes: &mut Vec<u8>) -> usize {
    let start = bytes.len();
    bytes.extend([0; FRAME_HEADER_BYTES]);
    start
}

/// Closes a frame. Returns whether the payload fits.
pub(super) fn close_frame(bytes: &mut [u8], start: usize) -> bool {
    let Some((head, payload)) = bytes[start..].split_at_mut_checked(FRAME_HEADER_BYTES) else { return false };
    let Ok(length) = u32::try_from(payload.len()) else { return false };
    head[..4].copy_from_slice(&length.to_be_bytes());
    head[4..].copy_from_slice(&checksum(length, payload).to_be_bytes());
    payload.len() <= MAX_FRAME_BYTES
}

fn checksum(length: u32, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length.to_be_bytes());
    hasher.update(payload);
    hasher.finalize()
}

/// The content of a segment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SegmentContent {
    bytes: Vec<u8>,
    /// The start and end of each frame's payload.
    frames: Vec<(usize, usize)>,
    /// The number of bytes at the end that were left of an interrupted write.
    pub(super) truncated: u64,
}

impl SegmentContent {
    /// Whether the header is complete; if not, the segment was still being created.
    pub(super) const fn has_header(&self) -> bool {
        self.bytes.len() >= HEADER_BYTES
    }

    /// The payloads of the frames, in order.
    pub(super) fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.frames.iter().map(|&(start, end)| &self.bytes[start..end])
    }
}

enum FrameStatus {
    /// A valid frame that ends at this offset.
    Valid(usize),
    /// A frame that extends beyond the end of the file, or ends there and has a wrong checksum.
    Incomplete,
    /// Anything else.
    Invalid,
}

fn frame_at(bytes: &[u8], start: usize) -> FrameStatus {
    let Some(head) = bytes[start..].first_chunk::<FRAME_HEADER_BYTES>() else {
        return FrameStatus::Incomplete;
    };
    let [a, b, c, d, expected @ ..] = *head;
    let length = u32::from_be_bytes([a, b, c, d]);
    let Some(end) = usize::try_from(length).ok().filter(|length| *length <= MAX_FRAME_BYTES) else {
        return FrameStatus::Invalid;
    };
    let payload_start = start + FRAME_HEADER_BYTES;
    let end = payload_start + end;
    match bytes.get(payload_start..end) {
        None => FrameStatus::Incomplete,
        Some(payload) if checksum(length, payload) == u32::from_be_bytes(expected) && length > 0 => {
            FrameStatus::Valid(end)
        }
        Some(_) if end == bytes.len() => FrameStatus::Incomplete,
        Some(_) => FrameStatus::Invalid,
    }
}

/// Reads a segment. Only the last one may have a truncated end.
pub(super) fn read(path: &Path, number: u64, is_last: bool) -> Result<SegmentContent, OpenError> {
    let bytes = fs::read(path).map_err(|error| OpenError::unusable(path, &error))?;
    let is_partial_header = |bytes: &[u8]| {
        (1..=FORMAT_VERSION).any(|format| header_of_version(format, number).starts_with(bytes))
    };
    if bytes.len() < HEADER_BYTES
        && is_last
        && (is_partial_header(&bytes) || bytes.iter().all(|byte| *byte == 0))
    {
        return Ok(SegmentContent { truncated: bytes.len() as u64, ..SegmentContent::default() });
    }
    check_header(path, &bytes, number)?;
    let mut frames = Vec::new();
    let mut start = HEADER_BYTES;
    while start < bytes.len() {
        match frame_at(&bytes, start) {
            FrameStatus::Valid(end) => {
                frames.push((start + FRAME_HEADER_BYTES, end));
                start = end;
            }
            FrameStatus::Incomplete if is_last && !contains_frame(&bytes, start + 1) => break,
            _ if is_last && bytes[start..].iter().all(|byte| *byte == 0) => break,
            _ => return Err(OpenError::damaged(path, format_args!("invalid record at byte {start}"))),
        }
    }
    let truncated = (bytes.len() - start.min(bytes.len())) as u64;
    Ok(SegmentContent { bytes, frames, truncated })
}

/// Passes each payload of a segment to `each`, in order, without loading the whole file. The segment has a successor,
/// so its end must be complete.
pub(super) fn for_each_frame(
    path: &Path,
    number: u64,
    mut each: impl FnMut(&[u8]) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let unusable = |error: &io::Error| OpenError::unusable(path, error);
    let mut file = File::open(path).map_err(|error| unusable(&error))?;
    let mut bytes = Vec::with_capacity(READ_BYTES + FRAME_HEADER_BYTES + MAX_FRAME_BYTES);
    // The file offset at which `bytes` begins, and how many of them have been consumed.
    let (mut base, mut start, mut has_read_header) = (0, 0, false);
    loop {
        bytes.drain(..start);
        base += start;
        start = 0;
        let more = Read::by_ref(&mut file).take(READ_BYTES as u64).read_to_end(&mut bytes);
        let is_eof = more.map_err(|error| unusable(&error))? == 0;
        if !has_read_header {
            check_header(path, &bytes, number)?;
            (start, has_read_header) = (HEADER_BYTES, true);
        }
        while start < bytes.len() {
            match frame_at(&bytes, start) {
                FrameStatus::Valid(end) => {
                    each(bytes.get(start + FRAME_HEADER_BYTES..end).unwrap_or_default())?;
                    start = end;
                }
                FrameStatus::Incomplete if !is_eof => break,
                _ => {
                    let offset = base + start;
                    return Err(OpenError::damaged(path, format_args!("invalid record at byte {offset}")));
                }
            }
        }
        if is_eof {
            return Ok(());
        }
    }
}

/// Whether a complete frame begins anywhere after `from`; then what precedes it is damage and not a truncated end.
fn contains_frame(bytes: &[u8], from: usize) -> bool {
    (from..bytes.len()).any(|start| matches!(frame_at(bytes, start), FrameStatus::Valid(_)))
}

fn check_header(path: &Path, bytes: &[u8], number: u64) -> Result<(), OpenError> {
    if !bytes.starts_with(&MAGIC) {
        return Err(if bytes.is_empty() || MAGIC.starts_with(bytes) {
            OpenError::damaged(path, "the file is truncated")
        } else {
            OpenError::foreign(path, "wrong magic number")
        });
    }
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Err(OpenError::damaged(path, "the file is truncated"));
    };
    let checksum = crc32fast::hash(&header[..20]).to_be_bytes();
    if header[20..] != checksum {
        return Err(OpenError::damaged(path, "the header has a wrong checksum"));
    }
    let mut version = [0; 4];
    version.copy_from_slice(&header[8..12]);
    let version = u32::from_be_bytes(version);
    if version > FORMAT_VERSION {
        return Err(OpenError::Newer { path: path.into(), version, supported: FORMAT_VERSION });
    }
    if *header != header_of_version(version, number) {
        return Err(OpenError::damaged(path, "the segment number in the header differs from the file name"));
    }
    Ok(())
}
