//! The admin endpoints.

use crate::shared::{Meter, SharedModel};
use seawall_core::runtime::Timer;
use seawall_core::setting::SettingError;
use serde_json::{Value, json};

/// The bill so far.
pub(super) fn bill(meter: &Meter) -> Value {
    let bill = meter.bill();
    let total = bill.nano_dollars();
    let mut body = json!(bill);
    body["nano_dollars"] = json!(total);
    body
}

/// The call log.
pub(super) fn calls(meter: &Meter) -> Value {
    json!({ "calls": meter.calls() })
}

/// Clears the bill and the call log.
pub(super) fn reset(meter: &Meter) -> Value {
    meter.reset();
    json!({ "reset": true })
}

/// Replaces the fault schedule. On an error the previous one stays in effect.
pub(super) fn set_faults<T: Timer>(model: &SharedModel<T>, text: &[u8]) -> Result<Value, SettingError> {
    Ok(json!({ "faults": model.set_faults(text)? }))
}
