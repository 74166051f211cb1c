//! Pages that other crates generate, by an example named after the crate: `gateway_page` in `seawall-gateway`.

use crate::workspace::root;
use anyhow::{Context as _, ensure};
use std::process::Command;

/// The page of this name, from this package.
pub(super) fn page(package: &str, name: &str) -> anyhow::Result<String> {
    let example = format!("{}_page", package.trim_start_matches("seawall-"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--package", package, "--example", &example, "--", name])
        .current_dir(root())
        .output()
        .context("cannot start cargo")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{package} failed to write the page {name}: {stderr}");
    String::from_utf8(output.stdout).context("the page is not UTF-8")
}
