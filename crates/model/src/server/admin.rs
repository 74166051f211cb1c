//! For who runs the model.

use crate::shared::{Meter, SharedModel};
use seawall_core::handle::Timer;
use seawall_core::setting::SettingError;
use serde_json::{Value, json};

/// What was delivered so far.
pub(super) fn bill(meter: &Meter) -> Value {
    let bill = meter.bill();
    let total = bill.nano_dollars();
    let mut body = json!(bill);
    body["nano_dollars"] = json!(total);
    body
}

/// The latest requests.
pub(super) fn calls(meter: &Meter) -> Value {
    json!({ "calls": meter.calls() })
}

/// Forgets bill and calls.
pub(super) fn reset(meter: &Meter) -> Value {
    meter.reset();
    json!({ "reset": true })
}

/// Puts another schedule in force, or says why not; then the one before stays.
pub(super) fn set_faults<T: Timer>(model: &SharedModel<T>, text: &[u8]) -> Result<Value, SettingError> {
    Ok(json!({ "faults": model.set_faults(text)? }))
}
