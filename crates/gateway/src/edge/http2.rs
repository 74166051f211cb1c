//! HTTP/2 flood protection: limits the frames of a client that do not advance any request.
//!
//! Every frame costs us a little, and some cost the client almost nothing: `PRIORITY`, `PING`, `SETTINGS`,
//! `WINDOW_UPDATE`, `RST_STREAM`, empty `DATA`, unknown types. Each connection has a budget of such frames, which is
//! refilled by useful work: by requests, by bytes that we sent (a client that reads a large answer sends a
//! `WINDOW_UPDATE` or two for each of its frames), and by time (a client may ping a quiet connection now and then). A
//! connection that exhausts its budget is ended with `GOAWAY` and `ENHANCE_YOUR_CALM`, as RFC 9113 (10.5) advises.
//! Envoy has limits of the same kind.
//!
//! Frames that carry a request's head or content are not counted: requests have limits of their own.

use seawall_core::time::Timestamp;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const FRAME_HEADER: usize = 9;

const END_STREAM: u8 = 1;
const PADDED: u8 = 8;

/// The budget of a new connection, and the maximum.
const INITIAL_BUDGET: u64 = 2_000;
const MAX_BUDGET: u64 = 100_000;
/// Added per request: Envoy allows the same number of priority frames per stream.
const PER_REQUEST: u64 = 100;
/// One frame is added per this many bytes sent: the shortest frame with content is longer.
const BYTES_PER_FRAME: u64 = 16;
/// Added per second.
const PER_SECOND: u64 = 20;

const ENHANCE_YOUR_CALM: u32 = 11;

/// The frame budget of one connection.
#[derive(Debug)]
pub(super) struct FrameBudget {
    left: u64,
    sent_bytes: u64,
    /// The frame header as far as it has arrived, and the payload bytes still to come.
    head: [u8; FRAME_HEADER],
    head_length: usize,
    payload: usize,
    last_stream: u32,
    refilled: Timestamp,
}

impl FrameBudget {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            left: INITIAL_BUDGET,
            sent_bytes: 0,
            head: [0; FRAME_HEADER],
            head_length: 0,
            payload: 0,
            last_stream: 0,
            refilled: now,
        }
    }

    /// Records bytes that were sent.
    pub(super) fn record_sent(&mut self, bytes: usize) {
        self.sent_bytes = self.sent_bytes.saturating_add(bytes as u64);
    }

    /// Charges the frames in these bytes to the budget. Returns false once it is exhausted.
    pub(super) fn spend(&mut self, mut bytes: &[u8], clock: impl Fn() -> Timestamp) -> bool {
        loop {
            let skipped = self.payload.min(bytes.len());
            self.payload -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            if bytes.is_empty() {
                return true;
            }
            let missing = (FRAME_HEADER - self.head_length).min(bytes.len());
            let (fresh, rest) = bytes.split_at(missing);
            let room = self.head.iter_mut().skip(self.head_length);
            room.zip(fresh).for_each(|(target, byte)| *target = *byte);
            (self.head_length, bytes) = (self.head_length + missing, rest);
            if self.head_length < FRAME_HEADER {
                return true;
            }
            self.head_length = 0;
            let cost = self.frame_cost();
            if cost > self.left {
                self.refill(clock());
            }
            let Some(left) = self.left.checked_sub(cost) else { return false };
            self.left = left;
        }
    }

    /// The cost of the frame whose header has arrived.
    fn frame_cost(&mut self) -> u64 {
        let [high, middle, low, kind, flags, stream @ ..] = self.head;
        let length = u32::from_be_bytes([0, high, middle, low]);
        self.payload = usize::try_from(length).unwrap_or(usize::MAX);
        match kind {
            HEADERS => {
                self.left = self.left.saturating_add(PER_REQUEST).min(MAX_BUDGET);
                self.last_stream = self.last_stream.max(u32::from_be_bytes(stream) & (u32::MAX >> 1));
                0
            }
            // The end of a body may be an empty frame of its own. A padded frame may contain nothing but padding.
            DATA if flags & END_STREAM != 0 || (length > 0 && flags & PADDED == 0) => 0,
            // We answer both, and the bytes of our answers must not pay for more of them.
            PING => 3,
            SETTINGS => 2,
            _ => 1,
        }
    }

    /// Adds what was earned since the last refill. The clock is read only when the budget seems exhausted.
    fn refill(&mut self, now: Timestamp) {
        let seconds = (now - self.refilled).as_secs();
        self.refilled = self.refilled + std::time::Duration::from_secs(seconds);
        let earned = (self.sent_bytes / BYTES_PER_FRAME).saturating_add(seconds.saturating_mul(PER_SECOND));
        self.sent_bytes %= BYTES_PER_FRAME;
        self.left = self.left.saturating_add(earned).min(MAX_BUDGET);
    }

    /// The `GOAWAY` frame that ends the connection.
    pub(super) fn go_away(&self) -> [u8; FRAME_HEADER + 8] {
        let mut frame = [0; FRAME_HEADER + 8];
        let parts = [0, 0, 8, GO_AWAY, 0, 0, 0, 0, 0].into_iter();
        let parts = parts.chain(self.last_stream.to_be_bytes()).chain(ENHANCE_YOUR_CALM.to_be_bytes());
        frame.iter_mut().zip(parts).for_each(|(target, byte)| *target = byte);
        frame
    }
}
