//! A strict client of the Gemini API. It reads lines as the vendor's libraries do: each line is one chunk.

use super::{ParsedStream, ensure, json, number, text};
use seawall_wire::chat::Usage;
use serde_json::Value;

/// Parses a complete stream. The error is what a client would fail on.
pub(super) fn listen_to_gemini(bytes: &[u8]) -> Result<ParsedStream, String> {
    let all = str::from_utf8(bytes).map_err(|error| error.to_string())?;
    ensure(all.is_empty() || all.ends_with("\n\n"), "cut inside an event", &all.into())?;
    let mut parsed = ParsedStream::default();
    let mut lines = all.lines().filter(|line| !line.is_empty());
    while let Some(line) = lines.next() {
        let Some(data) = line.strip_prefix("data: ") else {
            return Err(format!("a line that the libraries take for an error: {line}"));
        };
        let chunk = json(data.as_bytes())?;
        if chunk["error"].is_object() {
            ensure(data.starts_with("{\"error\""), "the library for Python does not see the error", &chunk)?;
            ensure(chunk["error"]["code"].is_u64(), "an error without a code", &chunk)?;
            text(&chunk["error"]["status"])?;
            parsed.failure = Some(text(&chunk["error"]["message"])?);
            // Other libraries fail only at a line that is no event. The vendor itself does not repeat an error.
            ensure(lines.next().is_none_or(|line| line == data), "the error is not repeated", &chunk)?;
            ensure(lines.next().is_none(), "it goes on behind its end", &chunk)?;
            break;
        }
        read_chunk(&mut parsed, &chunk)?;
    }
    // There is no end marker: what counts is the reason, when the connection ends.
    parsed.is_complete = parsed.failure.is_none() && !parsed.finish.is_empty();
    Ok(parsed)
}

fn read_chunk(parsed: &mut ParsedStream, chunk: &Value) -> Result<(), String> {
    ensure(parsed.finish.is_empty(), "it goes on behind its end", chunk)?;
    let ids = (text(&chunk["responseId"])?, text(&chunk["modelVersion"])?);
    if parsed.id.is_empty() {
        (parsed.id, parsed.model) = ids;
    } else {
        ensure(ids == (parsed.id.clone(), parsed.model.clone()), "another answer", chunk)?;
    }
    if let Some(usage) = chunk.get("usageMetadata") {
        let cached = usage["cachedContentTokenCount"].as_u64().unwrap_or(0);
        let (prompt, output) = (number(&usage["promptTokenCount"])?, number(&usage["candidatesTokenCount"])?);
        ensure(usage["totalTokenCount"] == prompt + output, "the parts are not the whole", chunk)?;
        parsed.usage = Some(Usage::from_whole_prompt(prompt, cached, 0, output));
    }
    let Some([candidate]) = chunk["candidates"].as_array().map(Vec::as_slice) else {
        return Err(format!("not one candidate: {chunk}"));
    };
    ensure(candidate["content"]["role"] == "model", "no model answers", chunk)?;
    for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
        match part.get("functionCall") {
            None => parsed.text.push_str(&text(&part["text"])?),
            Some(call) => {
                ensure(call["args"].is_object(), "a call without arguments", chunk)?;
                parsed.calls.push((text(&call["name"])?, text(&call["id"])?, call["args"].to_string()));
            }
        }
    }
    if let Some(reason) = candidate.get("finishReason") {
        parsed.finish = text(reason)?;
    }
    Ok(())
}
