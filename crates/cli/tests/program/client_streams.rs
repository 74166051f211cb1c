//! How users of the vendors' clients see it when a stream of `seawall model` breaks off.

use crate::client::Client;
use crate::running::Running;
use serde_json::{Value, json};

#[test]
fn record() -> anyhow::Result<()> {
    let model = Running::model("client-streams", "[]")?;
    for client in Client::ALL {
        let mut session = client.open(&model.url)?;
        for fault in ["cut", "end_early", "error", "hang", "truncate", "malformed"] {
            let faults = json!([{ "fault": { "kind": fault, "after": 4 } }]);
            if let Err(e) = model.set_faults(&faults) { eprintln!("{e}"); continue }
            let seen = session.sees(&json!({ "stream": true, "timeout": 1, "patience": 3 }))?;
            eprintln!("{client:?} {fault} {seen}");
        }
    }
    Ok(())
}
