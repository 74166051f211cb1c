//! Tests of the admin endpoints and of unknown paths.

use super::{KEY, beside, beside_server, request, send};
use crate::engine::{Fault, Pace};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn get(address: SocketAddr, path: &str, more: &str) -> Value {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{more}connection: close\r\n\r\n");
    body(&send(address, &request).await.0)
}

async fn post(address: SocketAddr, path: &str, content: &str) -> (String, Value) {
    let length = content.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{KEY}\r\ncontent-length: {length}\r\n\r\n");
    let (answer, _) = send(address, &format!("{head}{content}")).await;
    let status = answer.split(' ').nth(1).unwrap_or_default().to_owned();
    (status, body(&answer))
}

fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"))
}

#[test]
fn a_schedule_is_changed_while_the_model_runs_and_a_wrong_one_changes_nothing() {
    beside_server(vec![Fault::status(500)], async |address, _| {
        let status = async || send(address, &request(KEY, false)).await.0[9..12].to_owned();
        assert_eq!(status().await, "500");
        let (status_code, answer) = post(address, "/admin/faults", r#"[{"fault":{"kind":"explode"}}]"#).await;
        assert_eq!(
            (status_code.as_str(), answer["error"]["type"].as_str()),
            ("400", Some("invalid_request_error"))
        );
        assert_eq!(status().await, "500");
        let toml = "[[fault]]\nname = \"odd ones\"\nkind = \"status\"\nstatus = 429\nevery_nth = 2\n";
        assert_eq!(post(address, "/admin/faults", toml).await, ("200".to_owned(), json!({"faults": 1})));
        assert_eq!([status().await, status().await], ["429", "200"]);
        assert_eq!(post(address, "/admin/faults", "[]").await.0, "200");
        assert_eq!([status().await, status().await], ["200", "200"]);
    });
}

#[test]
fn pages_of_other_sites_are_refused() {
    beside_server(vec![], async |address, _| {
        for (path, more) in [
            ("/admin/bill", "host: rebound.example"),
            ("/admin/calls", "host: localhost\r\norigin: http://rebound.example"),
            ("/admin/reset", "host: localhost\r\nsec-fetch-site: cross-site"),
            ("/admin/faults", "host: rebound.example"),
        ] {
            for method in ["GET", "POST"] {
                let request = format!(
                    "{method} {path} HTTP/1.1\r\n{more}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                );
                let (answer, _) = send(address, &request).await;
                assert!(answer.starts_with("HTTP/1.1 403 "), "{method} {path}: {answer}");
            }
        }
    });
}

#[test]
fn every_call_is_listed_with_its_fault_its_tokens_and_its_end() {
    beside_server(vec![], async |address, meter| {
        let _ = send(address, &request(KEY, false)).await;
        let converse = r#"{"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#;
        post(address, "/model/anthropic.claude-3-haiku-20240307-v1%3A0/converse", converse).await;
        post(address, "/v1/chat/completions", "{").await;
        post(address, "/admin/faults", r#"[{"name":"midway","fault":{"kind":"cut","after":3}}]"#).await;
        let _ = send(address, &request(KEY, true)).await;
        let calls = get(address, "/admin/calls", "").await["calls"].take();
        let seen: Vec<_> = calls
            .as_array()
            .unwrap()
            .iter()
            .map(|call| json!([call["operation"], call["model"], call["status"], call["fault"], call["end"]]))
            .collect();
        assert_eq!(
            seen,
            [
                json!(["messages", "sonnet", 200, null, "complete"]),
                json!(["converse", "haiku", 200, null, "complete"]),
                json!(["chat_completions", null, 400, null, "complete"]),
                json!(["messages", "sonnet", 200, "midway", "broken"]),
            ]
        );
        let total: u64 =
            calls.as_array().unwrap().iter().filter_map(|call| call["nano_dollars"].as_u64()).sum();
        assert_eq!(total, meter.bill().nano_dollars());
        assert_eq!(calls[3]["output_tokens"], 8);
        post(address, "/admin/reset", "").await;
        assert_eq!(get(address, "/admin/calls", "").await, json!({"calls": []}));
        assert_eq!(get(address, "/admin/bill", "").await["nano_dollars"], 0);
    });
}

#[test]
fn an_endless_stream_goes_on_until_the_caller_leaves_and_is_billed_until_then() {
    let every = Duration::from_millis(5);
    beside(Pace::Instant, vec![Fault::Endless { every }], async |address, meter| {
        let mut connection = TcpStream::connect(address).await.unwrap();
        connection.write_all(request(KEY, true).as_bytes()).await.unwrap();
        let (mut pieces, mut buffer) = (0, [0; 8_192]);
        // Far more than the forty tokens requested.
        while pieces < 60 {
            let length = connection.read(&mut buffer).await.unwrap();
            assert_ne!(length, 0);
            pieces += String::from_utf8_lossy(&buffer[..length]).matches("content_block_delta\"").count();
        }
        drop(connection);
        let end = loop {
            let call = get(address, "/admin/calls", "").await["calls"][0].take();
            if call["end"] != "open" {
                break call;
            }
        };
        assert_eq!(end["end"], "caller_gone");
        let billed = meter.bill().line("sonnet");
        assert!(billed.output_tokens > 100 && billed.answers == 0, "{billed:?}");
    });
}

#[test]
fn too_many_at_once_are_throttled_and_the_rest_are_served() {
    let capacity = Fault::Capacity { in_flight: 1, retry_after: Some(Duration::from_secs(2)) };
    beside(Pace::Real, vec![capacity], async |address, _| {
        let (one, other) = (request(KEY, false), request(KEY, false));
        let ((first, _), (second, _)) = tokio::join!(send(address, &one), send(address, &other));
        let mut seen = [&first[9..12], &second[9..12]];
        seen.sort_unstable();
        assert_eq!(seen, ["200", "429"]);
        assert!(first.contains("retry-after: 2") || second.contains("retry-after: 2"));
        assert!(send(address, &request(KEY, false)).await.0.starts_with("HTTP/1.1 200"));
    });
}

#[test]
fn models_are_listed_and_tokens_counted_in_the_dialect_of_the_caller() {
    beside_server(vec![], async |address, meter| {
        let openai = get(address, "/v1/models", "authorization: Bearer any\r\n").await;
        assert_eq!((&openai["object"], &openai["data"][0]["id"]), (&json!("list"), &json!("sonnet")));
        let anthropic = get(address, "/v1/models", "anthropic-version: 2023-06-01\r\n").await;
        assert_eq!((&anthropic["has_more"], &anthropic["data"][0]["type"]), (&json!(false), &json!("model")));
        let body = r#"{"model":"haiku","messages":[{"role":"user","content":"漫画 abcd"}]}"#;
        let counted = post(address, "/v1/messages/count_tokens", body).await;
        assert_eq!(counted, ("200".to_owned(), json!({"input_tokens": 4})));
        let (status, refused) =
            post(address, "/v1/messages/count_tokens", r#"{"model":"opus","messages":[]}"#).await;
        assert!(status.starts_with('4') && refused["type"] == "error", "{refused}");
        let (status, refused) = post(address, "/model/a%2/converse", "{}").await;
        assert!(status.starts_with('4') && refused["message"].is_string(), "{refused}");
        assert_eq!(meter.bill().nano_dollars(), 0);
    });
}
