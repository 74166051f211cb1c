//! Fuzzes the request readers: arbitrary bytes give a request or an error, and every request survives a round trip.
#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use seawall_wire::{RequestLimits, anthropic, openai};

fuzz_target!(|bytes: &[u8]| {
    let limits = RequestLimits::default();
    let _ = anthropic::read_request(bytes, &limits);
    let _ = anthropic::read_count_request(bytes, &limits);
    if let Ok(head) = openai::read_request(bytes, &limits) {
        let sent = openai::for_upstream(&Bytes::copy_from_slice(bytes), &head, "other");
        let again = openai::read_request(&sent, &limits).expect("what is spliced can be read");
        assert_eq!((again.model.as_str(), again.turns), ("other", head.turns));
        assert_eq!(again.include_usage, again.stream);
    }
    let read = [anthropic::read_chat_request(bytes, &limits), openai::read_chat_request(bytes, &limits)];
    for request in read.into_iter().flatten() {
        let mut out = BytesMut::new();
        if anthropic::write_chat_request(&mut out, &request).is_ok() {
            let again = anthropic::read_chat_request(&out, &limits).expect("what is written can be read");
            assert_eq!(again.turns, request.turns);
        }
        out.clear();
        if openai::write_chat_request(&mut out, &request).is_ok() {
            let again = openai::read_chat_request(&out, &limits).expect("what is written can be read");
            assert_eq!(again.system, request.system);
        }
    }
});
