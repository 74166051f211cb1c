//! Assumes roles at the AWS Security Token Service (STS).
//!
//! With credentials by a signed request, optionally with an external ID; or with a web identity token by an unsigned
//! one. The resulting credentials are valid for an hour.

use super::document::{element, keys_in_xml};
use super::environment::Environment;
use super::failed;
use super::key_server::{KeyServers, Said};
use crate::bedrock::sign::{AUTHORIZATION, DATE, Recipient, Signature, Signer, TOKEN};
use crate::headers::FixedHeaders;
use aws_credential_types::Credentials;
use aws_credential_types::provider::Result as Provided;
use aws_credential_types::provider::error::CredentialsError;
use bytes::Bytes;

const SOURCE: &str = "role";
const VERSION: &str = "2011-06-15";
/// The session name in CloudTrail.
pub(super) const SESSION: &str = "seawall";

/// The STS endpoint of a region.
pub(super) struct TokenService<'a> {
    pub(super) servers: &'a KeyServers,
    pub(super) region: &'a str,
    pub(super) environment: &'a Environment,
}

/// A role and the parameters to assume it with.
pub(super) struct Role<'a> {
    pub(super) arn: &'a str,
    pub(super) session: &'a str,
    pub(super) external_id: Option<&'a str>,
}

impl TokenService<'_> {
    /// Assumes a role with these credentials.
    pub(super) async fn assume(&self, role: &Role<'_>, keys: Credentials) -> Provided {
        let mut form = vec![
            ("Action", "AssumeRole"),
            ("Version", VERSION),
            ("RoleArn", role.arn),
            ("RoleSessionName", role.session),
        ];
        form.extend(role.external_id.map(|id| ("ExternalId", id)));
        self.ask(&form, Some(keys)).await
    }

    /// Assumes a role with a web identity token.
    pub(super) async fn assume_with_token(&self, role: &Role<'_>, token: &str) -> Provided {
        let form = [
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", VERSION),
            ("RoleArn", role.arn),
            ("RoleSessionName", role.session),
            ("WebIdentityToken", token),
        ];
        self.ask(&form, None).await
    }

    async fn ask(&self, form: &[(&str, &str)], keys: Option<Credentials>) -> Provided {
        let url = self.environment.get("AWS_ENDPOINT_URL_STS");
        let server = self.servers.remote(&url.unwrap_or_else(|| usual_url(self.region)))?;
        let body = written(form);
        let path = server.url().path("/");
        let form_type = "application/x-www-form-urlencoded; charset=utf-8".to_owned();
        let wrong = |problem: String| failed(format!("{SOURCE}: {problem}"));
        let headers = FixedHeaders::new(vec![("content-type", form_type)], &[]);
        let headers = headers.map_err(|error| wrong(error.to_string()))?;
        let mut all = headers.pairs().to_vec();
        if let Some(keys) = keys {
            let authority = server.url().endpoint().authority();
            let recipient =
                Recipient { region: self.region, service: "sts", method: "POST", authority, path: &path };
            let signer = Signer::new(&recipient, &headers).map_err(|error| wrong(error.to_string()))?;
            let signed = signer.sign(&keys, (self.servers.around.date)(), body.as_bytes());
            let Signature { date, authorization } =
                signed.ok_or_else(|| wrong("the keys to sign with cannot stand in a header".to_owned()))?;
            all.extend([(DATE.to_owned(), date), (AUTHORIZATION.to_owned(), authorization)]);
            all.extend(keys.session_token().map(|token| (TOKEN.to_owned(), token.to_owned())));
        }
        let said = server.ask("POST", &path, &all, Bytes::from(body)).await?;
        if said.status == 200 { keys_in_xml(&said.body, SOURCE) } else { Err(refused(&said)) }
    }
}

/// The default endpoint of a region.
fn usual_url(region: &str) -> String {
    let china = if region.starts_with("cn-") { ".cn" } else { "" };
    format!("https://sts.{region}.amazonaws.com{china}")
}

/// Reports only the error code: it is sufficient, and the vendor's message contains account IDs.
fn refused(said: &Said) -> CredentialsError {
    let text = String::from_utf8_lossy(&said.body);
    let code = element(&text, "Code").unwrap_or("no reason given");
    let code: String = code.chars().filter(|character| character.is_ascii_alphanumeric()).take(60).collect();
    failed(format!("{SOURCE}: refused with status {} ({code})", said.status))
}

/// Encodes a form body.
fn written(form: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = form.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    pairs.join("&")
}

fn encoded(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Said, refused, usual_url, written};

    #[test]
    fn a_form_holds_any_text() {
        let form = [("Action", "AssumeRole"), ("ExternalId", "a b&c=d/é+~")];
        assert_eq!(written(&form), "Action=AssumeRole&ExternalId=a%20b%26c%3Dd%2F%C3%A9%2B~");
    }

    #[test]
    fn every_region_has_its_service() {
        assert_eq!(usual_url("eu-west-1"), "https://sts.eu-west-1.amazonaws.com");
        assert_eq!(usual_url("cn-north-1"), "https://sts.cn-north-1.amazonaws.com.cn");
    }

    #[test]
    fn a_refusal_is_told_by_its_name_alone() {
        let told = |body: &str| {
            let said = Said { status: 403, body: Bytes::copy_from_slice(body.as_bytes()) };
            format!("{:?}", refused(&said))
        };
        let refusal = told("<Error><Code>AccessDenied</Code><Message>user 123 may not</Message></Error>");
        assert!(refusal.contains("status 403 (AccessDenied)") && !refusal.contains("123"), "{refusal}");
        assert!(told("<html>").contains("(noreasongiven)"));
    }
}
