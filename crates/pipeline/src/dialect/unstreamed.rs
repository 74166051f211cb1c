//! Reads an unstreamed answer.

use super::{AnswerDefaults, DialectRequest};
use bytes::Bytes;
use seawall_core::failure::{Failure, FailureKind};
use seawall_wire::AnswerError;
use seawall_wire::chat::{ChatAnswer, FinishReason, Usage, UsageReport, custom_tool};
use seawall_wire::dialect::{DialectId, ResponseReport};
use seawall_wire::reply::{AnswerContent, ParsedAnswer};

/// An unstreamed answer for the caller.
#[derive(Clone, Debug, PartialEq)]
pub struct UnstreamedAnswer {
    /// The usage that the target reported.
    pub usage: Usage,
    /// Whether the report includes the output.
    pub output_reported: bool,
    /// The finish reason.
    pub finish: FinishReason,
    /// The answer itself.
    pub content: AnswerContent,
    /// Headers of the caller's dialect.
    pub headers: Vec<(&'static str, String)>,
}

impl UnstreamedAnswer {
    /// Parses a target's answer. `report` is the usage from the response headers, for bodies that do not contain it.
    ///
    /// If both sides use the same body format, the body is forwarded unchanged, including the target's model name.
    /// Otherwise the answer is rewritten with the caller's model name. An answer that cannot be parsed is a failure of
    /// the target.
    pub fn read(
        request: &DialectRequest,
        target: DialectId,
        body: Bytes,
        report: Option<ResponseReport>,
        defaults: &AnswerDefaults<'_>,
    ) -> Result<Self, Failure> {
        let face = request.face();
        let (header_usage, passed_headers) =
            report.map_or((None, Vec::new()), |report| (report.usage, report.headers));
        if let Some(answer) = request.read_operation_answer(target, &body, header_usage) {
            let answer = answer.map_err(|_| Failure::of(FailureKind::Unrecognised))?;
            let UsageReport { usage, output_reported } = merge_usage(answer.report, header_usage);
            return Ok(Self {
                usage,
                output_reported,
                finish: FinishReason::EndTurn,
                content: AnswerContent::Opaque(answer.body),
                headers: Vec::new(),
            });
        }
        if request.opaque_answers().is_some() {
            return Self::opaque(target, body, header_usage, passed_headers, defaults);
        }
        let is_passed_through = |dialect: DialectId| dialect.body_format() == target.body_format();
        // Another handle of the same bytes.
        let whole = body.clone();
        let answer = if face.dialect().is_some_and(is_passed_through) {
            read_usage(target, &body).map(|(report, finish)| {
                (merge_usage(report, header_usage), finish, AnswerContent::Opaque(body))
            })
        } else {
            read_chat(target, &body, defaults, request.model()).map(|mut answer| {
                let report = read_usage(target, &body).map(|(report, _)| report);
                let report = merge_usage(report.unwrap_or_default(), header_usage);
                answer.usage = report.usage;
                custom_tool::mark(&mut answer, request.custom_tools());
                let (finish, identity) = (answer.finish, super::identity(request.model(), defaults));
                (report, finish, AnswerContent::Parsed(Box::new(ParsedAnswer { answer, identity })))
            })
        };
        let (UsageReport { usage, output_reported }, finish, content) =
            answer.map_err(|_| failure_in_answer(target, &whole))?;
        let own_headers = |dialect: DialectId| dialect.answer_headers(usage, defaults.elapsed);
        let mut headers = face.dialect().map(own_headers).unwrap_or_default();
        if face.dialect() == Some(target) {
            headers.extend(passed_headers);
        }
        Ok(Self { usage, output_reported, finish, content, headers })
    }

    /// An answer of a model of unknown format. The service's own token counts take precedence over counts in the body.
    fn opaque(
        target: DialectId,
        body: Bytes,
        header_usage: Option<Usage>,
        mut headers: Vec<(&'static str, String)>,
        defaults: &AnswerDefaults<'_>,
    ) -> Result<Self, Failure> {
        let Some(body_usage) = target.read_opaque_usage(&body) else {
            // Unreachable: such a body is only sent to a dialect that can carry it.
            return Err(Failure::of(FailureKind::Unrecognised));
        };
        let header_usage = header_usage.filter(|header_usage| header_usage.total_input() > 0);
        let UsageReport { usage, output_reported } = match header_usage {
            Some(usage) => UsageReport { usage, output_reported: true },
            None => body_usage,
        };
        if output_reported {
            headers.extend(target.answer_headers(usage, defaults.elapsed));
        }
        let content = AnswerContent::Opaque(body);
        Ok(Self { usage, output_reported, finish: FinishReason::EndTurn, content, headers })
    }
}

/// Why a body is not an answer. Servers that are compatible with OpenAI's may report an error with the status of a success:
/// OpenRouter does so whenever a model has failed after its work began.
fn failure_in_answer(target: DialectId, body: &[u8]) -> Failure {
    if target == DialectId::OPENAI_CHAT {
        return target.read_error(200, &|_| None, body);
    }
    Failure::of(FailureKind::Unrecognised)
}

/// The usage from the body; where it has none, or lacks the output, from the headers. Every request has input.
fn merge_usage(report: UsageReport, header_usage: Option<Usage>) -> UsageReport {
    let Some(header_usage) = header_usage.filter(|header_usage| header_usage.total_input() > 0) else {
        return report;
    };
    if report.usage.total_input() == 0 {
        return UsageReport { usage: header_usage, output_reported: true };
    }
    let output = if report.output_reported { report.usage.output } else { header_usage.output };
    UsageReport { usage: Usage { output, ..report.usage }, output_reported: true }
}

fn read_usage(target: DialectId, body: &[u8]) -> Result<(UsageReport, FinishReason), AnswerError> {
    // A JSON array is not an answer, although the deserializer would accept one.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(AnswerError::Unreadable { problem: "it must be a JSON object".to_owned() });
    }
    target.read_answer(body)
}

fn read_chat(
    target: DialectId,
    body: &[u8],
    defaults: &AnswerDefaults<'_>,
    model: &str,
) -> Result<ChatAnswer, AnswerError> {
    let mut answer = target.read_chat_answer(body, defaults.id, model)?;
    model.clone_into(&mut answer.model);
    Ok(answer)
}
