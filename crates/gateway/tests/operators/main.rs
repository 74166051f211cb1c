//! A gateway as its operators meet it: real sockets on loopback, and a target that nobody serves.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod corrections;
#[cfg(test)]
mod door;
#[cfg(test)]
mod running;
#[cfg(test)]
mod unread;
