//! The validated headers of every request of a target.

use crate::http1::{HttpRequest, SendFailure};
use crate::redact::redact_secrets;
use crate::target::CallError;
use bytes::Bytes;
use seawall_core::setting::SettingError;
use std::fmt;

/// A secret that is never written to messages, logs or debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretString(String);

impl SecretString {
    /// Wraps a secret.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself. The caller must not disclose it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretString")
    }
}

/// Names and values in the order in which they are sent.
pub(crate) struct FixedHeaders(Box<[(String, String)]>);

impl FixedHeaders {
    /// Combines the target's own headers with those from the settings. The error names one that would override the
    /// former.
    pub(crate) fn new(own: Vec<(&str, String)>, extra: &[(String, String)]) -> Result<Self, SettingError> {
        let wrong = |name: &str, problem: &str| SettingError::new("headers", format!("{name}: {problem}"));
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        let mut all: Vec<(String, String)> = own.collect();
        for (name, value) in extra {
            if all.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                return Err(wrong(name, "is already set"));
            }
            if name.eq_ignore_ascii_case("accept-encoding") {
                return Err(wrong(name, "compressed responses are not supported"));
            }
            all.push((name.clone(), value.clone()));
        }
        let request = |headers| HttpRequest {
            method: "POST",
            path: "/",
            headers,
            body: Bytes::new(),
            resend_on_stale: false,
        };
        for header in &all {
            if let Err(SendFailure::InvalidRequest(problem)) = request(std::slice::from_ref(header)).check() {
                // The value is not part of the message, because it may be a secret.
                return Err(wrong(&header.0, problem));
            }
        }
        Ok(Self(all.into()))
    }

    /// Removes the values of these headers from an error message: one of them is a credential.
    pub(crate) fn redact(&self, error: CallError) -> CallError {
        if error.message.is_none() && error.detail.is_none() {
            return error;
        }
        const OPEN: [&str; 4] = ["content-type", "accept", "anthropic-version", "anthropic-beta"];
        let secrets = self.0.iter().filter(|(name, _)| !OPEN.contains(&name.as_str()));
        let secrets = secrets.map(|(_, value)| value.strip_prefix("Bearer ").unwrap_or(value));
        let redact = |text: Option<Box<str>>| text.map(|text| redact_secrets(&text, secrets.clone()).into());
        CallError { message: redact(error.message), detail: redact(error.detail), ..error }
    }

    pub(crate) const fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::{FixedHeaders, SecretString};
    use crate::target::CallError;
    use seawall_core::failure::{Failure, FailureKind};

    fn extra(name: &str, value: &str) -> Result<Vec<(String, String)>, String> {
        let extra = [(name.to_owned(), value.to_owned())];
        let headers = FixedHeaders::new(vec![("x-api-key", "k".to_owned())], &extra);
        headers.map(|headers| headers.pairs().to_vec()).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_add_headers_behind_ours() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(extra("x-title", "Seawall"), Ok(vec![pair("x-api-key", "k"), pair("x-title", "Seawall")]));
    }

    #[test]
    fn a_header_that_would_change_what_ours_say_is_refused() {
        assert_eq!(extra("X-Api-Key", "other"), Err("headers: X-Api-Key: is already set".to_owned()));
        let refusal = "headers: Accept-Encoding: compressed responses are not supported";
        assert_eq!(extra("Accept-Encoding", "gzip"), Err(refusal.to_owned()));
        let refusal = "headers: host: the header is set by the HTTP client itself";
        assert_eq!(extra("host", "elsewhere"), Err(refusal.to_owned()));
        let refusal = extra("x-key", "hush\r\nx: y").unwrap_err();
        assert_eq!(refusal, "headers: x-key: the header value contains a control character");
    }

    #[test]
    fn a_key_is_not_quoted_whatever_it_looks_like() {
        let own =
            |value: &str| vec![("content-type", "text/any".to_owned()), ("authorization", value.to_owned())];
        let extra = [("x-proxy-key".to_owned(), "open sesame".to_owned())];
        let headers = FixedHeaders::new(own("Bearer plainword"), &extra).unwrap();
        let message = "text/any: plainword and open sesame are wrong";
        let error =
            CallError { message: Some(message.into()), ..Failure::of(FailureKind::BadRequest).into() };
        let error = CallError { detail: error.message.clone(), ..error };
        let CallError { message, detail, .. } = headers.redact(error);
        for shown in [message, detail] {
            assert_eq!(shown.as_deref(), Some("text/any: [redacted] and [redacted] are wrong"));
        }
    }

    #[test]
    fn a_key_is_not_shown() {
        assert_eq!(format!("{:?}", SecretString::new("hush")), "SecretString");
    }
}
