//! Errors of starting a gateway and of applying new settings.

use crate::identity::GateError;
use crate::keeper::KeepError;
use crate::listen::ListenError;
use crate::secret::SecretError;
use crate::shared::SharedError;
use crate::target::TargetError;
use crate::tls::TlsError;
use seawall_core::setting::SettingError;

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
    #[error("no key is given, so nobody could ask")]
    NoKey,
    /// TLS for callers cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The admin credential cannot be read.
    #[error("admin.credential: {0}")]
    Operators(#[from] SecretError),
    /// The admin listener would be open to other machines, or to callers.
    #[error("admin: {0}")]
    OpenAdmin(&'static str),
    /// The state store cannot be opened.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// Several of these at once.
    #[error("{}", listed(.0))]
    Several(Vec<ServeError>),
    /// The shared store cannot be set up.
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// Authentication of callers cannot be set up.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// A socket or a thread cannot be had.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The thread of the access log cannot be started.
    #[error("cannot start the log: {0}")]
    Log(std::io::Error),
    /// The access-log file cannot be written.
    #[error("telemetry.access_log: cannot write to {0}: {1}")]
    LogFile(String, std::io::Error),
}

fn listed(problems: &[ServeError]) -> String {
    let lines: String = problems.iter().map(|problem| format!("\n  {problem}")).collect();
    format!("{} problems:{lines}", problems.len())
}

impl ServeError {
    /// Whether the input is invalid, as opposed to a failure of the operating system.
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        match self {
            Self::Setting(_) | Self::Target(..) | Self::NoKey | Self::Tls(_) | Self::Several(_) => true,
            Self::Operators(_) | Self::OpenAdmin(_) => true,
            Self::Gate(error) => !matches!(error, GateError::Thread(_)),
            Self::Shared(error) => !matches!(error, SharedError::Thread(_)),
            Self::Keep(_) | Self::Listen(_) | Self::Log(_) | Self::LogFile(..) => false,
        }
    }

    /// Combines these into one error, or returns `Ok` if there is none.
    pub(super) fn of(mut problems: Vec<Self>) -> Result<(), Self> {
        match (problems.pop(), problems.is_empty()) {
            (None, _) => Ok(()),
            (Some(only), true) => Err(only),
            (Some(last), false) => {
                problems.push(last);
                Err(Self::Several(problems))
            }
        }
    }
}
