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
use report::BenchReport;
use std::net::SocketAddr;
use std::process::ExitCode;

/// Measures the cost of decisions, or with `proxy` of whole requests.
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
    /// Cost of one decision, compared with governor; the default.
    Decisions(DecisionsArguments),
    /// Cost of policy: token estimates, plans, frames.
    Policy(PolicyArguments),
    /// Cost of store decisions, in memory and on a Redis server.
    Store(store::StoreArguments),
    /// Cost of the ledger to a process: CPU time of all threads, and memory.
    Ledger(store::LedgerBenchArguments),
    /// Failover of the Redis master under load; run by `cargo xtask failover`.
    #[command(hide = true)]
    Failover(store::FailoverArguments),
    /// Capacity of the simulated model.
    Model(model::ModelBenchArguments),
    /// Cost of a request through Seawall, compared with nginx and a minimal hop.
    Proxy(proxy::ProxyArguments),
    /// Cost of a request with many callers, without sockets; part of `proxy`.
    Callers(callers::CallersArguments),
    /// Upstream that answers immediately; part of `proxy`.
    #[command(hide = true)]
    Responder {
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Minimal proxy; part of `proxy`.
    #[command(hide = true)]
    Hop {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        upstream: SocketAddr,
        #[arg(long, value_enum)]
        client: proxy::HopClient,
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
            Ok(print_report(&decisions::run(rounds, callers), json))
        }
        Benchmark::Policy(PolicyArguments { rounds, json }) => Ok(print_report(&policy::run(rounds), json)),
        Benchmark::Store(arguments) => Ok(print_report(&store::run(&arguments)?, arguments.json)),
        Benchmark::Ledger(arguments) => store::run_ledger(&arguments),
        Benchmark::Failover(arguments) => store::fail_over(&arguments),
        Benchmark::Model(arguments) => Ok(print_report(&model::run(&arguments)?, arguments.json)),
        Benchmark::Proxy(arguments) => proxy::run(&arguments),
        Benchmark::Callers(arguments) => callers::run(&arguments),
        Benchmark::Responder { listen } => proxy::respond(listen),
        Benchmark::Hop { listen, upstream, client } => proxy::hop(listen, upstream, client),
        Benchmark::Load(arguments) => proxy::send_load(arguments),
    }
}

fn print_report(outcome: &BenchReport, as_json: bool) -> ExitCode {
    if as_json {
        println!("{:#}", report::json(outcome));
    } else {
        print!("{}", report::table(outcome));
    }
    if outcome.gates.iter().all(|gate| gate.holds()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
