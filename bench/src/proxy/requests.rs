//! The benchmark's requests: sent by the load and recognised by the responder.

use super::token;

/// Which kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BenchRequestKind {
    /// Answered in one piece.
    Plain,
    /// Answered with all its events at once.
    Burst,
    /// Answered event by event.
    Paced,
}

impl BenchRequestKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Burst => "burst",
            Self::Paced => "paced",
        }
    }
}

/// What caller and model speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BenchDialect {
    Anthropic,
    Openai,
    Invoke,
    Converse,
}

impl BenchDialect {
    pub(crate) const ALL: [Self; 4] = [Self::Anthropic, Self::Openai, Self::Invoke, Self::Converse];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
            Self::Invoke => "invoke",
            Self::Converse => "converse",
        }
    }

    /// The dialect of a path.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        let (_, last) = path.rsplit_once('/')?;
        match last {
            "messages" => Some(Self::Anthropic),
            "completions" => Some(Self::Openai),
            "invoke" | "invoke-with-response-stream" => Some(Self::Invoke),
            "converse" | "converse-stream" => Some(Self::Converse),
            _ => None,
        }
    }

    fn path(self, route: &str, streams: bool) -> String {
        match (self, streams) {
            (Self::Anthropic, _) => "/v1/messages".to_owned(),
            (Self::Openai, _) => "/v1/chat/completions".to_owned(),
            (Self::Invoke, false) => format!("/model/{route}/invoke"),
            (Self::Invoke, true) => format!("/model/{route}/invoke-with-response-stream"),
            (Self::Converse, false) => format!("/model/{route}/converse"),
            (Self::Converse, true) => format!("/model/{route}/converse-stream"),
        }
    }
}

/// How callers prove who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BenchCredential {
    /// By a key that the settings list.
    Key,
    /// By a JSON Web Token.
    Token,
}

impl BenchCredential {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Token => "token",
        }
    }

    /// The credential of a caller. All have the same length, so that the load can overwrite one with the next.
    pub(crate) fn value(self, caller: usize) -> String {
        match self {
            Self::Key => key(caller),
            Self::Token => token::of(caller),
        }
    }
}

/// Marks a request for a stream in its body, if the path does not.
const STREAM_MARK: &[u8] = b"\"stream\":true";

/// Marks a request for a paced stream. It is part of the question, which every dialect forwards unchanged.
const PACED_MARK: &str = "Take your time. ";

/// The number of callers whose keys rotate. Enough that a gateway does not benefit from one caller's state in the CPU
/// cache.
pub(crate) const CALLERS: usize = 10_000;

pub(crate) fn key(caller: usize) -> String {
    format!("sk-bench-{caller:012}")
}

/// A kind of request in its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct BenchRequest {
    #[arg(long, value_enum)]
    pub(crate) kind: BenchRequestKind,
    /// Dialect of the caller.
    #[arg(long, value_enum)]
    pub(crate) dialect: BenchDialect,
    /// Dialect of the model.
    #[arg(long, value_enum)]
    pub(crate) model: BenchDialect,
    #[arg(long, value_enum)]
    pub(crate) credential: BenchCredential,
}

impl BenchRequest {
    /// The first caller's request, as bytes.
    pub(crate) fn request(self, host: &str) -> Vec<u8> {
        let Self { kind, dialect, model, credential } = self;
        let route = model.name();
        let streams = kind != BenchRequestKind::Plain;
        let pace = if kind == BenchRequestKind::Paced { PACED_MARK } else { "" };
        let question = "What makes the tide come in twice a day, and why not at the same hours? ".repeat(2);
        let text = format!("\"{pace}{question}\"");
        let body = match dialect {
            BenchDialect::Anthropic => {
                let stream = if streams { "\"stream\":true," } else { "" };
                format!(
                    "{{\"model\":\"{route}\",{stream}\"max_tokens\":2048,\"messages\":[{{\"role\":\"user\",\"content\":{text}}}]}}"
                )
            }
            BenchDialect::Openai => {
                let usage = "\"stream\":true,\"stream_options\":{\"include_usage\":true},";
                let stream = if streams { usage } else { "" };
                format!(
                    "{{\"model\":\"{route}\",{stream}\"max_completion_tokens\":2048,\"messages\":[{{\"role\":\"user\",\"content\":{text}}}]}}"
                )
            }
            BenchDialect::Invoke => format!(
                "{{\"anthropic_version\":\"bedrock-2023-05-31\",\"max_tokens\":2048,\"messages\":[{{\"role\":\"user\",\"content\":{text}}}]}}"
            ),
            BenchDialect::Converse => format!(
                "{{\"messages\":[{{\"role\":\"user\",\"content\":[{{\"text\":{text}}}]}}],\"inferenceConfig\":{{\"maxTokens\":2048}}}}"
            ),
        };
        let header = match (dialect, credential) {
            (BenchDialect::Anthropic, BenchCredential::Key) => "x-api-key: ",
            _ => "authorization: Bearer ",
        };
        let version =
            if dialect == BenchDialect::Anthropic { "anthropic-version: 2023-06-01\r\n" } else { "" };
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: {host}\r\n{header}{}\r\n{version}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            dialect.path(route, streams),
            credential.value(0),
            body.len()
        );
        [head.as_bytes(), body.as_bytes()].concat()
    }

    /// Whether the answer must be translated, because caller and model speak different dialects.
    pub(crate) fn is_translated(self) -> bool {
        self.dialect != self.model
    }
}

/// The kind of a request that arrived; `None` if it is not one of the benchmark's.
pub(crate) fn recognise(request: &[u8]) -> Option<(BenchDialect, BenchRequestKind)> {
    let has = |mark| super::message::find(request, mark).is_some();
    let line = request.split(|byte| *byte == b'\r').next()?;
    let path = std::str::from_utf8(line).ok()?.split(' ').nth(1)?;
    let dialect = BenchDialect::of_path(path)?;
    let kind = match path.ends_with("stream") || has(STREAM_MARK) {
        false => BenchRequestKind::Plain,
        true if has(PACED_MARK.as_bytes()) => BenchRequestKind::Paced,
        true => BenchRequestKind::Burst,
    };
    Some((dialect, kind))
}

#[cfg(test)]
mod tests {
    use super::{BenchCredential, BenchDialect, BenchRequest, BenchRequestKind, recognise};

    #[test]
    fn every_request_is_recognised_as_what_it_is() {
        for dialect in BenchDialect::ALL {
            for kind in [BenchRequestKind::Plain, BenchRequestKind::Burst, BenchRequestKind::Paced] {
                for credential in [BenchCredential::Key, BenchCredential::Token] {
                    let bench_request =
                        BenchRequest { kind, dialect, model: BenchDialect::Anthropic, credential };
                    assert_eq!(recognise(&bench_request.request("host")), Some((dialect, kind)));
                }
            }
        }
        assert_eq!(recognise(b"GET /elsewhere HTTP/1.1\r\n\r\n"), None);
    }

    #[test]
    fn every_body_is_json_of_the_length_that_its_head_names() {
        for dialect in BenchDialect::ALL {
            let bench_request = BenchRequest {
                kind: BenchRequestKind::Paced,
                dialect,
                model: dialect,
                credential: BenchCredential::Key,
            };
            let request = String::from_utf8(bench_request.request("host")).unwrap();
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            assert!(serde_json::from_str::<serde_json::Value>(body).is_ok(), "{body}");
            assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
        }
    }
}
