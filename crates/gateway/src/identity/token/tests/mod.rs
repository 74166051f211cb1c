mod algorithms;
mod claims;
mod cost;
mod key_sets;
mod rings;
mod signer;
