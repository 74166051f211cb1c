//! Buffers the incomplete event at the end of a stream.

use bytes::{Bytes, BytesMut};

/// Holds back the start of an incomplete event, so that the caller only receives complete ones. Complete events are
/// forwarded without copying.
#[derive(Debug, Default)]
pub(super) struct PartialEvent(BytesMut);

/// The incomplete event exceeds the maximum size.
#[derive(Debug)]
pub(super) struct EventTooLarge;

impl PartialEvent {
    /// The bytes since the last complete event.
    pub(super) fn pending(&self) -> &[u8] {
        &self.0
    }

    /// Forwards the part of a chunk that belongs to complete events, and buffers the rest, up to `max` bytes.
    pub(super) fn forward(
        &mut self,
        chunk: &Bytes,
        whole: usize,
        max: usize,
        into: &mut impl FnMut(Bytes),
    ) -> Result<(), EventTooLarge> {
        let whole = whole.min(chunk.len());
        if whole > 0 {
            if !self.0.is_empty() {
                into(self.0.split().freeze());
            }
            into(chunk.slice(..whole));
        }
        let rest = chunk.get(whole..).unwrap_or_default();
        if self.0.len().saturating_add(rest.len()) > max {
            return Err(EventTooLarge);
        }
        self.0.extend_from_slice(rest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::PartialEvent;
    use bytes::Bytes;

    #[test]
    fn complete_events_are_forwarded_and_the_rest_is_buffered_up_to_its_limit() {
        let (mut partial, mut forwarded) = (PartialEvent::default(), Vec::new());
        let chunk = Bytes::from_static(b"abcdef");
        partial.forward(&chunk, 6, 0, &mut |bytes| forwarded.push(bytes)).unwrap();
        assert_eq!((forwarded.len(), forwarded[0].as_ptr()), (1, chunk.as_ptr()));
        partial.forward(&chunk, 4, 2, &mut |bytes| forwarded.push(bytes)).unwrap();
        assert_eq!((&forwarded[1][..], partial.pending()), (&b"abcd"[..], &b"ef"[..]));
        partial.forward(&chunk, 1, 5, &mut |bytes| forwarded.push(bytes)).unwrap();
        assert_eq!(
            (&forwarded[2][..], &forwarded[3][..], partial.pending()),
            (&b"ef"[..], &b"a"[..], &b"bcdef"[..])
        );
        assert!(partial.forward(&chunk, 0, 10, &mut |bytes| forwarded.push(bytes)).is_err());
        assert!(partial.forward(&chunk, 0, 11, &mut |bytes| forwarded.push(bytes)).is_ok());
        assert_eq!((forwarded.len(), partial.pending().len()), (4, 11));
    }
}
