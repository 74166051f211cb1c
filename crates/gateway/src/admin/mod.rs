//! The admin API, on a listener of its own.
//!
//! It serves the state of the gateway as JSON over HTTP/1.1, on a thread and a runtime that no caller's request waits
//! for. Reading changes nothing. Only callers' keys and posted amounts can be changed.
//!
//! **What it does not do.** It shows no secret, no key, no address and no text of a message; a caller appears as a
//! pseudonym. Without a credential it serves only on a loopback address, and there only requests with a loopback host
//! name that do not come from another site's page in a browser. It is separate from the faces: no admin path exists on
//! the callers' listener.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `routes` | the route table |
//! | `guard` | access control |
//! | `query` | query parameters; unknown ones are errors |
//! | `requests` | decision records of requests |
//! | `response` | responses and errors |
//! | `corrections` | corrections of posted amounts |
//! | `keys` | key management |
//! | `spending` | breakdowns of spend |
//! | `views` | the state of the gateway as JSON |
//! | `listen` | the thread, and its shutdown |

mod corrections;
mod guard;
mod keys;
mod listen;
mod query;
mod requests;
mod response;
mod routes;
mod spending;
mod targets;
#[cfg(test)]
mod tests;
mod views;

pub(crate) use guard::{AdminCredential, AdminGuard};
pub(crate) use listen::{bind, start};
pub(crate) use spending::SpendingQueries;

use crate::assemble::RunningState;
use crate::status_view::StatusView;
use std::net::SocketAddr;
use std::sync::Arc;

/// The state that admin handlers read.
pub(crate) struct AdminState {
    pub(crate) status: Arc<StatusView>,
    pub(crate) guard: Arc<AdminGuard>,
    /// The parts that settings change.
    pub(crate) running: Arc<RunningState>,
    pub(crate) spending: SpendingQueries,
    /// The bound address of the admin listener.
    pub(crate) address: SocketAddr,
}
