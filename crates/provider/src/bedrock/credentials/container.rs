//! The credential endpoint of a container (ECS, EKS Pod Identity), which returns the credentials of its role.
//!
//! Environment variables locate the endpoint. Without TLS it must be on this host or at one of its well-known
//! addresses: otherwise an attacker who controls DNS could obtain the authorization token.

use super::document::keys_in_json;
use super::environment::Environment;
use super::key_server::KeyServers;
use super::{absent, failed};
use aws_credential_types::provider::Result as Provided;
use aws_credential_types::provider::error::CredentialsError;
use bytes::Bytes;
use std::net::IpAddr;

const SOURCE: &str = "container";
const FIXED: &str = "http://169.254.170.2";
/// Addresses where the endpoint may be without TLS, besides loopback.
const KNOWN: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];

/// The credentials of the container that this process runs in.
pub(super) async fn keys_of_container(environment: &Environment, servers: &KeyServers) -> Provided {
    let place = Place::of(environment)?;
    let server =
        if place.is_fixed { servers.beside(&place.server)? } else { servers.remote(&place.server)? };
    let token = match environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(file) => {
            let read = std::fs::read_to_string(&file);
            Some(read.map_err(|error| failed(format!("{SOURCE}: {file}: {error}")))?.trim().to_owned())
        }
        None => environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
    };
    let headers: Vec<_> = token.map(|token| ("authorization".to_owned(), token)).into_iter().collect();
    let said = server.ask("GET", &place.path, &headers, Bytes::new()).await?;
    if said.status != 200 {
        return Err(failed(format!("{SOURCE}: refused with status {}", said.status)));
    }
    keys_in_json(&said.body, SOURCE)
}

/// The location of the endpoint.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    server: String,
    path: String,
    /// Whether it is on loopback or at an address that is blocked for targets.
    is_fixed: bool,
}

impl Place {
    fn of(environment: &Environment) -> Result<Self, CredentialsError> {
        let wrong = |problem: &str| Err(failed(format!("{SOURCE}: {problem}")));
        if let Some(path) = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
            if !path.starts_with('/') {
                return wrong("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does not begin with a slash");
            }
            return Ok(Self { server: FIXED.to_owned(), path, is_fixed: true });
        }
        let Some(uri) = environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI") else {
            return Err(absent("no container"));
        };
        let Some((scheme, rest)) = uri.split_once("://") else {
            return wrong("AWS_CONTAINER_CREDENTIALS_FULL_URI is no address");
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_fixed = is_beside(host(authority));
        match scheme {
            "https" => {}
            "http" if is_fixed => {}
            "http" => {
                return wrong("AWS_CONTAINER_CREDENTIALS_FULL_URI leads elsewhere without encryption");
            }
            _ => return wrong("AWS_CONTAINER_CREDENTIALS_FULL_URI is no address"),
        }
        let path = if path.is_empty() { "/" } else { path }.to_owned();
        Ok(Self { server: format!("{scheme}://{authority}"), path, is_fixed })
    }
}

fn host(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(inside) => inside.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

fn is_beside(host: &str) -> bool {
    let is_loopback = host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    is_loopback || host == "localhost" || KNOWN.contains(&host)
}

#[cfg(test)]
mod tests {
    use super::{Environment, Place};

    fn place(relative: &'static str, full: &'static str) -> Result<(String, String, bool), String> {
        let environment = Environment::read_by(move |name| match name {
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI" => Some(relative.to_owned()),
            "AWS_CONTAINER_CREDENTIALS_FULL_URI" => Some(full.to_owned()),
            _ => None,
        });
        let place = Place::of(&environment).map_err(|error| format!("{error:?}"))?;
        Ok((place.server, place.path, place.is_fixed))
    }

    #[test]
    fn a_container_is_found_by_its_variables() {
        let found = |server: &str, path: &str, is_fixed| Ok((server.to_owned(), path.to_owned(), is_fixed));
        assert_eq!(
            place("/v2/x?id=1", "http://elsewhere/"),
            found("http://169.254.170.2", "/v2/x?id=1", true)
        );
        for (uri, server, path, is_fixed) in [
            ("http://169.254.170.23/v1/c", "http://169.254.170.23", "/v1/c", true),
            ("http://[fd00:ec2::23]/v1/c", "http://[fd00:ec2::23]", "/v1/c", true),
            ("http://127.0.0.1:80", "http://127.0.0.1:80", "/", true),
            ("http://localhost:80/a?b", "http://localhost:80", "/a?b", true),
            ("https://keys.example.com/a", "https://keys.example.com", "/a", false),
        ] {
            assert_eq!(place("", uri), found(server, path, is_fixed));
        }
    }

    #[test]
    fn a_token_is_sent_nowhere_else() {
        for (uri, problem) in [
            ("http://keys.example.com/a", "elsewhere without encryption"),
            ("http://169.254.169.254/a", "elsewhere without encryption"),
            ("http://localhost.example.com/a", "elsewhere without encryption"),
            ("ftp://127.0.0.1/a", "is no address"),
            ("/a", "is no address"),
        ] {
            let refusal = place("", uri).unwrap_err();
            assert!(refusal.contains(problem), "{uri}: {refusal}");
        }
        assert!(place("v2", "").unwrap_err().contains("does not begin with a slash"));
        assert!(place("", "").unwrap_err().contains("no container"));
    }
}
