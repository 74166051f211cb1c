//! Failures of an HTTP exchange.
//!
//! A failure names the phase in which it happened, and thereby what the peer can know of the request: nothing before a
//! byte was written, possibly everything afterwards. That determines what is owed and whether a retry is safe.

use super::head::HeadError;
use seawall_core::failure::{Failure, FailureKind, Retryability};
use std::io;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum SendFailure {
    /// The request is not valid HTTP; nothing was sent.
    #[error("invalid request: {0}")]
    InvalidRequest(&'static str),
    /// The connection could not be opened.
    #[error("connect failed")]
    Connect(#[source] io::Error),
    /// The server was reached, but the TLS handshake failed: its certificate is not trusted, or there is no common
    /// version or cipher.
    #[error("TLS handshake failed")]
    TlsHandshake(#[source] io::Error),
    /// The connection was not opened within its timeout.
    #[error("connect timed out")]
    ConnectTimedOut,
    /// A pooled connection was closed before any byte of this response, and so soon that the peer must have closed it
    /// before it read the request.
    #[error("the pooled connection was closed by the peer")]
    StaleConnection,
    /// The request could not be written completely, and no response explains why.
    #[error("writing the request failed")]
    Write {
        /// Whether any byte of it was written.
        began: bool,
        /// The I/O error.
        source: io::Error,
    },
    /// The peer did not accept the whole request within its timeout.
    #[error("writing the request timed out")]
    WriteTimedOut {
        /// Whether any byte of it was written.
        began: bool,
    },
    /// The request was written; no complete response head arrived within its timeout.
    #[error("waiting for the response head timed out")]
    HeadTimedOut {
        /// Whether any byte of a response was received.
        response_began: bool,
    },
    /// The request was written; the connection ended before a complete response head.
    #[error("the connection closed before the response head was complete")]
    ClosedBeforeHead {
        /// Whether any byte of a response was received.
        response_began: bool,
        /// The I/O error, if the connection was not closed properly.
        source: Option<io::Error>,
    },
    /// The peer refused the stream without processing the request (HTTP/2 `REFUSED_STREAM`).
    #[error("the peer refused the stream (REFUSED_STREAM)")]
    RefusedStream,
    /// The response head is invalid or ambiguous.
    #[error("invalid response head: {0}")]
    BadHead(HeadError),
    /// The response head is larger than [`super::HEAD_LIMIT`].
    #[error("the response head is too large")]
    HeadTooLarge,
}

impl SendFailure {
    /// Classifies an error of connecting.
    pub(crate) fn from_connect_error(error: io::Error) -> Self {
        if error.get_ref().is_some_and(|inside| inside.is::<rustls::Error>()) {
            Self::TlsHandshake(error)
        } else {
            Self::Connect(error)
        }
    }

    /// Whether any byte of the request was written. If not, the peer knows nothing of it.
    #[must_use]
    pub const fn request_began(&self) -> bool {
        match self {
            Self::InvalidRequest(_) | Self::Connect(_) | Self::TlsHandshake(_) | Self::ConnectTimedOut => {
                false
            }
            Self::Write { began, .. } | Self::WriteTimedOut { began } => *began,
            Self::StaleConnection
            | Self::RefusedStream
            | Self::HeadTimedOut { .. }
            | Self::ClosedBeforeHead { .. }
            | Self::BadHead(_)
            | Self::HeadTooLarge => true,
        }
    }

    /// Whether any byte of a response was received. If so, the peer has read the request and may have executed it.
    #[must_use]
    pub const fn response_began(&self) -> bool {
        match self {
            Self::HeadTimedOut { response_began } | Self::ClosedBeforeHead { response_began, .. } => {
                *response_began
            }
            Self::BadHead(_) | Self::HeadTooLarge => true,
            Self::InvalidRequest(_)
            | Self::Connect(_)
            | Self::TlsHandshake(_)
            | Self::ConnectTimedOut
            | Self::StaleConnection
            | Self::RefusedStream
            | Self::Write { .. }
            | Self::WriteTimedOut { .. } => false,
        }
    }

    /// The failure that retries and breakers act on.
    #[must_use]
    pub const fn failure(&self) -> Failure {
        let kind = match self {
            Self::InvalidRequest(_) => FailureKind::BadRequest,
            Self::Connect(_)
            | Self::TlsHandshake(_)
            | Self::StaleConnection
            | Self::Write { .. }
            | Self::ClosedBeforeHead { .. } => FailureKind::Unreachable,
            Self::RefusedStream => FailureKind::Overloaded,
            Self::ConnectTimedOut | Self::WriteTimedOut { .. } | Self::HeadTimedOut { .. } => {
                FailureKind::StartTimeout
            }
            Self::BadHead(_) | Self::HeadTooLarge => FailureKind::Unrecognised,
        };
        let mut failure = Failure::of(kind);
        failure.not_executed = !self.request_began() || matches!(self, Self::RefusedStream);
        if matches!(self, Self::TlsHandshake(_)) {
            // An invalid certificate does not become valid within a second.
            failure.retryability = Retryability::OtherTarget;
        }
        failure
    }
}

/// Why a body is incomplete. The response had begun, so the request was executed at least in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyFailure {
    /// No further bytes arrived within the timeout.
    #[error("waiting for the response body timed out")]
    TimedOut,
    /// The connection ended before the body did.
    #[error("the connection closed before the response body was complete")]
    ClosedEarly,
    /// The chunked coding is invalid.
    #[error("the response body has invalid chunked encoding")]
    BadChunk,
    /// The body is larger than its limit.
    #[error("the response body is too large")]
    TooLarge,
}

impl BodyFailure {
    /// The failure that retries and breakers act on.
    #[must_use]
    pub const fn failure(self) -> Failure {
        Failure::of(match self {
            Self::TimedOut | Self::ClosedEarly => FailureKind::StreamInterrupted,
            Self::BadChunk | Self::TooLarge => FailureKind::Unrecognised,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{BodyFailure, SendFailure};
    use crate::http1::HeadError;
    use seawall_core::failure::{FailureKind, Retryability};
    use std::io;

    fn error() -> io::Error {
        io::Error::from(io::ErrorKind::ConnectionReset)
    }

    #[test]
    fn a_failure_shows_what_the_peer_can_know() {
        let closed = |response_began| SendFailure::ClosedBeforeHead { response_began, source: None };
        for (failure, request, response, kind) in [
            (SendFailure::InvalidRequest("why"), false, false, FailureKind::BadRequest),
            (SendFailure::Connect(error()), false, false, FailureKind::Unreachable),
            (SendFailure::ConnectTimedOut, false, false, FailureKind::StartTimeout),
            (SendFailure::StaleConnection, true, false, FailureKind::Unreachable),
            (SendFailure::Write { began: false, source: error() }, false, false, FailureKind::Unreachable),
            (SendFailure::Write { began: true, source: error() }, true, false, FailureKind::Unreachable),
            (SendFailure::WriteTimedOut { began: true }, true, false, FailureKind::StartTimeout),
            (SendFailure::HeadTimedOut { response_began: false }, true, false, FailureKind::StartTimeout),
            (SendFailure::HeadTimedOut { response_began: true }, true, true, FailureKind::StartTimeout),
            (closed(false), true, false, FailureKind::Unreachable),
            (closed(true), true, true, FailureKind::Unreachable),
            (SendFailure::BadHead(HeadError::NotHttp), true, true, FailureKind::Unrecognised),
            (SendFailure::HeadTooLarge, true, true, FailureKind::Unrecognised),
        ] {
            assert_eq!((failure.request_began(), failure.response_began()), (request, response), "{failure}");
            assert_eq!(
                (failure.failure().kind, failure.failure().not_executed),
                (kind, !request),
                "{failure}"
            );
        }
    }

    #[test]
    fn a_stream_that_the_peer_refused_was_not_carried_out() {
        let failure = SendFailure::RefusedStream;
        assert!(failure.request_began() && !failure.response_began());
        let failure = failure.failure();
        assert_eq!((failure.kind, failure.not_executed), (FailureKind::Overloaded, true));
    }

    #[test]
    fn a_failed_tls_handshake_is_not_retried_at_the_same_server() {
        let wrong = rustls::Error::General("wrong name".to_owned());
        let failure = SendFailure::from_connect_error(io::Error::new(io::ErrorKind::InvalidData, wrong));
        assert!(matches!(failure, SendFailure::TlsHandshake(_)) && !failure.request_began());
        let failure = failure.failure();
        assert_eq!((failure.kind, failure.not_executed), (FailureKind::Unreachable, true));
        assert_eq!(failure.retryability, Retryability::OtherTarget);
        let failure = SendFailure::from_connect_error(error());
        assert!(matches!(failure, SendFailure::Connect(_)));
        assert_eq!(failure.failure().retryability, Retryability::SameTarget);
    }

    #[test]
    fn a_broken_body_was_carried_out() {
        for failure in
            [BodyFailure::TimedOut, BodyFailure::ClosedEarly, BodyFailure::BadChunk, BodyFailure::TooLarge]
        {
            assert!(!failure.failure().not_executed, "{failure}");
        }
        assert_eq!(BodyFailure::ClosedEarly.failure().kind, FailureKind::StreamInterrupted);
        assert_eq!(BodyFailure::TooLarge.failure().kind, FailureKind::Unrecognised);
    }
}
