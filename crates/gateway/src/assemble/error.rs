//! Errors of starting a gateway and of applying new settings.

use crate::identity::AuthenticatorError;
use crate::listen::ListenError;
use crate::secret::SecretError;
use crate::shared_limits::SharedError;
use crate::store_maintenance::StorageError;
use crate::target::TargetError;
use crate::tls::TlsError;
use seawall_core::setting::SettingError;
use seawall_store::{OpenStoresError, StoreError};

/// Why a gateway cannot start, or cannot apply new settings.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A setting is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The connector of a target cannot be built.
    #[error("target {0}: {1}")]
    Target(String, TargetError),
    /// No caller could authenticate: the settings name no key and no other credential.
    #[error(
        "no caller could authenticate: list a key under callers.keys, configure callers.issuers, or set callers.guests = true"
    )]
    NoCredentials,
    /// TLS for callers cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The admin credential cannot be read.
    #[error("admin.credential: {0}")]
    AdminCredential(#[from] SecretError),
    /// The admin listener would be open to other machines, or to callers.
    #[error("admin: {0}")]
    InsecureAdmin(&'static str),
    /// The store cannot be opened.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The rate limits of keys cannot be read.
    #[error("cannot read the rate limits of keys: {0}")]
    KeyLimits(StoreError),
    /// Several of these at once.
    #[error("{}", list_problems(.0))]
    Multiple(Vec<ServeError>),
    /// The shared store cannot be set up.
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// Authentication of callers cannot be set up.
    #[error(transparent)]
    Authenticator(#[from] AuthenticatorError),
    /// A socket or a thread cannot be created.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The thread of the access log cannot be started.
    #[error("cannot start the access-log thread: {0}")]
    LogThread(std::io::Error),
    /// The access-log file cannot be written.
    #[error("telemetry.access_log: cannot write to {0}: {1}")]
    LogFile(String, std::io::Error),
}

impl From<OpenStoresError> for ServeError {
    fn from(error: OpenStoresError) -> Self {
        match error {
            OpenStoresError::DataDir(error) => Self::Storage(error.into()),
            OpenStoresError::Limits(error) => Self::Setting(error),
            OpenStoresError::Shared(error) => Self::Shared(error.into()),
        }
    }
}

fn list_problems(problems: &[ServeError]) -> String {
    let lines: String = problems.iter().map(|problem| format!("\n  {problem}")).collect();
    format!("{} problems:{lines}", problems.len())
}

impl ServeError {
    /// Whether the input is invalid, as opposed to a failure of the operating system.
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        match self {
            Self::Setting(_) | Self::Target(..) | Self::NoCredentials | Self::Tls(_) | Self::Multiple(_) => {
                true
            }
            Self::AdminCredential(_) | Self::InsecureAdmin(_) => true,
            Self::Authenticator(error) => !matches!(error, AuthenticatorError::Thread(_)),
            Self::Shared(error) => !matches!(error, SharedError::Thread(_)),
            Self::Storage(_)
            | Self::KeyLimits(_)
            | Self::Listen(_)
            | Self::LogThread(_)
            | Self::LogFile(..) => false,
        }
    }

    /// Combines these into one error, or returns `Ok` if there is none.
    pub(super) fn combine(mut problems: Vec<Self>) -> Result<(), Self> {
        match (problems.pop(), problems.is_empty()) {
            (None, _) => Ok(()),
            (Some(only), true) => Err(only),
            (Some(last), false) => {
                problems.push(last);
                Err(Self::Multiple(problems))
            }
        }
    }
}
