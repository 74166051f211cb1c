//! What came of an event whose end has not.

use bytes::{Bytes, BytesMut};

/// Keeps back the beginning of an unfinished event, so that the caller only ever has whole ones. What is whole is handed on
/// as it came, without a copy.
#[derive(Debug, Default)]
pub(super) struct Held(BytesMut);

/// More of an event has come than any may have.
#[derive(Debug)]
pub(super) struct TooLong;

impl Held {
    /// What came since the last end.
    pub(super) fn pending(&self) -> &[u8] {
        &self.0
    }

    /// Hands on as much of a frame as belongs to whole events, and keeps the rest, of which there may be `most` bytes.
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
