//! The credentials and certificates of a shared store, read from where the settings refer to.

use super::SharedError;
use crate::secret::fetch;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use seawall_config::SecretReference;

/// The CA certificates in this file.
pub(super) fn read_certificates(path: &str) -> Result<Vec<u8>, SharedError> {
    let pem = std::fs::read(path).map_err(|error| SharedError::CaFile(path.to_owned(), error))?;
    let mut certificates = CertificateDer::pem_slice_iter(&pem);
    let is_some = certificates.next().is_some_and(|certificate| certificate.is_ok());
    if is_some { Ok(pem) } else { Err(SharedError::NoCertificate(path.to_owned())) }
}

/// The URL, with the password from its own setting inserted.
pub(super) fn with_password(url: &str, password: Option<&SecretReference>) -> Result<String, SharedError> {
    let Some(reference) = password else { return Ok(url.to_owned()) };
    let secret = fetch(reference)?;
    let encoded: String = secret.expose().bytes().map(percent_encode).collect();
    let Some((scheme, rest)) = url.split_once("://") else { return Ok(url.to_owned()) };
    // A user name in the URL stays.
    let (user, host) = rest.split_once('@').unwrap_or(("", rest));
    let user = user.split(':').next().unwrap_or_default();
    Ok(format!("{scheme}://{user}:{encoded}@{host}"))
}

fn percent_encode(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
}
