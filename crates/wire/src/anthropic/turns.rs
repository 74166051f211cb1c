//! Validates and counts the turns of a conversation without building them.

use crate::request::CowStr;
use crate::request_error::RequestError;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Counts the turns. Returns an error that names the first invalid turn.
pub(super) fn count_turns(messages: &RawValue) -> Result<usize, RequestError> {
    if !messages.get().starts_with('[') {
        return Err(RequestError::invalid("messages", "Input should be a valid list"));
    }
    let mut turns = TurnCounter::default();
    let mut deserializer = serde_json::Deserializer::from_str(messages.get());
    if deserializer.deserialize_seq(&mut turns).is_err() {
        // The JSON is known to be valid, so an error without a recorded problem means that the turn is not an object.
        let path = turns.path("");
        return Err(turns
            .problem
            .unwrap_or_else(|| RequestError::invalid(path, "Input should be an object")));
    }
    if turns.count == 0 {
        return Err(RequestError::invalid("messages", "at least one message is required"));
    }
    Ok(turns.count)
}

#[derive(Default)]
struct TurnCounter {
    /// Number of turns read, which is also the index of the turn being read.
    count: usize,
    problem: Option<RequestError>,
}

impl TurnCounter {
    fn path(&self, field: &str) -> String {
        let dot = if field.is_empty() { "" } else { "." };
        format!("messages.{}{dot}{field}", self.count)
    }

    fn check_turn(&self, role: Option<&RawValue>, content: Option<&RawValue>) -> Result<(), RequestError> {
        let role = role.ok_or_else(|| RequestError::missing(self.path("role")))?;
        // The vendor decides which roles exist: newer models accept more than two.
        if !role.get().starts_with('"') || role.get() == "\"\"" {
            return Err(RequestError::invalid(self.path("role"), "Input should be a non-empty string"));
        }
        let content = content.ok_or_else(|| RequestError::missing(self.path("content")))?;
        if !content.get().starts_with(['"', '[']) {
            return Err(RequestError::invalid(
                self.path("content"),
                "Input should be a valid string or a list of content blocks",
            ));
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for &mut TurnCounter {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of turns")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(TurnSeed(&mut *self))?.is_some() {
            self.count += 1;
        }
        Ok(())
    }
}

struct TurnSeed<'t>(&'t mut TurnCounter);

impl<'de> DeserializeSeed<'de> for TurnSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TurnSeed<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a turn")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut role, mut content) = (None, None);
        let mut problem = None;
        while let Some(name) = map.next_key::<CowStr<'de>>()? {
            let slot = match &*name.0 {
                "role" => &mut role,
                "content" => &mut content,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if slot.replace(map.next_value::<&RawValue>()?).is_some() {
                problem = Some(RequestError::Duplicate { field: self.0.path(&name.0) });
            }
        }
        let problem = problem.or_else(|| self.0.check_turn(role, content).err());
        if problem.is_some() {
            self.0.problem = problem;
            return Err(A::Error::custom("refused"));
        }
        Ok(())
    }
}
