mod answer;
mod any_stream;
mod count;
mod errors;
mod frame_oracle;
mod frames;
mod head;
mod invoke;
mod opaque;
mod paths;
mod request;
mod stream;

use bytes::BytesMut;

/// The bytes that `write` appends.
fn written(write: impl FnOnce(&mut BytesMut)) -> Vec<u8> {
    let mut out = BytesMut::new();
    write(&mut out);
    out.to_vec()
}

/// Splits the bytes at the given positions.
fn cut<'a>(bytes: &'a [u8], places: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = places.iter().map(|place| place % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// A frame with arbitrary string headers, built independently of the code under test.
fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut head = Vec::new();
    for (name, value) in headers {
        head.push(u8::try_from(name.len()).unwrap());
        head.extend_from_slice(name.as_bytes());
        head.push(7);
        head.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        head.extend_from_slice(value.as_bytes());
    }
    let size = |length: usize| u32::try_from(length).unwrap().to_be_bytes();
    let mut frame = [size(head.len() + payload.len() + 16), size(head.len())].concat();
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame.extend_from_slice(&head);
    frame.extend_from_slice(payload);
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame
}

fn event(name: &str, payload: &str) -> Vec<u8> {
    let headers = [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")];
    frame(&headers, payload.as_bytes())
}

fn exception(name: &str, payload: &str) -> Vec<u8> {
    let headers =
        [(":exception-type", name), (":content-type", "application/json"), (":message-type", "exception")];
    frame(&headers, payload.as_bytes())
}
