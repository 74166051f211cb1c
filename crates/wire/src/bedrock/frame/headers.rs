//! The headers of a frame, read where they lie.
//!
//! All of them are checked to be headers, and those that say what the frame is are kept. Where a name is there twice, the
//! first is taken; a value that is no text says nothing.

use super::{
    CONTENT_TYPE, ERROR_CODE, ERROR_MESSAGE, EVENT_TYPE, EXCEPTION_TYPE, FrameError, FrameKind, MESSAGE_TYPE,
};

/// The types that a value has by their numbers in the format; those with a length of their own are apart.
const BYTES: u8 = 6;
const TEXT: u8 = 7;

/// The headers that have a meaning here.
#[derive(Debug, Default)]
pub(super) struct Named<'a> {
    message_type: Value<'a>,
    event_type: Value<'a>,
    exception_type: Value<'a>,
    error_code: Value<'a>,
    error_message: Value<'a>,
    pub(super) content_type: Value<'a>,
}

/// What a header says, if it was there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Value<'a> {
    #[default]
    Absent,
    Text(&'a str),
    Other,
}

impl<'a> Value<'a> {
    /// The text; nothing where there is none.
    pub(super) const fn text(self) -> &'a str {
        match self {
            Self::Text(text) => text,
            Self::Absent | Self::Other => "",
        }
    }

    fn need(self, name: &str) -> Result<&'a str, FrameError> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Absent | Self::Other => Err(untyped(format!("it has no {name}"))),
        }
    }
}

impl<'a> Named<'a> {
    pub(super) fn read(mut bytes: &'a [u8]) -> Result<Self, FrameError> {
        let mut named = Self::default();
        while !bytes.is_empty() {
            let (name, value) = take_header(&mut bytes).ok_or_else(|| broken("a header cannot be read"))?;
            let place = match name {
                MESSAGE_TYPE => &mut named.message_type,
                EVENT_TYPE => &mut named.event_type,
                CONTENT_TYPE => &mut named.content_type,
                EXCEPTION_TYPE => &mut named.exception_type,
                ERROR_CODE => &mut named.error_code,
                ERROR_MESSAGE => &mut named.error_message,
                _ => continue,
            };
            if matches!(place, Value::Absent) {
                *place = value;
            }
        }
        Ok(named)
    }

    pub(super) fn kind(&self) -> Result<FrameKind<'a>, FrameError> {
        Ok(match self.message_type.need(MESSAGE_TYPE)? {
            "event" => FrameKind::Event(self.event_type.need(EVENT_TYPE)?),
            "exception" => FrameKind::Exception(self.exception_type.need(EXCEPTION_TYPE)?),
            "error" => FrameKind::Error {
                code: self.error_code.need(ERROR_CODE)?,
                message: self.error_message.text(),
            },
            other => return Err(untyped(format!("{other:?} is no type of a frame"))),
        })
    }
}

/// The header that begins here; nothing where there is none.
fn take_header<'a>(bytes: &mut &'a [u8]) -> Option<(&'a str, Value<'a>)> {
    let length = *bytes.split_off_first()?;
    let name = std::str::from_utf8(bytes.split_off(..usize::from(length))?).ok()?;
    let value = match *bytes.split_off_first()? {
        TEXT => Value::Text(std::str::from_utf8(take_counted(bytes)?).ok()?),
        BYTES => take_counted(bytes).map(|_| Value::Other)?,
        kind => bytes.split_off(..fixed_length(kind)?).map(|_| Value::Other)?,
    };
    Some((name, value))
}

fn take_counted<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = bytes.split_off(..2)?.first_chunk()?;
    bytes.split_off(..usize::from(u16::from_be_bytes(*length)))
}

/// How long the value of a type is that has no length of its own.
const fn fixed_length(kind: u8) -> Option<usize> {
    match kind {
        // Yes and no.
        0 | 1 => Some(0),
        // Numbers.
        2 => Some(1),
        3 => Some(2),
        4 => Some(4),
        // A number, and a moment.
        5 | 8 => Some(8),
        // A name that nobody else has.
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
