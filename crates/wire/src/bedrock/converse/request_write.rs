//! Writes a Converse request.

use super::shapes::{Block, Source, format_of};
use crate::RequestError;
use crate::bedrock::body::wrong;
use crate::bedrock::refusal::json;
use crate::chat::{ChatRequest, Image, JsonText, Part, Role, ToolChoice, ToolDefinition, Turn};
use bytes::Bytes;
use serde::Serialize;

/// Writes the body of a request. The model and the stream flag go into the path.
///
/// Fails if the service cannot express something that the model must see; the error names it.
///
/// ```
/// use seawall_wire::bedrock::write_chat_request;
/// use seawall_wire::chat::{ChatRequest, Part, Role, Turn};
///
/// let turns = vec![Turn { role: Role::User, parts: vec![Part::Text("hi".to_owned())] }];
/// let body = write_chat_request(&ChatRequest { turns, ..ChatRequest::default() })?;
/// assert_eq!(&body[..], br#"{"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#);
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
pub fn write_chat_request(request: &ChatRequest) -> Result<Bytes, RequestError> {
    // The service refuses empty texts here.
    let system = request.system.iter().filter(|text| !text.is_empty()).map(|text| Block::Text(text));
    let inference = Inference {
        max_tokens: request.positive_max_output()?,
        temperature: request
            .temperature
            .filter(|number| number.is_finite())
            .map(|number| number.clamp(0.0, 1.0)),
        top_p: request.top_p.filter(|number| number.is_finite()),
        stop_sequences: &request.stop,
    };
    let body = Body {
        messages: write_turns(&request.turns)?,
        system: system.collect(),
        inference_config: (!inference.is_empty()).then_some(inference),
        tool_config: write_tools(request),
    };
    Ok(json(&body))
}

/// Writes the turns. The service requires alternating roles, so consecutive turns of one role are merged.
fn write_turns(turns: &[Turn]) -> Result<Vec<Message<'_>>, RequestError> {
    let mut messages: Vec<Message<'_>> = Vec::with_capacity(turns.len());
    for (at, turn) in turns.iter().enumerate() {
        let role = match turn.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let content = write_parts(&turn.parts, &format!("messages.{at}.content"), false)?;
        match messages.last_mut().filter(|last| last.role == role) {
            Some(last) => last.content.extend(content),
            None => messages.push(Message { role, content }),
        }
    }
    Ok(messages)
}

fn write_parts<'a>(parts: &'a [Part], way: &str, in_result: bool) -> Result<Vec<Block<'a>>, RequestError> {
    let write = |(at, part): (usize, &'a Part)| match part {
        Part::Text(text) => Ok(Block::Text(text)),
        Part::Image(image) => write_image(image).map_err(|problem| wrong(format!("{way}.{at}"), problem)),
        Part::ToolCall(_) | Part::ToolResult { .. } if in_result => {
            Err(wrong(format!("{way}.{at}"), "the result of a tool may have texts and images only"))
        }
        Part::ToolCall(call) => Ok(call.into()),
        Part::ToolResult { call, parts, is_error } => Ok(Block::ToolResult {
            tool_use_id: call,
            content: write_parts(parts, &format!("{way}.{at}.toolResult.content"), true)?,
            status: if *is_error { "error" } else { "success" },
        }),
    };
    parts.iter().enumerate().map(write).collect()
}

fn write_image(image: &Image) -> Result<Block<'_>, &'static str> {
    match image {
        Image::Url(_) => Err("an image by its address cannot be shown to the model that would answer"),
        Image::Base64 { media_type, content } => {
            let format = format_of(media_type).ok_or("an image must be png, jpeg, gif or webp")?;
            Ok(Block::Image { format, source: Source { bytes: content } })
        }
    }
}

fn write_tools(request: &ChatRequest) -> Option<ToolConfig<'_>> {
    let is_call = |part: &Part| matches!(part, Part::ToolCall(_) | Part::ToolResult { .. });
    let has_calls = || request.turns.iter().any(|turn| turn.parts.iter().any(is_call));
    if request.tools.is_empty() || (request.tool_choice == ToolChoice::None && !has_calls()) {
        return None;
    }
    let tool_choice = match &request.tool_choice {
        ToolChoice::Auto | ToolChoice::None => None,
        ToolChoice::Any => Some(Choice::Any {}),
        ToolChoice::Named(name) => Some(Choice::Tool { name }),
    };
    Some(ToolConfig { tools: request.tools.iter().map(Tool::from).collect(), tool_choice })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inference_config: Option<Inference<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inference<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
}

impl Inference<'_> {
    const fn is_empty(&self) -> bool {
        self.max_tokens.is_none()
            && self.temperature.is_none()
            && self.top_p.is_none()
            && self.stop_sequences.is_empty()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Choice<'a> {
    Any {},
    Tool { name: &'a str },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool<'a> {
    tool_spec: ToolSpec<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolSpec<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: Schema<'a>,
}

#[derive(Serialize)]
struct Schema<'a> {
    json: &'a JsonText,
}

impl<'a> From<&'a ToolDefinition> for Tool<'a> {
    fn from(tool: &'a ToolDefinition) -> Self {
        // The service refuses an empty description.
        let description = tool.description.as_deref().filter(|text| !text.is_empty());
        Self {
            tool_spec: ToolSpec {
                name: &tool.name,
                description,
                input_schema: Schema { json: &tool.schema },
            },
        }
    }
}
