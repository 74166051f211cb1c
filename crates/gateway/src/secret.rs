//! Reads secrets from the environment variables and files that the settings name. Their values are never displayed.

use seawall_config::SecretReference;
use seawall_provider::SecretString;
use std::io::Read as _;

/// Longer than any key or certificate. Needed because a device file has no end.
const MAX_SECRET_BYTES: usize = 1 << 16;

fn read(path: &str) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_SECRET_BYTES as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// A secret cannot be read from where the settings say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reference}: {problem}")]
pub struct SecretError {
    reference: String,
    problem: &'static str,
}

pub(crate) fn fetch(reference: &SecretReference) -> Result<SecretString, SecretError> {
    fetch_text(reference).map(SecretString::new)
}

/// Reads a secret as plain text, to compute with it or to send it. A trailing newline belongs to the file and is
/// removed.
pub fn fetch_text(reference: &SecretReference) -> Result<String, SecretError> {
    let secret_error = |problem| SecretError { reference: reference.to_string(), problem };
    let text = fetch_lines(reference)?;
    let text = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
    if text.is_empty() {
        return Err(secret_error("is empty"));
    }
    if text.chars().any(char::is_control) {
        return Err(secret_error("contains control characters"));
    }
    Ok(text.to_owned())
}

/// Reads a secret of several lines, unchanged.
pub(crate) fn fetch_lines(reference: &SecretReference) -> Result<String, SecretError> {
    let secret_error = |problem| SecretError { reference: reference.to_string(), problem };
    let text = match reference {
        SecretReference::Variable(name) => std::env::var(name).map_err(|error| match error {
            std::env::VarError::NotPresent => secret_error("the environment variable is not set"),
            std::env::VarError::NotUnicode(_) => secret_error("the environment variable is not valid UTF-8"),
        })?,
        SecretReference::File(path) => read(path).map_err(|error| {
            use std::io::ErrorKind::{InvalidData, NotFound, PermissionDenied};
            secret_error(match error.kind() {
                NotFound => "file not found",
                PermissionDenied => "permission denied",
                InvalidData => "the file is not valid UTF-8",
                _ => "the file cannot be read",
            })
        })?,
    };
    if text.len() > MAX_SECRET_BYTES {
        return Err(secret_error("longer than 64 KiB"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::{SecretReference, SecretString, fetch};
    use seawall_testkit::TestDirectory;

    fn of_file(name: &str, bytes: &[u8]) -> Result<SecretString, String> {
        let directory = TestDirectory::new().unwrap();
        let path = directory.write(name, bytes).unwrap();
        let fetched = fetch(&SecretReference::File(path.to_string_lossy().into_owned()));
        fetched.map_err(|error| error.problem.to_owned())
    }

    #[test]
    fn a_secret_is_what_is_in_the_file_without_its_line_end() {
        for bytes in [&b"s3cret"[..], b"s3cret\n", b"s3cret\r\n"] {
            let secret = of_file("plain", bytes).unwrap();
            assert_eq!(secret, SecretString::new("s3cret"));
            assert_eq!(format!("{secret:?}"), "SecretString");
        }
    }

    #[test]
    fn what_is_no_secret_is_refused_and_not_repeated() {
        assert_eq!(of_file("empty", b"\n"), Err("is empty".to_owned()));
        assert_eq!(of_file("lines", b"one\ntwo\n"), Err("contains control characters".to_owned()));
        assert!(of_file("long", &[b'a'; 1 << 16]).is_ok());
        assert_eq!(of_file("longer", &[b'a'; (1 << 16) + 1]), Err("longer than 64 KiB".to_owned()));
        assert_eq!(of_file("bytes", b"\xff\xfe"), Err("the file is not valid UTF-8".to_owned()));
        let missing = fetch(&SecretReference::File("no/such/file".to_owned())).unwrap_err();
        assert_eq!(missing.to_string(), "file:no/such/file: file not found");
        let unset = fetch(&SecretReference::Variable("SEAWALL_TEST_NOT_SET".to_owned())).unwrap_err();
        assert_eq!(unset.to_string(), "env:SEAWALL_TEST_NOT_SET: the environment variable is not set");
    }
}
