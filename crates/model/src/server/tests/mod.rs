//! Tests of the server over loopback sockets, byte by byte.

mod admin;

use super::{Meter, ModelServer};
use crate::bill::Bill;
use crate::engine::{Engine, Fault, FaultRule, ModelOptions, Pace};
use std::future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Runs `client` against a server, and stops the server afterwards.
fn beside_server<T>(faults: Vec<Fault>, client: impl AsyncFnOnce(SocketAddr, Meter) -> T) -> T {
    beside(Pace::Instant, faults, client)
}

fn engine(pace: Pace, faults: Vec<Fault>) -> Engine {
    let rule = FaultRule::always;
    let faults = faults.into_iter().map(rule).collect();
    Engine::new(ModelOptions { seed: 1, faults, pace }).unwrap()
}

fn beside<T>(pace: Pace, faults: Vec<Fault>, client: impl AsyncFnOnce(SocketAddr, Meter) -> T) -> T {
    let engine = engine(pace, faults);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = ModelServer::bind(engine, (Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
        let (address, meter) = (server.address().unwrap(), server.meter());
        tokio::select! {
            output = client(address, meter) => output,
            () = server.run(future::pending(), Duration::ZERO) => panic!("the server stopped"),
        }
    })
}

fn request(key: &str, stream: bool) -> String {
    let body = format!(
        r#"{{"model":"sonnet","max_tokens":40,"stream":{stream},"messages":[{{"role":"user","content":"hi"}}]}}"#
    );
    format!(
        "POST /v1/messages HTTP/1.1\r\nhost: model\r\n{key}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Everything the server sends until it closes the connection, and how reading ended.
async fn send(address: SocketAddr, request: &str) -> (String, io::Result<()>) {
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let ending = connection.read_to_end(&mut answer).await.map(drop);
    (String::from_utf8_lossy(&answer).into_owned(), ending)
}

const KEY: &str = "x-api-key: any\r\nconnection: close";

fn line(bill: &Bill) -> (u64, u64, bool) {
    let line = bill.line("sonnet");
    assert_eq!(line.nano_dollars, line.input_tokens * 3_000 + line.output_tokens * 15_000);
    (line.requests, line.answers, line.output_tokens > 0)
}

#[test]
fn answers_and_streams_arrive_and_are_billed_with_either_key() {
    beside_server(vec![], async |address, meter| {
        for key in [KEY, "authorization: Bearer any\r\nconnection: close"] {
            let (answer, ending) = send(address, &request(key, false)).await;
            assert!(ending.is_ok() && answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
            assert!(
                answer.contains(r#""type":"message""#) && answer.contains("request-id: req_"),
                "{answer}"
            );
        }
        let (answer, _) = send(address, &request(KEY, true)).await;
        assert!(answer.contains("event: message_stop") && answer.ends_with("\r\n0\r\n\r\n"), "{answer}");
        assert_eq!(line(&meter.bill()), (3, 3, true));
        let (bill, _) =
            send(address, "GET /admin/bill HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
        let total = format!(r#""nano_dollars":{}"#, meter.bill().nano_dollars());
        assert!(bill.contains(r#""requests":3"#) && bill.contains(&total), "{bill}");
    });
}

#[test]
fn what_is_not_served_is_refused_in_the_dialect() {
    beside_server(vec![], async |address, meter| {
        let (answer, _) = send(address, &request("connection: close", false)).await;
        assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("authentication_error"), "{answer}");
        let count = request("connection: close", false).replace("/v1/messages", "/v1/messages/count_tokens");
        let (answer, _) = send(address, &count).await;
        assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("authentication_error"), "{answer}");
        let (answer, _) = send(address, "GET / HTTP/1.1\r\nhost: model\r\nconnection: close\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("no such endpoint: GET /"), "{answer}");
        let (answer, _) =
            send(address, "GET /livez HTTP/1.1\r\nhost: model\r\nconnection: close\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("true"), "{answer}");
        assert_eq!(line(&meter.bill()), (0, 0, false));
    });
}

#[test]
fn a_cut_stream_is_sent_up_to_the_cut_and_billed_up_to_it() {
    beside_server(vec![Fault::cut(3)], async |address, meter| {
        let (answer, _) = send(address, &request(KEY, true)).await;
        assert_eq!(answer.matches("event: content_block_delta").count(), 2, "{answer}");
        assert!(!answer.ends_with("0\r\n\r\n"), "{answer}");
        assert_eq!(meter.bill().line("sonnet").output_tokens, 8);
        let (answer, _) = send(address, &request(KEY, false)).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    });
}

#[test]
fn a_throttled_response_has_retry_after() {
    let retry_after = Some(Duration::from_millis(1_500));
    beside_server(vec![Fault::Status { status: 429, retry_after, error: None }], async |address, meter| {
        let (answer, _) = send(address, &request(KEY, true)).await;
        assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
        assert!(
            answer.contains("retry-after: 2\r\n") && answer.contains("retry-after-ms: 1500\r\n"),
            "{answer}"
        );
        assert_eq!(line(&meter.bill()), (1, 0, false));
    });
}

#[test]
fn a_reset_is_a_reset_and_a_cut_before_the_head_is_a_close() {
    beside_server(vec![Fault::Reset], async |address, _| {
        let (answer, ending) = send(address, &request(KEY, true)).await;
        assert!(answer.is_empty(), "{answer}");
        assert_eq!(ending.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    });
    beside_server(vec![Fault::cut(0)], async |address, _| {
        let (answer, ending) = send(address, &request(KEY, true)).await;
        assert!(answer.is_empty() && ending.is_ok(), "{answer} {ending:?}");
    });
}

#[test]
fn a_caller_that_disconnects_early_is_billed_for_what_was_sent() {
    beside(Pace::Real, vec![], async |address, meter| {
        let mut connection = TcpStream::connect(address).await.unwrap();
        connection.write_all(request(KEY, true).as_bytes()).await.unwrap();
        let mut seen = String::new();
        while !seen.contains("content_block_delta") {
            let mut piece = [0; 4_096];
            let length = connection.read(&mut piece).await.unwrap();
            assert_ne!(length, 0);
            seen.push_str(&String::from_utf8_lossy(&piece[..length]));
        }
        drop(connection);
        // While the second answer is sent, the first one would have continued.
        let (whole, _) = send(address, &request(KEY, true)).await;
        let of_whole = 4 * (whole.matches("event: content_block_delta").count() as u64);
        let billed = meter.bill().line("sonnet");
        assert_eq!((billed.requests, billed.answers), (2, 1));
        assert!(billed.output_tokens < of_whole * 3 / 2, "{billed:?} {of_whole}");
    });
}

#[test]
fn a_server_shuts_down_even_when_a_model_hangs() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let engine = engine(Pace::Instant, vec![Fault::Hang { after: 1 }]);
    runtime.block_on(async {
        let server = ModelServer::bind(engine, (Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
        let address = server.address().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let client = async {
            let mut connection = TcpStream::connect(address).await.unwrap();
            connection.write_all(request(KEY, true).as_bytes()).await.unwrap();
            let mut answer = String::new();
            while !answer.contains("message_start") {
                let mut piece = [0; 4_096];
                let length = connection.read(&mut piece).await.unwrap();
                answer.push_str(&String::from_utf8_lossy(&piece[..length]));
            }
            stop.send(()).unwrap();
            let mut rest = Vec::new();
            let _ = connection.read_to_end(&mut rest).await;
            assert!(!String::from_utf8_lossy(&rest).contains("message_stop"));
        };
        tokio::join!(server.run(async { drop(stopped.await) }, Duration::ZERO), client);
    });
}
