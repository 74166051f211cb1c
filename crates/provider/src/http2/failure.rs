//! Maps HTTP/2 errors to failures.

use crate::http1::{BodyFailure, HeadFault, SendFailure};
use std::error::Error;
use std::io;

/// Why there is no response.
pub(super) enum NoAnswer {
    /// The peer has certainly not processed the request.
    Untouched,
    /// The connection ended, or the stream was reset.
    Ended(io::Error),
    /// A failure that needs no further classification.
    Plain(SendFailure),
}

/// Classifies an error of hyper. `was_given_back` means that the request was never sent.
pub(super) fn read_no_answer(error: hyper::Error, was_given_back: bool) -> NoAnswer {
    if was_given_back {
        return NoAnswer::Untouched;
    }
    match protocol_error(&error) {
        // A GOAWAY ends only streams above the last one that the peer has processed.
        Some(cause) if cause.is_go_away() && cause.is_remote() => NoAnswer::Untouched,
        Some(cause) if cause.is_remote() && cause.reason() == Some(h2::Reason::REFUSED_STREAM) => {
            NoAnswer::Plain(SendFailure::RefusedStream)
        }
        Some(cause) if is_ours(cause) => NoAnswer::Plain(SendFailure::BadHead(HeadFault::NotHttp2)),
        _ => NoAnswer::Ended(io::Error::other(error)),
    }
}

/// Why a body is incomplete.
pub(super) fn read_body_failure(error: &hyper::Error) -> BodyFailure {
    match protocol_error(error) {
        Some(cause) if is_ours(cause) => BodyFailure::BadChunk,
        _ => BodyFailure::ClosedEarly,
    }
}

/// The local side detected a protocol violation of the peer.
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
