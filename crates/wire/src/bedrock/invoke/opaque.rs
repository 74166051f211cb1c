//! InvokeModel for models of other vendors: each has its own dialect, and its bodies pass through unparsed.
//!
//! Accounting does not depend on these dialects: the service itself counts tokens, in the headers of a whole answer and
//! in the last chunk of a stream. If it does not, the usage formats of its better known models are tried. An answer
//! without usage in any of them is charged at its reservation.

use super::transcode::decode_chunk;
use crate::RequestError;
use crate::bedrock::frame::{Frame, FrameEnding, FrameKind, FrameLimits, FrameReader};
use crate::bedrock::stream::{BedrockStreamError, failure_of};
use crate::chat::{StreamEvent, Usage, UsageReport};
use crate::fields::JsonFields;
use crate::lenient::Lenient;
use memchr::memmem;
use seawall_core::tokens::OutputMeter;
use serde::Deserialize;

/// The fields that decisions need of a request that is otherwise not parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpaqueHead {
    /// The number of answers requested; each may be as long as the model's maximum.
    pub answers: u32,
}

/// The names that models use for the number of answers.
const ANSWERS: [&str; 4] = ["num_generations", "n", "numResults", "num_results"];

impl OpaqueHead {
    /// Reads the fields of a body that is known to be JSON.
    pub(super) fn of(fields: &JsonFields<'_>) -> Result<Self, RequestError> {
        let mut answers = 1;
        for name in ANSWERS {
            if let Some(raw) = fields.get(name) {
                let number = raw.get().parse::<u32>().ok().filter(|number| (1..=1_000).contains(number));
                let problem = "Input should be an integer between 1 and 1000";
                answers = number.ok_or_else(|| RequestError::invalid(name, problem))?.max(answers);
            }
        }
        Ok(Self { answers })
    }
}

/// The usage of a whole answer, in the formats of the better known models; empty if there is none.
#[must_use]
pub fn read_opaque_usage(body: &[u8]) -> UsageReport {
    let answer: AnswerFields = serde_json::from_slice(body).unwrap_or_default();
    answer.report()
}

/// Observes an InvokeModelWithResponseStream whose chunks are forwarded unparsed.
///
/// The service adds its own token counts to the last chunk of every model's stream. A stream that ends without them was
/// truncated.
#[derive(Debug)]
pub struct OpaqueStream {
    frames: FrameReader,
    account: Account,
}

#[derive(Debug, Default)]
struct Account {
    usage: Option<Usage>,
    failed: Option<BedrockStreamError>,
    /// The decoded payload of a chunk; kept to reuse the allocation.
    chunk: Vec<u8>,
    /// Stays empty: the format of the answer's text is unknown.
    meter: OutputMeter,
}

impl OpaqueStream {
    /// Creates a reader at the start of a stream.
    #[must_use]
    pub fn new(limits: FrameLimits) -> Self {
        Self { frames: FrameReader::new(limits), account: Account::default() }
    }

    /// Parses the next chunk and calls `on_event` for each event that it completes. After an error, every further call
    /// returns the same error. `Finished` is not emitted here: only the code that knows that no more bytes will come
    /// can determine it.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut on_event: impl FnMut(StreamEvent),
    ) -> Result<(), BedrockStreamError> {
        let account = &mut self.account;
        let outcome = self.frames.feed(bytes, |frame| {
            if account.failed.is_none() {
                account.failed = account.read(&frame, &mut on_event).err();
            }
        });
        match &account.failed {
            Some(error) => Err(error.clone()),
            None => Ok(outcome?),
        }
    }

    /// The usage, once the service has reported it.
    #[must_use]
    pub fn report(&self) -> UsageReport {
        let usage = self.account.usage;
        UsageReport { usage: usage.unwrap_or_default(), output_reported: usage.is_some() }
    }

    /// The output meter; always empty, because the text cannot be counted.
    #[must_use]
    pub const fn meter(&mut self) -> &mut OutputMeter {
        &mut self.account.meter
    }

    /// Whether the last chunk has arrived and the stream is at a frame boundary.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.account.usage.is_some() && self.frames.finish() == FrameEnding::Clean
    }

    /// Size in bytes of the incomplete frame received so far.
    #[must_use]
    pub const fn unfinished(&self) -> usize {
        self.frames.unfinished()
    }
}

impl Account {
    fn read(
        &mut self,
        frame: &Frame<'_>,
        on_event: &mut impl FnMut(StreamEvent),
    ) -> Result<(), BedrockStreamError> {
        if let Some((failure, message)) = failure_of(frame) {
            on_event(StreamEvent::Failed { failure, message });
            return Ok(());
        }
        if frame.kind != FrameKind::Event("chunk") {
            on_event(StreamEvent::Other);
            return Ok(());
        }
        decode_chunk(frame.payload, &mut self.chunk)?;
        on_event(StreamEvent::Content);
        // Few chunks contain the metrics; the others are not parsed.
        if memmem::find(&self.chunk, METRICS.as_bytes()).is_some() {
            let last: LastChunk = serde_json::from_slice(&self.chunk).unwrap_or_default();
            if let Some(usage) = last.metrics.get().and_then(MetricsFields::usage) {
                self.usage = Some(usage);
                on_event(StreamEvent::Progress { usage, finish: None });
            }
        }
        Ok(())
    }
}

const METRICS: &str = "amazon-bedrock-invocationMetrics";

#[derive(Default, Deserialize)]
#[serde(default)]
struct LastChunk {
    #[serde(rename = "amazon-bedrock-invocationMetrics")]
    metrics: Lenient<MetricsFields>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetricsFields {
    input_token_count: Lenient<u64>,
    output_token_count: Lenient<u64>,
    cache_read_input_token_count: Lenient<u64>,
    cache_write_input_token_count: Lenient<u64>,
}

impl MetricsFields {
    /// `None` unless input and output are both present. One unusable count makes the others unreliable.
    fn usage(&self) -> Option<Usage> {
        let cached = [self.cache_read_input_token_count, self.cache_write_input_token_count];
        if cached.iter().any(Lenient::is_invalid) {
            return None;
        }
        Some(Usage {
            input: self.input_token_count.count()?,
            output: self.output_token_count.count()?,
            cache_read: cached[0].count().unwrap_or(0),
            cache_write: cached[1].count().unwrap_or(0),
            ..Usage::default()
        })
    }
}

/// The usage formats of models: Titan at the top level and in each result, Llama at the top level, Nova, Mistral and
/// others under `usage`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AnswerFields {
    usage: Lenient<UsageFields>,
    #[serde(rename = "inputTextTokenCount")]
    titan_input: Lenient<u64>,
    results: Lenient<Vec<TitanResult>>,
    prompt_token_count: Lenient<u64>,
    generation_token_count: Lenient<u64>,
    #[serde(rename = "amazon-bedrock-invocationMetrics")]
    metrics: Lenient<MetricsFields>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TitanResult {
    token_count: Lenient<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UsageFields {
    #[serde(alias = "input_tokens", alias = "prompt_tokens", rename = "inputTokens")]
    input: Lenient<u64>,
    #[serde(alias = "output_tokens", alias = "completion_tokens", rename = "outputTokens")]
    output: Lenient<u64>,
    #[serde(rename = "cacheReadInputTokenCount")]
    cache_read: Lenient<u64>,
    #[serde(rename = "cacheWriteInputTokenCount")]
    cache_write: Lenient<u64>,
}

impl AnswerFields {
    fn report(&self) -> UsageReport {
        let report_of = |input: u64, output: Option<u64>| UsageReport {
            usage: Usage { input, output: output.unwrap_or(0), ..Usage::default() },
            output_reported: output.is_some(),
        };
        if let Some(usage) = self.metrics.get().and_then(MetricsFields::usage) {
            return UsageReport { usage, output_reported: true };
        }
        if let Some(usage) = self.usage.get()
            && let Some(input) = usage.input.count()
        {
            let mut report = report_of(input, usage.output.count());
            report.usage.cache_read = usage.cache_read.count().unwrap_or(0);
            report.usage.cache_write = usage.cache_write.count().unwrap_or(0);
            return report;
        }
        if let Some(input) = self.prompt_token_count.count() {
            return report_of(input, self.generation_token_count.count());
        }
        let Some(input) = self.titan_input.count() else { return UsageReport::default() };
        let results = self.results.get().map(|results| {
            let counts: Option<Vec<u64>> = results.iter().map(|result| result.token_count.count()).collect();
            counts.map(|counts| counts.into_iter().fold(0, u64::saturating_add))
        });
        report_of(input, results.flatten())
    }
}
