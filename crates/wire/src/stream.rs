//! What readers of streams have in common.

use crate::answer_error::StreamError;
use crate::sse::{SseEvent, SseReader};
use serde::Deserialize;

/// Feeds a stream to a reader of its events. After an error every further call fails in the same way.
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
            problem = read(event).err();
        }
    });
    let problem = problem.or_else(|| outcome.err().map(StreamError::from));
    failed.clone_from(&problem);
    problem.map_or(Ok(()), Err)
}

/// The data of an event that matters.
pub(crate) fn parse<'a, T: Deserialize<'a>>(event: &'static str, data: &'a [u8]) -> Result<T, StreamError> {
    serde_json::from_slice(data).map_err(|error| unreadable(event, &error.to_string()))
}

pub(crate) fn unreadable(event: &'static str, problem: &str) -> StreamError {
    StreamError::Unreadable { event, problem: problem.to_owned() }
}
