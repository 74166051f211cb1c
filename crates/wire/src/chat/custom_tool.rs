//! Tools whose input is free text, such as a patch.
//!
//! Only OpenAI's dialects have them. For every target they become functions with one text, `input`, and the model's
//! calls of them become calls with free text again. Where a call is written, nothing of the request is known but the
//! name of the tool, so the name of such a call is [marked](mark) after it was read from the target. Names of tools may
//! contain letters, digits, `_` and `-` in every dialect, so the mark cannot be part of one; no model ever sees it.

use super::{AnswerPart, ChatAnswer, ChatEvent, JsonText, ToolDefinition};
use serde::Deserialize;
use std::borrow::Cow;

/// The field of the function's input that holds the text.
pub(crate) const INPUT: &str = "input";
const MARK: &str = "custom:";

/// The function that stands for a tool with free text. The rules of a grammar are shown to the model in the
/// description; no vendor but OpenAI can enforce them.
pub(crate) fn definition(
    name: String,
    description: Option<&str>,
    grammar: Option<(&str, &str)>,
) -> ToolDefinition {
    let mut text = description.unwrap_or_default().to_owned();
    if let Some((syntax, grammar)) = grammar {
        let blank = if text.is_empty() { "" } else { "\n\n" };
        text.push_str(&format!("{blank}The text in `{INPUT}` must match this {syntax} grammar:\n{grammar}"));
    }
    let schema = r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}"#;
    ToolDefinition {
        name,
        description: Some(text).filter(|text| !text.is_empty()),
        schema: JsonText::new(schema.to_owned()).unwrap_or_else(JsonText::empty_object),
        strict: false,
    }
}

/// Free text as the input of the function.
pub(crate) fn wrap(text: &str) -> JsonText {
    let json = format!("{{\"{INPUT}\":{}}}", serde_json::Value::from(text));
    JsonText::new(json).unwrap_or_else(JsonText::empty_object)
}

/// The free text in the input of the function. A model that did not keep to the schema has its input returned as it
/// is, so that the caller's tool can report what is wrong with it.
pub(crate) fn unwrap(input: &str) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct Wrapped {
        input: String,
    }
    match serde_json::from_str::<Wrapped>(input) {
        Ok(Wrapped { input }) => Cow::Owned(input),
        Err(_) => Cow::Borrowed(input),
    }
}

/// The name of the tool if the name of this call is marked.
pub(crate) fn marked_name(name: &str) -> Option<&str> {
    name.strip_prefix(MARK)
}

/// Marks the calls of these tools in an answer.
pub fn mark(answer: &mut ChatAnswer, custom_tools: &[String]) {
    for part in &mut answer.parts {
        if let AnswerPart::ToolCall(call) = part
            && custom_tools.contains(&call.name)
        {
            call.name.insert_str(0, MARK);
        }
    }
}

/// Marks a call of one of these tools in a stream.
#[must_use]
pub fn marked(event: ChatEvent, custom_tools: &[String]) -> ChatEvent {
    match event {
        ChatEvent::ToolCallStarted { id, name } if custom_tools.contains(&name) => {
            ChatEvent::ToolCallStarted { id, name: format!("{MARK}{name}") }
        }
        event => event,
    }
}

#[cfg(test)]
mod tests {
    use super::{definition, marked, marked_name, unwrap, wrap};
    use crate::chat::ChatEvent;

    #[test]
    fn free_text_survives_the_function_that_stands_for_it() {
        for text in ["", "*** Begin Patch\n\"é漫\\", "{\"input\":1}"] {
            assert_eq!(unwrap(wrap(text).get()), text);
        }
        assert_eq!(unwrap("{\"patch\":\"x\"}"), "{\"patch\":\"x\"}");
        let tool = definition("p".into(), Some("Patches."), Some(("lark", "start: \"x\"")));
        let expected = "Patches.\n\nThe text in `input` must match this lark grammar:\nstart: \"x\"";
        assert_eq!(tool.description.as_deref(), Some(expected));
        assert_eq!(definition("p".into(), None, None).description, None);
    }

    #[test]
    fn only_calls_of_custom_tools_are_marked() {
        let call = |name: &str| ChatEvent::ToolCallStarted { id: "c".into(), name: name.into() };
        let custom = ["patch".to_owned()];
        assert_eq!(marked(call("find"), &custom), call("find"));
        let ChatEvent::ToolCallStarted { name, .. } = marked(call("patch"), &custom) else { panic!() };
        assert_eq!((marked_name(&name), marked_name("patch")), (Some("patch"), None));
    }
}
