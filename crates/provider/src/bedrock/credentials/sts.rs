//! Assumes roles at the AWS Security Token Service (STS).
//!
//! With credentials by a signed request, optionally with an external ID; or with a web identity token by an unsigned
//! one. The resulting credentials are valid for an hour.

use super::document::{element, parse_xml};
use super::endpoint::{CredentialEndpoints, CredentialResponse};
use super::environment::Environment;
use super::provider_error;
use crate::bedrock::sign::{AUTHORIZATION, DATE, SECURITY_TOKEN, Signature, Signer, SigningEndpoint};
use crate::headers::FixedHeaders;
use aws_credential_types::Credentials;
use aws_credential_types::provider::Result as Provided;
use aws_credential_types::provider::error::CredentialsError;
use bytes::Bytes;
use percent_encoding::utf8_percent_encode;
use seawall_wire::bedrock::RESERVED;

const SOURCE: &str = "role";
const VERSION: &str = "2011-06-15";
/// The session name in CloudTrail.
pub(super) const SESSION_NAME: &str = "seawall";

/// The STS endpoint of a region.
pub(super) struct StsClient<'a> {
    pub(super) servers: &'a CredentialEndpoints,
    pub(super) region: &'a str,
    pub(super) environment: &'a Environment,
}

/// A role and the parameters to assume it with.
pub(super) struct AssumeRoleInput<'a> {
    pub(super) arn: &'a str,
    pub(super) session: &'a str,
    pub(super) external_id: Option<&'a str>,
}

impl StsClient<'_> {
    /// Assumes a role with these credentials.
    pub(super) async fn assume(&self, role: &AssumeRoleInput<'_>, credentials: Credentials) -> Provided {
        let mut form = vec![
            ("Action", "AssumeRole"),
            ("Version", VERSION),
            ("RoleArn", role.arn),
            ("RoleSessionName", role.session),
        ];
        form.extend(role.external_id.map(|id| ("ExternalId", id)));
        self.send(&form, Some(credentials)).await
    }

    /// Assumes a role with a web identity token.
    pub(super) async fn assume_with_token(&self, role: &AssumeRoleInput<'_>, token: &str) -> Provided {
        let form = [
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", VERSION),
            ("RoleArn", role.arn),
            ("RoleSessionName", role.session),
            ("WebIdentityToken", token),
        ];
        self.send(&form, None).await
    }

    async fn send(&self, form: &[(&str, &str)], credentials: Option<Credentials>) -> Provided {
        let url = self.environment.get("AWS_ENDPOINT_URL_STS");
        let server = self.servers.remote(&url.unwrap_or_else(|| default_url(self.region)))?;
        let body = encode_form(form);
        let path = server.url().path("/");
        let form_type = "application/x-www-form-urlencoded; charset=utf-8".to_owned();
        let wrong = |problem: String| provider_error(format!("{SOURCE}: {problem}"));
        let headers = FixedHeaders::new(vec![("content-type", form_type)], &[]);
        let headers = headers.map_err(|error| wrong(error.to_string()))?;
        let mut all = headers.pairs().to_vec();
        if let Some(credentials) = credentials {
            let authority = server.url().endpoint().authority();
            let recipient = SigningEndpoint {
                region: self.region,
                service: "sts",
                method: "POST",
                authority,
                path: &path,
            };
            let signer = Signer::new(&recipient, &headers).map_err(|error| wrong(error.to_string()))?;
            let signed = signer.sign(&credentials, (self.servers.runtime.wall_clock)(), body.as_bytes());
            let Signature { date, authorization } = signed.ok_or_else(|| {
                wrong("the credentials contain characters that are invalid in a header".to_owned())
            })?;
            all.extend([(DATE.to_owned(), date), (AUTHORIZATION.to_owned(), authorization)]);
            all.extend(
                credentials.session_token().map(|token| (SECURITY_TOKEN.to_owned(), token.to_owned())),
            );
        }
        let response = server.send("POST", &path, &all, Bytes::from(body)).await?;
        if response.status == 200 {
            parse_xml(&response.body, SOURCE)
        } else {
            Err(error_response(&response))
        }
    }
}

/// The default endpoint of a region.
fn default_url(region: &str) -> String {
    let china = if region.starts_with("cn-") { ".cn" } else { "" };
    format!("https://sts.{region}.amazonaws.com{china}")
}

/// Reports only the error code: it is sufficient, and the vendor's message contains account IDs.
fn error_response(response: &CredentialResponse) -> CredentialsError {
    let text = String::from_utf8_lossy(&response.body);
    let code = element(&text, "Code").unwrap_or("unknown");
    let code: String = code.chars().filter(|character| character.is_ascii_alphanumeric()).take(60).collect();
    provider_error(format!("{SOURCE}: the endpoint returned status {} ({code})", response.status))
}

/// Encodes a form body.
fn encode_form(form: &[(&str, &str)]) -> String {
    let pairs: Vec<String> =
        form.iter().map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, RESERVED))).collect();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use super::{Bytes, CredentialResponse, default_url, encode_form, error_response};

    #[test]
    fn a_form_holds_any_text() {
        let form = [("Action", "AssumeRole"), ("ExternalId", "a b&c=d/é+~")];
        assert_eq!(encode_form(&form), "Action=AssumeRole&ExternalId=a%20b%26c%3Dd%2F%C3%A9%2B~");
    }

    #[test]
    fn every_region_has_its_service() {
        assert_eq!(default_url("eu-west-1"), "https://sts.eu-west-1.amazonaws.com");
        assert_eq!(default_url("cn-north-1"), "https://sts.cn-north-1.amazonaws.com.cn");
    }

    #[test]
    fn an_sts_error_is_reported_by_its_code_alone() {
        let error_text = |body: &str| {
            let response = CredentialResponse { status: 403, body: Bytes::copy_from_slice(body.as_bytes()) };
            format!("{:?}", error_response(&response))
        };
        let refusal =
            error_text("<Error><Code>AccessDenied</Code><Message>user 123 may not</Message></Error>");
        assert!(refusal.contains("status 403 (AccessDenied)") && !refusal.contains("123"), "{refusal}");
        assert!(error_text("<html>").contains("(unknown)"));
    }
}
