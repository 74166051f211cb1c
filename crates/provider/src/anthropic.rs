//! Anthropic Messages over HTTP.

use crate::http1::{
    Body, BodyFailure, Endpoint, Limits, Pool, PoolOptions, Request, Response, TcpConnect, TokioTimer, send,
};
use crate::target::{Answer, Call, Calling, Frames, Target};
use bytes::{Bytes, BytesMut};
use seawall_core::failure::Failure;
use seawall_wire::anthropic::read_error;
use std::cell::Cell;
use std::task::{Context, Poll};

thread_local! {
    static CORE: Cell<usize> = const { Cell::new(0) };
}

/// Says which core this thread is. Connections belong to the core that opened them, so that no core waits for
/// another's.
pub fn enter_core(core: usize) {
    CORE.with(|own| own.set(core));
}

/// A model behind an Anthropic Messages endpoint.
pub struct AnthropicTarget {
    /// One per core.
    pools: Box<[Pool]>,
    api_key: String,
    limits: Limits,
}

impl AnthropicTarget {
    /// Connections to `endpoint` for so many cores, with our key there.
    #[must_use]
    pub fn new(
        endpoint: &Endpoint,
        cores: usize,
        api_key: String,
        limits: Limits,
        timer: TokioTimer,
    ) -> Self {
        let pool = || Pool::new(endpoint.clone(), TcpConnect, timer, PoolOptions::default());
        Self { pools: (0..cores.max(1)).map(|_| pool()).collect(), api_key, limits }
    }

    fn pool(&self) -> &Pool {
        &self.pools[CORE.with(Cell::get) % self.pools.len()]
    }

    async fn ask(&self, call: Call) -> Result<Answer, Failure> {
        let request = Request {
            method: "POST",
            path: "/v1/messages",
            headers: &[
                ("content-type", "application/json"),
                ("x-api-key", &self.api_key),
                ("anthropic-version", "2023-06-01"),
            ],
            body: call.body,
            resend_on_stale: true,
        };
        let response = send(self.pool(), request, &self.limits).await.map_err(|failure| failure.failure())?;
        let Response { status, headers, body, .. } = response;
        if status == 200 && call.stream {
            return Ok(Answer::Stream(Box::new(HttpFrames(body))));
        }
        let body = collect(body).await.map_err(BodyFailure::failure)?;
        if status == 200 {
            return Ok(Answer::Whole(body));
        }
        let header = |name: &str| headers.get(name).and_then(|value| std::str::from_utf8(value).ok());
        Err(read_error(status, header, &body))
    }
}

impl Target for AnthropicTarget {
    fn call(&self, call: Call) -> Calling<'_> {
        Box::pin(self.ask(call))
    }
}

struct HttpFrames(Body);

impl Frames for HttpFrames {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        self.0.poll_frame(context).map(|frame| frame.map(|frame| frame.map_err(BodyFailure::failure)))
    }
}

/// A body in one piece. Most arrive in one read and are not copied.
async fn collect(mut body: Body) -> Result<Bytes, BodyFailure> {
    let Some(first) = body.frame().await else { return Ok(Bytes::new()) };
    let first = first?;
    let Some(second) = body.frame().await else { return Ok(first) };
    let mut whole = BytesMut::from(first.as_ref());
    whole.extend_from_slice(&second?);
    while let Some(frame) = body.frame().await {
        whole.extend_from_slice(&frame?);
    }
    Ok(whole.freeze())
}
