//! Parses the headers of a frame in place, without copying.
//!
//! All headers are validated; those that identify the frame are kept. If a name occurs twice, the first one is used; a
//! value that is not a string is ignored.

use super::{
    CONTENT_TYPE, ERROR_CODE, ERROR_MESSAGE, EVENT_TYPE, EXCEPTION_TYPE, FrameError, FrameKind, MESSAGE_TYPE,
};

/// The numbers of the value types that have an explicit length. For the others see `fixed_length`.
const BYTES: u8 = 6;
const TEXT: u8 = 7;

/// The headers that are used here.
#[derive(Debug, Default)]
pub(super) struct FrameHeaders<'a> {
    message_type: FrameHeaderValue<'a>,
    event_type: FrameHeaderValue<'a>,
    exception_type: FrameHeaderValue<'a>,
    error_code: FrameHeaderValue<'a>,
    error_message: FrameHeaderValue<'a>,
    pub(super) content_type: FrameHeaderValue<'a>,
}

/// The value of a header, if present.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum FrameHeaderValue<'a> {
    #[default]
    Absent,
    /// Valid UTF-8.
    Text(&'a [u8]),
    Other,
}

impl<'a> FrameHeaderValue<'a> {
    /// The string; empty if there is none.
    pub(super) fn text(self) -> &'a str {
        self.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    const fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Text(bytes) => Some(bytes),
            Self::Absent | Self::Other => None,
        }
    }

    fn need(self, name: &str) -> Result<&'a str, FrameError> {
        match self {
            Self::Text(_) => Ok(self.text()),
            Self::Absent | Self::Other => Err(untyped(format!("header {name} is missing"))),
        }
    }
}

impl<'a> FrameHeaders<'a> {
    pub(super) fn read(mut bytes: &'a [u8]) -> Result<Self, FrameError> {
        let mut headers = Self::default();
        // Headers are nearly always pure ASCII; then no part needs its own UTF-8 check.
        let is_ascii = bytes.is_ascii();
        let is_text = |part: &[u8]| is_ascii || std::str::from_utf8(part).is_ok();
        while !bytes.is_empty() {
            let (name, value) = take_header(&mut bytes)
                .filter(|(name, value)| is_text(name) && value.bytes().is_none_or(is_text))
                .ok_or_else(|| broken("malformed header"))?;
            let Some(slot) = headers.slot(name) else { continue };
            if matches!(slot, FrameHeaderValue::Absent) {
                *slot = value;
            }
        }
        Ok(headers)
    }

    fn slot(&mut self, name: &[u8]) -> Option<&mut FrameHeaderValue<'a>> {
        let is = |known: &str| known.as_bytes() == name;
        Some(match name {
            name if !name.starts_with(b":") => return None,
            _ if is(MESSAGE_TYPE) => &mut self.message_type,
            _ if is(EVENT_TYPE) => &mut self.event_type,
            _ if is(CONTENT_TYPE) => &mut self.content_type,
            _ if is(EXCEPTION_TYPE) => &mut self.exception_type,
            _ if is(ERROR_CODE) => &mut self.error_code,
            _ if is(ERROR_MESSAGE) => &mut self.error_message,
            _ => return None,
        })
    }

    pub(super) fn kind(&self) -> Result<FrameKind<'a>, FrameError> {
        Ok(match self.message_type.need(MESSAGE_TYPE)? {
            "event" => FrameKind::Event(self.event_type.need(EVENT_TYPE)?),
            "exception" => FrameKind::Exception(self.exception_type.need(EXCEPTION_TYPE)?),
            "error" => FrameKind::Error {
                code: self.error_code.need(ERROR_CODE)?,
                message: self.error_message.text(),
            },
            other => return Err(untyped(format!("unknown message type {other:?}"))),
        })
    }
}

/// Parses the header that begins here; `None` if the bytes are not one. UTF-8 is not checked.
fn take_header<'a>(bytes: &mut &'a [u8]) -> Option<(&'a [u8], FrameHeaderValue<'a>)> {
    let length = *bytes.split_off_first()?;
    let name = bytes.split_off(..usize::from(length))?;
    let value = match *bytes.split_off_first()? {
        TEXT => FrameHeaderValue::Text(take_counted(bytes)?),
        BYTES => take_counted(bytes).map(|_| FrameHeaderValue::Other)?,
        kind => bytes.split_off(..fixed_length(kind)?).map(|_| FrameHeaderValue::Other)?,
    };
    Some((name, value))
}

fn take_counted<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = bytes.split_off(..2)?.first_chunk()?;
    bytes.split_off(..usize::from(u16::from_be_bytes(*length)))
}

/// The length of a value type that has no explicit length.
const fn fixed_length(kind: u8) -> Option<usize> {
    match kind {
        // True and false.
        0 | 1 => Some(0),
        // Integers of 8, 16 and 32 bits.
        2 => Some(1),
        3 => Some(2),
        4 => Some(4),
        // A 64-bit integer, and a timestamp.
        5 | 8 => Some(8),
        // A UUID.
        9 => Some(16),
        _ => None,
    }
}

pub(super) fn broken(problem: &str) -> FrameError {
    FrameError::Broken { problem: problem.to_owned() }
}

const fn untyped(problem: String) -> FrameError {
    FrameError::Untyped { problem }
}
