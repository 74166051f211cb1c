//! The `seawall` program.
//!
//! Parses arguments and calls one function. The behaviour of a command is in the crate of its name. This crate contains
//! only the user interface: options, the line that reports readiness, messages and exit codes (0 after a signal, 1 on a
//! failure, 2 on invalid input).

mod admin;
mod config;
mod demo;
mod key;
mod model;
mod reload;
mod serve;
mod settings;
mod tokens;

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

/// Keeps an application answering when its foundation models do not.
///
/// Without a command it serves.
#[derive(Parser)]
#[command(name = "seawall", version, disable_help_subcommand = true, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::ServeArguments,
}

#[derive(Subcommand)]
enum Command {
    /// Checks, shows, compares and explains settings.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Plays a shop's minute of outages through Seawall and through a plain proxy, side by side.
    ///
    /// Five outages strike: a throttling wave, a dead model, cut streams, a restart and a caller who floods. Everything runs
    /// in this process, with simulated models; no key is needed and nothing is left behind. Ends with 0 if every promise
    /// of Seawall held, and with 1 if one did not.
    Demo(demo::DemoArguments),
    /// Makes, lists and revokes the keys that callers show, and hashes one for settings.
    ///
    /// Keys are kept as hashes in the folder of the state; a key itself is shown once, when it is made. While a gateway is
    /// using the folder, its admin listener is asked instead.
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Runs a simulated model that speaks three vendors' dialects, fails by schedule and keeps its bill.
    ///
    /// Serves Anthropic Messages, OpenAI chat completions and the Bedrock runtime (InvokeModel and Converse) on one port,
    /// over HTTP/1.1 and HTTP/2. Models: sonnet (first token after 600 ms, 60 tokens a second), haiku (250 ms, 120) and
    /// instant; vendors' names for the first two will do. Any key is accepted. GET /admin/bill tells what was delivered
    /// and what it costs, GET /admin/calls who asked; POST /admin/faults changes the schedule, POST /admin/reset forgets.
    Model(model::ModelArguments),
    /// Runs the gateway: POST /v1/messages in front of a strong and a fast model.
    ///
    /// Without a file it does what the demo profile says: it simulates both models, in this process, so that there is
    /// nothing else to start. With one, a change of the file or a hangup signal (SIGHUP) makes it read the file again:
    /// settings that are refused change nothing.
    Serve(serve::ServeArguments),
    /// Tells how many tokens a text has: an estimate, a bound, and what it is made of.
    ///
    /// Of the text alone, without what a request adds to it.
    Tokens(tokens::TokensArguments),
}

/// How the program ends other than with success.
enum Failed {
    /// The input is invalid.
    BadInput(anyhow::Error),
    /// The input is invalid, and this text is the complete message.
    Shown(String),
    /// The operation failed.
    Broken(anyhow::Error),
}

fn signals(kind: SignalKind) -> anyhow::Result<Signal> {
    signal(kind).context("cannot listen to signals")
}

fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.command {
        Some(Command::Config(command)) => config::run(&command),
        Some(Command::Demo(arguments)) => demo::run(&arguments),
        Some(Command::Key(command)) => key::run(&command),
        Some(Command::Model(arguments)) => model::run(&arguments),
        Some(Command::Serve(arguments)) => serve::run(&arguments),
        Some(Command::Tokens(arguments)) => tokens::run(&arguments),
        None => serve::run(&arguments.serve),
    };
    let (error, code) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failed::Shown(text)) => {
            eprint!("{text}");
            return ExitCode::from(2);
        }
        Err(Failed::BadInput(error)) => (error, 2),
        Err(Failed::Broken(error)) => (error, 1),
    };
    eprintln!("seawall: {error:#}");
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_make_sense_to_clap() {
        Arguments::command().debug_assert();
    }
}
