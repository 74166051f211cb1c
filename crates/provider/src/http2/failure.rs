//! What a failure of the protocol means.

use crate::http1::{BodyFailure, HeadFault, SendFailure};
use std::error::Error;
use std::io;

/// Why there is no response.
pub(super) enum NoAnswer {
    /// The peer has certainly not acted on the request.
    Untouched,
    /// The connection ended, or the stream was reset.
    Ended(io::Error),
    /// As a failure that needs no further question.
    Plain(SendFailure),
}

/// Reads an error of the library. `was_given_back` tells that the request never left.
pub(super) fn read_no_answer(error: hyper::Error, was_given_back: bool) -> NoAnswer {
    if was_given_back {
        return NoAnswer::Untouched;
    }
    match protocol_error(&error) {
        // Only streams above the last one that the peer has looked at end by its leaving.
        Some(cause) if cause.is_go_away() && cause.is_remote() => NoAnswer::Untouched,
        Some(cause) if cause.is_remote() && cause.reason() == Some(h2::Reason::REFUSED_STREAM) => {
            NoAnswer::Plain(SendFailure::RefusedStream)
        }
        Some(cause) if is_ours(cause) => NoAnswer::Plain(SendFailure::BadHead(HeadFault::NotHttp2)),
        _ => NoAnswer::Ended(io::Error::other(error)),
    }
}

/// Why a body did not end well.
pub(super) fn read_body_failure(error: &hyper::Error) -> BodyFailure {
    match protocol_error(error) {
        Some(cause) if is_ours(cause) => BodyFailure::BadChunk,
        _ => BodyFailure::ClosedEarly,
    }
}

/// We found the peer breaking the rules.
fn is_ours(cause: &h2::Error) -> bool {
    cause.is_library() && !cause.is_io()
}

fn protocol_error(error: &hyper::Error) -> Option<&h2::Error> {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(found) = cause.downcast_ref() {
            return Some(found);
        }
        source = cause.source();
    }
    None
}
