//! Fuzzes the stream readers: arbitrary bytes give events or an error, independent of the chunk boundaries.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use seawall_wire::sse::SseLimits;
use seawall_wire::{anthropic, openai};

const LIMITS: SseLimits = SseLimits { max_line_bytes: 4_096, max_event_bytes: 4_096 };

fuzz_target!(|input: &[u8]| {
    // The first byte determines the chunk size.
    let Some((step, bytes)) = input.split_first() else { return };
    let step = usize::from(*step).max(1);
    macro_rules! compare {
        ($reader:expr) => {{
            let (mut whole, mut in_pieces) = ($reader, $reader);
            let (mut expected, mut events) = (Vec::new(), Vec::new());
            let outcome = whole.feed(bytes, |event| expected.push(event));
            let split =
                bytes.chunks(step).try_for_each(|piece| in_pieces.feed(piece, |event| events.push(event)));
            assert_eq!((events, split), (expected, outcome));
        }};
    }
    compare!(anthropic::AnthropicChatReader::new(LIMITS));
    compare!(openai::OpenAiChatReader::new(LIMITS));
    compare!(anthropic::AnthropicStream::new(LIMITS));
    compare!(openai::OpenAiStream::new(LIMITS));
    let mut filter = openai::UsageFilter::new(4_096);
    for piece in bytes.chunks(step) {
        if filter.feed(&Bytes::copy_from_slice(piece), drop).is_err() {
            break;
        }
    }
});
