//! Real time, and waiting for what other processes do.

use anyhow::{Context as _, ensure};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// How long [`wait_until`] waits.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The pause between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The real clock.
#[expect(clippy::disallowed_methods, reason = "tests with real programs take real time")]
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// Blocks this thread.
#[expect(clippy::disallowed_methods, reason = "tests with real programs take real time")]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Waits until this is true; fails after 20 seconds, or if `is_so` fails.
pub fn wait_until(what: &str, is_so: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    wait_until_within(TIMEOUT, what, is_so)
}

/// Waits until this is true; fails after `timeout`, or if `is_so` fails.
pub fn wait_until_within(
    timeout: Duration,
    what: &str,
    mut is_so: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let give_up_at = now() + timeout;
    while !is_so()? {
        ensure!(now() < give_up_at, "it did not happen within {timeout:?}: {what}");
        pause(POLL_INTERVAL);
    }
    Ok(())
}

/// A loopback address whose port is free at the moment. For a program that can be told to choose its port itself, port
/// 0 is better: nobody can take the port in between.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on loopback")?;
    Ok(listener.local_addr()?)
}

#[cfg(test)]
mod tests {
    use super::{free_address, wait_until, wait_until_within};
    use std::net::TcpListener;
    use std::time::Duration;

    #[test]
    fn it_waits_until_it_is_so_and_no_longer_than_the_timeout() {
        let mut looks = 0;
        let third = || {
            looks += 1;
            Ok(looks == 3)
        };
        wait_until("the third look", third).unwrap();
        assert_eq!(looks, 3);
        let error = wait_until_within(Duration::ZERO, "never", || Ok(false)).unwrap_err();
        assert_eq!(error.to_string(), "it did not happen within 0ns: never");
        assert!(wait_until("it fails", || anyhow::bail!("at once")).is_err());
    }

    #[test]
    fn a_free_address_can_be_bound() {
        assert!(TcpListener::bind(free_address().unwrap()).is_ok());
    }
}
