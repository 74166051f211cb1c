//! Checks of the listeners.

use super::Checker;
use crate::problem::{Code, Problem};
use crate::raw;
use crate::settings::{AdminSettings, ServerSettings, TlsSettings};
use seawall_core::setting::Ratio;
use std::net::SocketAddr;

/// Upper bound of the body limit, because a body is held in memory.
const LARGEST_BODY: u64 = 256 << 20;
/// Lower bound of the memory for all bodies together: with less, hardly any request would be admitted.
const SMALLEST_BODY_MEMORY: u64 = 1 << 20;

pub(super) fn server(server: &raw::Server, checker: &mut Checker<'_>) -> Option<ServerSettings> {
    for (key, span) in [
        ("header_time", &server.header_time),
        ("body_time", &server.body_time),
        ("idle_timeout", &server.idle_timeout),
        ("send_timeout", &server.send_timeout),
    ] {
        checker.positive(server, key, span);
    }
    if !(1_024..=LARGEST_BODY).contains(&server.body_limit.value) {
        checker.impossible(server, "body_limit", &server.body_limit, "must be between 1KiB and 256MiB");
    }
    if !(1_024..=LARGEST_BODY).contains(&server.guest_body_limit.value) {
        let problem = "must be between 1KiB and 256MiB";
        checker.impossible(server, "guest_body_limit", &server.guest_body_limit, problem);
    }
    if let Some(memory) = &server.body_memory
        && memory.value < SMALLEST_BODY_MEMORY
    {
        checker.impossible(server, "body_memory", memory, "must be at least 1MiB");
    }
    let shares = [
        ("body_memory_per_caller", &server.body_memory_per_caller),
        ("body_memory_per_address", &server.body_memory_per_address),
    ]
    .map(|(key, share)| checker.checked(&[server], Ratio::percent(key, share.value)));
    for (key, count, most) in [
        ("nesting", &server.nesting, 128),
        ("fields", &server.fields, 10_000),
        ("members", &server.members, 1_000_000),
        ("max_connections", &server.max_connections, 1_000_000),
        ("max_connections_per_address", &server.max_connections_per_address, 1_000_000),
    ] {
        if !(1..=most).contains(&count.value) {
            checker.impossible(server, key, count, &format!("must be between 1 and {most}"));
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
        body_limit: server.body_limit.value,
        guest_body_limit: server.guest_body_limit.value,
        body_memory: server.body_memory.as_ref().map(|memory| memory.value),
        body_memory_per_caller: per_caller?,
        body_memory_per_address: per_address?,
        nesting: server.nesting.value,
        fields: server.fields.value,
        members: server.members.value,
        header_time: server.header_time.value,
        body_time: server.body_time.value,
        max_connections: server.max_connections.value,
        max_connections_per_address: server.max_connections_per_address.value,
        idle_timeout: server.idle_timeout.value,
        send_timeout: server.send_timeout.value,
        drain_time: server.drain_time.value,
        trusted_proxies: server.trusted_proxies.value.iter().map(|range| range.value).collect(),
        tls,
    })
}

fn tls(tls: &raw::Tls, checker: &mut Checker<'_>) -> Option<TlsSettings> {
    let missing = |has: &str, lacks: &str, origin, help: &str| {
        let message = format!("server.tls has {has} and no {lacks}");
        Problem::error(Code::MissingKey, message, origin).help(help)
    };
    let (certificate, key) = match (&tls.certificate, &tls.key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (certificate, key) => {
            if let Some(certificate) = certificate {
                let help = "write key = \"file:PATH\" beside it";
                checker.add(missing("a certificate", "key", certificate.origin, help));
            } else if let Some(key) = key {
                let help = "write certificate = \"PATH\" beside it";
                checker.add(missing("a key", "certificate", key.origin, help));
            } else {
                let help = "write both, or take the section out";
                checker.add(missing("no certificate", "key", tls.origin, help));
            }
            return None;
        }
    };
    Some(TlsSettings { certificate: certificate.value.clone(), key: key.value.clone() })
}

pub(super) fn admin(admin: &raw::Admin, server: &raw::Server, checker: &mut Checker<'_>) -> AdminSettings {
    let address = admin.listen.value;
    if !address.ip().to_canonical().is_loopback() && admin.credential.is_none() {
        let message =
            format!("admin.listen: {address} can be reached by others, and operators need no credential");
        let help = "listen on 127.0.0.1, or write credential = \"env:SEAWALL_ADMIN_TOKEN\"";
        checker.add(Problem::error(Code::OpenAdmin, message, admin.listen.origin).help(help));
    }
    if collide(address, server.listen.value) {
        let message = format!("admin.listen: {address} is taken by server.listen");
        let problem = Problem::error(Code::SameAddress, message, admin.listen.origin);
        let problem = problem.also(server.listen.origin, "first given here");
        checker.add(problem.help("give each a port of its own"));
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
