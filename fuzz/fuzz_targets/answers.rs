//! Fuzzes the answer readers: arbitrary bytes give an answer or an error, and every answer survives a round trip.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use seawall_wire::{anthropic, openai};

fuzz_target!(|bytes: &[u8]| {
    let _ = anthropic::read_answer(bytes);
    let _ = openai::read_answer(bytes);
    let _ = anthropic::read_error(500, |_| None, bytes);
    let _ = openai::read_error(500, |_| None, bytes);
    let read = [anthropic::read_chat_answer(bytes), openai::read_chat_answer(bytes)];
    for answer in read.into_iter().flatten() {
        let mut out = BytesMut::new();
        anthropic::write_chat_answer(&mut out, &answer);
        let again = anthropic::read_chat_answer(&out).expect("what is written can be read");
        assert_eq!((again.parts, again.usage), (answer.parts.clone(), answer.usage));
        out.clear();
        openai::write_chat_answer(&mut out, &answer, 0);
        let _ = openai::read_chat_answer(&out).expect("what is written can be read");
    }
});
