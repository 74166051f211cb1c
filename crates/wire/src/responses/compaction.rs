//! Compaction: the vendor shortens a conversation to an item that only it can read.

use super::answer::parse_answer;
use super::request::{ResponsesHead, with_model};
use super::usage::ResponsesUsageFields;
use crate::answer_error::AnswerError;
use crate::chat::{ChatRequest, Usage, UsageReport};
use crate::dialect::{DialectId, ModelOperation, OperationAnswer, RequestHead, RequestOptions};
use crate::lenient::Lenient;
use crate::request::RequestLimits;
use crate::request_error::RequestError;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A request to compact a conversation. It has the input of a request for a response, and no output limit.
#[derive(Debug)]
pub(super) struct CompactionHead(ResponsesHead);

impl CompactionHead {
    pub(super) const fn new(head: ResponsesHead) -> Self {
        Self(head)
    }
}

#[derive(Deserialize)]
struct Compaction {
    #[serde(rename = "output")]
    _output: Vec<IgnoredAny>,
    #[serde(default)]
    usage: Lenient<ResponsesUsageFields>,
}

impl RequestHead for CompactionHead {
    fn model(&self) -> &str {
        &self.0.model
    }

    fn stream(&self) -> bool {
        false
    }

    fn max_output(&self) -> Option<u32> {
        None
    }

    fn enables_thinking(&self) -> bool {
        // The model that compacts may reason.
        true
    }

    fn operation(&self) -> ModelOperation {
        ModelOperation::Compact
    }

    fn opaque_answers(&self) -> Option<u32> {
        // The request has no output limit, so that the model's maximum is reserved.
        Some(1)
    }

    fn pass_through(
        &self,
        body: &Bytes,
        target: DialectId,
        options: &RequestOptions<'_>,
    ) -> Option<Result<Bytes, RequestError>> {
        Some(if target == DialectId::RESPONSES {
            Ok(with_model(body, &self.0, options.model))
        } else {
            Err(RequestError::untranslatable("input", "compaction, which only OpenAI has"))
        })
    }

    fn read_chat(&self, body: &[u8], limits: &RequestLimits) -> Result<ChatRequest, RequestError> {
        self.0.read_chat(body, limits)
    }

    fn read_operation_answer(
        &self,
        _: DialectId,
        body: &Bytes,
        _: Option<Usage>,
    ) -> Option<Result<OperationAnswer, AnswerError>> {
        let answer = parse_answer(body).map(|answer: Compaction| {
            let report = answer.usage.get().map_or_else(UsageReport::default, |usage| UsageReport {
                usage: usage.read(),
                output_reported: usage.output_reported(),
            });
            OperationAnswer { report, body: body.clone() }
        });
        Some(answer)
    }
}
