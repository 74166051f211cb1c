//! Brings requests in and answers out, and owns the one real runtime.
//!
//! A gateway listens, turns HTTP into requests for the [`Path`](seawall_pipeline::Path) and its replies into HTTP, and
//! tells who operates it how things stand. It decides nothing: what is refused, retried or cut is the path's word.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `assemble` | from settings to a gateway that listens, and to other rules while it does |
//! | `chat` | from settings to what our own face goes by |
//! | `connections` | how many connections there may be |
//! | `conversation` | one connection, from its first byte to its last |
//! | `digits` | numbers written by hand |
//! | `keeper` | what outlives the process |
//! | `memory_limit` | how much memory the process may have |
//! | `late_directory` | callers of a folder that is opened last |
//! | `target` | from a target's settings to a way there |
//! | `shared` | limits that a fleet shares, in Redis |
//! | `simulated` | the simulated model as a target |
//! | `secret` | secrets, fetched from where settings say |
//! | `runtime` | the real clock, the real chance, the real timer |
//! | `face` | what comes in at which path, in every dialect |
//! | `stopping` | what is under way on a core, and how it is told to end |
//! | [`identity`] | who asks, proven; what a caller may do is for others to say |
//! | `listen` | sockets and threads, one runtime per core or one for all, and how they end |
//! | `tls` | what connections are encrypted with, renewed with settings |
//! | `log` | one line per request, and the newest records |
//! | `metrics` | what is counted, and the page that Prometheus reads |
//! | `openapi` | what callers can ask, as an OpenAPI document |
//! | `sight` | what there is to see, shared by who counts and who looks |
//! | `admin` | what operators ask, on an address of their own |

mod admin;
mod assemble;
mod body;
mod chat;
mod connections;
mod conversation;
mod digits;
mod face;
mod fleet_memory;
pub mod identity;
mod keeper;
mod late_directory;
mod listen;
mod log;
mod memory_limit;
mod metrics;
mod openapi;
mod runtime;
mod secret;
mod shared;
mod sight;
mod simulated;
mod stopping;
mod target;
mod tls;
mod unread;

pub use assemble::{ServeError, ServeOptions, preflight, serve};
pub use keeper::{KeepError, Kept};
pub use listen::{ListenError, Listening, Shape};
pub use log::AccessLog;
pub use metrics::{Metrics, metrics_reference};
pub use openapi::openapi;
pub use runtime::TokioRuntime;
pub use secret::{SecretError, fetch_text as fetch_secret};
pub use shared::SharedError;
pub use simulated::SimulatedModel;
pub use target::TargetError;
pub use tls::TlsError;
