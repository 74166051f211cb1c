//! The HTTP gateway: accepts requests, sends answers, and owns the only real runtime.
//!
//! A gateway listens, translates HTTP into requests for the [`Pipeline`](seawall_pipeline::Pipeline) and its replies into HTTP,
//! and serves the admin API. It makes no decisions of its own: the pipeline decides what is rejected, retried or ended.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `assemble` | builds a gateway from settings, and applies changed settings while it runs |
//! | `body` | response bodies, whole or streamed |
//! | `chat` | derives the rules of our own chat face from settings |
//! | `connection_limiter` | connection limits |
//! | `connection` | one client connection, from accept to close |
//! | `diagnostics` | events for operators, on standard error as text or JSON |
//! | `digits` | fast decimal formatting |
//! | `edge` | checks on the bytes of a connection that the HTTP server does not make itself |
//! | `encode` | encoders: events of a reply to bytes of a response |
//! | `store_maintenance` | opens the store, retries its failed writes, and expires what is old |
//! | `fleet_memory` | the last known number of nodes, in the data directory |
//! | `head_limit` | maximum size of a request head |
//! | `stalled_streams` | ends answers that clients have stopped reading |
//! | `memory_limit` | how much memory the process may use |
//! | `target` | builds a connector from a target's settings |
//! | `shared_limits` | limits that a fleet shares |
//! | `simulated_target` | the simulated model as a target |
//! | `secret` | reads secrets from environment variables and files |
//! | `runtime` | real clock, random numbers and timers |
//! | `face` | HTTP routes for callers, in every dialect |
//! | `core_registry` | the connections, streams and tasks of a core, and the signal that ends them |
//! | [`identity`] | authentication of callers; authorization is not decided there |
//! | `listen` | sockets and threads, one runtime per core or one for all, and graceful shutdown |
//! | `tls` | TLS for callers' connections, reloadable |
//! | `log` | one line per request, and a ring buffer of recent records |
//! | `records` | decision records of requests, kept in the data directory |
//! | `metrics` | counters and gauges, and the Prometheus page |
//! | `openapi` | an OpenAPI document of the endpoints for callers |
//! | [`Supervisor`] | starts, watches and stops background threads |
//! | `status_view` | the status view that the faces and the admin API share |
//! | `admin` | the admin API, on a listener of its own |

mod admin;
mod assemble;
mod body;
mod chat;
mod connection;
mod connection_limiter;
mod core_registry;
#[doc(hidden)]
pub mod diagnostics;
mod digits;
mod edge;
mod encode;
mod face;
mod fleet_memory;
mod head_limit;
pub mod identity;
mod keep_alive;
mod listen;
mod log;
mod memory_limit;
mod metrics;
mod openapi;
mod pending_reply;
mod records;
mod runtime;
mod secret;
mod shared_limits;
mod simulated_target;
mod sink_queue;
mod stalled_streams;
mod status_view;
mod store_maintenance;
mod supervisor;
mod target;
mod target_problem;
mod tls;

pub use assemble::{ServeError, ServeOptions, preflight, serve};
pub use diagnostics::{Diagnostics, DiagnosticsError, DiagnosticsOptions, diagnostics_reference};
pub use listen::{ListenError, RunningGateway, ThreadLayout};
pub use log::RequestLog;
pub use metrics::{Metrics, metrics_reference};
pub use openapi::openapi;
pub use runtime::TokioRuntime;
pub use secret::{SecretError, fetch_text as fetch_secret};
pub use shared_limits::SharedError;
pub use simulated_target::SimulatedModel;
pub use store_maintenance::{StorageError, StorageReport};
pub use supervisor::{ShutdownStage, Supervisor};
pub use target::TargetError;
pub use tls::TlsError;
/// For the macro `diagnostic!`.
#[doc(hidden)]
pub use tracing;
