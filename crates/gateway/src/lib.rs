//! The HTTP gateway: accepts requests, sends answers, and owns the only real runtime.
//!
//! A gateway listens, translates HTTP into requests for the [`Path`](seawall_pipeline::Path) and its replies into HTTP,
//! and serves the admin API. It makes no decisions of its own: the path decides what is rejected, retried or ended.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `assemble` | builds a gateway from settings, and applies changed settings while it runs |
//! | `chat` | derives the rules of our own chat face from settings |
//! | `connections` | connection limits |
//! | `conversation` | one client connection, from accept to close |
//! | `digits` | fast decimal formatting |
//! | `edge` | checks on the bytes of a connection that the HTTP server does not make itself |
//! | `keeper` | store maintenance |
//! | `memory_limit` | how much memory the process may use |
//! | `late_directory` | a caller directory whose store is opened last |
//! | `target` | builds a connector from a target's settings |
//! | `shared` | limits that a fleet shares in Redis |
//! | `simulated` | the simulated model as a target |
//! | `secret` | reads secrets from environment variables and files |
//! | `runtime` | real clock, random numbers and timers |
//! | `face` | HTTP routes for callers, in every dialect |
//! | `stopping` | the work in flight on a core, and its shutdown signal |
//! | [`identity`] | authentication of callers; authorization is not decided there |
//! | `listen` | sockets and threads, one runtime per core or one for all, and graceful shutdown |
//! | `tls` | TLS for callers' connections, reloadable |
//! | `log` | one line per request, and a ring buffer of recent records |
//! | `metrics` | counters and gauges, and the Prometheus page |
//! | `openapi` | an OpenAPI document of the endpoints for callers |
//! | `sight` | the status view that the faces and the admin API share |
//! | `admin` | the admin API, on a listener of its own |

mod admin;
mod assemble;
mod body;
mod chat;
mod connections;
mod conversation;
mod digits;
mod edge;
mod face;
mod fleet_memory;
mod head_limit;
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
