//! What tests, benchmarks, chaos and the demo share: child processes, servers, clients, and the judge of responses.
//!
//! Everything here runs in real time on real sockets and files; a test on a virtual clock needs none of it. Without the
//! feature `client` the crate has no runtime, so that any crate can use it in its tests.

mod block_on;
mod directory;
mod http;
mod metric_value;
mod process;
mod process_table;
mod redis_server;
mod wait;

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "client")]
mod reserved_port;
#[cfg(feature = "client")]
pub mod validator;

pub use block_on::block_on;
pub use directory::TestDirectory;
pub use http::{HttpReply, exchange};
pub use metric_value::parse_billionths;
pub use process::{ChildProcess, read_ready_line, send_signal};
pub use process_table::{cpu_time, open_descriptors, resident_bytes};
pub use redis_server::{RedisServer, redis_server_command};
#[cfg(feature = "client")]
pub use reserved_port::ReservedPort;
pub use rustix::process::Signal;
pub use wait::{free_address, now, pause, wait_until, wait_until_within};
