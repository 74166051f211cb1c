//! A strict client of OpenAI Responses. It enforces what `responses.stream()` of OpenAI's Python library does, and that
//! the last event repeats the whole answer.

use super::{ParsedStream, ensure, events, json, number, text};
use seawall_wire::chat::Usage;
use serde_json::Value;

pub(super) fn listen(bytes: &[u8]) -> Result<ParsedStream, String> {
    let mut response = Response::default();
    for (name, data) in events(bytes)? {
        response.read_event(&name, &json(&data)?)?;
    }
    Ok(response.parsed)
}

#[derive(Default)]
struct Response {
    parsed: ParsedStream,
    has_begun: bool,
    next: u64,
    items: Vec<Item>,
}

/// An output item as its events describe it.
#[derive(Default)]
struct Item {
    id: String,
    is_call: bool,
    content: String,
    has_part: bool,
    is_done: bool,
}

impl Response {
    fn read_event(&mut self, name: &str, event: &Value) -> Result<(), String> {
        ensure(event["type"] == name, "the event has another type than its name", event)?;
        let is_over = self.parsed.is_complete || self.parsed.failure.is_some();
        ensure(!is_over, "it goes on behind its end", event)?;
        if event["error"].is_object() {
            // The libraries raise this whatever the type is, Codex only if the type is this one.
            ensure(name == "response.failed", "a failure that not all clients notice", event)?;
            let failed = &event["response"];
            ensure(failed["status"] == "failed", "failed with another status", event)?;
            ensure(failed["error"]["code"].is_string(), "failed without a code", event)?;
            let is_same = self.parsed.id.is_empty() || failed["id"] == self.parsed.id.as_str();
            ensure(is_same, "another response fails", event)?;
            self.parsed.failure = Some(text(&event["error"]["message"])?);
            return Ok(());
        }
        ensure(number(&event["sequence_number"])? == self.next, "an event is missing", event)?;
        self.next += 1;
        ensure(self.has_begun == (name != "response.created"), "not begun, or twice", event)?;
        match name {
            "response.created" => {
                self.has_begun = true;
                let response = &event["response"];
                ensure(response["output"] == Value::Array(vec![]), "it begins with content", event)?;
                (self.parsed.id, self.parsed.model) = (text(&response["id"])?, text(&response["model"])?);
            }
            "response.in_progress" => {
                ensure(event["response"]["id"] == self.parsed.id.as_str(), "another response", event)?;
            }
            "response.output_item.added" => self.add_item(event)?,
            "response.content_part.added" => {
                let item = self.item(event)?;
                ensure(!item.has_part && event["content_index"] == 0, "a part twice", event)?;
                item.has_part = true;
            }
            "response.output_text.delta" => {
                let item = self.item(event)?;
                ensure(item.has_part && !item.is_call, "a piece of nothing", event)?;
                let delta = text(&event["delta"])?;
                item.content.push_str(&delta);
                self.parsed.text.push_str(&delta);
            }
            "response.function_call_arguments.delta" => {
                let item = self.item(event)?;
                ensure(item.is_call, "a piece of nothing", event)?;
                let delta = text(&event["delta"])?;
                item.content.push_str(&delta);
                if let Some((_, _, input)) = self.parsed.calls.last_mut() {
                    input.push_str(&delta);
                }
            }
            "response.output_text.done" => {
                let item = self.item(event)?;
                ensure(event["text"] == item.content.as_str(), "another text", event)?;
            }
            "response.content_part.done" => {
                let item = self.item(event)?;
                ensure(event["part"]["text"] == item.content.as_str(), "another text", event)?;
            }
            "response.function_call_arguments.done" => {
                let item = self.item(event)?;
                ensure(event["arguments"] == item.content.as_str(), "other arguments", event)?;
            }
            "response.output_item.done" => {
                let id = text(&event["item"]["id"])?;
                let at =
                    usize::try_from(number(&event["output_index"])?).map_err(|error| error.to_string())?;
                let item = self.items.get_mut(at).filter(|item| item.id == id && !item.is_done);
                item.ok_or_else(|| format!("ends nothing: {event}"))?.is_done = true;
            }
            "response.completed" | "response.incomplete" => self.end(name, event)?,
            _ => return Err(format!("an unknown event: {event}")),
        }
        Ok(())
    }

    fn add_item(&mut self, event: &Value) -> Result<(), String> {
        ensure(number(&event["output_index"])? == self.items.len() as u64, "another number", event)?;
        ensure(self.items.last().is_none_or(|item| item.is_done), "an item begins in another", event)?;
        let item = &event["item"];
        let is_call = match item["type"].as_str() {
            Some("message") => {
                ensure(item["role"] == "assistant" && item["content"] == Value::Array(vec![]), "?", event)?;
                false
            }
            Some("function_call") => {
                self.parsed.calls.push((text(&item["name"])?, text(&item["call_id"])?, String::new()));
                true
            }
            _ => return Err(format!("an unknown item: {event}")),
        };
        self.items.push(Item { id: text(&item["id"])?, is_call, ..Item::default() });
        Ok(())
    }

    /// The open item that an event names.
    fn item(&mut self, event: &Value) -> Result<&mut Item, String> {
        let at = usize::try_from(number(&event["output_index"])?).map_err(|error| error.to_string())?;
        let item =
            self.items.get_mut(at).filter(|item| event["item_id"] == item.id.as_str() && !item.is_done);
        item.ok_or_else(|| format!("a piece of nothing: {event}"))
    }

    fn end(&mut self, name: &str, event: &Value) -> Result<(), String> {
        let response = &event["response"];
        ensure(response["id"] == self.parsed.id.as_str(), "another response ends", event)?;
        ensure(self.items.iter().all(|item| item.is_done), "an item is open at the end", event)?;
        let output = response["output"].as_array().map(Vec::as_slice).unwrap_or_default();
        ensure(output.len() == self.items.len(), "the end has other items", event)?;
        for (item, whole) in self.items.iter().zip(output) {
            let content = if item.is_call { &whole["arguments"] } else { &whole["content"][0]["text"] };
            ensure(
                whole["id"] == item.id.as_str() && *content == item.content.as_str(),
                "other content",
                event,
            )?;
        }
        let usage = &response["usage"];
        if usage.is_null() {
            // A server that does not report it.
            (self.parsed.finish, self.parsed.is_complete) = (text(&response["status"])?, true);
            return Ok(());
        }
        let cached = |name: &str| usage["input_tokens_details"][name].as_u64().unwrap_or(0);
        let (read, write) = (cached("cached_tokens"), cached("cache_write_tokens"));
        let (input, output) = (number(&usage["input_tokens"])?, number(&usage["output_tokens"])?);
        self.parsed.usage = Some(Usage::from_whole_prompt(input, read, write, output));
        self.parsed.finish = match name {
            "response.completed" => text(&response["status"])?,
            _ => text(&response["incomplete_details"]["reason"])?,
        };
        self.parsed.is_complete = true;
        Ok(())
    }
}
