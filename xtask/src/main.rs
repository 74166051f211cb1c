//! Developer commands, run as `cargo xtask`.
//!
//! Contributors and CI run the same code, so that a local pass is meaningful. This file only parses arguments; each
//! command is in the module of its name.

mod agents;
mod bench;
mod chaos;
mod ci;
mod client;
mod coverage;
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
pub(crate) struct XtaskArguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs every test: unit, integration and documentation tests, then the loom models.
    ///
    /// Installs missing Debian packages first when run as root; otherwise reports which ones are missing. The
    /// vendors' client libraries are installed under the target directory. Uses cargo-nextest where it is present. With a filter the loom models are left out.
    Test {
        /// Cases per property test; without it, proptest's own number.
        #[arg(long, value_name = "N")]
        cases: Option<NonZeroU32>,
        /// Runs only the tests whose name contains one of these.
        #[arg(last = true, value_name = "FILTER")]
        filters: Vec<String>,
    },
    /// Runs coding agents, unmodified, through the gateway: Claude Code, Codex, Gemini CLI, opencode and aider.
    ///
    /// Each does one small task twice, with a target of its own dialect and with a translation. Installs them under the
    /// target directory when they are missing, which takes 2 GB. Prints a table; fails if an agent failed.
    Agents {
        /// Only these: claude-code, codex, gemini-cli, opencode, aider.
        #[arg(value_name = "AGENT")]
        names: Vec<String>,
    },
    /// Everything a change must pass: format, lints, docs, generated files, bans, all tests, and a minute of chaos.
    Ci,
    /// Measures which lines of seawall-drs its tests run. Fails below 80 %.
    ///
    /// The server that imitates DRS is not counted. Installs cargo-llvm-cov, and LLVM's tools as root, when they are
    /// missing. Builds everything once more, with counters.
    Coverage,
    /// Runs the loom models of seawall-core: its lock-free code under every interleaving within three
    /// preemptions.
    Loom,
    /// Writes docs/metrics.md, docs/openapi.json and the pages in docs/reference from the code.
    Docs {
        /// Writes nothing; fails when a page is not what the code would write.
        #[arg(long)]
        check: bool,
    },
    /// Builds the release binary with profile-guided optimisation (PGO).
    ///
    /// Takes two builds and a minute of load. Installs nginx and LLVM's tools when they are missing and it runs as
    /// root. Prints the path of the binary.
    Dist,
    /// Runs the benchmarks with the `dist` profile.
    ///
    /// Without arguments, measures decisions; with `proxy`, whole requests compared with nginx.
    Bench {
        /// Passed to seawall-bench.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        arguments: Vec<OsString>,
    },
    /// Kills the master of a shared store under load, and reports how nodes behave until the replica is promoted.
    ///
    /// Starts a master, a replica and three sentinels on free ports of this machine. Fails if a request got an error or
    /// a node did not find the new master.
    Failover {
        /// Passed to seawall-bench: --seconds, --down-after-millis.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        arguments: Vec<OsString>,
    },
    /// Random faults against two running gateways with a real Redis and real model servers, and the invariants that must
    /// hold.
    ///
    /// Models fail, the store is killed and paused, nodes are stopped and killed, limits change, callers flood and disconnect: all
    /// drawn from one seed, which is printed. Fails if an invariant was violated, and prints where logs are kept.
    Chaos {
        /// Passed to seawall-chaos: --minutes, --seed.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
        arguments: Vec<OsString>,
    },
    /// Fuzzes the parsers of dialects and settings, guided by coverage.
    ///
    /// Needs a nightly compiler. Installs cargo-fuzz when it is missing.
    Fuzz {
        /// How long to run each target, in seconds.
        #[arg(long, value_name = "N", default_value = "60")]
        seconds: NonZeroU32,
    },
    /// Mutation testing of seawall-core: runs its unit tests against a random sample of mutants.
    ///
    /// Fails if fewer than 85 % of the viable mutants are detected. A timeout counts as detected. The same seed on the same code chooses the same mutants. Installs
    /// cargo-mutants when it is missing.
    Mutants {
        /// Number of mutants.
        #[arg(long, value_name = "N", default_value = "300")]
        sample: NonZeroUsize,
        /// Seed of the sample.
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
    let outcome = match XtaskArguments::parse().task {
        Task::Test { cases, filters } => test::run(&test::Selection { cases, filters }),
        Task::Agents { names } => agents::run(&names),
        Task::Ci => ci::run(),
        Task::Coverage => coverage::run(),
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
