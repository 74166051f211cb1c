//! The `seawall` program.
//!
//! Parses arguments; each command calls one function of a library crate. This crate contains only the user interface:
//! options, the startup report, messages and exit codes (0 on success and after a graceful
//! shutdown, 1 on a failure or a second signal, 2 on invalid input; `drs` and the commands that read a running gateway have more).

mod admin;
mod config;
mod demo;
mod drs;
mod explain;
mod gateway_client;
mod import;
mod init;
mod key;
mod model;
mod output;
mod prices;
mod ready_report;
mod record_text;
mod reload;
mod serve;
mod settings;
mod spend;
mod tail;
mod tokens;
mod top;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use std::process::ExitCode;
use tikv_jemallocator::Jemalloc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Why not the C library's allocator? It keeps the memory of large bodies as long as one small allocation lies above
/// them: 300 bodies of 8 MB left 1.4 GB behind. jemalloc returns freed pages to the operating system within a second;
/// `.cargo/config.toml`, where it is configured, explains how.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// A resilience gateway for foundation models.
///
/// Runs `serve` if no command is given.
#[derive(Parser)]
#[command(name = "seawall", version, disable_help_subcommand = true, args_conflicts_with_subcommands = true)]
struct CliArguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::ServeArguments,
}

#[derive(Subcommand)]
enum Command {
    /// Check, print, compare and document settings.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Simulate a minute of outages and compare Seawall with a plain proxy.
    ///
    /// The demo plays five outages: throttling, an unavailable model, interrupted streams, a restart and an abusive client.
    /// Everything runs in this process with simulated models; it needs no API key and leaves no files behind. The exit code
    /// is 0 if every promise of Seawall held, and 1 otherwise.
    Demo(demo::DemoArguments),
    /// Call AWS Elastic Disaster Recovery below its rate limit: servers, jobs, recoveries, waves.
    ///
    /// Every call takes a token of a bucket per account and region (10 per second, 20 at once). Throttled calls are
    /// retried; a recovery is never started twice. Jobs wait for capacity: JOB_THROTTLE_THRESHOLD, JOB_POLL_INTERVAL and
    /// JOB_THROTTLE_TIMEOUT change when and how long. Credentials come from the usual AWS variables, profiles and roles.
    ///
    /// Exit codes: 0 success, 1 failure, 2 invalid input, 3 rate limited or retries exhausted, 4 no job capacity in
    /// time, 5 unknown whether a job was started, 6 a wave that did not succeed.
    Drs(drs::DrsArguments),
    /// Say why a request was answered, degraded or rejected.
    ///
    /// Asks a running gateway for the decision record of the request: its caller, limits, budget, plan and attempts. Exit
    /// codes: 0 success, 1 failure, 2 invalid input, 3 no record of this id, 4 refused by the admin API, 5 the gateway
    /// cannot be reached.
    Explain(explain::ExplainArguments),
    /// Take over the configuration of another gateway.
    #[command(subcommand)]
    Import(import::ImportCommand),
    /// Write a settings file for the providers that this machine has, and create a first key.
    ///
    /// Providers are found by their environment variables (ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, AWS credentials,
    /// AZURE_OPENAI_API_KEY and others) and by servers on their usual ports (Ollama, vLLM, SGLang, llama.cpp, LM Studio). No
    /// secret is written into the file. Afterwards it prints commands to paste.
    Init(init::InitArguments),
    /// Create, change, replace, list and revoke API keys, with budgets, rate limits and allowed models.
    ///
    /// Only hashes of keys are stored, in the data directory of the settings; a key is printed once, when it is created.
    /// While a gateway uses the data directory, the command calls its admin API instead.
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Run a simulated model server with four vendors' APIs, scheduled faults and a bill.
    ///
    /// Serves Anthropic Messages, OpenAI (chat completions, Responses, embeddings), the Bedrock runtime (InvokeModel and
    /// Converse) and Gemini on one port, over HTTP/1.1 and HTTP/2. Models: sonnet (first token after 600 ms, 60 tokens a
    /// second), haiku (250 ms, 120), instant and embedding; vendor model ids are accepted as well. Any API key is accepted.
    /// GET /admin/bill returns the delivered tokens and their cost, GET /admin/calls lists the calls, POST /admin/faults
    /// replaces the fault schedule, and POST /admin/reset resets all state.
    Model(model::ModelServerArguments),
    /// Show the price catalogue: prices, context windows and output limits of known models.
    Prices(prices::PricesArguments),
    /// Run the gateway.
    ///
    /// Uses seawall.toml in this directory if there is one. Without a settings file it uses the profile `demo`, which simulates
    /// its models in this process. With a file, settings are reloaded when the file changes or on SIGHUP; invalid settings are
    /// reported and leave the running settings unchanged.
    Serve(serve::ServeArguments),
    /// Show requests as they complete, with the reason of each that was not answered as planned.
    ///
    /// Polls the admin API of a running gateway. Ordinary answers of a busy gateway are sampled; everything else is shown.
    /// Exit codes as of `explain`.
    Tail(tail::TailArguments),
    /// Show what was spent: by key, team, tier, model, target, route, tag or day.
    ///
    /// Reads the ledger of a running gateway through its admin API. The rows and what is unattributed add up to the total,
    /// exactly; a call of a key with several tags is in the row of each.
    Spend(spend::SpendCommand),
    /// Estimate the number of tokens of a text: best estimate, upper bound and breakdown.
    ///
    /// Counts only the text, without the overhead of a request.
    Tokens(tokens::TokensArguments),
    /// Show a running gateway at a glance: rates, latency, spend, targets, rejections and callers.
    ///
    /// Keys: p pause, t targets, c callers, s spend, / filter, Enter explain, u zone, q quit. Without a terminal it prints
    /// the screen once. Exit codes as of `explain`.
    Top(top::TopArguments),
}

/// How the program ends other than with success.
enum CommandError {
    /// The input is invalid.
    InvalidInput(anyhow::Error),
    /// The input is invalid, and this text is the complete message.
    Printed(String),
    /// The operation failed.
    Failed(anyhow::Error),
    /// The operation failed in a way that has an exit code of its own.
    Coded(u8, anyhow::Error),
}

fn signals(kind: SignalKind) -> anyhow::Result<Signal> {
    signal(kind).context("cannot install a signal handler")
}

fn count_of(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

fn main() -> ExitCode {
    let arguments = CliArguments::parse();
    let outcome = match arguments.command {
        Some(Command::Config(command)) => config::run(&command),
        Some(Command::Demo(arguments)) => demo::run(&arguments),
        Some(Command::Drs(arguments)) => drs::run(&arguments),
        Some(Command::Explain(arguments)) => explain::run(&arguments),
        Some(Command::Import(command)) => import::run(&command),
        Some(Command::Init(arguments)) => init::run(&arguments),
        Some(Command::Key(command)) => key::run(&command),
        Some(Command::Model(arguments)) => model::run(&arguments),
        Some(Command::Prices(arguments)) => prices::run(&arguments),
        Some(Command::Spend(arguments)) => spend::run(&arguments),
        Some(Command::Serve(arguments)) => serve::run(&arguments),
        Some(Command::Tail(arguments)) => tail::run(&arguments),
        Some(Command::Tokens(arguments)) => tokens::run(&arguments),
        Some(Command::Top(arguments)) => top::run(&arguments),
        None => serve::run(&arguments.serve),
    };
    let (error, code) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(CommandError::Printed(text)) => {
            eprint!("{text}");
            return ExitCode::from(2);
        }
        Err(CommandError::InvalidInput(error)) => (error, 2),
        Err(CommandError::Failed(error)) => (error, 1),
        Err(CommandError::Coded(code, error)) => (error, code),
    };
    eprintln!("seawall: {error:#}");
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::CliArguments;
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_make_sense_to_clap() {
        CliArguments::command().debug_assert();
    }
}
