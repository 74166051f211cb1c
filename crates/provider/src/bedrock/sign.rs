//! Signing a request, by the vendor's own code.
//!
//! What is signed is what is sent: the address with its path encoded, every header of ours, and the body's hash.
//! Signatures hold for some minutes around their date, so a clock that is wrong makes every request fail as
//! unauthorised.

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use seawall_core::time::UtcTime;
use std::error::Error;
use std::time::{Duration, SystemTime};

/// For whom, and when.
pub(super) struct Seal<'a> {
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    pub(super) date: UtcTime,
}

impl Seal<'_> {
    /// The headers with the signature behind them.
    pub(super) fn sign(
        &self,
        credentials: Credentials,
        (method, address): (&str, &str),
        headers: &[(String, String)],
        body: &[u8],
    ) -> Result<Vec<(String, String)>, Box<dyn Error + Send + Sync>> {
        let identity = credentials.into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(self.region)
            .name(self.service)
            .time(SystemTime::UNIX_EPOCH + Duration::from_nanos(self.date.as_nanos()))
            .settings(SigningSettings::default())
            .build()?
            .into();
        let ours = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let signable = SignableRequest::new(method, address, ours, SignableBody::Bytes(body))?;
        let (instructions, _) = sign(signable, &params)?.into_parts();
        let added = instructions.headers().map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(headers.iter().cloned().chain(added).collect())
    }
}
