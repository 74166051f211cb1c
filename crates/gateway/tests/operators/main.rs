//! The admin API over real sockets on loopback, with targets that refuse connections.

#[cfg(test)]
mod access_control;
#[cfg(test)]
mod answers;
#[cfg(test)]
mod corrections;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod running;
#[cfg(test)]
mod shutdown;
#[cfg(test)]
mod stalled_stream;
