//! Responses and errors of the admin API.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

/// The body of a successful response.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AdminResponse {
    Json(Value),
    /// Text of this content type.
    Text(&'static str, String),
}

/// Why an admin request failed. Each variant maps to one HTTP status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdminError {
    /// The credential is missing or wrong.
    Unauthenticated,
    /// The request is refused regardless of its credential; the text says why.
    Forbidden(&'static str),
    NotFound,
    /// The path supports other methods.
    MethodNotAllowed(String),
    /// A query parameter or a field of the body is invalid.
    InvalidParameter(String),
    /// The named object does not exist.
    UnknownKey(String),
    /// No record of this request exists.
    UnknownRequest(String),
    /// The name is already in use.
    Conflict(String),
    /// Too many requests of this kind are in progress.
    Busy(&'static str),
    /// The operation failed.
    Failed(String),
}

impl AdminError {
    const fn status(&self) -> StatusCode {
        match self {
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::InvalidParameter(_) => StatusCode::BAD_REQUEST,
            Self::UnknownKey(_) | Self::UnknownRequest(_) => StatusCode::NOT_FOUND,
            Self::Conflict(_) => StatusCode::CONFLICT,
            Self::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden(_) => "forbidden",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed(_) => "method_not_allowed",
            Self::InvalidParameter(_) => "invalid_parameter",
            Self::UnknownKey(_) => "unknown_key",
            Self::UnknownRequest(_) => "unknown_request",
            Self::Conflict(_) => "conflict",
            Self::Busy(_) => "busy",
            Self::Failed(_) => "failed",
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Unauthenticated => {
                "send the admin credential (admin.credential) as `authorization: Bearer`".to_owned()
            }
            Self::Forbidden(message) | Self::Busy(message) => (*message).to_owned(),
            Self::NotFound => "unknown path".to_owned(),
            Self::MethodNotAllowed(allowed) => format!("method not allowed: use {allowed}"),
            Self::InvalidParameter(message)
            | Self::UnknownKey(message)
            | Self::UnknownRequest(message)
            | Self::Conflict(message)
            | Self::Failed(message) => message.clone(),
        }
    }
}

/// Builds the HTTP response.
pub(super) fn respond(result: &Result<AdminResponse, AdminError>, is_pretty: bool) -> Response<Full<Bytes>> {
    let mut response = match result {
        Ok(AdminResponse::Json(value)) => text_response("application/json", json_text(value, is_pretty)),
        Ok(AdminResponse::Text(content_type, text)) => text_response(content_type, text.clone()),
        Err(error) => {
            let body = json!({ "error": { "kind": error.kind(), "message": error.message() } });
            text_response("application/json", json_text(&body, is_pretty))
        }
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    match result {
        Err(AdminError::Unauthenticated) => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        Err(AdminError::MethodNotAllowed(allowed)) => {
            if let Ok(allowed) = HeaderValue::from_str(allowed) {
                headers.insert(ALLOW, allowed);
            }
        }
        _ => {}
    }
    if let Err(error) = result {
        *response.status_mut() = error.status();
    }
    response
}

fn json_text(value: &Value, is_pretty: bool) -> String {
    let mut text = if is_pretty { format!("{value:#}") } else { value.to_string() };
    text.push('\n');
    text
}

fn text_response(content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
