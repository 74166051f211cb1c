//! Developer commands, run as `cargo xtask`.
//!
//! Contributors and CI run the same code, so that a local pass is meaningful. This file only parses arguments; each
//! command is in the module of its name.

mod bench;
mod chaos;
mod ci;
mod client;
mod dist;
mod docs;
mod failover;
mod fuzz;
mod loom;
mod mutants;
mod requirement;
mod steps;
mod test;
mod tokens;
mod workspace;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::num::{NonZeroU32, NonZeroUsize};
use std::process::ExitCode;

/// Developer commands of Seawall.
#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs every test: unit, integration and documentation tests, then the loom models.
    ///
    /// Installs missing Debian packages first when run as root; otherwise says which ones are missing. The
    /// vendors' client libraries are installed under the target folder. Uses cargo-nextest where it is present. With a filter the loom models are left out.
    Test {
        /// Cases per property test; without it, proptest's own number.
        #[arg(long, value_name = "N")]
        cases: Option<NonZeroU32>,
        /// Runs only the tests whose name contains one of these.
        #[arg(last = true, value_name = "FILTER")]
        filters: Vec<String>,
    },
    /// Everything a change must pass: format, lints, docs, generated files, bans, all tests, and a minute of chaos.
    Ci,
    /// Runs the loom models of seawall-core: its lock-free code under every interleaving within three
    /// preemptions.
    Loom,
    /// Writes the reference pages in docs/reference from the code.
    Docs {
        /// Writes nothing; fails when a page is not what the code would write.
        #[arg(long)]
        check: bool,
    },
    /// Builds the program as it is shipped: laid out by what it does under load.
    ///
    /// Two builds and a minute of load between them. Installs nginx and LLVM's tools when they are missing and it runs as
    /// root. Tells where the program is.
    Dist,
    /// Runs the benchmarks as they are shipped: with the `dist` profile.
    ///
    /// Without arguments, what decisions cost; with `proxy`, what whole requests cost beside nginx.
    Bench {
        /// Handed to seawall-bench as they are.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        arguments: Vec<OsString>,
    },
    /// Kills the master of a shared store under load, and prints how its nodes fare until the replica is master.
    ///
    /// Starts a master, a replica and three sentinels on free ports of this machine. Fails when anybody got an error or
    /// a node did not find the new master.
    Failover {
        /// Handed to seawall-bench as they are: --seconds, --down-after-millis.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        arguments: Vec<OsString>,
    },
    /// Random faults against two running gateways with a real Redis and real model servers, and the laws that must hold
    /// whatever happens.
    ///
    /// Models fail, the store dies and freezes, nodes are stopped and killed, limits change, callers flood and vanish: all
    /// drawn from one seed, which is printed. Fails when a law did not hold, and says where the programs' words are kept.
    Chaos {
        /// Handed to seawall-chaos as they are: --minutes, --seed.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        arguments: Vec<OsString>,
    },
    /// Throws bytes at the readers of dialects and settings, steered by coverage.
    ///
    /// Needs a nightly compiler. Installs cargo-fuzz when it is missing.
    Fuzz {
        /// How long to try each target.
        #[arg(long, value_name = "N", default_value = "60")]
        seconds: NonZeroU32,
    },
    /// Breaks seawall-core on purpose, in a random sample of places, and counts how often its unit tests
    /// notice.
    ///
    /// Fails when fewer than 85 % of the mutants that compile are noticed. A mutant that makes the tests run
    /// out of time is noticed. The same seed on the same code chooses the same mutants. Installs
    /// cargo-mutants when it is missing.
    Mutants {
        /// How many mutants to try.
        #[arg(long, value_name = "N", default_value = "300")]
        sample: NonZeroUsize,
        /// Which sample to take.
        #[arg(long, value_name = "S", default_value_t = 1)]
        seed: u64,
        /// Only those of a module, such as budget; may be given several times.
        #[arg(long = "in", value_name = "MODULE")]
        modules: Vec<String>,
    },
    /// Counts the corpus of token estimates with real tokenizers, and fits core's weights to it.
    ///
    /// Needs node and npm. Writes crates/core/tests/tokens/counts.tsv and crates/core/src/tokens/weights.rs.
    Tokens,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Test { cases, filters } => test::run(&test::Selection { cases, filters }),
        Task::Ci => ci::run(),
        Task::Loom => loom::run(),
        Task::Docs { check } => docs::run(check),
        Task::Dist => dist::run(),
        Task::Bench { arguments } => bench::run(&arguments),
        Task::Failover { arguments } => failover::run(&arguments),
        Task::Chaos { arguments } => chaos::run(&arguments),
        Task::Mutants { sample, seed, modules } => mutants::run(sample.get(), seed, &modules),
        Task::Tokens => tokens::run(),
        Task::Fuzz { seconds } => fuzz::run(seconds.get()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            steps::exit_code(&error)
        }
    }
}
