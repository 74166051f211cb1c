//! The vendors' own client libraries.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A client library in the version that `cargo xtask test` installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// Python 1.x, which sends its key as `x-api-key`.
    AnthropicPythonOne,
    /// Python 2.x, which sends it as a bearer token.
    AnthropicPythonTwo,
    AnthropicNode,
    OpenaiPython,
    OpenaiNode,
    /// The same library, with its newer API.
    ResponsesPython,
    ResponsesNode,
    /// Vercel's AI SDK. Its errors are its own, so that it is in no table of exceptions.
    Vercel,
    /// LangChain with `use_responses_api`, and pydantic-ai, which uses Responses for `openai:`.
    LangchainResponses,
    PydanticResponses,
    AwsPython(Way),
    AwsNode(Way, Http),
    GeminiPython,
    GeminiNode,
}

/// The two operations of Bedrock to call a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The common format of all models.
    Converse,
    /// The model's own format.
    Invoke,
}

/// The HTTP version, for clients that can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http {
    One,
    /// The library's default. Without TLS it starts with prior knowledge, without negotiation.
    Two,
}

impl Client {
    pub(crate) const ANTHROPIC: [Self; 3] =
        [Self::AnthropicPythonOne, Self::AnthropicPythonTwo, Self::AnthropicNode];

    /// Google's, which read no header: neither a request id of an error nor that it must not be retried.
    pub(crate) const GEMINI: [Self; 2] = [Self::GeminiPython, Self::GeminiNode];

    /// All but Google's.
    pub(crate) const ALL: [Self; 13] = [
        Self::AnthropicPythonOne,
        Self::AnthropicPythonTwo,
        Self::AnthropicNode,
        Self::OpenaiPython,
        Self::OpenaiNode,
        Self::ResponsesPython,
        Self::ResponsesNode,
        Self::AwsPython(Way::Converse),
        Self::AwsPython(Way::Invoke),
        Self::AwsNode(Way::Converse, Http::One),
        Self::AwsNode(Way::Converse, Http::Two),
        Self::AwsNode(Way::Invoke, Http::One),
        Self::AwsNode(Way::Invoke, Http::Two),
    ];

    /// Starts the client; it makes one call after the other.
    pub(crate) fn open(self, url: &str) -> anyhow::Result<Session> {
        let mut command = self.command(url)?;
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("{self:?}: cannot start {command:?}"))?;
        let calls = child.stdin.take().context("no way in")?;
        let sights = BufReader::new(child.stdout.take().context("no way out")?);
        Ok(Session { client: self, child, calls, sights })
    }

    /// The result of one call as a user of this client sees it. `what` is `answer` or `stream`.
    pub(crate) fn sees(
        self,
        url: &str,
        key: &str,
        model: &str,
        what: &str,
        retries: u32,
    ) -> anyhow::Result<Value> {
        let stream = what == "stream";
        self.open(url)?.sees(&json!({ "key": key, "model": model, "stream": stream, "retries": retries }))
    }

    fn command(self, url: &str) -> anyhow::Result<Command> {
        let mut command = match self {
            Self::AnthropicPythonOne => python("anthropic-python-1", "anthropic_client.py"),
            Self::AnthropicPythonTwo => python("anthropic-python-2", "anthropic_client.py"),
            Self::AnthropicNode => node("anthropic-node", "anthropic_client.mjs"),
            Self::OpenaiPython => python("openai-python", "openai_client.py"),
            Self::OpenaiNode => node("openai-node", "openai_client.mjs"),
            Self::ResponsesPython => python("openai-python", "responses_client.py"),
            Self::ResponsesNode => node("openai-node", "responses_client.mjs"),
            Self::Vercel => node("vercel-ai", "vercel_client.mjs"),
            Self::LangchainResponses => python("langchain-openai", "langchain_responses.py"),
            Self::PydanticResponses => python("pydantic-ai", "pydantic_responses.py"),
            Self::AwsPython(_) => python("aws-python", "aws_client.py"),
            Self::AwsNode(..) => node("aws-node", "aws_client.mjs"),
            Self::GeminiPython => python("gemini-python", "gemini_client.py"),
            Self::GeminiNode => node("gemini-node", "gemini_client.mjs"),
        }?;
        command.arg(url);
        if let Self::AwsPython(way) | Self::AwsNode(way, _) = self {
            command.arg(if way == Way::Converse { "converse" } else { "invoke" });
        }
        if let Self::AwsNode(_, http) = self {
            command.arg(if http == Http::One { "one" } else { "two" });
        }
        Ok(command)
    }
}

/// A running client; killed when dropped.
pub(crate) struct Session {
    client: Client,
    child: Child,
    calls: ChildStdin,
    sights: BufReader<ChildStdout>,
}

impl Session {
    pub(crate) const fn client(&self) -> Client {
        self.client
    }

    /// The result of a call as its user sees it: `text`, `tool` and its `tool_id`, `finish`, `input`, `output`,
    /// `pieces` of a stream, whether it is `complete`, `headers` and the id of the `request`, and `error` with the
    /// names of its class and its base classes (`kinds`). The defaults of `call` are below.
    pub(crate) fn sees(&mut self, call: &Value) -> anyhow::Result<Value> {
        let mut whole = json!({
            "key": "any",
            // Amazon's clients sign with it. Without one they send the key itself, as the others do.
            "secret": "any",
            "model": "instant",
            "max_tokens": 40,
            "question": "What should I read next?",
            "stream": false,
            // Whether the library itself accumulates the pieces into one answer, where it can.
            "put_together": false,
            // Whether only the input tokens are to be counted, where the dialect can.
            "count": false,
            // Whether only the names of models are requested, as `models`, where the dialect can.
            "list": false,
            // Texts to embed instead of a question, as `vectors`, and the encoding of the vectors, where the dialect can.
            "embed": null,
            "encoding": null,
            // Whether an image is requested, where the dialect can.
            "images": false,
            // Whether the user reads headers, which most libraries show only on demand.
            "raw": false,
            // The idempotency key of the request.
            "name": null,
            // Offered, and required unless its result is already there.
            "tool": null,
            // The input of a tool call that has been made.
            "result": null,
            "retries": 0,
            // The library's timeout in seconds.
            "timeout": 20,
            // Seconds after which the script gives up if the library waits forever.
            "patience": 20,
        });
        let (Value::Object(whole), Value::Object(call)) = (&mut whole, call) else {
            return Err(anyhow::anyhow!("a call is an object, not {call}"));
        };
        whole.extend(call.clone());
        let request = serde_json::to_string(whole)?;
        writeln!(self.calls, "{request}").with_context(|| format!("{:?} is gone", self.client))?;
        let mut line = String::new();
        self.sights.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("{:?} says nothing to {request}", self.client))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/sdk").join(name)
}

fn python(directory: &str, name: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(installed(directory)?.join("bin/python"));
    command.arg(script(name));
    Ok(command)
}

fn node(directory: &str, name: &str) -> anyhow::Result<Command> {
    let mut command = Command::new("node");
    // Deprecation warnings about this version of node are not part of a test.
    command.env("NODE_NO_WARNINGS", "1").arg(script(name)).arg(installed(directory)?);
    Ok(command)
}

/// The directory of a client library, beside the directory that cargo gives to tests.
pub(crate) fn installed(name: &str) -> anyhow::Result<PathBuf> {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let directory = temporary.parent().unwrap_or(temporary).join("clients").join(name);
    ensure!(directory.is_dir(), "{name} is not installed; `cargo xtask test` installs it");
    Ok(directory)
}
