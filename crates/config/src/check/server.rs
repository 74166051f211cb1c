//! Checks of the listeners.

use super::Checker;
use crate::problem::{Problem, ProblemCode};
use crate::raw;
use crate::settings::{AdminSettings, ServerSettings, ServerTlsSettings};
use seawall_core::setting::Ratio;
use std::net::SocketAddr;
use std::num::NonZeroU64;

/// Upper bound of the body limit, because a body is held in memory.
const MAX_BODY_BYTES: u64 = 256 << 20;
/// Lower bound of the memory for all bodies together: with less, hardly any request would be admitted.
const MIN_BODY_MEMORY: u64 = 1 << 20;

pub(super) fn server(server: &raw::ServerSection, checker: &mut Checker<'_>) -> Option<ServerSettings> {
    for (key, span) in [
        ("header_timeout", &server.header_timeout),
        ("body_timeout", &server.body_timeout),
        ("idle_timeout", &server.idle_timeout),
        ("send_timeout", &server.send_timeout),
    ] {
        checker.check_positive(server, key, span);
    }
    if !(1_024..=MAX_BODY_BYTES).contains(&server.max_body_size.value) {
        checker.report_invalid(
            server,
            "max_body_size",
            &server.max_body_size,
            "must be between 1KiB and 256MiB",
        );
    }
    if !(1_024..=MAX_BODY_BYTES).contains(&server.max_guest_body_size.value) {
        let problem = "must be between 1KiB and 256MiB";
        checker.report_invalid(server, "max_guest_body_size", &server.max_guest_body_size, problem);
    }
    if let Some(memory) = &server.body_memory
        && memory.value < MIN_BODY_MEMORY
    {
        checker.report_invalid(server, "body_memory", memory, "must be at least 1MiB");
    }
    let shares = [
        ("body_memory_per_caller", &server.body_memory_per_caller),
        ("body_memory_per_address", &server.body_memory_per_address),
    ]
    .map(|(key, share)| checker.checked(&[server], Ratio::percent(key, share.value)));
    for (key, count, max) in [
        ("max_depth", &server.max_depth, 128),
        ("max_fields", &server.max_fields, 10_000),
        ("max_items", &server.max_items, 1_000_000),
        ("max_connections", &server.max_connections, 1_000_000),
        ("max_connections_per_address", &server.max_connections_per_address, 1_000_000),
    ] {
        if !(1..=max).contains(&count.value) {
            checker.report_invalid(server, key, count, &format!("must be between 1 and {max}"));
        }
    }
    let tls = match &server.tls {
        None => None,
        Some(section) => Some(tls(section, checker)?),
    };
    let [per_caller, per_address] = shares;
    Some(ServerSettings {
        listen: server.listen.value,
        runtime: server.runtime.value,
        cores: server.cores.value,
        max_body_size: server.max_body_size.value,
        max_guest_body_size: server.max_guest_body_size.value,
        body_memory: server.body_memory.as_ref().and_then(|memory| NonZeroU64::new(memory.value)),
        body_memory_per_caller: per_caller?,
        body_memory_per_address: per_address?,
        max_depth: server.max_depth.value,
        max_fields: server.max_fields.value,
        max_items: server.max_items.value,
        header_timeout: server.header_timeout.value,
        body_timeout: server.body_timeout.value,
        max_connections: server.max_connections.value,
        max_connections_per_address: server.max_connections_per_address.value,
        idle_timeout: server.idle_timeout.value,
        send_timeout: server.send_timeout.value,
        keep_alive_interval: server
            .keep_alive_interval
            .as_ref()
            .map(|interval| interval.value)
            .filter(|interval| !interval.is_zero()),
        drain_delay: server.drain_delay.value,
        drain_timeout: server.drain_timeout.value,
        trusted_proxies: server.trusted_proxies.value.iter().map(|range| range.value).collect(),
        tls,
    })
}

fn tls(tls: &raw::TlsSection, checker: &mut Checker<'_>) -> Option<ServerTlsSettings> {
    let missing = |found: &str, origin, help: &str| {
        let message = format!("server.tls has {found}");
        Problem::error(ProblemCode::MissingKey, message, origin).help(help)
    };
    let (certificate, key) = match (&tls.certificate, &tls.key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (certificate, key) => {
            if let Some(certificate) = certificate {
                let help = "add key = \"file:PATH\"";
                checker.add(missing("a certificate but no key", certificate.origin, help));
            } else if let Some(key) = key {
                let help = "add certificate = \"PATH\"";
                checker.add(missing("a key but no certificate", key.origin, help));
            } else {
                let help = "set both, or remove the section";
                checker.add(missing("neither a certificate nor a key", tls.origin, help));
            }
            return None;
        }
    };
    Some(ServerTlsSettings { certificate: certificate.value.clone(), key: key.value.clone() })
}

pub(super) fn admin(
    admin: &raw::AdminSection,
    server: &raw::ServerSection,
    checker: &mut Checker<'_>,
) -> AdminSettings {
    let address = admin.listen.value;
    if !address.ip().to_canonical().is_loopback() && admin.credential.is_none() {
        let message =
            format!("admin.listen: {address} is reachable from other hosts, but admin.credential is not set");
        let help = "listen on 127.0.0.1, or set credential = \"env:SEAWALL_ADMIN_TOKEN\"";
        checker.add(Problem::error(ProblemCode::UnprotectedAdmin, message, admin.listen.origin).help(help));
    }
    if collide(address, server.listen.value) {
        let message = format!("admin.listen: {address} is already used by server.listen");
        let problem = Problem::error(ProblemCode::AddressConflict, message, admin.listen.origin);
        let problem = problem.also_at(server.listen.origin, "first used here");
        checker.add(problem.help("use a different port"));
    }
    AdminSettings {
        listen: address,
        credential: admin.credential.as_ref().map(|secret| secret.value.clone()),
    }
}

/// Whether two listeners use the same port of the same address. Port 0 never collides.
fn collide(left: SocketAddr, right: SocketAddr) -> bool {
    let (a, b) = (left.ip().to_canonical(), right.ip().to_canonical());
    let same_family = a.is_ipv4() == b.is_ipv4();
    let covers = a == b || (same_family && (a.is_unspecified() || b.is_unspecified()));
    left.port() != 0 && left.port() == right.port() && covers
}

#[cfg(test)]
mod tests {
    use super::collide;

    #[test]
    fn listeners_collide_on_the_same_port_of_what_is_the_same_address() {
        let collides = |left: &str, right: &str| collide(left.parse().unwrap(), right.parse().unwrap());
        assert!(collides("127.0.0.1:1", "127.0.0.1:1"));
        assert!(collides("0.0.0.0:1", "127.0.0.1:1") && collides("127.0.0.1:1", "0.0.0.0:1"));
        assert!(!collides("127.0.0.1:0", "127.0.0.1:0"));
        assert!(!collides("127.0.0.1:1", "127.0.0.1:2"));
        assert!(!collides("127.0.0.1:1", "127.0.0.2:1"));
        assert!(!collides("127.0.0.1:1", "[::]:1") && collides("[::1]:1", "[::]:1"));
    }
}
