//! Settings as users write them, and the messages about their mistakes.

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
