//! A low-level HTTP/2 client for misbehaviour that no library allows: unfinished, unread, idle.

use anyhow::ensure;
use seawall_testkit::pause;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

/// A connection whose received frames are counted.
pub(crate) struct Http2 {
    connection: TcpStream,
    next_stream: u32,
    /// The send window of the connection.
    window: Arc<AtomicI64>,
    /// Response heads received.
    pub(crate) answers: Arc<AtomicUsize>,
    /// Those with status 200.
    pub(crate) accepted: Arc<AtomicUsize>,
    /// Whether the peer has closed it.
    pub(crate) closed: Arc<AtomicUsize>,
    /// The error code of GOAWAY plus one; zero before it arrives.
    pub(crate) goaway_code: Arc<AtomicUsize>,
}

/// The status 200 in the static table of HPACK.
const STATUS_200: u8 = 0x88;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

fn header(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).unwrap_or(u8::MAX);
    [&[0, length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
}

impl Http2 {
    /// Opens a connection. `window` is the flow-control window for each response.
    pub(crate) fn open(address: &str, window: u32) -> anyhow::Result<Self> {
        let mut connection = TcpStream::connect(address.trim_start_matches("http://"))?;
        connection.set_write_timeout(Some(Duration::from_secs(10)))?;
        let mut settings = vec![0, 4];
        settings.extend(window.to_be_bytes());
        let hello = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &frame(4, 0, 0, &settings)].concat();
        connection.write_all(&hello)?;
        let opened = Self {
            connection: connection.try_clone()?,
            next_stream: 1,
            window: Arc::new(AtomicI64::new(65_535)),
            answers: Arc::default(),
            accepted: Arc::default(),
            closed: Arc::default(),
            goaway_code: Arc::default(),
        };
        let (granted, answers, closed) =
            (Arc::clone(&opened.window), Arc::clone(&opened.answers), Arc::clone(&opened.closed));
        let (accepted, goaway_code) = (Arc::clone(&opened.accepted), Arc::clone(&opened.goaway_code));
        std::thread::Builder::new().spawn(move || {
            let mut head = [0; 9];
            while connection.read_exact(&mut head).is_ok() {
                let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
                if connection.read_exact(&mut payload).is_err() {
                    break;
                }
                let is_of_all = head[5..9] == [0; 4];
                match (head[3], payload.first_chunk::<4>()) {
                    (1, _) => {
                        accepted.fetch_add((payload.first() == Some(&STATUS_200)).into(), Ordering::SeqCst);
                        answers.fetch_add(1, Ordering::SeqCst);
                    }
                    // Until the settings are acknowledged, the smaller initial windows apply.
                    (4, _) if head[4] == 0 => drop(connection.write_all(&frame(4, 1, 0, &[]))),
                    (8, Some(more)) if is_of_all => {
                        granted.fetch_add(u32::from_be_bytes(*more).into(), Ordering::SeqCst);
                    }
                    (7, _) => {
                        goaway_code
                            .store(1 + usize::from(payload.get(7).copied().unwrap_or(0)), Ordering::SeqCst);
                    }
                    _ => {}
                }
            }
            closed.store(1, Ordering::SeqCst);
        })?;
        Ok(opened)
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.connection.write_all(bytes)
    }

    /// Begins a request, whose body follows if `has_body`.
    pub(crate) fn ask(&mut self, method: &str, path: &str, key: &str, has_body: bool) -> anyhow::Result<u32> {
        let stream = self.next_stream;
        self.next_stream += 2;
        let headers = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "test")];
        let mut block: Vec<u8> = headers.iter().flat_map(|(name, value)| header(name, value)).collect();
        if !key.is_empty() {
            block.extend(header("x-api-key", key));
        }
        let flags = if has_body { 4 } else { 5 };
        self.connection.write_all(&frame(1, flags, stream, &block))?;
        Ok(stream)
    }

    /// A request without a body whose headers have this many bytes as the limit counts them: 32 more for each.
    pub(crate) fn ask_with_head(&mut self, path: &str, bytes: usize) -> anyhow::Result<()> {
        let stream = self.next_stream;
        self.next_stream += 2;
        let headers = [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "test")];
        let mut block: Vec<u8> = headers.iter().flat_map(|(name, value)| header(name, value)).collect();
        let long = header("x-long", &"v".repeat(120));
        block.extend(long.repeat(bytes / (6 + 120 + 32)));
        let mut pieces = block.chunks(16_000).enumerate().peekable();
        while let Some((number, piece)) = pieces.next() {
            // The first frame has END_STREAM, the last END_HEADERS.
            let flags = u8::from(number == 0) | if pieces.peek().is_none() { 4 } else { 0 };
            let kind = if number == 0 { 1 } else { 9 };
            self.connection.write_all(&frame(kind, flags, stream, piece))?;
        }
        Ok(())
    }

    /// Sends a piece of a body within the connection's window, with a timeout of some seconds.
    pub(crate) fn send(&mut self, stream: u32, bytes: &[u8], is_last: bool) -> anyhow::Result<()> {
        let mut pieces = bytes.chunks(16_384).peekable();
        while let Some(piece) = pieces.next() {
            let length = i64::try_from(piece.len())?;
            let mut waited = 0;
            while self.window.load(Ordering::SeqCst) < length {
                ensure!(waited < 1_000, "the window stays closed");
                waited += 1;
                pause(Duration::from_millis(5));
            }
            self.window.fetch_sub(length, Ordering::SeqCst);
            let flags = u8::from(is_last && pieces.peek().is_none());
            self.connection.write_all(&frame(0, flags, stream, piece))?;
        }
        Ok(())
    }
}
