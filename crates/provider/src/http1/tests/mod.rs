//! The client against real sockets on loopback, and its parts against scripts.

mod alarm;
mod broken;
mod chunks;
mod fuzz;
mod heads;
mod keeping;
mod limits;
mod plain;
pub(crate) mod support;
