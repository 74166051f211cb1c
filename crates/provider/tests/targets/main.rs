//! Every target over real sockets: against the simulated model, and against servers that misbehave.

mod addresses;
mod connections;
mod encrypted;
mod faults;
mod hostile;
mod requests;
mod support;
