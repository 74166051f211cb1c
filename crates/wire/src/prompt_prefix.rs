//! The beginning of a prompt, by which a vendor's prompt cache finds it again.
//!
//! Vendors cache a prompt from its start: tools, system prompt, then messages. Requests with the same beginning should
//! therefore reach the same replica. The first message of the user belongs to the beginning, because it stays the same for
//! all turns of a conversation, but only up to a block boundary and a maximum: a document is often followed by different
//! questions.
//!
//! A request that names its conversation is identified by that alone (`prompt_cache_key`, `conversation`).

use seawall_core::balance::StableHash;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The first message counts in whole blocks of this size; a shorter one counts as it is.
const BLOCK_BYTES: usize = 256;
/// The maximum of it that counts.
const MAX_MESSAGE_BYTES: usize = 4_096;
/// Messages of the operator that may come before the first of the user.
const MAX_LEADING: usize = 8;

/// The parts of a body in any dialect that begin the prompt.
#[derive(Deserialize)]
struct PromptFields<'a> {
    #[serde(borrow, default)]
    prompt_cache_key: Option<&'a RawValue>,
    #[serde(borrow, default)]
    conversation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tools: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "toolConfig")]
    tool_config: Option<&'a RawValue>,
    #[serde(borrow, default)]
    system: Option<&'a RawValue>,
    #[serde(borrow, default)]
    instructions: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "systemInstruction")]
    system_instruction: Option<&'a RawValue>,
    #[serde(borrow, default)]
    messages: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    contents: Option<&'a RawValue>,
}

/// A hash of the conversation that a body names, or of the beginning of its prompt.
#[must_use]
pub fn prompt_prefix_hash(body: &[u8]) -> u64 {
    let mut hash = StableHash::default();
    let Ok(fields) = serde_json::from_slice::<PromptFields<'_>>(body) else {
        hash.write(first_blocks(body));
        return hash.finish();
    };
    if let Some(conversation) = [fields.prompt_cache_key, fields.conversation].into_iter().flatten().next() {
        hash.write(conversation.get().as_bytes());
        return hash.finish();
    }
    for tools in [fields.tools, fields.tool_config].into_iter().flatten() {
        hash.write(tools.get().as_bytes());
    }
    for system in [fields.system, fields.instructions, fields.system_instruction].into_iter().flatten() {
        hash.write(texts_of(system).as_bytes());
    }
    for messages in [fields.messages, fields.input, fields.contents].into_iter().flatten() {
        write_first_message(&mut hash, messages);
    }
    hash.finish()
}

/// The hash of a prompt whose parts are known: its system prompt, and the first message of the user.
#[must_use]
pub fn prompt_hash(system: &[String], first_message: &str) -> u64 {
    let mut hash = StableHash::default();
    system.iter().for_each(|block| hash.write(block.as_bytes()));
    hash.write(first_blocks(first_message.as_bytes()));
    hash.finish()
}

/// Adds the messages up to the first one of the user.
fn write_first_message(hash: &mut StableHash, messages: &RawValue) {
    let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(messages.get()) else {
        // The Responses API takes a plain text.
        hash.write(first_blocks(messages.get().as_bytes()));
        return;
    };
    for message in list.into_iter().take(MAX_LEADING) {
        let text = texts_of(message);
        let role = serde_json::from_str::<MessageRole>(message.get()).ok().and_then(|message| message.role);
        if matches!(role.as_deref(), Some("system" | "developer")) {
            hash.write(text.as_bytes());
        } else {
            hash.write(first_blocks(text.as_bytes()));
            return;
        }
    }
}

#[derive(Deserialize)]
struct MessageRole {
    role: Option<String>,
}

/// All texts of a part of a prompt. Cache markers do not belong to it: clients move them from turn to turn.
fn texts_of(part: &RawValue) -> String {
    fn collect(value: &Value, into: &mut String) {
        match value {
            Value::String(text) => into.push_str(text),
            Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
            Value::Object(fields) => {
                let is_text =
                    |name: &str| !matches!(name, "cache_control" | "cachePoint" | "role" | "type" | "id");
                fields.iter().filter(|(name, _)| is_text(name)).for_each(|(_, value)| collect(value, into));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut texts = String::new();
    if let Ok(value) = serde_json::from_str(part.get()) {
        collect(&value, &mut texts);
    }
    texts
}

/// The first bytes, up to a block boundary.
fn first_blocks(bytes: &[u8]) -> &[u8] {
    let length = bytes.len().min(MAX_MESSAGE_BYTES);
    let whole = length - length % BLOCK_BYTES;
    &bytes[..if whole == 0 { length } else { whole }]
}

#[cfg(test)]
mod tests {
    use super::{first_blocks, prompt_hash, prompt_prefix_hash};
    use serde_json::{Value, json};

    fn hash(body: &Value) -> u64 {
        prompt_prefix_hash(body.to_string().as_bytes())
    }

    #[test]
    fn all_turns_of_a_conversation_have_the_same_hash() {
        let user = |text: &str| json!({ "role": "user", "content": [{ "type": "text", "text": text }] });
        let marked = json!({ "role": "user", "content": [
            { "type": "text", "text": "hello", "cache_control": { "type": "ephemeral" } },
        ] });
        let turn =
            |messages: Value| hash(&json!({ "model": "m", "system": "be brief", "messages": messages }));
        let first = turn(json!([marked]));
        assert_eq!(
            turn(json!([user("hello"), { "role": "assistant", "content": "hi" }, user("more")])),
            first
        );
        assert_eq!(turn(json!([{ "role": "user", "content": "hello" }])), first, "the same in short form");
        assert_ne!(turn(json!([user("another")])), first);
        assert_ne!(hash(&json!({ "system": "be long", "messages": [user("hello")] })), first);
        assert_ne!(hash(&json!({ "system": "be brief", "tools": [{}], "messages": [user("hello")] })), first);
    }

    #[test]
    fn questions_about_the_same_long_document_have_the_same_hash() {
        let about = |question: &str| {
            let text = "The lighthouse. ".repeat(1_000) + question;
            hash(&json!({ "contents": [{ "role": "user", "parts": [{ "text": text }] }] }))
        };
        assert_eq!(about("Who keeps it?"), about("Where is it?"));
    }

    #[test]
    fn a_conversation_that_is_named_counts_alone() {
        let of = |key: &str, text: &str| hash(&json!({ "prompt_cache_key": key, "input": text }));
        assert_eq!(of("a", "one"), of("a", "two"));
        assert_ne!(of("a", "one"), of("b", "one"));
    }

    #[test]
    fn the_system_prompt_of_openai_is_a_message() {
        let of = |system: &str| {
            hash(
                &json!({ "messages": [{ "role": "system", "content": system }, { "role": "user", "content": "hi" }] }),
            )
        };
        assert_ne!(of("a"), of("b"));
    }

    #[test]
    fn anything_has_a_hash() {
        for body in ["", "{", "[]", "{\"messages\":3}", "{\"messages\":[3]}", "{\"messages\":[]}"] {
            assert_eq!(prompt_prefix_hash(body.as_bytes()), prompt_prefix_hash(body.as_bytes()));
        }
        assert_eq!(
            [0, 255, 256, 700, 9_999].map(|length| first_blocks(&vec![0; length]).len()),
            [0, 255, 256, 512, 4_096]
        );
        assert_ne!(prompt_hash(&[], "a"), prompt_hash(&["a".to_owned()], ""));
    }
}
