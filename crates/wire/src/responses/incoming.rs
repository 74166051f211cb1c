//! Parses the events of a stream as far as both stream readers need them.

use super::output::ResponseIdentity;
use crate::answer_error::StreamError;
use crate::lenient::Lenient;
use crate::openai::{read_error, read_error_message};
use crate::request::CowStr;
use crate::sse::SseEvent;
use crate::stream::parse;
use seawall_core::failure::Failure;
use serde::Deserialize;
use serde_json::value::RawValue;

/// What an event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    /// The response exists and has not ended.
    Opened,
    ItemAdded,
    ItemDone,
    /// A part of the content of an item begins.
    PartAdded,
    /// A part of a reasoning summary begins.
    SummaryPartAdded,
    Delta(DeltaKind),
    Ended,
    Failed,
    Other,
}

/// What a delta is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeltaKind {
    Text,
    Refusal,
    Thinking,
    Arguments,
    /// Other generated output, such as the input of a custom tool or of a tool that the vendor runs.
    Other,
}

impl EventKind {
    fn of(name: &str) -> Self {
        match name {
            "response.created" | "response.queued" | "response.in_progress" => Self::Opened,
            "response.output_item.added" => Self::ItemAdded,
            "response.output_item.done" => Self::ItemDone,
            "response.content_part.added" => Self::PartAdded,
            "response.reasoning_summary_part.added" => Self::SummaryPartAdded,
            "response.output_text.delta" => Self::Delta(DeltaKind::Text),
            "response.refusal.delta" => Self::Delta(DeltaKind::Refusal),
            "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => {
                Self::Delta(DeltaKind::Thinking)
            }
            "response.function_call_arguments.delta" => Self::Delta(DeltaKind::Arguments),
            "response.completed" | "response.incomplete" => Self::Ended,
            "response.failed" | "error" => Self::Failed,
            name if name.starts_with("response.") && name.ends_with(".delta") => {
                Self::Delta(DeltaKind::Other)
            }
            _ => Self::Other,
        }
    }
}

/// One event; fields that no reader needs are not parsed.
#[derive(Deserialize)]
pub(super) struct IncomingEvent<'a> {
    #[serde(borrow, rename = "type")]
    name: Option<CowStr<'a>>,
    #[serde(default)]
    pub(super) sequence_number: Lenient<u64>,
    #[serde(default)]
    output_index: Lenient<u64>,
    #[serde(default)]
    content_index: Lenient<u64>,
    #[serde(default)]
    summary_index: Lenient<u64>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl<'a> IncomingEvent<'a> {
    /// Parses an event. `None` for the end marker `[DONE]`, which some servers send after the last event.
    pub(super) fn read(event: SseEvent<'a>) -> Result<Option<(EventKind, Self)>, StreamError> {
        if event.data.trim_ascii() == b"[DONE]" {
            return Ok(None);
        }
        let parsed: Self = parse("response", event.data)?;
        let kind = match &parsed.name {
            // Clients treat any event with an error object as an error.
            _ if parsed.error.is_some() => EventKind::Failed,
            Some(CowStr(name)) => EventKind::of(name),
            // Clients accept events whose type is only in the event name.
            None => EventKind::of(str::from_utf8(event.name).unwrap_or_default()),
        };
        Ok(Some((kind, parsed)))
    }

    pub(super) fn output_index(&self) -> u64 {
        self.output_index.count().unwrap_or(0)
    }

    /// The index of a part of the content or of the summary.
    pub(super) fn part_index(&self) -> u64 {
        self.content_index.count().or(self.summary_index.count()).unwrap_or(0)
    }

    /// The delta as JSON text, quotes included; `None` if it is empty.
    pub(super) fn delta(&self) -> Option<&'a RawValue> {
        self.delta.filter(|raw| raw.get() != r#""""#)
    }

    /// The failure that this event reports, and its message. The error is in the response, in an error object, or, in
    /// the vendor's `error` event, the event itself.
    pub(super) fn failure(&self, data: &[u8]) -> (Failure, String) {
        let has_error = |raw: &&RawValue| {
            serde_json::from_str(raw.get()).is_ok_and(|MaybeFailed { error }| error.is_some())
        };
        let body = match self.response.filter(has_error) {
            Some(response) => response.get().as_bytes().to_vec(),
            None if self.error.is_some() => data.to_vec(),
            None => [br#"{"error":"#, data, b"}"].concat(),
        };
        // 200 is the status that the stream began with; the failure is classified by the error alone.
        (read_error(200, |_| None, &body), read_error_message(&body))
    }
}

#[derive(Deserialize)]
struct MaybeFailed<'a> {
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct IdentityFields<'a> {
    #[serde(borrow)]
    id: Lenient<CowStr<'a>>,
    #[serde(borrow)]
    model: Lenient<CowStr<'a>>,
    created_at: Lenient<u64>,
}

impl ResponseIdentity {
    /// Reads the identity of a response; what is missing stays empty.
    pub(super) fn read(response: &RawValue) -> Self {
        let fields: IdentityFields<'_> = serde_json::from_str(response.get()).unwrap_or_default();
        let owned = |name: &Lenient<CowStr<'_>>| name.get().map(|CowStr(name)| name.to_string());
        Self {
            id: owned(&fields.id).unwrap_or_default(),
            model: owned(&fields.model).unwrap_or_default(),
            created_at: fields.created_at.count().unwrap_or(0),
        }
    }
}
