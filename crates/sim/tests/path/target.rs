//! A scripted target.

use bytes::{Bytes, BytesMut};
use seawall_core::failure::{ANTHROPIC, Failure, FailureKind};
use seawall_core::money::UsageExtras;
use seawall_core::time::Timestamp;
use seawall_provider::{Call, CallFuture, ChunkStream, Target, UpstreamResponse};
use seawall_sim::{Sleep, World};
use seawall_wire::anthropic::{
    AnswerStart, TextAnswer as WireAnswer, write_answer, write_block_start, write_block_stop,
    write_message_delta, write_message_start, write_message_stop, write_text_delta,
};
use seawall_wire::chat::{FinishReason, Usage};
use seawall_wire::dialect::DialectId;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

pub(crate) const USAGE: Usage =
    Usage { input: 20, cache_read: 0, cache_write: 0, output: 8, extras: UsageExtras::NONE };

/// What a target does with one call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScriptedReply {
    /// Answers, the first event after 300 ms and one more every 50 ms.
    Answer,
    /// Responds with this status after 100 ms.
    Status(u16),
    /// Never responds.
    Hang,
    /// Closes the connection after this many events.
    CutAfter(usize),
    /// Closes the connection in the middle of the event after this many.
    CutInside(usize),
    /// Sends an invalid event after this many.
    NonsenseAfter(usize),
    /// Stalls after this many events.
    StallAfter(usize),
}

#[derive(Default)]
pub(crate) struct CallLog {
    pub(crate) calls: Vec<(Timestamp, Bytes)>,
    pub(crate) streams_dropped: usize,
}

pub(crate) struct ScriptedTarget {
    world: World,
    replies: Mutex<VecDeque<ScriptedReply>>,
    /// What it does when the list is exhausted.
    then: Mutex<ScriptedReply>,
    pub(crate) call_log: Arc<Mutex<CallLog>>,
}

impl ScriptedTarget {
    pub(crate) fn new(world: &World, replies: &[ScriptedReply], then: ScriptedReply) -> Arc<Self> {
        let replies = Mutex::new(replies.iter().copied().collect());
        Arc::new(Self { world: world.clone(), replies, then: Mutex::new(then), call_log: Arc::default() })
    }

    /// Changes what it does from now on.
    pub(crate) fn then(&self, reply: ScriptedReply) {
        *self.then.lock().unwrap() = reply;
    }

    pub(crate) fn calls(&self) -> usize {
        self.call_log.lock().unwrap().calls.len()
    }
}

/// The events of a streamed answer.
pub(crate) fn pieces() -> Vec<Bytes> {
    let written = |write: &dyn Fn(&mut BytesMut)| {
        let mut out = BytesMut::new();
        write(&mut out);
        out.freeze()
    };
    let start = AnswerStart { id: "msg_1", model: "strong-model", usage: Usage { output: 1, ..USAGE } };
    vec![
        written(&|out| {
            write_message_start(out, &start);
            write_block_start(out, 0);
        }),
        written(&|out| write_text_delta(out, 0, "こんにちは。")),
        written(&|out| write_text_delta(out, 0, "「灯台守の猫」はいかがですか。")),
        written(&|out| {
            write_block_stop(out, 0);
            write_message_delta(out, FinishReason::EndTurn, USAGE);
            write_message_stop(out);
        }),
    ]
}

pub(crate) fn whole() -> Bytes {
    let mut out = BytesMut::new();
    let start = AnswerStart { id: "msg_1", model: "strong-model", usage: USAGE };
    write_answer(&mut out, &WireAnswer { start, text: "こんにちは。", finish: FinishReason::EndTurn });
    out.freeze()
}

impl Target for ScriptedTarget {
    fn dialect(&self) -> DialectId {
        DialectId::ANTHROPIC_MESSAGES
    }

    fn call(&self, call: Call) -> CallFuture<'_> {
        let reply = self.replies.lock().unwrap().pop_front().unwrap_or(*self.then.lock().unwrap());
        self.call_log.lock().unwrap().calls.push((self.world.now(), call.body));
        let (world, call_log) = (self.world.clone(), Arc::clone(&self.call_log));
        Box::pin(async move {
            let wait = |millis| world.sleep(Duration::from_millis(millis));
            let count = match reply {
                ScriptedReply::Status(status) => {
                    wait(100).await;
                    return Err(ANTHROPIC.classify(status, None).into());
                }
                ScriptedReply::Hang => {
                    std::future::pending::<()>().await;
                    return Err(Failure::of(FailureKind::Unreachable).into());
                }
                ScriptedReply::Answer if !call.stream => {
                    wait(300).await;
                    return Ok(UpstreamResponse::Unstreamed { body: whole(), report: None });
                }
                ScriptedReply::Answer => pieces().len(),
                ScriptedReply::CutAfter(count) | ScriptedReply::StallAfter(count) => count,
                ScriptedReply::CutInside(count) | ScriptedReply::NonsenseAfter(count) => count + 1,
            };
            let mut pieces: VecDeque<Bytes> = pieces().into_iter().take(count).collect();
            match (reply, pieces.back_mut()) {
                (ScriptedReply::CutInside(_), Some(last)) => last.truncate(last.len() / 2),
                (ScriptedReply::NonsenseAfter(_), Some(last)) => {
                    *last = Bytes::from_static(b"event: message_delta\ndata: {no\n\n");
                }
                _ => {}
            }
            let stalls = matches!(reply, ScriptedReply::StallAfter(_));
            let wait = Some(world.sleep(Duration::from_millis(300)));
            Ok(UpstreamResponse::Stream(Box::new(Pieces { world, wait, pieces, stalls, call_log })))
        })
    }
}

struct Pieces {
    world: World,
    wait: Option<Sleep>,
    pieces: VecDeque<Bytes>,
    stalls: bool,
    call_log: Arc<Mutex<CallLog>>,
}

impl ChunkStream for Pieces {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        if let Some(wait) = &mut self.wait {
            if Pin::new(wait).poll(context).is_pending() {
                return Poll::Pending;
            }
            self.wait = None;
        }
        match self.pieces.pop_front() {
            Some(piece) => {
                self.wait = Some(self.world.sleep(Duration::from_millis(50)));
                Poll::Ready(Some(Ok(piece)))
            }
            None if self.stalls => Poll::Pending,
            None => Poll::Ready(None),
        }
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.call_log.lock().unwrap().streams_dropped += 1;
    }
}
