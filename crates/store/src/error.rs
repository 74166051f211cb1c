//! What goes wrong with a store.

use std::fmt;

/// A store could not do what it was asked to.
///
/// Whose fault it is, is never the caller's: whoever gets this goes on without the store, on the careful side.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, or did not answer in time. Nobody knows whether the operation took place; each is made so
    /// that it may be tried again.
    #[error("the {store} store is away: {reason}")]
    Away {
        /// Which store.
        store: &'static str,
        /// What was seen of it.
        reason: Box<str>,
    },
    /// It answered what it should not, or holds what nobody has written. Trying again does not help.
    #[error("the {store} store is broken: {reason}")]
    Broken {
        /// Which store.
        store: &'static str,
        /// What was seen of it.
        reason: Box<str>,
    },
}

impl StoreError {
    /// It cannot be reached.
    #[must_use]
    pub fn away(store: &'static str, reason: impl fmt::Display) -> Self {
        Self::Away { store, reason: reason.to_string().into() }
    }

    /// It makes no sense.
    #[must_use]
    pub fn broken(store: &'static str, reason: impl fmt::Display) -> Self {
        Self::Broken { store, reason: reason.to_string().into() }
    }

    /// Whether trying again, later, can help.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        matches!(self, Self::Away { .. })
    }
}
