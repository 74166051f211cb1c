//! `cargo xtask bench`: what decisions cost, beside a peer in the same run.
//!
//! The machine is noisy, so nothing is compared across runs: cases take turns, round by round, and what is judged
//! is the median of the ratios inside each round.

mod decisions;
mod measure;
mod report;

use clap::Parser;
use std::process::ExitCode;

/// Measures what decisions cost.
#[derive(Parser)]
#[command(name = "seawall-bench", bin_name = "cargo xtask bench")]
struct Arguments {
    /// Rounds; every case runs once in each.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Callers in the large cases.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    callers: u32,
    /// Prints JSON instead of a table.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = decisions::run(arguments.rounds, arguments.callers);
    if arguments.json {
        println!("{:#}", report::json(&outcome));
    } else {
        print!("{}", report::table(&outcome));
    }
    if outcome.gates.iter().all(|gate| gate.holds()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
