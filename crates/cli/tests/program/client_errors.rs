//! How users of the vendors' clients see it when `seawall model` refuses or fails: as the client's own exception.

use crate::client::{Client, Way};
use crate::running::Running;
use serde_json::{Value, json};

/// The exceptions of a client for these statuses.
const STATUSES: [u16; 10] = [400, 401, 403, 404, 408, 413, 429, 500, 503, 529];

fn exceptions(client: Client) -> [&'static str; 10] {
    todo!("{client:?}")
}

#[test]
fn every_status_is_an_exception_of_its_own() -> anyhow::Result<()> {
    let model = Running::model("client-errors", "[]")?;
    for client in Client::ALL {
        let mut session = client.open(&model.url)?;
        for status in STATUSES {
            model.set_faults(&json!([{ "fault": { "kind": "status", "status": status } }]))?;
            for stream in [false, true] {
                let seen = session.sees(&json!({ "stream": stream }))?;
                eprintln!("{client:?} {status} {stream} {}", seen["error"]);
            }
        }
        model.set_faults(&json!([]))?;
        for (name, call) in [
            ("key", json!({ "key": null })),
            ("unknown model", json!({ "model": "nope" })),
            ("malformed", json!({ "max_tokens": 0 })),
        ] {
            let seen = session.sees(&call)?;
            eprintln!("{client:?} {name} {}", seen["error"]);
        }
        for name in ["ThrottlingException","ModelNotReadyException","ModelTimeoutException","ModelErrorException","InternalServerException","ServiceUnavailableException","ServiceQuotaExceededException","ValidationException","AccessDeniedException","ResourceNotFoundException"] {
            if !matches!(client, Client::AwsPython(_) | Client::AwsNode(..)) { continue }
            if let Err(e) = model.set_faults(&json!([{ "fault": { "kind": "status", "status": 429, "error": name } }])) { eprintln!("{e}"); break }
            let seen = session.sees(&json!({}))?;
            eprintln!("{client:?} {name} {}", seen["error"]);
        }
        for fault in [json!({"kind":"hang"}), json!({"kind":"reset"}), json!({"kind":"cut","after":1}),json!({"kind":"malformed","after":1}),json!({"kind":"html"}),json!({"kind":"truncate","after":1}),json!({"kind":"truncate"})] {
            if let Err(e) = model.set_faults(&json!([{ "fault": fault }])) { eprintln!("{e}"); continue }
            let seen = session.sees(&json!({"timeout": 1, "patience": 3}))?;
            eprintln!("{client:?} {fault} {seen}");
        }
    }
    Ok(())
}
