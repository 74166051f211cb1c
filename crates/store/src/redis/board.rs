//! The status board that the nodes of a fleet share.

use super::connection::{RedisConnection, STORE, parse_integers};
use super::key;
use super::packing::ScriptArguments;
use super::script::StoreScript;
use crate::board::{Board, Fleet, NodeView};
use crate::encoding::{ByteReader, put_varint};
use crate::{StoreError, StoreFuture};
use redis::Value;
use seawall_core::breaker::NodeId;
use seawall_core::runtime::Runtime;
use seawall_core::time::Now;
use std::time::Duration;

const PUBLISH: u64 = 1;
const LEAVE: u64 = 2;
const READ: u64 = 3;

/// The most bytes that one node may publish.
const MAX_VIEW_BYTES: usize = 64 * 1_024;
/// The most nodes on a board.
const MAX_NODES: u64 = 512;

/// The status board in Redis.
pub struct RedisBoard<R> {
    connection: RedisConnection<R>,
    script: StoreScript,
    manual_clock: bool,
}

impl<R: Runtime> RedisBoard<R> {
    /// A board over this connection.
    #[must_use]
    pub fn new(connection: RedisConnection<R>) -> Self {
        Self { connection, script: StoreScript::timed(include_str!("lua/board.lua")), manual_clock: false }
    }

    /// Uses the time that is passed in instead of the server's. For tests.
    #[must_use]
    pub fn with_manual_clock(self) -> Self {
        Self { manual_clock: true, ..self }
    }

    async fn run_script(
        &self,
        operation: u64,
        node: NodeId,
        view: (u64, &[u8]),
        ttl: Duration,
        now: Now,
    ) -> Result<Value, StoreError> {
        let mut arguments = ScriptArguments::new();
        arguments
            .time(self.manual_clock.then_some(now))
            .number(operation)
            .bytes(format!("{:x}", node.0).as_bytes());
        arguments.halves(view.0).bytes(view.1).span(ttl).number(MAX_VIEW_BYTES as u64).number(MAX_NODES);
        let keys = [format!("{}:n:{{board}}", key::VERSION)];
        self.connection.run(&self.script, &keys, &[&arguments.finish()]).await
    }
}

impl<R: Runtime> Board for RedisBoard<R> {
    fn publish<'a>(
        &'a self,
        node: NodeId,
        view: &'a NodeView,
        ttl: Duration,
        now: Now,
    ) -> StoreFuture<'a, ()> {
        StoreFuture::boxed(async move {
            let bytes = encode_view(view);
            if bytes.len() > MAX_VIEW_BYTES {
                let reason = format!(
                    "the state of a node has {} bytes, more than the maximum of {MAX_VIEW_BYTES}",
                    bytes.len()
                );
                return Err(StoreError::failed(STORE, reason));
            }
            parse_integers(&self.run_script(PUBLISH, node, (view.sequence, &bytes), ttl, now).await?)
                .map(|_| ())
        })
    }

    fn leave(&self, node: NodeId, now: Now) -> StoreFuture<'_, ()> {
        StoreFuture::boxed(async move {
            parse_integers(&self.run_script(LEAVE, node, (0, b""), Duration::ZERO, now).await?).map(|_| ())
        })
    }

    fn read(&self, now: Now) -> StoreFuture<'_, Fleet> {
        StoreFuture::boxed(async move {
            let response = self.run_script(READ, NodeId(0), (0, b""), Duration::ZERO, now).await?;
            let Value::Array(items) = &response else {
                return Err(StoreError::failed(STORE, "the response is not a status board"));
            };
            if matches!(items.first(), Some(Value::Int(_))) {
                parse_integers(&response)?;
            }
            // A node whose view cannot be decoded, perhaps of a later version, still counts as a node of the fleet.
            let nodes = items.chunks_exact(2).filter_map(|pair| match pair {
                [Value::BulkString(node), Value::BulkString(view)] => {
                    Some((node_of(node)?, decode_view(view).unwrap_or_default()))
                }
                _ => None,
            });
            Ok(nodes.collect())
        })
    }
}

fn node_of(text: &[u8]) -> Option<NodeId> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok().map(NodeId)
}

/// Encodes the parts of a view: for each its topic and its bytes, prefixed with their lengths.
fn encode_view(view: &NodeView) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (topic, part) in &view.parts {
        for text in [topic.as_bytes(), part] {
            put_varint(&mut bytes, text.len() as u64);
            bytes.extend_from_slice(text);
        }
    }
    bytes
}

fn decode_view(bytes: &[u8]) -> Option<NodeView> {
    let (sequence, mut rest) = bytes.split_first_chunk()?;
    let mut view = NodeView { sequence: u64::from_be_bytes(*sequence), ..NodeView::default() };
    while !rest.is_empty() {
        let topic = std::str::from_utf8(take_prefixed(&mut rest)?).ok()?.into();
        view.parts.insert(topic, take_prefixed(&mut rest)?.into());
    }
    Some(view)
}

/// Reads bytes that are prefixed with their length.
fn take_prefixed<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut reader = ByteReader::new(rest);
    let length = usize::try_from(reader.varint()?).ok()?;
    let mut head = Vec::new();
    put_varint(&mut head, length as u64);
    let (bytes, after) = rest.get(head.len()..)?.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{decode_view, encode_view};
    use crate::board::NodeView;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::{any, proptest};

    proptest! {
        #[test]
        fn a_view_survives_and_no_bytes_are_too_strange(
            sequence in any::<u64>(),
            parts in btree_map("[a-z]{0,8}", vec(any::<u8>(), 0..300), 0..5),
            noise in vec(any::<u8>(), 0..40),
        ) {
            let parts = parts.into_iter().map(|(topic, part)| (topic.into(), part.into())).collect();
            let view = NodeView { sequence, parts };
            let bytes = [&sequence.to_be_bytes()[..], &encode_view(&view)].concat();
            assert_eq!(decode_view(&bytes), Some(view));
            let _ = decode_view(&noise);
        }
    }
}
