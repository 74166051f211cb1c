//! Parses output items.

use crate::lenient::Lenient;
use crate::request::CowStr;
use serde::Deserialize;
use serde_json::value::RawValue;

/// An output item of an answer or stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadItem {
    Message(Vec<MessagePart>),
    Call {
        call_id: String,
        name: String,
        arguments: String,
    },
    /// The texts of its summary, or of its content if there is no summary.
    Reasoning(Vec<String>),
    /// A call of a tool that is not a function and that the caller runs.
    OtherCall,
    /// An item of another type, such as a call of a tool that the vendor runs.
    Other,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct MessagePart {
    pub(super) text: String,
    pub(super) is_refusal: bool,
}

impl ReadItem {
    pub(super) fn read(raw: &RawValue) -> Result<Self, String> {
        let parsed = |error: serde_json::Error| error.to_string();
        let kind: ItemKind<'_> = serde_json::from_str(raw.get()).map_err(parsed)?;
        Ok(match kind.name() {
            "message" => {
                let message: Message<'_> = serde_json::from_str(raw.get()).map_err(parsed)?;
                Self::Message(
                    message.content.unwrap_or_default().into_iter().filter_map(Part::read).collect(),
                )
            }
            "function_call" => {
                let call: Call<'_> = serde_json::from_str(raw.get()).map_err(parsed)?;
                Self::Call {
                    call_id: owned(call.call_id).ok_or("a function call has no call_id")?,
                    name: owned(call.name).ok_or("a function call has no name")?,
                    arguments: call.arguments.map(|CowStr(text)| text.into_owned()).unwrap_or_default(),
                }
            }
            "reasoning" => {
                let reasoning: Reasoning<'_> = serde_json::from_str(raw.get()).map_err(parsed)?;
                let summary = reasoning.summary.filter(|summary| !summary.is_empty());
                let parts = summary.or(reasoning.content).unwrap_or_default();
                Self::Reasoning(parts.into_iter().filter_map(|part| owned(part.text)).collect())
            }
            kind if super::answer::is_call(kind) => Self::OtherCall,
            _ => Self::Other,
        })
    }
}

fn owned(name: Option<CowStr<'_>>) -> Option<String> {
    name.map(|CowStr(name)| name.into_owned()).filter(|name| !name.is_empty())
}

/// The type and the id of an item.
#[derive(Deserialize)]
pub(super) struct ItemKind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<CowStr<'a>>,
    #[serde(borrow, default)]
    id: Lenient<CowStr<'a>>,
}

impl ItemKind<'_> {
    pub(super) fn name(&self) -> &str {
        self.kind.as_ref().map_or("", |CowStr(kind)| kind)
    }

    pub(super) fn id(&self) -> &str {
        self.id.get().map_or("", |CowStr(id)| id)
    }
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<Vec<Part<'a>>>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<CowStr<'a>>,
    #[serde(borrow)]
    refusal: Option<CowStr<'a>>,
}

impl Part<'_> {
    /// `None` for an empty part.
    fn read(self) -> Option<MessagePart> {
        let refusal = owned(self.refusal).map(|text| MessagePart { text, is_refusal: true });
        owned(self.text).map(|text| MessagePart { text, is_refusal: false }).or(refusal)
    }
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    call_id: Option<CowStr<'a>>,
    #[serde(borrow)]
    name: Option<CowStr<'a>>,
    #[serde(borrow)]
    arguments: Option<CowStr<'a>>,
}

#[derive(Deserialize)]
struct Reasoning<'a> {
    #[serde(borrow)]
    summary: Option<Vec<Part<'a>>>,
    #[serde(borrow)]
    content: Option<Vec<Part<'a>>>,
}
