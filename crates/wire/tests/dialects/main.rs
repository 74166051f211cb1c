//! Each dialect read and written whole, alone and by way of the other.

mod any_bytes;
mod bad_requests;
mod golden;
mod hand_written;
mod requests;
mod strategies;
mod streams;
