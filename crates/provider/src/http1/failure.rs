//! Failures of an HTTP exchange.
//!
//! A failure names the phase in which it happened, and thereby what the peer can know of the request: nothing before a
//! byte was written, possibly everything afterwards. That determines what is owed and whether a retry is safe.

use super::head::HeadFault;
use seawall_core::failure::{Failure, FailureKind, Retryability};
use std::io;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum SendFailure {
    /// The request is not valid HTTP; nothing was sent.
    #[error("the request cannot be sent: {0}")]
    Unsendable(&'static str),
    /// The connection could not be opened.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// The server was reached, but the TLS handshake failed: its certificate is not trusted, or there is no common
    /// version or cipher.
    #[error("no trusted session")]
    Untrusted(#[source] io::Error),
    /// The connection was not opened within its timeout.
    #[error("connecting took too long")]
    ConnectTimedOut,
    /// A pooled connection was closed before any byte of this response, and so soon that the peer must have closed it
    /// before it read the request.
    #[error("the connection was closed while it was idle")]
    StaleConnection,
    /// The request could not be written completely, and no response explains why.
    #[error("cannot write the request")]
    Write {
        /// Whether any byte of it was written.
        began: bool,
        /// The I/O error.
        source: io::Error,
    },
    /// The peer did not accept the whole request within its timeout.
    #[error("writing the request took too long")]
    WriteTimedOut {
        /// Whether any byte of it was written.
        began: bool,
    },
    /// The request was written; no complete response head arrived within its timeout.
    #[error("the response head took too long")]
    HeadTimedOut {
        /// Whether any byte of a response was received.
        response_began: bool,
    },
    /// The request was written; the connection ended before a complete response head.
    #[error("the connection ended before the response head did")]
    ClosedBeforeHead {
        /// Whether any byte of a response was received.
        response_began: bool,
        /// The I/O error, if the connection was not closed properly.
        source: Option<io::Error>,
    },
    /// The peer refused the stream without processing the request (HTTP/2 `REFUSED_STREAM`).
    #[error("the peer refused the stream")]
    RefusedStream,
    /// The response head is invalid or ambiguous.
    #[error("bad response head: {0}")]
    BadHead(HeadFault),
    /// The response head is larger than [`super::HEAD_LIMIT`].
    #[error("the response head is too large")]
    HeadTooLarge,
}

impl SendFailure {
    /// Classifies an error of connecting.
    pub(crate) fn from_connecting(error: io::Error) -> Self {
        if error.get_ref().is_some_and(|inside| inside.is::<rustls::Error>()) {
            Self::Untrusted(error)
        } else {
            Self::Connect(error)
        }
    }

    /// Whether any byte of the request was written. If not, the peer knows nothing of it.
    #[must_use]
    pub const fn request_began(&self) -> bool {
        match self {
            Self::Unsendable(_) | Self::Connect(_) | Self::Untrusted(_) | Self::ConnectTimedOut => false,
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
            Self::Unsendable(_)
            | Self::Connect(_)
            | Self::Untrusted(_)
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
            Self::Unsendable(_) => FailureKind::BadRequest,
            Self::Connect(_)
            | Self::Untrusted(_)
            | Self::StaleConnection
            | Self::Write { .. }
            | Self::ClosedBeforeHead { .. } => FailureKind::Unreachable,
            Self::RefusedStream => FailureKind::Overloaded,
            Self::ConnectTimedOut | Self::WriteTimedOut { .. } | Self::HeadTimedOut { .. } => {
                FailureKind::NotStarted
            }
            Self::BadHead(_) | Self::HeadTooLarge => FailureKind::Unrecognised,
        };
        let mut failure = Failure::of(kind);
        failure.not_executed = !self.request_began() || matches!(self, Self::RefusedStream);
        if matches!(self, Self::Untrusted(_)) {
            // An invalid certificate does not become valid within a second.
            failure.retryability = Retryability::Elsewhere;
        }
        failure
    }
}

/// Why a body is incomplete. The response had begun, so the request was executed at least in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyFailure {
    /// No further bytes arrived within the timeout.
    #[error("the response body stood still too long")]
    TimedOut,
    /// The connection ended before the body did.
    #[error("the connection ended before the response body did")]
    ClosedEarly,
    /// The chunked coding is invalid.
    #[error("the response body has a bad chunk")]
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
            Self::TimedOut | Self::ClosedEarly => FailureKind::BrokeMidStream,
            Self::BadChunk | Self::TooLarge => FailureKind::Unrecognised,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{BodyFailure, SendFailure};
    use crate::http1::HeadFault;
    use seawall_core::failure::{FailureKind, Retryability};
    use std::io;

    fn error() -> io::Error {
        io::Error::from(io::ErrorKind::ConnectionReset)
    }

    #[test]
    fn a_failure_tells_what_the_peer_can_know() {
        let closed = |response_began| SendFailure::ClosedBeforeHead { response_began, source: None };
        for (failure, request, response, kind) in [
            (SendFailure::Unsendable("why"), false, false, FailureKind::BadRequest),
            (SendFailure::Connect(error()), false, false, FailureKind::Unreachable),
            (SendFailure::ConnectTimedOut, false, false, FailureKind::NotStarted),
            (SendFailure::StaleConnection, true, false, FailureKind::Unreachable),
            (SendFailure::Write { began: false, source: error() }, false, false, FailureKind::Unreachable),
            (SendFailure::Write { began: true, source: error() }, true, false, FailureKind::Unreachable),
            (SendFailure::WriteTimedOut { began: true }, true, false, FailureKind::NotStarted),
            (SendFailure::HeadTimedOut { response_began: false }, true, false, FailureKind::NotStarted),
            (SendFailure::HeadTimedOut { response_began: true }, true, true, FailureKind::NotStarted),
            (closed(false), true, false, FailureKind::Unreachable),
            (closed(true), true, true, FailureKind::Unreachable),
            (SendFailure::BadHead(HeadFault::NotHttp), true, true, FailureKind::Unrecognised),
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
    fn a_server_that_is_not_trusted_is_not_asked_again() {
        let wrong = rustls::Error::General("wrong name".to_owned());
        let failure = SendFailure::from_connecting(io::Error::new(io::ErrorKind::InvalidData, wrong));
        assert!(matches!(failure, SendFailure::Untrusted(_)) && !failure.request_began());
        let failure = failure.failure();
        assert_eq!((failure.kind, failure.not_executed), (FailureKind::Unreachable, true));
        assert_eq!(failure.retryability, Retryability::Elsewhere);
        let failure = SendFailure::from_connecting(error());
        assert!(matches!(failure, SendFailure::Connect(_)));
        assert_eq!(failure.failure().retryability, Retryability::Here);
    }

    #[test]
    fn a_broken_body_was_carried_out() {
        for failure in
            [BodyFailure::TimedOut, BodyFailure::ClosedEarly, BodyFailure::BadChunk, BodyFailure::TooLarge]
        {
            assert!(!failure.failure().not_executed, "{failure}");
        }
        assert_eq!(BodyFailure::ClosedEarly.failure().kind, FailureKind::BrokeMidStream);
        assert_eq!(BodyFailure::TooLarge.failure().kind, FailureKind::Unrecognised);
    }
}
