//! Common to the stream readers of all dialects.

use crate::answer_error::StreamError;
use crate::sse::{SseEvent, SseReader};
use crate::surrogate::replace_lone_surrogates;
use serde::Deserialize;

/// Feeds a chunk to the SSE reader and its events to the dialect's parser. After an error, every further call returns
/// the same error.
pub(crate) fn feed_events(
    sse: &mut SseReader,
    failed: &mut Option<StreamError>,
    bytes: &[u8],
    mut read: impl FnMut(SseEvent<'_>) -> Result<(), StreamError>,
) -> Result<(), StreamError> {
    if let Some(error) = failed {
        return Err(error.clone());
    }
    let mut problem = None;
    let outcome = sse.feed(bytes, |event| {
        if problem.is_none() {
            problem = read_replacing_surrogates(event, &mut read).err();
        }
    });
    let problem = problem.or_else(|| outcome.err().map(StreamError::from));
    failed.clone_from(&problem);
    problem.map_or(Ok(()), Err)
}

/// Parses an event. If parsing fails because of a lone surrogate, it is retried with U+FFFD in its place.
fn read_replacing_surrogates(
    event: SseEvent<'_>,
    read: &mut impl FnMut(SseEvent<'_>) -> Result<(), StreamError>,
) -> Result<(), StreamError> {
    let Err(error) = read(event) else { return Ok(()) };
    match replace_lone_surrogates(event.data) {
        Some(data) => read(SseEvent { data: &data, ..event }),
        None => Err(error),
    }
}

/// Parses the data of an event.
pub(crate) fn parse<'a, T: Deserialize<'a>>(event: &'static str, data: &'a [u8]) -> Result<T, StreamError> {
    serde_json::from_slice(data).map_err(|error| unreadable(event, &error.to_string()))
}

pub(crate) fn unreadable(event: &'static str, problem: &str) -> StreamError {
    StreamError::Unreadable { event, problem: problem.to_owned() }
}
