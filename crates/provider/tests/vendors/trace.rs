//! The caller's trace headers, as each target sends them.

use crate::support::{listen, options, question, run, say, target};
use seawall_provider::{Call, TraceHeaders};
use seawall_wire::dialect::DialectId;
use std::sync::Arc;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn every_target_passes_the_callers_trace_on_and_signs_nothing_of_it() {
    run(async {
        for dialect in DialectId::ALL {
            let (listener, address) = listen().await;
            let target = target(dialect, options(address));
            let trace = TraceHeaders::read([PARENT.as_bytes()].into_iter(), [&b"a=b"[..]].into_iter());
            let call = Call { trace: trace.map(Arc::new), ..question(dialect, false) };
            let words = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            let ((_held, request), _) = tokio::join!(say(&listener, words), target.call(call));
            assert!(request.contains(&format!("\r\ntraceparent: {PARENT}\r\n")), "{dialect:?}: {request}");
            assert!(request.contains("\r\ntracestate: a=b\r\n"), "{dialect:?}: {request}");
            let signed = request.split("SignedHeaders=").nth(1).and_then(|rest| rest.split(',').next());
            assert!(!signed.is_some_and(|names| names.contains("trace")), "{dialect:?}: {request}");
        }
    });
}
