//! The status board that the nodes of a fleet share.

use super::key;
use super::link::{RedisLink, STORE, numbers};
use super::packing::Packing;
use super::script::StoreScript;
use crate::StoreError;
use crate::board::{Board, Fleet, NodeView};
use crate::encoding::{Reader, put_number};
use redis::Value;
use seawall_core::breaker::NodeId;
use seawall_core::handle::Runtime;
use seawall_core::time::Now;
use std::time::Duration;

const PUBLISH: u64 = 1;
const LEAVE: u64 = 2;
const READ: u64 = 3;

/// The most bytes that one node may publish.
const MOST_BYTES: usize = 64 * 1_024;
/// The most nodes on a board.
const MOST_NODES: u64 = 512;

/// The status board in Redis.
pub struct RedisBoard<R> {
    link: RedisLink<R>,
    script: StoreScript,
    stepped: bool,
}

impl<R: Runtime> RedisBoard<R> {
    /// A board over this connection.
    #[must_use]
    pub fn new(link: RedisLink<R>) -> Self {
        Self { link, script: StoreScript::timed(include_str!("lua/board.lua")), stepped: false }
    }

    /// Uses the time that is passed in instead of the server's. For tests.
    #[must_use]
    pub fn stepped(self) -> Self {
        Self { stepped: true, ..self }
    }

    async fn ask(
        &self,
        what: u64,
        node: NodeId,
        view: (u64, &[u8]),
        lives: Duration,
        now: Now,
    ) -> Result<Value, StoreError> {
        let mut packing = Packing::new();
        packing.time(self.stepped.then_some(now)).number(what).bytes(format!("{:x}", node.0).as_bytes());
        packing.halves(view.0).bytes(view.1).span(lives).number(MOST_BYTES as u64).number(MOST_NODES);
        let keys = [format!("{}:n:{{board}}", key::VERSION)];
        self.link.run(&self.script, &keys, &[&packing.finish()]).await
    }
}

impl<R: Runtime> Board for RedisBoard<R> {
    async fn publish(
        &self,
        node: NodeId,
        view: &NodeView,
        lives: Duration,
        now: Now,
    ) -> Result<(), StoreError> {
        let bytes = written(view);
        if bytes.len() > MOST_BYTES {
            let reason = format!("a view of {} bytes is larger than {MOST_BYTES}", bytes.len());
            return Err(StoreError::broken(STORE, reason));
        }
        numbers(&self.ask(PUBLISH, node, (view.sequence, &bytes), lives, now).await?).map(|_| ())
    }

    async fn leave(&self, node: NodeId, now: Now) -> Result<(), StoreError> {
        numbers(&self.ask(LEAVE, node, (0, b""), Duration::ZERO, now).await?).map(|_| ())
    }

    async fn read(&self, now: Now) -> Result<Fleet, StoreError> {
        let answer = self.ask(READ, NodeId(0), (0, b""), Duration::ZERO, now).await?;
        let Value::Array(items) = &answer else { return Err(StoreError::broken(STORE, "no board")) };
        if matches!(items.first(), Some(Value::Int(_))) {
            numbers(&answer)?;
        }
        // A node whose view cannot be decoded, perhaps of a later version, still counts as a node of the fleet.
        let nodes = items.chunks_exact(2).filter_map(|pair| match pair {
            [Value::BulkString(node), Value::BulkString(view)] => {
                Some((node_of(node)?, read(view).unwrap_or_default()))
            }
            _ => None,
        });
        Ok(nodes.collect())
    }
}

fn node_of(text: &[u8]) -> Option<NodeId> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok().map(NodeId)
}

/// Encodes the parts of a view: for each its topic and its bytes, prefixed with their lengths.
fn written(view: &NodeView) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (topic, part) in &view.parts {
        for text in [topic.as_bytes(), part] {
            put_number(&mut bytes, text.len() as u64);
            bytes.extend_from_slice(text);
        }
    }
    bytes
}

fn read(bytes: &[u8]) -> Option<NodeView> {
    let (sequence, mut rest) = bytes.split_first_chunk()?;
    let mut view = NodeView { sequence: u64::from_be_bytes(*sequence), ..NodeView::default() };
    while !rest.is_empty() {
        let topic = std::str::from_utf8(taken(&mut rest)?).ok()?.into();
        view.parts.insert(topic, taken(&mut rest)?.into());
    }
    Some(view)
}

/// Reads bytes that are prefixed with their length.
fn taken<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut reader = Reader::new(rest);
    let length = usize::try_from(reader.number()?).ok()?;
    let mut head = Vec::new();
    put_number(&mut head, length as u64);
    let (bytes, after) = rest.get(head.len()..)?.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{read, written};
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
            let bytes = [&sequence.to_be_bytes()[..], &written(&view)].concat();
            assert_eq!(read(&bytes), Some(view));
            let _ = read(&noise);
        }
    }
}
