//! Checks every text of a request at a vendor's face.
//!
//! **What it does.** Checks each string of the body at any depth: instructions, all turns, every block, tool inputs and
//! tool results. A new kind of block is checked without changes to this code.
//!
//! **When it acts.** If the requested route has a guardrail: after the limits have admitted the request and before any
//! model is called. The blocks of a message, and consecutive messages of one side, are checked as one text, because a
//! model reads them as one.
//!
//! **What it does not do.** It does not check protocol values (`role`, `type`, `model` and so on), field names, or the
//! content of images and files. It does not check answers, which pass through as the vendor sends them.

use super::strings::{Strings, Token};
use super::{Guardrail as _, GuardrailDecision, Guardrails};
use crate::plan::PlannedRequest;
use crate::reply::Rejection;

/// Fields whose values belong to the protocol.
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
/// Fields that may contain a file. A value that is short, or contains a character that no file encoding uses, is
/// checked as text.
const FILES: [&[u8]; 6] = [b"data", b"bytes", b"file_data", b"url", b"signature", b"encrypted_content"];
const MIN_FILE_LENGTH: usize = 256;
/// In one dialect, tool arguments are JSON inside a string.
const JSON_INSIDE: &[u8] = b"arguments";

/// Fields that contain prose. Adjacent values are also checked as one text.
const PROSE: [&[u8]; 6] = [b"text", b"content", b"system", b"instructions", b"input", b"prompt"];
/// Nesting depth of a message's fields: an object, in a list, in a field of the body.
const MESSAGE_DEPTH: usize = 3;

/// Rejects a request with a text that the route's guardrail blocks. An assistant checks its questions itself, to answer
/// with a prepared text.
pub(crate) fn check_texts(planned: &PlannedRequest) -> Result<(), Rejection> {
    let guardrails = &planned.route.guardrails;
    if guardrails.0.is_empty() {
        return Ok(());
    }
    match check_body(planned.request.parsed.body(), guardrails) {
        GuardrailDecision::Pass => Ok(()),
        GuardrailDecision::Block { rule } => Err(Rejection::Blocked { rule }),
    }
}

/// The first blocking decision about one of the body's texts. Invalid JSON is checked as far as it can be scanned.
pub(super) fn check_body(body: &[u8], guardrails: &Guardrails) -> GuardrailDecision {
    match BodyScan::new(guardrails).read(body) {
        Ok(()) => GuardrailDecision::Pass,
        Err(blocked) => blocked,
    }
}

/// Checks adjacent texts, joined with and without a space between them.
#[must_use]
pub fn check_neighbours<T: AsRef<str>>(texts: &[T], guardrails: &Guardrails) -> GuardrailDecision {
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    let joined = match texts[..] {
        [] => return GuardrailDecision::Pass,
        [text] => return guardrails.check_question(text),
        // This also finds matches within a single text, because a space ends every partial match.
        _ => [texts.join(" "), texts.concat()],
    };
    let mut decisions = joined.iter().map(|text| guardrails.check_question(text));
    decisions.find(|decision| *decision != GuardrailDecision::Pass).unwrap_or(GuardrailDecision::Pass)
}

/// The state while scanning a body. The error is the decision that blocks it.
struct BodyScan<'a> {
    guardrails: &'a Guardrails,
    depth: usize,
    /// The name of the last field.
    field: Vec<u8>,
    /// The role of the current message, which may come after its content.
    role: Option<String>,
    /// The texts of the current message.
    texts: Vec<String>,
    /// Texts of preceding messages with the same role, and that role.
    neighbours: (Option<String>, Vec<String>),
}

impl<'a> BodyScan<'a> {
    fn new(guardrails: &'a Guardrails) -> Self {
        let (field, texts, neighbours) = (Vec::new(), Vec::new(), (None, Vec::new()));
        Self { guardrails, depth: 0, field, role: None, texts, neighbours }
    }

    fn read(mut self, body: &[u8]) -> Result<(), GuardrailDecision> {
        let mut strings = Strings::new(body);
        while let Some(token) = strings.next() {
            match token {
                Token::Open => self.depth = self.depth.saturating_add(1),
                Token::Close => {
                    if self.depth == MESSAGE_DEPTH {
                        self.end_message()?;
                    }
                    self.depth = self.depth.saturating_sub(1);
                    // Further items of the list belong to no field of the object that ended.
                    self.field.clear();
                }
                Token::Name => {
                    self.field.clear();
                    self.field.extend_from_slice(strings.text.as_bytes());
                    // A new top-level field starts another part of the request.
                    if self.depth == 1 {
                        self.end_message()?;
                        self.end_neighbours()?;
                    }
                }
                Token::Text => self.text(&strings.text)?,
            }
        }
        self.end_message()?;
        self.end_neighbours()
    }

    fn text(&mut self, text: &str) -> Result<(), GuardrailDecision> {
        let field = self.field.as_slice();
        if field == b"role" && self.depth == MESSAGE_DEPTH {
            self.role = Some(text.to_owned());
        }
        if PROTOCOL.contains(&field) || (FILES.contains(&field) && is_file(text)) {
            return Ok(());
        }
        if PROSE.contains(&field) {
            self.texts.push(text.to_owned());
            return Ok(());
        }
        passed(self.guardrails.check_question(text))?;
        if field == JSON_INSIDE {
            passed(check_body(text.as_bytes(), self.guardrails))?;
            // The field names inside the string end with it.
            self.field.clear();
        }
        Ok(())
    }

    /// Appends the message's texts to those of the preceding messages with the same role.
    fn end_message(&mut self) -> Result<(), GuardrailDecision> {
        let role = self.role.take();
        if self.texts.is_empty() && role.is_none() {
            return Ok(());
        }
        if role != self.neighbours.0 {
            self.end_neighbours()?;
            self.neighbours.0 = role;
        }
        self.neighbours.1.append(&mut self.texts);
        Ok(())
    }

    fn end_neighbours(&mut self) -> Result<(), GuardrailDecision> {
        let (_, texts) = std::mem::take(&mut self.neighbours);
        passed(check_neighbours(&texts, self.guardrails))
    }
}

fn passed(decision: GuardrailDecision) -> Result<(), GuardrailDecision> {
    if decision == GuardrailDecision::Pass { Ok(()) } else { Err(decision) }
}

fn is_file(text: &str) -> bool {
    let is_encoded = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_:;,.".contains(&byte);
    text.len() >= MIN_FILE_LENGTH && text.bytes().all(is_encoded)
}

#[cfg(test)]
mod tests {
    use super::check_body;
    use crate::guardrail::{DenyList, GuardrailDecision, Guardrails};
    use proptest::prelude::{any, proptest};
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
    fn every_text_of_every_dialect_is_checked() {
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
            json!({ "messages": [{ "role": "user", "content": [{ "type": "text" }, bad] }] }),
        ] {
            assert!(is_blocked(&body), "{body}");
        }
    }

    #[test]
    fn protocol_values_and_files_are_not_checked() {
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

    #[test]
    fn a_text_that_is_split_over_neighbours_is_found() {
        let block = |text: &str| json!({ "type": "text", "text": text });
        let user = |content: serde_json::Value| json!({ "role": "user", "content": content });
        let said = |text: &str| json!({ "role": "assistant", "content": text });
        for [one, other] in [["so forbid", "den fruit!"], ["forbidden", "fruit"], ["forbidden ", "fruit"]] {
            for body in [
                json!({ "messages": [user(json!([block(one), block(other)]))] }),
                json!({ "messages": [user(json!(one)), user(json!(other))] }),
                json!({ "messages": [user(json!([block("hi"), block(one)])), user(json!([block(other)]))] }),
                json!({ "messages": [{ "content": one, "role": "user" }, { "content": other, "role": "user" }] }),
                json!({ "messages": [said("hi"), said(one), said(other)] }),
                json!({ "messages": [{ "role": "user", "content": [{ "text": one }, { "text": other }] }] }),
                json!({ "system": [block(one), block(other)], "messages": [user(json!("hi"))] }),
                json!({ "messages": [user(json!([{ "type": "tool_result", "content": [block(one), block(other)] }]))] }),
                json!({ "input": [{ "role": "user", "content": [{ "type": "input_text", "text": one }, { "type": "input_text", "text": other }] }] }),
                json!({ "messages": [{ "role": "tool", "tool_call_id": "1", "content": one }, { "role": "tool", "tool_call_id": "2", "content": other }] }),
            ] {
                assert!(is_blocked(&body), "{body}");
            }
            for body in [
                json!({ "messages": [user(json!(one)), said(other)] }),
                json!({ "messages": [user(json!(one)), said("hm"), user(json!(other))] }),
                json!({ "system": one, "messages": [user(json!(other))] }),
                json!({ "messages": [user(json!("hi"))], "tools": [{ "name": one }, { "name": other }] }),
            ] {
                assert!(!is_blocked(&body), "{body}");
            }
        }
        // Many small pieces also form one text.
        let letters: Vec<_> = "a forbidden fruit".chars().map(|letter| block(&letter.to_string())).collect();
        assert!(is_blocked(&json!({ "messages": [user(json!(letters))] })));
    }

    proptest! {
        #[test]
        fn any_bytes_come_to_an_end(bytes in any::<Vec<u8>>()) {
            let _ = check_body(&bytes, &guardrails(&["forbidden"]));
        }
    }
}
