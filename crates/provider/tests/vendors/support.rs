//! A simulated model on a free port, targets that call it, and servers with scripted responses.

use aws_credential_types::provider::SharedCredentialsProvider;
use bytes::Bytes;
use seawall_core::failure::Failure;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::OpenAiApi;
use seawall_model::engine::{Engine, Fault, FaultRule, ModelOptions, Pace};
use seawall_model::server::{Meter, ModelServer};
use seawall_provider::http1::{HttpLimits, HttpRequest, TokioTimer};
use seawall_provider::{
    AnthropicKey, AnthropicOptions, AnthropicTarget, BedrockOptions, BedrockTarget, Call, ChunkStream,
    Client, ClientOptions, ClientRuntime, GeminiKey, GeminiOptions, GeminiTarget, Http2Policy, OpenAiOptions,
    OpenAiTarget, SecretString, StaticCredentials, Target, UpstreamResponse,
};
use seawall_wire::dialect::DialectId;
use std::future::{Future, pending, poll_fn};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Long enough for everything that arrives at all, short enough for what does not.
pub(crate) const LIMITS: HttpLimits = HttpLimits {
    connect_timeout: Duration::from_millis(1_000),
    write_timeout: Duration::from_millis(2_000),
    head_timeout: Duration::from_millis(400),
    idle_timeout: Duration::from_millis(400),
    max_body_bytes: 1 << 20,
};

pub(crate) const DATE: fn() -> UtcTime = || UtcTime::from_civil(2026, 7, 1);

pub(crate) fn around() -> ClientRuntime {
    ClientRuntime::new(TokioTimer::new(), Arc::new(DATE))
}

pub(crate) fn options(address: SocketAddr) -> ClientOptions {
    ClientOptions { limits: LIMITS, ..ClientOptions::new(format!("http://{address}")) }
}

pub(crate) fn over_http2(address: SocketAddr) -> ClientOptions {
    ClientOptions { http2: Http2Policy::Always, ..options(address) }
}

/// The URL with the vendor's base path.
pub(crate) fn below(mut options: ClientOptions, dialect: DialectId) -> ClientOptions {
    if [DialectId::OPENAI_CHAT, DialectId::RESPONSES].contains(&dialect) {
        options.url.push_str("/v1");
    }
    options
}

pub(crate) fn credentials() -> SharedCredentialsProvider {
    let token = Some(SecretString::new("session"));
    SharedCredentialsProvider::new(StaticCredentials::new("AKIDEXAMPLE", SecretString::new("hush"), token))
}

pub(crate) fn target(dialect: DialectId, options: ClientOptions) -> Box<dyn Target> {
    target_around(dialect, options, &around())
}

pub(crate) fn target_around(
    dialect: DialectId,
    options: ClientOptions,
    around: &ClientRuntime,
) -> Box<dyn Target> {
    let client = Client::new(&below(options, dialect), around).unwrap();
    let key = SecretString::new("hush");
    match dialect.name() {
        "anthropic" => {
            let options = AnthropicOptions::new(AnthropicKey::ApiKey(key));
            Box::new(AnthropicTarget::new(client, &options).unwrap())
        }
        "openai" => Box::new(OpenAiTarget::new(client, &OpenAiOptions::new(Some(key))).unwrap()),
        "openai_responses" => {
            let options = OpenAiOptions { api: OpenAiApi::Responses, ..OpenAiOptions::new(Some(key)) };
            Box::new(OpenAiTarget::new(client, &options).unwrap())
        }
        "bedrock_invoke" | "bedrock_converse" => {
            let options = BedrockOptions {
                region: "us-east-1".to_owned(),
                model: "anthropic.claude-3-haiku-20240307-v1:0".to_owned(),
                converse: dialect == DialectId::BEDROCK_CONVERSE,
                credentials: credentials(),
                headers: vec![],
            };
            Box::new(BedrockTarget::new(client, &options).unwrap())
        }
        "gemini" => {
            let options = GeminiOptions::new(GeminiKey::ApiKey(key));
            Box::new(GeminiTarget::new(client, "haiku", &options).unwrap())
        }
        other => panic!("{other:?}"),
    }
}

/// A small request in a dialect.
pub(crate) fn question(dialect: DialectId, stream: bool) -> Call {
    let body = match dialect.name() {
        "anthropic" => format!(
            r#"{{"model":"haiku","max_tokens":60,"stream":{stream},"messages":[{{"role":"user","content":"hi"}}]}}"#
        ),
        "openai" => format!(
            r#"{{"model":"haiku","max_tokens":60,"stream":{stream},"messages":[{{"role":"user","content":"hi"}}]}}"#
        ),
        "openai_responses" => {
            format!(r#"{{"model":"haiku","max_output_tokens":60,"stream":{stream},"input":"hi"}}"#)
        }
        "bedrock_invoke" => {
            r#"{"anthropic_version":"bedrock-2023-05-31","max_tokens":60,"messages":[{"role":"user","content":"hi"}]}"#
                .to_owned()
        }
        "bedrock_converse" => {
            r#"{"inferenceConfig":{"maxTokens":60},"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#
                .to_owned()
        }
        "gemini" => {
            r#"{"generationConfig":{"maxOutputTokens":60},"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#
                .to_owned()
        }
        other => panic!("{other:?}"),
    };
    Call::new(Bytes::from(body), stream)
}

pub(crate) async fn chunk(chunks: &mut dyn ChunkStream) -> Option<Result<Bytes, Failure>> {
    poll_fn(|context| chunks.poll_chunk(context)).await
}

/// All bytes of an answer, and how it ended.
pub(crate) async fn read(answer: UpstreamResponse) -> (Vec<u8>, Result<(), Failure>) {
    match answer {
        UpstreamResponse::Unstreamed { body, .. } => (body.to_vec(), Ok(())),
        UpstreamResponse::Stream(mut chunks) => {
            let mut whole = Vec::new();
            while let Some(next) = chunk(chunks.as_mut()).await {
                match next {
                    Ok(bytes) => whole.extend_from_slice(&bytes),
                    Err(failure) => return (whole, Err(failure)),
                }
            }
            (whole, Ok(()))
        }
    }
}

pub(crate) async fn ask(
    target: &dyn Target,
    stream: bool,
) -> Result<(Vec<u8>, Result<(), Failure>), Failure> {
    let answer = target.call(question(target.dialect(), stream)).await.map_err(|error| error.failure)?;
    Ok(read(answer).await)
}

/// Why a call failed before its answer began.
pub(crate) async fn refusal(target: &dyn Target, stream: bool) -> Failure {
    match target.call(question(target.dialect(), stream)).await {
        Ok(_) => panic!("it answered"),
        Err(error) => error.failure,
    }
}

pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

/// Runs `talk` beside a simulated model, and stops the model when it is done.
pub(crate) fn beside<T>(pace: Pace, faults: Vec<Fault>, talk: impl AsyncFnOnce(SocketAddr, Meter) -> T) -> T {
    let faults = faults.into_iter().map(FaultRule::always).collect();
    let engine = Engine::new(ModelOptions { seed: 1, faults, pace }).unwrap();
    run(async {
        let server = ModelServer::bind(engine, (Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
        let (address, meter) = (server.address().unwrap(), server.meter());
        tokio::select! {
            said = talk(address, meter) => said,
            () = server.run(pending(), Duration::ZERO) => panic!("the server stopped"),
        }
    })
}

/// The simulated model's list of calls.
pub(crate) async fn calls(address: SocketAddr) -> serde_json::Value {
    let client = Client::new(&options(address), &around()).unwrap();
    let request: HttpRequest<'_> = HttpRequest {
        method: "GET",
        path: "/admin/calls",
        headers: &[],
        body: Bytes::new(),
        resend_on_stale: false,
    };
    let response = client.send(request).await.unwrap();
    let mut list: serde_json::Value =
        serde_json::from_slice(&response.body.collect().await.unwrap()).unwrap();
    list["calls"].take()
}

pub(crate) async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Reads one request, head and body; `None` if the client has closed the connection.
pub(crate) async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut received = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&received);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text.into_owned());
            }
        }
        if stream.read_buf(&mut received).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}

/// Accepts one connection, reads one request, sends `words`, and returns the connection and the request.
pub(crate) async fn say(listener: &TcpListener, words: impl AsRef<[u8]>) -> (TcpStream, String) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let request = read_request(&mut stream).await.unwrap();
    // The client may close the connection early.
    let _ = stream.write_all(words.as_ref()).await;
    (stream, request)
}
