//! Prints a reference page that is generated from the gateway's own tables: `diagnostics`, `metrics` or `openapi`.
//!
//! `cargo xtask docs` runs it, so that xtask need not depend on the server to write about it.

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("diagnostics") => print!("{}", seawall_gateway::diagnostics_reference()),
        Some("metrics") => print!("{}", seawall_gateway::metrics_reference()),
        Some("openapi") => print!("{}", seawall_gateway::openapi()),
        _ => {
            eprintln!("usage: page diagnostics|metrics|openapi");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
