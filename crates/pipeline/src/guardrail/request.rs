//! Every text of a request at a vendor's face.
//!
//! **What it does.** Looks at each string of the body, wherever it stands: instructions, all turns, every block, what tools
//! were given and what they returned. A vendor's next kind of block is looked at without anybody having heard of it.
//!
//! **When it acts.** Where the route that is asked for is the one that the guardrail belongs to, after limits have let the
//! request through and before any model is asked.
//!
//! **What it will not do.** It does not look at words of the protocol (`role`, `type`, `model` and their like), at names of
//! fields, or into images and files. Each text is looked at on its own: one that is split over two blocks is two texts.

use super::{Guardrail as _, GuardrailDecision, Guardrails};
use crate::plan::PlannedRequest;
use crate::reply::Rejection;

/// Fields whose values are the protocol's own words.
const PROTOCOL: [&[u8]; 14] = [
    b"role",
    b"type",
    b"model",
    b"id",
    b"tool_use_id",
    b"toolUseId",
    b"tool_call_id",
    b"media_type",
    b"format",
    b"detail",
    b"service_tier",
    b"tool_choice",
    b"anthropic_version",
    b"status",
];
/// Fields that may hold a file. What is short, or has a character that no encoding of files has, is text all the same.
const FILES: [&[u8]; 6] = [b"data", b"bytes", b"file_data", b"url", b"signature", b"encrypted_content"];
const SHORTEST_FILE: usize = 256;
/// Arguments of tools are JSON inside of a string, in one dialect.
const JSON_INSIDE: &[u8] = b"arguments";

/// Refuses a request with a text that its route's guardrail blocks. Our own face redirects instead.
pub(crate) fn check_texts(planned: &PlannedRequest) -> Result<(), Rejection> {
    let Some(rules) = &planned.request.rules.chat else { return Ok(()) };
    let is_guarded = !rules.guardrails.0.is_empty() && *rules.route == *planned.route.alias;
    if !is_guarded || planned.request.chat.is_some() {
        return Ok(());
    }
    match check_body(planned.request.spoken.body(), &rules.guardrails) {
        GuardrailDecision::Pass => Ok(()),
        GuardrailDecision::Block { rule } => Err(Rejection::Blocked { rule }),
    }
}

/// The first decision that blocks one of a body's texts. What is no JSON is looked at as far as it is some.
pub(super) fn check_body(body: &[u8], guardrails: &Guardrails) -> GuardrailDecision {
    let mut strings = Strings { rest: body, text: String::new() };
    let mut field: Vec<u8> = Vec::new();
    while let Some(is_name) = strings.next() {
        if is_name {
            field.clear();
            field.extend_from_slice(strings.text.as_bytes());
            continue;
        }
        let text = strings.text.as_str();
        if PROTOCOL.contains(&field.as_slice()) || (FILES.contains(&field.as_slice()) && is_file(text)) {
            continue;
        }
        let mut decision = guardrails.check_question(text);
        if decision == GuardrailDecision::Pass && field == JSON_INSIDE {
            decision = check_body(text.as_bytes(), guardrails);
            // Whatever is in there ends with the string.
            field.clear();
        }
        if decision != GuardrailDecision::Pass {
            return decision;
        }
    }
    GuardrailDecision::Pass
}

fn is_file(text: &str) -> bool {
    let is_encoded = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_:;,.".contains(&byte);
    text.len() >= SHORTEST_FILE && text.bytes().all(is_encoded)
}

/// The strings of a JSON text, one after the other.
struct Strings<'a> {
    rest: &'a [u8],
    /// The last one, without its escapes.
    text: String,
}

impl Strings<'_> {
    /// Reads the next one. Whether it is the name of a field; nothing at the end.
    fn next(&mut self) -> Option<bool> {
        let start = self.rest.iter().position(|byte| *byte == b'"')?;
        self.rest = self.rest.get(start + 1..)?;
        self.text.clear();
        loop {
            let end = self.rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
            self.text.push_str(&String::from_utf8_lossy(self.rest.get(..end)?));
            let is_end = self.rest.get(end) == Some(&b'"');
            self.rest = self.rest.get(end + 1..)?;
            if is_end {
                break;
            }
            self.escape()?;
        }
        let behind = self.rest.iter().find(|byte| !byte.is_ascii_whitespace());
        Some(behind == Some(&b':'))
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Option<()> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        self.text.push(match first {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{C}',
            b'u' => {
                let high = self.unit()?;
                let low = if matches!(high, 0xD800..=0xDBFF) && self.rest.starts_with(b"\\u") {
                    self.rest = self.rest.get(2..)?;
                    Some(self.unit()?)
                } else {
                    None
                };
                let units = [high, low.unwrap_or_default()];
                let units = if low.is_some() { &units[..] } else { &units[..1] };
                self.text.push_str(&String::from_utf16_lossy(units));
                return Some(());
            }
            other => char::from(*other),
        });
        Some(())
    }

    fn unit(&mut self) -> Option<u16> {
        let digits = str::from_utf8(self.rest.get(..4)?).ok()?;
        self.rest = self.rest.get(4..)?;
        u16::from_str_radix(digits, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::check_body;
    use crate::guardrail::{DenyList, GuardrailDecision, Guardrails};
    use proptest::prelude::{any, prop_assert_eq, proptest};
    use serde_json::json;

    fn guardrails(patterns: &[&str]) -> Guardrails {
        let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        Guardrails(DenyList::both(&patterns).unwrap())
    }

    fn is_blocked(body: &serde_json::Value) -> bool {
        check_body(body.to_string().as_bytes(), &guardrails(&["forbidden fruit", "user", "禁断の果実"]))
            != GuardrailDecision::Pass
    }

    #[test]
    fn every_text_of_every_dialect_is_looked_at() {
        let bad = "a Forbidden fru\u{AD}it";
        let arguments = json!({ "title": "forbidden\nfruit" }).to_string();
        for body in [
            json!({ "system": bad }),
            json!({ "system": [{ "type": "text", "text": bad }] }),
            json!({ "messages": [{ "role": "user", "content": bad }] }),
            json!({ "messages": [{ "role": "user", "content": "good" }, { "role": "assistant", "content": bad }] }),
            json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": "good" }, { "type": "text", "text": bad }] }] }),
            json!({ "messages": [{ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "1", "content": [{ "type": "text", "text": bad }] }] }] }),
            json!({ "messages": [{ "role": "user", "content": [{ "type": "document", "source": { "type": "text", "data": bad } }] }] }),
            json!({ "messages": [{ "role": "assistant", "tool_calls": [{ "function": { "name": "f", "arguments": arguments } }] }] }),
            json!({ "messages": [{ "role": "tool", "content": bad }] }),
            json!({ "messages": [{ "role": "user", "content": [{ "toolResult": { "content": [{ "json": { "answer": bad } }] } }] }] }),
            json!({ "messages": [{ "role": "user", "content": "禁断\u{301}の果実" }] }),
            json!({ "tools": [{ "name": "f", "description": bad }] }),
            json!({ "some_new_block": { "deeper": [[bad]] } }),
        ] {
            assert!(is_blocked(&body), "{body}");
        }
    }

    #[test]
    fn words_of_the_protocol_and_files_are_no_texts() {
        let file = "userUSER".repeat(100);
        let harmless = json!({
            "model": "user", "messages": [
                { "role": "user", "content": [
                    { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": file } },
                    { "type": "text", "text": "good" },
                ] },
            ], "user": "x",
        });
        assert!(!is_blocked(&harmless));
        assert!(is_blocked(&json!({ "data": "a user" })) && is_blocked(&json!({ "content": file })));
    }

    proptest! {
        #[test]
        fn a_string_is_read_as_any_json_reader_reads_it(text in any::<String>(), name in "[a-z]{1,8}") {
            // In which spelling it is written does not matter.
            let plain = json!({ &name: [1, { "x": &text }] }).to_string();
            let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            for body in [plain, format!("{{\"x\" : \"{escaped}\"}}")] {
                let mut strings = super::Strings { rest: body.as_bytes(), text: String::new() };
                let mut last = None;
                while let Some(is_name) = strings.next() {
                    if !is_name {
                        last = Some(strings.text.clone());
                    }
                }
                prop_assert_eq!(last.as_deref(), Some(text.as_str()));
            }
        }

        #[test]
        fn any_bytes_come_to_an_end(bytes in any::<Vec<u8>>()) {
            let _ = check_body(&bytes, &guardrails(&["forbidden"]));
        }
    }
}
