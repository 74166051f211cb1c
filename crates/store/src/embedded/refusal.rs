//! Why a data directory was not opened, and what to do about it.
//!
//! Every error names the file. A refused file is left exactly as it was found.

use seawall_core::budget::BudgetSource;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a data directory was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("{}: another process has this store open; stop it, or give this one a folder of its own", path.display())]
    InUse {
        /// The file that is locked.
        path: PathBuf,
    },
    /// It cannot be read or written.
    #[error("{}: {reason}; check that it is there, that this user may read and write it and that the disk has room", path.display())]
    Unusable {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        reason: Box<str>,
    },
    /// A file that is not ours has the name of ours.
    #[error("{}: this is not a file of Seawall's ({reason}); choose another folder or move it away", path.display())]
    Foreign {
        /// The foreign file.
        path: PathBuf,
        /// What it is instead.
        reason: Box<str>,
    },
    /// A newer version of Seawall wrote it.
    #[error("{}: written in format {found} and this program reads up to {known}; use the newer program", path.display())]
    Newer {
        /// The file in the newer format.
        path: PathBuf,
        /// The format it has.
        found: u32,
        /// The newest format that this version reads.
        known: u32,
    },
    /// It is ours and intact, but was written with another setting.
    #[error(
        "{}: these books spend {found}, and this process is set to spend {wanted}; set it as it was, or give it a \
         folder of its own", path.display()
    )]
    OtherSource {
        /// The database.
        path: PathBuf,
        /// The source of money that it was written with.
        found: Box<str>,
        /// The configured source of money.
        wanted: Box<str>,
    },
    /// It is ours, but damaged.
    #[error(
        "{}: damaged ({reason}); restore the folder from a backup, or move it away to begin with empty books, \
         which forgets what was spent today", path.display()
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

    pub(super) fn other_source(path: &Path, found: BudgetSource, wanted: BudgetSource) -> Self {
        let words = |source| match source {
            BudgetSource::Caps => "the caps themselves".into(),
            BudgetSource::Leases { node } => format!("the leases of node {node}").into(),
        };
        Self::OtherSource { path: path.into(), found: words(found), wanted: words(wanted) }
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
            | Self::OtherSource { path, .. }
            | Self::Damaged { path, .. } => path,
        }
    }
}
