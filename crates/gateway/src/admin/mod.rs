//! What operators ask, on an address of their own.
//!
//! Answers whoever may ask how the gateway stands: as JSON, over HTTP/1.1, on a thread and a runtime that no caller's
//! request waits for. Looking changes nothing; callers' keys and amounts that were posted are all that can be changed.
//!
//! **What it will not do.** It shows no secret, no key, no address and no text of a message; a caller is a hash. Without a
//! credential it answers only on a loopback address, and there only who calls it by a loopback name and is no other
//! site's page in a browser. It is no part of the faces: no path of operators exists where callers ask.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `routes` | the table of what can be asked |
//! | `guard` | who may ask |
//! | `query` | parameters, of which none may be unknown |
//! | `answer` | answers and errors as JSON |
//! | `corrections` | amounts that were posted, corrected |
//! | `keys` | callers' keys, made, listed and revoked |
//! | `views` | how things stand, as JSON |
//! | `listen` | the thread, and how it ends |

mod answer;
mod corrections;
mod guard;
mod keys;
mod listen;
mod query;
mod routes;
#[cfg(test)]
mod tests;
mod views;

pub(crate) use guard::{Credential, Guard};
pub(crate) use listen::AdminListening;

use crate::sight::Sight;
use std::net::SocketAddr;
use std::sync::Arc;

/// What every question of an operator is answered from.
pub(crate) struct Admin {
    pub(crate) sight: Arc<Sight>,
    pub(crate) guard: Guard,
    /// Where operators are answered.
    pub(crate) address: SocketAddr,
}
