//! `seawall drs` against the server that imitates DRS: the real program, the real SDK, real sockets.

#[cfg(test)]
mod commands;
