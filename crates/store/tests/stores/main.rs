//! What every store must do, and what each must do besides.

#[cfg(test)]
#[cfg(feature = "redis")]
mod redis;
