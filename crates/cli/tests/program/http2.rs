//! HTTP/2 by hand, for clients that no library would be: unfinished, unread, idle.

use crate::asking::pause;
use anyhow::ensure;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

/// A connection whose frames are counted as they come.
pub(crate) struct Http2 {
    connection: TcpStream,
    next_stream: u32,
    /// What may still be sent on the whole connection.
    window: Arc<AtomicI64>,
    /// Heads of answers that have come.
    pub(crate) answers: Arc<AtomicUsize>,
    /// Whether the other side has closed it.
    pub(crate) closed: Arc<AtomicUsize>,
}

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
    /// Opens a connection. `window` is how much of each answer may be sent to us.
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
            closed: Arc::default(),
        };
        let (granted, answers, closed) =
            (Arc::clone(&opened.window), Arc::clone(&opened.answers), Arc::clone(&opened.closed));
        std::thread::Builder::new().spawn(move || {
            let mut head = [0; 9];
            while connection.read_exact(&mut head).is_ok() {
                let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
                if connection.read_exact(&mut payload).is_err() {
                    break;
                }
                let is_of_all = head[5..9] == [0; 4];
                match (head[3], payload.first_chunk::<4>()) {
                    (1, _) => drop(answers.fetch_add(1, Ordering::SeqCst)),
                    // Before they are acknowledged, the smaller windows of the beginning hold.
                    (4, _) if head[4] == 0 => drop(connection.write_all(&frame(4, 1, 0, &[]))),
                    (8, Some(more)) if is_of_all => {
                        granted.fetch_add(u32::from_be_bytes(*more).into(), Ordering::SeqCst);
                    }
                    _ => {}
                }
            }
            closed.store(1, Ordering::SeqCst);
        })?;
        Ok(opened)
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

    /// Sends a piece of a body as far as the connection's window lets it, within some seconds.
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
