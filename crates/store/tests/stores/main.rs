//! What every store must do, and what each must do besides.

#[cfg(feature = "redis")]
mod redis;
