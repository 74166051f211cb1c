//! The client against real sockets on loopback, and its parts against scripts.

mod broken;
mod chunks;
mod fuzz;
mod heads;
mod keeping;
mod limits;
mod plain;
mod reusable_timer;
pub(crate) mod support;
