//! Round-trip tests of each dialect, alone and through the other.

#[cfg(test)]
mod any_bytes;
#[cfg(test)]
mod bad_requests;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod hand_written;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod strategies;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod usage;
