//! Authenticates the caller, and then reads the request body: in this order.
//!
//! The caller is identified by the head of the request. No body is read from an unknown caller. The one exception is a
//! signature over the body: its key must be known, and the body is hashed as it arrives. Bytes are charged as they
//! arrive ([`BodyMemory`](seawall_core::body_memory::BodyMemory)), and released when the request has ended.
//!
//! **Why part of an unwanted body is read all the same.** Closing a socket with unread bytes resets the connection, and
//! a client that is still writing would see the reset instead of the rejection. Some of the body is therefore read and
//! discarded after the rejection was written (lingering close). HTTP/2 does not need it.

use super::Face;
use crate::identity::token::TokenRefusal;
use crate::identity::{Gate, RequestHead, Sha256Stream, Shown, SignedHead};
use crate::listen::serve;
use crate::runtime::TokioRuntime;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::Version;
use hyper::body::{Body as _, Incoming};
use hyper::header::EXPECT;
use hyper::http::request::Parts;
use seawall_core::body_memory::{BodyHolder, BodyRefusal, HeldBytes};
use seawall_pipeline::{BodyScope, Caller, Proven, Rejection, Runtime as _, Timer as _};
use std::net::IpAddr;
use std::time::Duration;

/// Limits of a lingering close: bytes read and discarded, and time.
const LINGER_BYTES: usize = 256 << 10;
const LINGER_TIME: Duration = Duration::from_secs(2);

/// The caller that the head of a request identifies.
pub(super) struct KnownCaller {
    pub(super) proven: Proven,
    pub(super) caller: Caller,
    /// The account that the body's memory is charged to.
    holder: BodyHolder,
    /// A signature that must still be verified against the body.
    signed: Option<SignedHead>,
    /// The cookie for a new guest.
    pub(super) set_cookie: Option<String>,
}

/// A complete request body.
pub(super) struct ArrivedBody {
    pub(super) bytes: Bytes,
    pub(super) held: HeldBytes,
    /// Whether the body had to be waited for, so that the state of its caller may have changed since authentication.
    pub(super) was_late: bool,
}

/// The parts of a request head that authentication needs.
pub(super) fn shown_by<'a>(gate: &Gate, head: &'a Parts, peer: IpAddr) -> RequestHead<'a> {
    let Parts { method, uri, headers, .. } = head;
    RequestHead { method, uri, headers, address: gate.address(peer, headers) }
}

fn unauthenticated(refusal: crate::identity::Refusal) -> Rejection {
    Rejection::Unauthenticated { told: refusal.to_string(), cause: refusal.logged() }
}

impl Face {
    /// Authenticates the caller, before any of the body is read.
    pub(super) async fn known_caller(
        &self,
        gate: &Gate,
        shown: RequestHead<'_>,
    ) -> Result<KnownCaller, Rejection> {
        let inspected = match gate.inspect(shown, || self.runtime.now()) {
            // Few requests have to wait for an issuer's keys.
            Ok(Shown::NeedsKeys(_)) => Box::pin(gate.show(shown)).await,
            inspected => inspected,
        };
        let (proven, signed, set_cookie) = match inspected.map_err(unauthenticated)? {
            Shown::Proven(proven) => (proven, None, None),
            Shown::NewGuest { proven, set_cookie } => (proven, None, Some(set_cookie)),
            Shown::Signed(signed) => (*signed.claimed(), Some(signed), None),
            // The keys were fetched above if they could be.
            Shown::NeedsKeys(_) => return Err(unauthenticated(TokenRefusal::KeyUnknown.into())),
        };
        let caller = self.path.find_caller(&proven).await?;
        let holder = BodyHolder { caller: caller.id, address: gate.network(shown.address) };
        Ok(KnownCaller { proven, caller, holder, signed, set_cookie })
    }

    /// Reads the body of a known caller, unless it is too large, too slow, or does not match its signature.
    pub(super) async fn arrived_body(
        &self,
        gate: &Gate,
        shown: RequestHead<'_>,
        known: &KnownCaller,
        body: &mut Incoming,
    ) -> Result<ArrivedBody, Rejection> {
        let (most_bytes, limits) = self.path.arrival();
        let max_bytes = match known.proven {
            Proven::Guest { .. } => most_bytes.min(limits.guest_body),
            Proven::Credential { .. } => most_bytes,
        };
        if body.size_hint().lower() > max_bytes as u64 {
            return Err(too_large(max_bytes));
        }
        let mut hash = known.signed.as_ref().map(|_| Sha256Stream::new());
        let mut was_late = false;
        // A client that sends a byte now and then must not hold a connection forever. Most bodies have arrived already.
        let late = async {
            was_late = true;
            self.runtime.sleep_until(self.runtime.monotonic() + limits.body).await;
        };
        let (bytes, held) = tokio::select! {
            biased;
            collected = self.collect(body, max_bytes, known.holder, hash.as_mut()) => collected?,
            () = late => {
                let words = format!("the body took longer than {:?} to arrive", limits.body);
                return Err(Rejection::Malformed(words));
            }
        };
        if let (Some(signed), Some(hash)) = (&known.signed, hash) {
            gate.verify_body_hash(signed, shown, &hash.finish(), self.runtime.now())
                .map_err(unauthenticated)?;
        }
        Ok(ArrivedBody { bytes, held, was_late })
    }

    /// Reads a whole body and charges it as it arrives. A body in one piece is not copied.
    async fn collect(
        &self,
        body: &mut Incoming,
        max_bytes: usize,
        holder: BodyHolder,
        mut hash: Option<&mut Sha256Stream>,
    ) -> Result<(Bytes, HeldBytes), Rejection> {
        let memory = &self.sight.body_memory;
        let refused = |refusal| match refusal {
            BodyRefusal::TooLarge(bytes) => too_large(usize::try_from(bytes).unwrap_or(usize::MAX)),
            BodyRefusal::CallerShare => Rejection::BodyMemory(BodyScope::Caller),
            BodyRefusal::AddressShare => Rejection::BodyMemory(BodyScope::Address),
            BodyRefusal::Full => Rejection::BodyMemory(BodyScope::All),
        };
        let Some(first) = piece(body).await? else { return Ok((Bytes::new(), memory.hold_nothing(holder))) };
        if let Some(hash) = &mut hash {
            hash.update(&first);
        }
        if first.len() > max_bytes {
            return Err(too_large(max_bytes));
        }
        if body.is_end_stream() {
            let held = memory.hold_whole(holder, first.len() as u64).map_err(refused)?;
            return Ok((first, held));
        }
        let mut held = memory.hold_nothing(holder);
        held.add(first.len() as u64).map_err(refused)?;
        let mut whole = BytesMut::new();
        while let Some(next) = piece(body).await? {
            if whole.is_empty() {
                whole.extend_from_slice(&first);
            }
            if whole.len() + next.len() > max_bytes {
                return Err(too_large(max_bytes));
            }
            held.add(next.len() as u64).map_err(refused)?;
            if let Some(hash) = &mut hash {
                hash.update(&next);
            }
            whole.extend_from_slice(&next);
        }
        Ok((if whole.is_empty() { first } else { whole.freeze() }, held))
    }
}

fn too_large(max_bytes: usize) -> Rejection {
    Rejection::TooLarge(format!("the body is larger than {max_bytes} bytes"))
}

/// The next piece of a body, or `None` at its end. Trailers are ignored.
async fn piece(body: &mut Incoming) -> Result<Option<Bytes>, Rejection> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Rejection::Malformed("the body did not arrive whole".to_owned()))?;
        if let Ok(piece) = frame.into_data() {
            return Ok(Some(piece));
        }
    }
    Ok(None)
}

/// Lingering close: reads a little of a rejected body while the rejection is sent, then lets the connection be closed.
pub(super) fn linger(head: &Parts, mut body: Incoming, runtime: TokioRuntime) {
    // HTTP/2 can tell a client to stop sending. A client that waits for `100 Continue` sends nothing.
    if head.version >= Version::HTTP_2 || body.is_end_stream() || head.headers.contains_key(EXPECT) {
        return;
    }
    serve(async move {
        let discard = async {
            let mut read = 0;
            while let Ok(Some(piece)) = piece(&mut body).await {
                read += piece.len();
                if read >= LINGER_BYTES {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = discard => {}
            () = runtime.sleep_until(runtime.monotonic() + LINGER_TIME) => {}
        }
    });
}
