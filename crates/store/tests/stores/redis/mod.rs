//! Stores on real servers, each on a free port of this machine.

mod agree;
mod conform;
mod server;
mod world;
