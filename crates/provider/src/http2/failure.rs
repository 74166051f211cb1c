//! Maps HTTP/2 errors to failures.

use crate::http1::{BodyFailure, HeadError, SendFailure};
use std::error::Error;
use std::io;

/// Why there is no response.
pub(super) enum NoResponse {
    /// The peer has certainly not processed the request.
    NotProcessed,
    /// The connection ended, or the stream was reset.
    Closed(io::Error),
    /// A failure that needs no further classification.
    Failed(SendFailure),
}

/// Classifies an error of hyper. `was_not_sent` means that the request was never sent.
pub(super) fn classify_send_error(error: hyper::Error, was_not_sent: bool) -> NoResponse {
    if was_not_sent {
        return NoResponse::NotProcessed;
    }
    match protocol_error(&error) {
        // A GOAWAY ends only streams above the last one that the peer has processed.
        Some(cause) if cause.is_go_away() && cause.is_remote() => NoResponse::NotProcessed,
        Some(cause) if cause.is_remote() && cause.reason() == Some(h2::Reason::REFUSED_STREAM) => {
            NoResponse::Failed(SendFailure::RefusedStream)
        }
        Some(cause) if is_peer_violation(cause) => {
            NoResponse::Failed(SendFailure::BadHead(HeadError::NotHttp2))
        }
        _ => NoResponse::Closed(io::Error::other(error)),
    }
}

/// Why a body is incomplete.
pub(super) fn classify_body_error(error: &hyper::Error) -> BodyFailure {
    match protocol_error(error) {
        Some(cause) if is_peer_violation(cause) => BodyFailure::BadChunk,
        _ => BodyFailure::ClosedEarly,
    }
}

/// The local side detected a protocol violation of the peer.
fn is_peer_violation(cause: &h2::Error) -> bool {
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
