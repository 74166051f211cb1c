//! Error responses of the gateway, and of the model simulator.

use crate::RetryAdvice;
use crate::dialect::{Dialect, JSON};
use bytes::{Bytes, BytesMut};
use std::borrow::Cow;

/// An error response, ready to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorResponse {
    /// The HTTP status.
    pub status: u16,
    /// All headers except the length. Names are spelled as each vendor does.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
}

/// An error as a vendor sends it, for the model simulator.
#[derive(Clone, Copy, Debug)]
pub struct VendorError<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The vendor's name of the error; by default its usual one for the status.
    pub name: Option<&'a str>,
    /// The message.
    pub message: &'a str,
    /// The request ID.
    pub request_id: &'a str,
}

/// An error response with the headers that all dialects have.
pub(crate) fn json_error(
    dialect: &dyn Dialect,
    status: u16,
    body: BytesMut,
    id: &str,
    advice: RetryAdvice,
) -> ErrorResponse {
    let mut headers = vec![("content-type", JSON.to_owned()), (dialect.request_id_header(), id.to_owned())];
    headers.extend(advice.headers(None));
    ErrorResponse { status, headers, body: body.freeze() }
}

/// The message, preceded by this phrase if it does not contain it.
pub(crate) fn with_phrase<'m>(phrase: &str, message: &'m str) -> Cow<'m, str> {
    if message.contains(phrase) { message.into() } else { format!("{phrase}: {message}").into() }
}
