//! Buffers the incomplete event at the end of a stream.

use bytes::{Bytes, BytesMut};

/// Holds back the start of an incomplete event, so that the caller only receives complete ones. Complete events are
/// forwarded without copying.
#[derive(Debug, Default)]
pub(super) struct Held(BytesMut);

/// The incomplete event exceeds the maximum size.
#[derive(Debug)]
pub(super) struct TooLong;

impl Held {
    /// The bytes since the last complete event.
    pub(super) fn pending(&self) -> &[u8] {
        &self.0
    }

    /// Forwards the part of a frame that belongs to complete events, and buffers the rest, up to `most` bytes.
    pub(super) fn pass_on(
        &mut self,
        frame: &Bytes,
        whole: usize,
        most: usize,
        into: &mut impl FnMut(Bytes),
    ) -> Result<(), TooLong> {
        let whole = whole.min(frame.len());
        if whole > 0 {
            if !self.0.is_empty() {
                into(self.0.split().freeze());
            }
            into(frame.slice(..whole));
        }
        let rest = frame.get(whole..).unwrap_or_default();
        if self.0.len().saturating_add(rest.len()) > most {
            return Err(TooLong);
        }
        self.0.extend_from_slice(rest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Held;
    use bytes::Bytes;

    #[test]
    fn what_is_whole_is_handed_on_and_the_rest_is_kept_up_to_its_limit() {
        let (mut held, mut got) = (Held::default(), Vec::new());
        let frame = Bytes::from_static(b"abcdef");
        held.pass_on(&frame, 6, 0, &mut |bytes| got.push(bytes)).unwrap();
        assert_eq!((got.len(), got[0].as_ptr()), (1, frame.as_ptr()));
        held.pass_on(&frame, 4, 2, &mut |bytes| got.push(bytes)).unwrap();
        assert_eq!((&got[1][..], held.pending()), (&b"abcd"[..], &b"ef"[..]));
        held.pass_on(&frame, 1, 5, &mut |bytes| got.push(bytes)).unwrap();
        assert_eq!((&got[2][..], &got[3][..], held.pending()), (&b"ef"[..], &b"a"[..], &b"bcdef"[..]));
        assert!(held.pass_on(&frame, 0, 10, &mut |bytes| got.push(bytes)).is_err());
        assert!(held.pass_on(&frame, 0, 11, &mut |bytes| got.push(bytes)).is_ok());
        assert_eq!((got.len(), held.pending().len()), (4, 11));
    }
}
