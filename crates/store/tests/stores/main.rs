//! One conformance suite for every store, so that all of them keep the same promises.
//!
//! [`conformance`] is the suite; the other modules run stores through it, including some that are broken on purpose.

#[cfg(test)]
mod broken;
#[cfg(test)]
mod conformance;
#[cfg(test)]
#[cfg(feature = "embedded")]
mod embedded;
#[cfg(test)]
mod memory;
#[cfg(test)]
#[cfg(feature = "redis")]
mod redis;
