//! `cargo xtask bench`: the cost of decisions and whole requests, compared with a peer in the same run.
//!
//! The machine is noisy, so nothing is compared across runs: cases alternate, round by round, and the gates apply to
//! the median of the ratios within each round.

mod callers;
mod decisions;
mod measure;
mod model;
mod policy;
mod proxy;
mod report;
mod store;
mod whole_path;

use clap::{Args, Parser, Subcommand};
use report::Outcome;
use std::net::SocketAddr;
use std::process::ExitCode;

/// Measures what decisions cost, or with `proxy` what whole requests do.
#[derive(Parser)]
#[command(name = "seawall-bench", bin_name = "cargo xtask bench", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    benchmark: Option<Benchmark>,
    #[command(flatten)]
    decisions: DecisionsArguments,
}

#[derive(Subcommand)]
enum Benchmark {
    /// What one decision costs, beside governor; also what runs without a name.
    Decisions(DecisionsArguments),
    /// What the policy machines cost: estimates, plans, frames.
    Policy(PolicyArguments),
    /// What decisions cost that a store takes, in memory and on a server.
    Store(store::StoreArguments),
    /// What it costs a process to keep its money: processor time of all threads, and memory.
    Keeping(store::KeepingArguments),
    /// What happens when the master of a shared store dies under load; `cargo xtask failover`.
    #[command(hide = true)]
    Failover(store::FailoverArguments),
    /// How much a simulated model can bear.
    Model(model::ModelArguments),
    /// What a request through Seawall costs, beside nginx and a bare hop.
    Proxy(proxy::ProxyArguments),
    /// What a request costs among many callers, without sockets; part of `proxy`.
    Callers(callers::CallersArguments),
    /// Answers every request at once; part of `proxy`.
    #[command(hide = true)]
    Responder {
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Hands requests on and does nothing else; part of `proxy`.
    #[command(hide = true)]
    Hop {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        upstream: SocketAddr,
    },
    /// Sends requests and checks the answers; part of `proxy`.
    #[command(hide = true)]
    Load(proxy::LoadArguments),
}

#[derive(Args)]
struct PolicyArguments {
    /// Rounds; every case runs once in each.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Prints JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct StoreArguments {
    /// Rounds; every case runs once in each.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Prints JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct DecisionsArguments {
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

fn main() -> anyhow::Result<ExitCode> {
    let Arguments { benchmark, decisions } = Arguments::parse();
    match benchmark.unwrap_or(Benchmark::Decisions(decisions)) {
        Benchmark::Decisions(DecisionsArguments { rounds, callers, json }) => {
            Ok(show(&decisions::run(rounds, callers), json))
        }
        Benchmark::Policy(PolicyArguments { rounds, json }) => Ok(show(&policy::run(rounds), json)),
        Benchmark::Store(arguments) => Ok(show(&store::run(&arguments)?, arguments.json)),
        Benchmark::Keeping(arguments) => store::keep(&arguments),
        Benchmark::Failover(arguments) => store::fail_over(&arguments),
        Benchmark::Model(arguments) => Ok(show(&model::run(&arguments)?, arguments.json)),
        Benchmark::Proxy(arguments) => proxy::run(&arguments),
        Benchmark::Callers(arguments) => callers::run(&arguments),
        Benchmark::Responder { listen } => proxy::respond(listen),
        Benchmark::Hop { listen, upstream } => proxy::hop(listen, upstream),
        Benchmark::Load(arguments) => proxy::send_load(arguments),
    }
}

fn show(outcome: &Outcome, as_json: bool) -> ExitCode {
    if as_json {
        println!("{:#}", report::json(outcome));
    } else {
        print!("{}", report::table(outcome));
    }
    if outcome.gates.iter().all(|gate| gate.holds()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
