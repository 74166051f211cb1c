//! The store in a folder, with processes that end in every way.
//!
//! A child is this program again, with a variable that says what it should do. It tells of everything on its standard
//! output, line by line, before it does it and after that has been answered.

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
