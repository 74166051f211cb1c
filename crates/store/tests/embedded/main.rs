//! The embedded store with processes that end in every way.
//!
//! A child is this program again, with an environment variable for its role. It writes a line to its standard output
//! before each operation and after it has been acknowledged.

#[cfg(test)]
mod child;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod large;
#[cfg(test)]
mod support;
#[cfg(test)]
mod unusable;
