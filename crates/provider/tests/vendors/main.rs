//! Every target over real sockets: against the simulated model, and against servers that misbehave.

#[cfg(test)]
mod addresses;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod encrypted;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod signed;
#[cfg(test)]
mod support;
#[cfg(test)]
mod trace;
