//! What people write, and what they read when it is wrong.

#[cfg(test)]
mod mistakes;
#[cfg(test)]
mod profiles;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod strategies;
#[cfg(test)]
mod survival;
