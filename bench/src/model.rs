//! `cargo xtask bench model`: the capacity of one simulated model, in each dialect.
//!
//! The model has a core of its own. Its throughput is derived from the CPU time it used, so that a slow load generator
//! does not make it look slow. Memory is read while all streams are open.

use crate::measure::{now, since};
use crate::proxy::child::{LOAD_CORE, PinnedProcess, TEST_CORE};
use crate::report::{BenchGate, BenchReport};
use anyhow::{Context as _, ensure};
use seawall_testkit::{free_address, pause};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Goal: small answers per second on one core.
const MIN_ANSWERS: f64 = 20_000.0;
/// Goal: resident memory in MiB with all streams open.
const MAX_MEMORY: f64 = 300.0;
const STREAMS: usize = 5_000;
const CONNECTIONS: usize = 8;

/// How long to measure.
#[derive(clap::Args)]
pub(crate) struct ModelBenchArguments {
    /// Requests in each dialect.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1_000..))]
    requests: u32,
    /// The program; the one beside this one if not given.
    #[arg(long)]
    seawall: Option<PathBuf>,
    /// Prints JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A dialect: the name of its figure, its path and a small request.
const DIALECTS: [(&str, &str, &str); 3] = [
    (
        "Anthropic Messages",
        "/v1/messages",
        r#"{"model":"instant","max_tokens":8,"messages":[{"role":"user","content":"hi"}]}"#,
    ),
    (
        "OpenAI chat completions",
        "/v1/chat/completions",
        r#"{"model":"instant","max_tokens":8,"messages":[{"role":"user","content":"hi"}]}"#,
    ),
    (
        "Bedrock Converse",
        "/model/instant/converse",
        r#"{"inferenceConfig":{"maxTokens":8},"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#,
    ),
];

pub(crate) fn run(arguments: &ModelBenchArguments) -> anyhow::Result<BenchReport> {
    let default_program = std::env::current_exe()?.with_file_name("seawall");
    let seawall = arguments.seawall.clone().unwrap_or(default_program);
    // The load and this process share a core, so that the model has the other one to itself.
    Command::new("taskset").args(["-pc", LOAD_CORE, &std::process::id().to_string()]).output()?;
    let (mut figures, mut gates) = (Vec::new(), Vec::new());
    for (name, path, body) in DIALECTS {
        let rate = answers_per_second(&seawall, path, body, arguments.requests)?;
        figures.push((name, rate, "answers per second and core"));
        gates
            .push(BenchGate { name: "20,000 ÷ answers per second", figure: MIN_ANSWERS / rate, bound: 1.0 });
    }
    let memory = memory_of_streams(&seawall)?;
    figures.push(("memory with 5,000 streams open", memory, "MiB"));
    gates.push(BenchGate { name: "memory of 5,000 streams, in MiB", figure: memory, bound: MAX_MEMORY });
    Ok(BenchReport { measured: Vec::new(), figures, gates })
}

fn start(seawall: &Path, more: &[&str]) -> anyhow::Result<(PinnedProcess, SocketAddr)> {
    let address = free_address()?;
    let listen = ["model", "--listen", &address.to_string()].map(str::to_owned);
    let arguments = listen.into_iter().chain(more.iter().map(|argument| (*argument).to_owned()));
    let mut running = PinnedProcess::start(TEST_CORE, seawall, arguments)?;
    running.wait_until_listening(address)?;
    Ok((running, address))
}

fn request(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: model\r\nx-api-key: any\r\ncontent-length: {length}\r\n\r\n{body}")
        .into()
}

fn answers_per_second(seawall: &Path, path: &str, body: &str, requests: u32) -> anyhow::Result<f64> {
    let (running, address) = start(seawall, &["--pace", "instant"])?;
    let request = request(path, body);
    let each = requests as usize / CONNECTIONS;
    send(address, &request, 500)?;
    let before = running.cpu_micros()?;
    send(address, &request, each)?;
    let spent = running.cpu_micros()? - before;
    Ok((each * CONNECTIONS) as f64 * 1e6 / spent)
}

/// Sends this many requests over each of a few connections and reads every answer.
fn send(address: SocketAddr, request: &[u8], each: usize) -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        let senders: Vec<_> =
            (0..CONNECTIONS).map(|_| scope.spawn(|| send_over_one(address, request, each))).collect();
        senders.into_iter().try_for_each(|sender| sender.join().ok().context("a sender panicked")?)
    })
}

fn send_over_one(address: SocketAddr, request: &[u8], each: usize) -> anyhow::Result<()> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_nodelay(true)?;
    let mut buffer = vec![0; 4_096];
    for _ in 0..each {
        connection.write_all(request)?;
        let mut filled = 0;
        // Every answer is one JSON object, so it ends with a brace at the declared length.
        loop {
            let read = connection.read(&mut buffer[filled..])?;
            ensure!(read > 0, "the model closed the connection");
            filled += read;
            if is_complete(&buffer[..filled])? {
                break;
            }
        }
    }
    Ok(())
}

fn is_complete(answer: &[u8]) -> anyhow::Result<bool> {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return Ok(false) };
    ensure!(head.starts_with("HTTP/1.1 200"), "{text}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).context("no length")?;
    Ok(body.len() == length.parse::<usize>()?)
}

fn memory_of_streams(seawall: &Path) -> anyhow::Result<f64> {
    let faults = std::env::temp_dir().join(format!("seawall-bench-{}.toml", std::process::id()));
    // So slow that the first stream is still open when the last one starts.
    std::fs::write(&faults, "[[fault]]\nkind = \"drip\"\nevery = \"30s\"\n")?;
    let outcome = hold_streams(seawall, &faults);
    std::fs::remove_file(&faults)?;
    outcome
}

fn hold_streams(seawall: &Path, faults: &Path) -> anyhow::Result<f64> {
    let (running, address) = start(seawall, &["--faults", &faults.to_string_lossy()])?;
    let body =
        r#"{"model":"haiku","max_tokens":500,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let request = request("/v1/messages", body);
    let began = now();
    let mut streams = Vec::with_capacity(STREAMS);
    for _ in 0..STREAMS {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(&request)?;
        streams.push(stream);
    }
    let mut buffer = [0; 512];
    for stream in &mut streams {
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let read = stream.read(&mut buffer)?;
        ensure!(buffer[..read].starts_with(b"HTTP/1.1 200"), "a stream did not begin");
    }
    pause(Duration::from_millis(500));
    ensure!(since(began) < Duration::from_secs(30), "the first stream may be over");
    running.resident_mib()
}

#[cfg(test)]
mod tests {
    use super::is_complete;

    #[test]
    fn an_answer_is_complete_at_its_content_length() {
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n";
        assert!(!is_complete(head.as_bytes()).unwrap());
        assert!(!is_complete(format!("{head}\r\n{{").as_bytes()).unwrap());
        assert!(is_complete(format!("{head}\r\n{{}}").as_bytes()).unwrap());
        assert!(is_complete(b"HTTP/1.1 429 Too many\r\ncontent-length: 2\r\n\r\n{}").is_err());
    }
}
