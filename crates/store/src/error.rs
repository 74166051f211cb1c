//! Errors of stores.

use std::fmt;

/// A store could not carry out an operation.
///
/// It is never the fault of the caller whose request is being served. The code that receives this error goes on without
/// the store and falls back to the conservative decision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store is unreachable or did not respond in time. It is unknown whether the operation took effect; every
    /// operation is idempotent and may be retried.
    #[error("the {store} store is unavailable: {reason}")]
    Unavailable {
        /// The store that failed.
        store: &'static str,
        /// The error that was observed.
        reason: Box<str>,
    },
    /// The store gave an invalid response, or holds data that Seawall did not write. A retry does not help.
    #[error("the {store} store failed: {reason}")]
    Failed {
        /// The store that failed.
        store: &'static str,
        /// The error that was observed.
        reason: Box<str>,
    },
}

impl StoreError {
    /// The store cannot be reached.
    #[must_use]
    pub fn unavailable(store: &'static str, reason: impl fmt::Display) -> Self {
        Self::Unavailable { store, reason: reason.to_string().into() }
    }

    /// The store's response or its data are invalid.
    #[must_use]
    pub fn failed(store: &'static str, reason: impl fmt::Display) -> Self {
        Self::Failed { store, reason: reason.to_string().into() }
    }

    /// The error that was observed, without the name of the store.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::Unavailable { reason, .. } | Self::Failed { reason, .. } => reason,
        }
    }

    /// Whether a later retry can succeed.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}
