//! `seawall tokens`.

use crate::CommandError;
use anyhow::Context as _;
use clap::Args;
use seawall_core::tokens::{
    Calibration, CharacterClass, OverheadOptions, RequestCounts, TextCounts, TokenEstimate, TokenizerFamily,
    estimate, exact_tokens,
};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;

/// No overhead: what a request adds to the text is known only in the gateway.
const NO_OVERHEAD: OverheadOptions = OverheadOptions { request: 0, message: 0, reserve: 0 };

#[derive(Args)]
pub(crate) struct TokensArguments {
    /// Model name. Default: the most conservative weights.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// File with the text, in UTF-8; - reads standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(arguments: &TokensArguments) -> Result<(), CommandError> {
    let text = read(arguments).map_err(CommandError::InvalidInput)?;
    let model = arguments.model.as_deref().unwrap_or_default();
    let report = TokenReport::of(model, &text);
    let shown = if arguments.json {
        format!("{:#}\n", report.json(arguments.model.as_deref()))
    } else {
        report.table(io::stdout().is_terminal())
    };
    io::stdout()
        .write_all(shown.as_bytes())
        .context("cannot write to standard output")
        .map_err(CommandError::Failed)
}

fn read(arguments: &TokensArguments) -> anyhow::Result<String> {
    let is_input = arguments.file.as_os_str() == "-";
    let name = if is_input { "standard input".to_owned() } else { arguments.file.display().to_string() };
    let bytes = if is_input {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        fs::read(&arguments.file)
    };
    let bytes = bytes.with_context(|| format!("cannot read {name}"))?;
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        anyhow::anyhow!("{name} is not valid UTF-8: invalid byte at offset {offset}")
    })
}

/// All results for a text.
struct TokenReport {
    family: TokenizerFamily,
    counts: TextCounts,
    estimate: TokenEstimate,
    exact: Option<u64>,
}

impl TokenReport {
    fn of(model: &str, text: &str) -> Self {
        let family = TokenizerFamily::of_model(model);
        let request = RequestCounts::of_message(text);
        Self {
            family,
            counts: request.message,
            estimate: estimate(model, &request, NO_OVERHEAD, &Calibration::default()),
            exact: exact_tokens(family, text),
        }
    }

    /// The classes that occur: name, characters and tokens.
    fn classes(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        let all = CharacterClass::ALL.into_iter().zip(self.estimate.classes);
        all.map(|(class, tokens)| (class.name(), self.counts.characters(class), tokens))
            .filter(|(_, characters, _)| *characters > 0)
    }

    fn table(&self, on_terminal: bool) -> String {
        let bold = |text: String| if on_terminal { format!("\x1b[1m{text}\x1b[0m") } else { text };
        let TokenEstimate { best, p95, upper, language, confidence, .. } = &self.estimate;
        let mut table = String::new();
        // Writing to a string cannot fail.
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(table, "{name:<16}{value}");
        };
        if let Some(exact) = self.exact {
            line("exact", &bold(format!("{exact:>10} tokens")));
        }
        line("best estimate", &bold(format!("{best:>10} tokens")));
        line("p95", &format!("{p95:>10} tokens"));
        line("upper bound", &format!("{upper:>10} tokens"));
        line("language", &format!("{:>10}", language.name()));
        line("confidence", &format!("{confidence:>10} %"));
        line("tokenizer", &format!("{:>10}", self.family.name()));
        let mut classes = self.classes().peekable();
        if classes.peek().is_some() {
            let _ =
                write!(table, "\n{}\n", bold(format!("{:<16}{:>10}{:>10}", "class", "characters", "tokens")));
        }
        for (name, characters, tokens) in classes {
            let _ = writeln!(table, "{name:<16}{characters:>10}{tokens:>10}");
        }
        table
    }

    fn json(&self, model: Option<&str>) -> Value {
        let classes: Map<String, Value> = self
            .classes()
            .map(|(name, characters, tokens)| {
                (name.to_owned(), json!({ "characters": characters, "tokens": tokens }))
            })
            .collect();
        let TokenEstimate { best, p95, upper, language, confidence, .. } = &self.estimate;
        json!({
            "model": model,
            "tokenizer": self.family.name(),
            "exact": self.exact,
            "best": best,
            "p95": p95,
            "upper": upper,
            "language": language.name(),
            "confidence": f64::from(*confidence) / 100.0,
            "bytes": self.counts.bytes(),
            "classes": classes,
        })
    }
}
