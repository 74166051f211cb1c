//! Why a data directory was not opened, and what to do about it.
//!
//! Every error names the file. The content of a rejected file is not modified.

use seawall_core::budget::BudgetSource;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a data directory was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("{}: another process has this data directory open; stop it, or give this process its own data directory", path.display())]
    InUse {
        /// The file that is locked.
        path: PathBuf,
    },
    /// It cannot be read or written.
    #[error("{}: {reason}; check that the path exists, that this user can read and write it, and that the disk has free space", path.display())]
    Unusable {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        reason: Box<str>,
    },
    /// A file that is not ours has the name of ours.
    #[error("{}: not a Seawall file ({reason}); choose another data directory or move the file away", path.display())]
    Foreign {
        /// The foreign file.
        path: PathBuf,
        /// What it is instead.
        reason: Box<str>,
    },
    /// A newer version of Seawall wrote it.
    #[error("{}: format {version} is newer than this version of Seawall supports (up to {supported}); use the newer version", path.display())]
    Newer {
        /// The file in the newer format.
        path: PathBuf,
        /// The format version of the file.
        version: u32,
        /// The newest format version that this program reads.
        supported: u32,
    },
    /// It is ours and intact, but was written with another setting.
    #[error(
        "{}: this ledger was written for {stored}, but this process uses {configured}; restore the configuration, or \
         use another data directory", path.display()
    )]
    BudgetSourceMismatch {
        /// The database.
        path: PathBuf,
        /// The source of money that it was written with.
        stored: Box<str>,
        /// The configured source of money.
        configured: Box<str>,
    },
    /// It is ours, but damaged.
    #[error(
        "{}: damaged ({reason}); restore the data directory from a backup, or move it away to start with an empty \
         ledger, which forgets what was spent today", path.display()
    )]
    Damaged {
        /// The damaged file.
        path: PathBuf,
        /// The damage that was found.
        reason: Box<str>,
    },
}

impl OpenError {
    pub(super) fn unusable(path: &Path, reason: &io::Error) -> Self {
        Self::Unusable { path: path.into(), reason: reason.to_string().into() }
    }

    pub(super) fn foreign(path: &Path, reason: impl fmt::Display) -> Self {
        Self::Foreign { path: path.into(), reason: reason.to_string().into() }
    }

    pub(super) fn source_mismatch(path: &Path, stored: BudgetSource, configured: BudgetSource) -> Self {
        let describe = |source| match source {
            BudgetSource::Caps => "budget caps".into(),
            BudgetSource::Leases { node } => format!("leases of node {node}").into(),
        };
        Self::BudgetSourceMismatch {
            path: path.into(),
            stored: describe(stored),
            configured: describe(configured),
        }
    }

    pub(super) fn damaged(path: &Path, reason: impl fmt::Display) -> Self {
        Self::Damaged { path: path.into(), reason: reason.to_string().into() }
    }

    /// The file or directory that the error is about.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::InUse { path }
            | Self::Unusable { path, .. }
            | Self::Foreign { path, .. }
            | Self::Newer { path, .. }
            | Self::BudgetSourceMismatch { path, .. }
            | Self::Damaged { path, .. } => path,
        }
    }
}
