//! For who runs the model.

use super::Model;
use crate::engine::{Engine, ModelOptions, read_faults};
use seawall_core::setting::SettingError;
use serde_json::{Value, json};

/// What was delivered so far.
pub(super) fn bill(model: &Model) -> Value {
    let bill = model.with_books(|books| books.bill.clone());
    let total = bill.nano_dollars();
    let mut body = json!(bill);
    body["nano_dollars"] = json!(total);
    body
}

/// The latest requests.
pub(super) fn calls(model: &Model) -> Value {
    model.with_books(|books| json!({ "calls": books.calls.iter().collect::<Vec<_>>() }))
}

/// Forgets bill and calls. What is being answered goes on, and what it still delivers is billed.
pub(super) fn reset(model: &Model) -> Value {
    model.with_books(|books| {
        books.bill = crate::bill::Bill::default();
        books.calls.clear();
    });
    json!({ "reset": true })
}

/// Puts another schedule in force, or says why not; then the one before stays.
pub(super) fn set_faults(model: &Model, text: &[u8]) -> Result<Value, SettingError> {
    let faults = read_faults(text)?;
    let number = faults.len();
    let (seed, pace) = {
        let behaviour = model.lock_behaviour();
        (behaviour.engine.seed(), behaviour.engine.pace())
    };
    model.set_engine(Engine::new(ModelOptions { seed, faults, pace })?);
    Ok(json!({ "faults": number }))
}
