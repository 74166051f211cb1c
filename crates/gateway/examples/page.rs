//! Writes a page that is made from the gateway's own tables: `metrics` or `openapi`.
//!
//! For `cargo xtask docs`, which must not be built from a server to write about one.

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("metrics") => print!("{}", seawall_gateway::metrics_reference()),
        Some("openapi") => print!("{}", seawall_gateway::openapi()),
        _ => {
            eprintln!("write metrics or openapi");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
