//! The shared bucket in a real Redis.

#[cfg(test)]
mod shared_bucket;
