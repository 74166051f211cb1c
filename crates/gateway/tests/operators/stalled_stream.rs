//! A caller that opens a stream and never reads it.

use crate::running::{KEY, settings_at, try_start};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

/// An upstream that answers one request with an endless stream, and reports when it is no longer read.
fn endless() -> (String, mpsc::Receiver<&'static str>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    let serve = move || {
        let Ok((mut connection, _)) = listener.accept() else { return };
        let mut request = [0; 4_096];
        let _ = connection.read(&mut request);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        let start = r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}"#;
        let block = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
        let delta =
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word "}}"#;
        let event = |name: &str, data: &str| format!("event: {name}\ndata: {data}\n\n");
        let begun = [head.to_owned(), event("message_start", start), event("content_block_start", block)];
        let mut next = begun.concat();
        let mut said = Some("asked");
        while connection.write_all(next.as_bytes()).is_ok() {
            if let Some(said) = said.take() {
                let _ = tell.send(said);
            }
            next = event("content_block_delta", delta);
        }
        let _ = tell.send("left");
    };
    std::thread::Builder::new().spawn(serve).unwrap();
    (address, told)
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags, 0, 0, 0, stream];
    [&head, payload].concat()
}

fn header(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).unwrap();
    [&[0, length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
}

/// Opens a stream that nobody reads, and waits until the gateway leaves the upstream.
fn is_given_up(more: &str) {
    let (address, told) = endless();
    let gateway = try_start(&settings_at(&address, more)).unwrap();
    let mut connection = TcpStream::connect(gateway.data).unwrap();
    // More tokens than fit into the sockets' buffers, so that the output limit does not end the stream.
    let body =
        br#"{"model":"manga","max_tokens":60000,"stream":true,"messages":[{"role":"user","content":"a"}]}"#;
    let headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/v1/messages"),
        (":authority", "a"),
        ("x-api-key", KEY),
    ];
    let headers: Vec<u8> = headers.iter().flat_map(|(name, value)| header(name, value)).collect();
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // A flow-control window of zero: no byte of any answer may be sent.
    bytes.extend(frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    bytes.extend(frame(1, 4, 1, &headers));
    bytes.extend(frame(0, 1, 1, body));
    connection.write_all(&bytes).unwrap();
    assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok("asked"));
    assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok("left"), "the model is still held");
    drop(connection);
}

#[test]
fn it_holds_no_target_beyond_the_deadline_of_its_request() {
    is_given_up("deadlines.api = \"4s\"\ndeadlines.connect = \"1s\"\ndeadlines.stream_idle = \"1s\"\n");
}

#[test]
fn it_holds_no_target_beyond_the_send_timeout() {
    is_given_up("server.send_timeout = \"2s\"\n");
}
