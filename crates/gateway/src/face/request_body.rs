//! Authenticates the caller, and then reads the request body: in this order.
//!
//! The caller is identified by the head of the request. No body is read from an unknown caller. The one exception is a
//! signature over the body: its key must be known, and the body is hashed as it arrives. Bytes are charged as they
//! arrive ([`BodyMemory`](seawall_core::body_memory::BodyMemory)), and released when the request has ended.
//!
//! **Why part of an unwanted body is read all the same.** Closing a socket with unread bytes resets the connection, and
//! a client that is still writing would see the reset instead of the rejection. Some of the body is therefore read and
//! discarded after the rejection was written (lingering close). HTTP/2 does not need it.

use super::GatewayState;
use crate::identity::token::TokenRefusal;
use crate::identity::{
    AuthenticationDecision, Authenticator, HttpRequestHead, PendingSignature, Sha256Stream,
};
use crate::listen::spawn;
use crate::runtime::TokioRuntime;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::Version;
use hyper::body::{Body as _, Incoming};
use hyper::header::EXPECT;
use hyper::http::request::Parts;
use seawall_core::body_memory::{BodyOwner, BodyRefusal, ChargedBytes};
use seawall_pipeline::{BodyScope, Caller, CallerIdentity, Rejection, Runtime as _, Timer as _};
use std::net::IpAddr;
use std::time::Duration;

/// Limits of a lingering close: bytes read and discarded, and time.
const LINGER_BYTES: usize = 256 << 10;
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// The caller that the head of a request identifies.
pub(super) struct IdentifiedCaller {
    pub(super) identity: CallerIdentity,
    pub(super) caller: Caller,
    /// The account that the body's memory is charged to.
    owner: BodyOwner,
    /// A signature that must still be verified against the body.
    pending_signature: Option<PendingSignature>,
    /// The cookie for a new guest.
    pub(super) set_cookie: Option<String>,
}

/// A complete request body.
pub(super) struct ReceivedBody {
    pub(super) bytes: Bytes,
    pub(super) charged: ChargedBytes,
    /// Whether the body had to be waited for, so that the state of its caller may have changed since authentication.
    pub(super) was_awaited: bool,
}

/// The parts of a request head that authentication needs.
pub(super) fn http_request_head<'a>(
    authenticator: &Authenticator,
    head: &'a Parts,
    peer: IpAddr,
) -> HttpRequestHead<'a> {
    let Parts { method, uri, headers, .. } = head;
    HttpRequestHead { method, uri, headers, address: authenticator.address(peer, headers) }
}

fn unauthenticated(refusal: crate::identity::AuthenticationRefusal) -> Rejection {
    Rejection::Unauthenticated { message: refusal.to_string(), cause: refusal.log_label() }
}

impl GatewayState {
    /// Authenticates the caller, before any of the body is read.
    pub(super) async fn authenticate_caller(
        &self,
        authenticator: &Authenticator,
        request_head: HttpRequestHead<'_>,
    ) -> Result<IdentifiedCaller, Rejection> {
        let decision = match authenticator.try_authenticate(request_head, || self.runtime.now()) {
            // Few requests have to wait for an issuer's keys.
            Ok(AuthenticationDecision::KeysNeeded(_)) => {
                Box::pin(authenticator.authenticate(request_head)).await
            }
            decision => decision,
        };
        let (identity, pending_signature, set_cookie) = match decision.map_err(unauthenticated)? {
            AuthenticationDecision::Identified(identity) => (identity, None, None),
            AuthenticationDecision::NewGuest { identity, set_cookie } => (identity, None, Some(set_cookie)),
            AuthenticationDecision::SignaturePending(pending_signature) => {
                (*pending_signature.claimed(), Some(pending_signature), None)
            }
            // The keys were fetched above if they could be.
            AuthenticationDecision::KeysNeeded(_) => {
                return Err(unauthenticated(TokenRefusal::KeyUnknown.into()));
            }
        };
        let caller = self.pipeline.find_caller(&identity).await?;
        let owner = BodyOwner { caller: caller.id, network: authenticator.network(request_head.address) };
        Ok(IdentifiedCaller { identity, caller, owner, pending_signature, set_cookie })
    }

    /// Reads the body of a known caller, unless it is too large, too slow, or does not match its signature.
    pub(super) async fn read_body(
        &self,
        authenticator: &Authenticator,
        request_head: HttpRequestHead<'_>,
        identified: &IdentifiedCaller,
        body: &mut Incoming,
    ) -> Result<ReceivedBody, Rejection> {
        let (max_body_size, limits) = self.pipeline.receive_limits();
        let max_bytes = match identified.identity {
            CallerIdentity::Guest { .. } => max_body_size.min(limits.max_guest_body_size),
            CallerIdentity::Credential { .. } => max_body_size,
        };
        if body.size_hint().lower() > max_bytes as u64 {
            return Err(too_large(max_bytes));
        }
        let mut hash = identified.pending_signature.as_ref().map(|_| Sha256Stream::new());
        let mut was_awaited = false;
        // A client that sends a byte now and then must not hold a connection forever. Most bodies have arrived already.
        let timeout = async {
            was_awaited = true;
            self.runtime.sleep_until(self.runtime.monotonic() + limits.body_timeout).await;
        };
        let (bytes, charged) = tokio::select! {
            biased;
            collected = self.collect(body, max_bytes, identified.owner, hash.as_mut()) => collected?,
            () = timeout => {
                let message = format!("request body timeout: the body did not arrive within {:?}", limits.body_timeout);
                return Err(Rejection::BodyTimeout(message));
            }
        };
        if let (Some(pending_signature), Some(hash)) = (&identified.pending_signature, hash) {
            authenticator
                .verify_body_hash(pending_signature, request_head, &hash.finish(), self.runtime.now())
                .map_err(unauthenticated)?;
        }
        Ok(ReceivedBody { bytes, charged, was_awaited })
    }

    /// Reads a whole body and charges it as it arrives. A body in one piece is not copied.
    async fn collect(
        &self,
        body: &mut Incoming,
        max_bytes: usize,
        owner: BodyOwner,
        mut hash: Option<&mut Sha256Stream>,
    ) -> Result<(Bytes, ChargedBytes), Rejection> {
        let memory = &self.status.body_memory;
        let refused = |refusal| match refusal {
            BodyRefusal::TooLarge(bytes) => too_large(usize::try_from(bytes).unwrap_or(usize::MAX)),
            BodyRefusal::CallerShare => Rejection::BodyMemory(BodyScope::Caller),
            BodyRefusal::NetworkShare => Rejection::BodyMemory(BodyScope::Network),
            BodyRefusal::Full => Rejection::BodyMemory(BodyScope::All),
        };
        let Some(first) = next_piece(body).await? else {
            return Ok((Bytes::new(), memory.charge_empty(owner)));
        };
        if let Some(hash) = &mut hash {
            hash.update(&first);
        }
        if first.len() > max_bytes {
            return Err(too_large(max_bytes));
        }
        if body.is_end_stream() {
            let charged = memory.charge_whole(owner, first.len() as u64).map_err(refused)?;
            return Ok((first, charged));
        }
        let mut charged = memory.charge_empty(owner);
        charged.add(first.len() as u64).map_err(refused)?;
        let mut whole = BytesMut::new();
        while let Some(next) = next_piece(body).await? {
            if whole.is_empty() {
                whole.extend_from_slice(&first);
            }
            if whole.len() + next.len() > max_bytes {
                return Err(too_large(max_bytes));
            }
            charged.add(next.len() as u64).map_err(refused)?;
            if let Some(hash) = &mut hash {
                hash.update(&next);
            }
            whole.extend_from_slice(&next);
        }
        Ok((if whole.is_empty() { first } else { whole.freeze() }, charged))
    }
}

fn too_large(max_bytes: usize) -> Rejection {
    Rejection::TooLarge(format!("request body too large: the limit is {max_bytes} bytes"))
}

/// The next piece of a body, or `None` at its end. Trailers are ignored.
async fn next_piece(body: &mut Incoming) -> Result<Option<Bytes>, Rejection> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Rejection::Malformed("incomplete request body".to_owned()))?;
        if let Ok(piece) = frame.into_data() {
            return Ok(Some(piece));
        }
    }
    Ok(None)
}

/// Lingering close: reads a little of a rejected body while the rejection is sent, then lets the connection be closed.
pub(super) fn linger(head: &Parts, mut body: Incoming, runtime: TokioRuntime) {
    // HTTP/2 can make a client stop sending. A client that waits for `100 Continue` sends nothing.
    if head.version >= Version::HTTP_2 || body.is_end_stream() || head.headers.contains_key(EXPECT) {
        return;
    }
    spawn(async move {
        let discard = async {
            let mut read = 0;
            while let Ok(Some(piece)) = next_piece(&mut body).await {
                read += piece.len();
                if read >= LINGER_BYTES {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = discard => {}
            () = runtime.sleep_until(runtime.monotonic() + LINGER_TIMEOUT) => {}
        }
    });
}
