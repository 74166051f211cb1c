//! The master secret, from which other secrets are derived.
//!
//! Settings may name its source. A fleet needs that, so that a key issued by one node is valid on all. Otherwise it is
//! generated when first needed and stored in the data directory, readable by this user only. Where no state is stored,
//! it lives as long as the process, and so does every key derived from it.
//!
//! It does not replace a file that it cannot read: every issued key would become invalid.

use super::hash::{hmac_key, hmac_sha256};
use crate::secret::{SecretError, fetch_text};
use aws_lc_rs::hmac;
use seawall_config::Settings;
use seawall_store::embedded::create_private_dir;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file's name in the data directory.
const FILE: &str = "master-secret";
const MIN_LENGTH: usize = 32;
/// Longer than any real secret.
const MAX_FILE_SIZE: u64 = 1 << 16;

/// Why there is no master secret.
#[derive(Debug, thiserror::Error)]
pub enum MasterSecretError {
    /// It cannot be read from where the settings say.
    #[error("callers.master_secret: {0}")]
    Secret(#[from] SecretError),
    /// It is too short to resist guessing.
    #[error("callers.master_secret: must have at least {MIN_LENGTH} bytes")]
    TooShort,
    /// The file in the data directory was not written by us, or not completely.
    #[error(
        "{0}: not a valid master secret: restore the file from a backup, or remove it to generate a new one (which invalidates AWS key pairs and guest cookies)"
    )]
    Damaged(PathBuf),
    /// The file cannot be read or written.
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
    /// The operating system returned no random bytes.
    #[error("cannot read random bytes from the operating system: {0}")]
    NoRandomness(getrandom::Error),
}

/// The master secret. Clones share it.
#[derive(Clone)]
pub struct MasterSecret(Arc<[u8]>);

impl std::fmt::Debug for MasterSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("MasterSecret")
    }
}

impl MasterSecret {
    /// The master secret for these settings. `previous` is the one in force, which is kept if no state is stored.
    pub fn load(settings: &Settings, previous: Option<&Self>) -> Result<Self, MasterSecretError> {
        if let Some(reference) = &settings.callers.master_secret {
            return Self::new(fetch_text(reference)?.into_bytes());
        }
        match (settings.store.directory(), previous) {
            (None, Some(previous)) => Ok(previous.clone()),
            (None, None) => Self::new(generate()?.into_bytes()),
            (Some(directory), _) => Self::in_directory(directory),
        }
    }

    /// A master secret of these bytes.
    pub fn new(bytes: Vec<u8>) -> Result<Self, MasterSecretError> {
        if bytes.len() < MIN_LENGTH {
            return Err(MasterSecretError::TooShort);
        }
        Ok(Self(bytes.into()))
    }

    /// Reads the secret from this data directory, or creates it. The lock on the data directory must be held.
    pub fn in_directory(directory: &Path) -> Result<Self, MasterSecretError> {
        let path = directory.join(FILE);
        let file_error = |error| MasterSecretError::File(path.clone(), error);
        match File::open(&path) {
            Ok(file) => {
                let mut text = String::new();
                match file.take(MAX_FILE_SIZE).read_to_string(&mut text) {
                    Err(error) if error.kind() == ErrorKind::InvalidData => {
                        return Err(MasterSecretError::Damaged(path));
                    }
                    read => read.map_err(file_error)?,
                };
                let text = text.strip_suffix('\n').unwrap_or(&text);
                let is_valid = text.len() >= MIN_LENGTH && text.bytes().all(|byte| byte.is_ascii_graphic());
                if !is_valid {
                    return Err(MasterSecretError::Damaged(path));
                }
                Self::new(text.as_bytes().to_vec())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let text = generate()?;
                write(directory, &path, &text).map_err(file_error)?;
                Self::new(text.into_bytes())
            }
            Err(error) => Err(file_error(error)),
        }
    }

    /// The secret itself, for the signature verifier.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Derives an independent secret for one purpose. A derived secret reveals nothing about the others.
    pub(super) fn derive(&self, purpose: &str) -> [u8; 32] {
        let key: hmac::Key = hmac_key(&self.0);
        hmac_sha256(&key, purpose.as_bytes())
    }
}

/// Writes the file atomically.
fn write(directory: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    create_private_dir(directory)?;
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(format!("{text}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(directory)?.sync_all()
}

/// 32 random bytes in hexadecimal, so that other nodes' settings can name the file as it is.
fn generate() -> Result<String, MasterSecretError> {
    random_bytes::<32>().map(hex::encode).map_err(MasterSecretError::NoRandomness)
}

/// Cryptographically secure random bytes.
#[expect(
    clippy::disallowed_methods,
    reason = "secrets must come from the operating system, never from a seed"
)]
pub(super) fn random_bytes<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{MasterSecret, MasterSecretError};
    use seawall_testkit::TestDirectory;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn it_is_made_once_and_for_this_user_alone() {
        let directory = TestDirectory::new().unwrap();
        let made = MasterSecret::in_directory(directory.path()).unwrap();
        let file = directory.path().join("master-secret");
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!((text.len(), text.trim_end().as_bytes()), (65, made.bytes()));
        assert_eq!(MasterSecret::in_directory(directory.path()).unwrap().bytes(), made.bytes());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left beside it");
        let other = TestDirectory::new().unwrap();
        assert_ne!(MasterSecret::in_directory(other.path()).unwrap().bytes(), made.bytes());
        assert_eq!(format!("{made:?}"), "MasterSecret");
    }

    #[test]
    fn one_that_cannot_be_read_is_not_replaced() {
        let directory = TestDirectory::new().unwrap();
        for text in [&b""[..], b"\n", &[b'a'; 31], b"\xff\xff", &[b' '; 40]] {
            std::fs::write(directory.path().join("master-secret"), text).unwrap();
            let error = MasterSecret::in_directory(directory.path()).unwrap_err();
            assert!(matches!(error, MasterSecretError::Damaged(_)), "{error}");
            assert_eq!(std::fs::read(directory.path().join("master-secret")).unwrap(), text);
        }
        std::fs::write(directory.path().join("master-secret"), [b'a'; 32]).unwrap();
        assert_eq!(MasterSecret::in_directory(directory.path()).unwrap().bytes(), [b'a'; 32]);
    }

    #[test]
    fn what_is_derived_differs_by_purpose_and_secret() {
        let one = MasterSecret::new(vec![1; 32]).unwrap();
        let two = MasterSecret::new(vec![2; 32]).unwrap();
        assert_eq!(one.derive("a"), one.derive("a"));
        assert_ne!(one.derive("a"), one.derive("b"));
        assert_ne!(one.derive("a"), two.derive("a"));
        assert!(matches!(MasterSecret::new(vec![1; 31]), Err(MasterSecretError::TooShort)));
    }
}
