//! The request path on a virtual clock, against targets that do as they are told.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod attempts;
#[cfg(test)]
mod day;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod shop;
#[cfg(test)]
mod target;
