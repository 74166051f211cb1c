//! The location of the workspace, and how its cargo is called.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The directory with the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    // Cargo sets the current package directory for a program that it runs; the directory known at compile time is for a
    // binary that is started directly.
    let package =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    package.parent().map_or_else(|| package.clone(), Path::to_path_buf)
}

/// A separate directory for `purpose` under the target directory in use.
pub(crate) fn target_dir(purpose: &str) -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    // Joining keeps an absolute path as it is.
    root().join(target).join(purpose)
}

/// The cargo that runs this program, so that no second toolchain is used, started at the workspace's root.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

/// Whether `cargo <subcommand>` can be run. Asks cargo itself, because it also looks outside the search path.
pub(crate) fn has_cargo_subcommand(subcommand: &str) -> bool {
    let mut ask = cargo([subcommand, "--version"]);
    ask.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    ask.status().is_ok_and(|status| status.success())
}
