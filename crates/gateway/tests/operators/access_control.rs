//! Access control of the admin API.

use crate::running::{Gateway, KEY, error, send, settings, start, try_start};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// A file with a credential; removed when dropped.
struct SecretFile(std::path::PathBuf);

impl SecretFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn setting(&self) -> String {
        format!("admin.credential = \"file:{}\"\n", self.0.display())
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn shown(gateway: &Gateway, path: &str, headers: &str) -> (u16, String) {
    let reply = send(
        gateway.admin,
        &format!("GET {path} HTTP/1.1\r\nhost: gateway.example\r\n{headers}connection: close\r\n\r\n"),
    );
    if reply.status == 200 { (200, String::new()) } else { error(&reply) }
}

#[test]
fn only_requests_with_the_credential_are_answered() {
    let secret = SecretFile::new("door-shown", "0perat0r\n");
    let gateway = start(&secret.setting());
    let refused = (401, "unauthenticated".to_owned());
    for path in ["/admin/status", "/metrics", "/admin/nothing", "/"] {
        for headers in [
            String::new(),
            "authorization: Bearer wrong\r\n".to_owned(),
            format!("authorization: Bearer {KEY}\r\n"),
            format!("x-api-key: {KEY}\r\n"),
        ] {
            assert_eq!(shown(&gateway, path, &headers), refused, "{path} {headers}");
        }
    }
    let right = "authorization: Bearer 0perat0r\r\n";
    assert_eq!(shown(&gateway, "/admin/status", right), (200, String::new()));
    assert_eq!(shown(&gateway, "/metrics", right), (200, String::new()));
    assert_eq!(shown(&gateway, "/admin/nothing", right), (404, "not_found".to_owned()));
    let reply = send(gateway.admin, "GET /admin/status HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
}

#[test]
fn the_admin_credential_must_differ_from_callers_keys() {
    let secret = SecretFile::new("door-key", KEY);
    let error = try_start(&settings(&secret.setting())).err().unwrap();
    assert_eq!(error.to_string(), "admin: the credential is also a caller's key: use a separate secret");
    assert!(error.is_bad_input());
    let missing = try_start(&settings("admin.credential = \"file:no/such/file\"")).err().unwrap();
    assert_eq!(missing.to_string(), "admin.credential: file:no/such/file: file not found");
    assert!(missing.is_bad_input());
}

#[test]
fn without_a_credential_only_local_requests_under_a_loopback_name_are_answered() {
    let gateway = start("");
    let ask = |head: &str| {
        let reply = send(gateway.admin, &format!("GET {head}\r\nconnection: close\r\n\r\n"));
        if reply.status == 200 { (200, String::new()) } else { error(&reply) }
    };
    let told = (200, String::new());
    let refused = (403, "forbidden".to_owned());
    assert_eq!(ask("/admin/status HTTP/1.1\r\nhost: localhost"), told);
    assert_eq!(ask(&format!("/admin/status HTTP/1.1\r\nhost: {}", gateway.admin)), told);
    assert_eq!(ask("/admin/status HTTP/1.1\r\nhost: rebound.example"), refused);
    assert_eq!(ask("/admin/status HTTP/1.1\r\nhost: localhost\r\norigin: http://rebound.example"), refused);
    assert_eq!(ask("/admin/status HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost"), told);
    assert_eq!(ask("/admin/status HTTP/1.0"), refused, "who says no name is not known to mean us");
    assert_eq!(ask("http://rebound.example/admin/status HTTP/1.1\r\nhost: localhost"), refused);
}

#[test]
fn a_non_loopback_admin_address_needs_a_credential() {
    let mut open = settings("");
    std::sync::Arc::make_mut(&mut open).settings.admin.listen = "0.0.0.0:0".parse().unwrap();
    let error = try_start(&open).err().unwrap();
    assert_eq!(error.to_string(), "admin: listen is not a loopback address: set admin.credential");
    // With a credential it starts. Removing the credential at runtime is refused: the address is still reachable by
    // others.
    let secret = SecretFile::new("door-open", "0perat0r");
    let gateway = start(&format!("admin.listen = \"0.0.0.0:0\"\n{}", secret.setting()));
    let error = gateway.listening.as_ref().unwrap().apply_settings(&settings("").settings).err().unwrap();
    assert_eq!(error.to_string(), "admin: listen is not a loopback address: set admin.credential");
    let here = std::net::SocketAddr::from(([127, 0, 0, 1], gateway.admin.port()));
    let asked = |credential: &str| {
        let head = "GET /admin/status HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        send(here, &format!("{head}authorization: Bearer {credential}\r\n\r\n")).status
    };
    assert_eq!((asked("0perat0r"), asked("")), (200, 401));
    // A new credential in the same file takes effect with the next reload.
    std::fs::write(&secret.0, "renewed").unwrap();
    let same = settings(&format!("admin.listen = \"0.0.0.0:0\"\n{}", secret.setting()));
    gateway.listening.as_ref().unwrap().apply_settings(&same.settings).unwrap();
    assert_eq!((asked("0perat0r"), asked("renewed")), (401, 200));
}

#[test]
fn an_address_that_is_taken_is_not_shared() {
    let gateway = start("");
    let error = try_start(&settings(&format!("admin.listen = \"{}\"", gateway.admin))).err().unwrap();
    assert!(error.to_string().starts_with(&format!("cannot listen on {}", gateway.admin)), "{error}");
    assert!(!error.is_bad_input());
}

#[test]
fn no_admin_path_exists_on_the_callers_listener() {
    let gateway = start("");
    for path in [
        "/admin/status",
        "//admin/status",
        "/admin",
        "/./admin/status",
        "/v1/../admin/status",
        "/%2e%2e/admin/status",
        "/v1/%2e%2e/admin/status",
        "/%61dmin/status",
        "/admin%2fstatus",
        "/metrics/../admin/status",
    ] {
        for method in ["GET", "POST"] {
            let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}");
            let reply =
                send(gateway.data, &format!("{head}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"));
            assert_eq!(reply.status, 404, "{method} {path}");
            assert!(!reply.text().contains("uptime"), "{method} {path}");
        }
    }
}

#[test]
fn it_stops_with_the_gateway_despite_open_connections() {
    let mut gateway = start("");
    let idle = TcpStream::connect(gateway.admin).unwrap();
    gateway.ask("/admin/status");
    gateway.listening.take().unwrap().shut_down();
    assert!(TcpStream::connect(gateway.admin).is_err() && TcpStream::connect(gateway.data).is_err());
    drop(idle);
}

#[test]
fn a_connection_without_a_request_is_closed_in_time() {
    let gateway = start("server.header_timeout = \"300ms\"\n");
    for said in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n\r\nSM\r\n", b"GET /livez HT"] {
        let mut connection = TcpStream::connect(gateway.data).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        connection.write_all(said).unwrap();
        let mut told = Vec::new();
        // The connection ends or is reset; a read on an open one would time out.
        let ended = connection.read_to_end(&mut told).map_err(|error| error.kind());
        assert!(!matches!(ended, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)), "{said:?}: {ended:?}");
    }
}

#[test]
fn a_connection_with_requests_is_kept_alive() {
    let gateway = start("server.header_timeout = \"600ms\"\n");
    let mut connection = TcpStream::connect(gateway.data).unwrap();
    // Each arrives well within the header timeout, and together they take longer than that.
    for _ in 0..24 {
        connection.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        connection.write_all(b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        let mut told = [0; 1_024];
        let read = connection.read(&mut told).unwrap();
        assert!(told[..read].starts_with(b"HTTP/1.1 200"), "{:?}", String::from_utf8_lossy(&told[..read]));
        // No more data follows; the read timeout confirms it.
        connection.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let more = connection.read(&mut told).map_err(|error| error.kind());
        assert!(matches!(more, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)), "{more:?}");
    }
}
