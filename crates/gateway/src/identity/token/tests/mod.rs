mod algorithms;
mod claims;
mod cost;
mod key_sets;
mod rings;
pub(in crate::identity) mod signer;
