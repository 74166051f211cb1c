//! The response object and its output items, as they are written.

use super::namespace;
use super::usage::ResponsesUsageFields;
use crate::chat::{FinishReason, Usage, custom_tool};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Characters of the response id that become part of item ids. The vendor accepts ids of at most 64 characters.
const MAX_ID_SUFFIX: usize = 40;

/// One output item that is written here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutputItem {
    pub(super) id: String,
    pub(super) content: ItemContent,
}

/// The content of an item. Each kind has one text, which arrives in deltas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ItemContent {
    Message {
        text: String,
    },
    Reasoning {
        summary: String,
    },
    Call {
        call_id: String,
        name: String,
        arguments: String,
    },
    /// A call of a tool with free text.
    CustomCall {
        call_id: String,
        name: String,
        input: String,
    },
}

impl ItemContent {
    /// A call, of a tool with free text if its name is marked.
    pub(super) fn call(call_id: &str, name: &str, arguments: &str) -> Self {
        let call_id = call_id.to_owned();
        match custom_tool::marked_name(name) {
            Some(name) => Self::CustomCall { call_id, name: name.to_owned(), input: arguments.to_owned() },
            None => Self::Call { call_id, name: name.to_owned(), arguments: arguments.to_owned() },
        }
    }

    pub(super) const fn text_mut(&mut self) -> &mut String {
        match self {
            Self::Message { text }
            | Self::Reasoning { summary: text }
            | Self::Call { arguments: text, .. }
            | Self::CustomCall { input: text, .. } => text,
        }
    }

    /// The vendor checks the beginning of an id when an item is sent back to it.
    const fn id_prefix(&self) -> &'static str {
        match self {
            Self::Message { .. } => "msg",
            Self::Reasoning { .. } => "rs",
            Self::Call { .. } => "fc",
            Self::CustomCall { .. } => "ctc",
        }
    }
}

impl OutputItem {
    /// An item with an id derived from the response's id and the item's index, so that no randomness is needed.
    pub(super) fn numbered(response_id: &str, index: usize, content: ItemContent) -> Self {
        let suffix: String =
            response_id.chars().filter(char::is_ascii_alphanumeric).take(MAX_ID_SUFFIX).collect();
        Self { id: format!("{}_{suffix}_{index}", content.id_prefix()), content }
    }

    /// The item in the event that adds it: without text.
    pub(super) fn added(&self) -> ItemOut<'_> {
        self.out(ItemStatus::InProgress)
    }

    pub(super) fn out(&self, status: ItemStatus) -> ItemOut<'_> {
        let is_added = status == ItemStatus::InProgress;
        let id = self.id.as_str();
        match &self.content {
            ItemContent::Message { text } => ItemOut::Message {
                id,
                status,
                role: "assistant",
                content: if is_added { Vec::new() } else { vec![PartOut::text(text)] },
            },
            ItemContent::Reasoning { summary } => ItemOut::Reasoning {
                id,
                summary: if is_added { Vec::new() } else { vec![PartOut::SummaryText { text: summary }] },
            },
            ItemContent::Call { call_id, name, arguments } => {
                let (namespace, name) = namespace::split(name);
                let arguments = if is_added { "" } else { arguments };
                ItemOut::FunctionCall { id, status, call_id, namespace, name, arguments }
            }
            ItemContent::CustomCall { call_id, name, input } => {
                let (namespace, name) = namespace::split(name);
                let input = if is_added { "" } else { input };
                ItemOut::CustomToolCall { id, status, call_id, namespace, name, input }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ItemStatus {
    InProgress,
    Completed,
    Incomplete,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ItemOut<'a> {
    Message {
        id: &'a str,
        status: ItemStatus,
        role: &'a str,
        content: Vec<PartOut<'a>>,
    },
    Reasoning {
        id: &'a str,
        summary: Vec<PartOut<'a>>,
    },
    FunctionCall {
        id: &'a str,
        status: ItemStatus,
        call_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
        name: &'a str,
        arguments: &'a str,
    },
    CustomToolCall {
        id: &'a str,
        status: ItemStatus,
        call_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
        name: &'a str,
        input: &'a str,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum PartOut<'a> {
    OutputText { text: &'a str, annotations: [(); 0], logprobs: [(); 0] },
    SummaryText { text: &'a str },
}

impl<'a> PartOut<'a> {
    pub(super) const fn text(text: &'a str) -> Self {
        Self::OutputText { text, annotations: [], logprobs: [] }
    }
}

/// An item in the output of a response: written here, or copied from the vendor.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum AnyItem<'a> {
    Written(ItemOut<'a>),
    Copied(&'a RawValue),
}

/// Id, model and creation time of a response.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponseIdentity {
    pub(super) id: String,
    pub(super) model: String,
    /// In seconds since 1970.
    pub(super) created_at: u64,
}

/// How a response ended, or that it has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseStatus {
    InProgress,
    Completed,
    Incomplete(&'static str),
    Failed,
}

impl ResponseStatus {
    /// The dialect has fewer finish reasons: a stop sequence, a pause and an unknown reason map to the normal end, and
    /// an exceeded context window maps to the output limit.
    pub(super) const fn of(finish: FinishReason) -> Self {
        match finish {
            FinishReason::EndTurn
            | FinishReason::StopSequence
            | FinishReason::ToolUse
            | FinishReason::PauseTurn
            | FinishReason::Other => Self::Completed,
            FinishReason::MaxTokens | FinishReason::ContextWindowExceeded => {
                Self::Incomplete("max_output_tokens")
            }
            FinishReason::Refusal => Self::Incomplete("content_filter"),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete(_) => "incomplete",
            Self::Failed => "failed",
        }
    }

    /// The status of the last item of such a response.
    pub(super) const fn last_item(self) -> ItemStatus {
        match self {
            Self::InProgress | Self::Completed => ItemStatus::Completed,
            Self::Incomplete(_) | Self::Failed => ItemStatus::Incomplete,
        }
    }
}

/// A response object. Clients require some of the fields that repeat the request. The request is not known here, so
/// they have the vendor's defaults.
#[derive(Serialize)]
pub(super) struct ResponseOut<'a> {
    id: &'a str,
    object: &'a str,
    created_at: u64,
    status: &'a str,
    error: Option<&'a ErrorOut<'a>>,
    incomplete_details: Option<IncompleteDetails>,
    instructions: Option<()>,
    metadata: EmptyObject,
    model: &'a str,
    output: Vec<AnyItem<'a>>,
    parallel_tool_calls: bool,
    previous_response_id: Option<()>,
    store: bool,
    temperature: Option<()>,
    text: TextSettings,
    tool_choice: &'a str,
    tools: [(); 0],
    top_p: Option<()>,
    truncation: &'a str,
    usage: Option<ResponsesUsageFields>,
}

impl<'a> ResponseOut<'a> {
    pub(super) fn new(
        identity: &'a ResponseIdentity,
        status: ResponseStatus,
        output: Vec<AnyItem<'a>>,
    ) -> Self {
        Self {
            id: &identity.id,
            object: "response",
            created_at: identity.created_at,
            status: status.name(),
            error: None,
            incomplete_details: match status {
                ResponseStatus::Incomplete(reason) => Some(IncompleteDetails { reason }),
                _ => None,
            },
            instructions: None,
            metadata: EmptyObject,
            model: &identity.model,
            output,
            parallel_tool_calls: true,
            previous_response_id: None,
            store: false,
            temperature: None,
            text: TextSettings { format: TextFormat { kind: "text" } },
            tool_choice: "auto",
            tools: [],
            top_p: None,
            truncation: "disabled",
            usage: None,
        }
    }

    pub(super) fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage.into());
        self
    }

    pub(super) const fn with_error(mut self, error: &'a ErrorOut<'a>) -> Self {
        self.error = Some(error);
        self
    }
}

#[derive(Serialize)]
pub(super) struct ErrorOut<'a> {
    pub(super) code: &'a str,
    pub(super) message: &'a str,
    pub(super) param: Option<&'a str>,
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
}

#[derive(Serialize)]
struct IncompleteDetails {
    reason: &'static str,
}

#[derive(Serialize)]
struct TextSettings {
    format: TextFormat,
}

#[derive(Serialize)]
struct TextFormat {
    #[serde(rename = "type")]
    kind: &'static str,
}

/// Serialized as `{}`.
struct EmptyObject;

impl Serialize for EmptyObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(std::iter::empty::<((), ())>())
    }
}
