//! A gateway over TLS, with certificates made for the test and a real client.

use super::{ReloadableTls, ServerTls};
use crate::{RunningGateway, ServeOptions, Supervisor, TokioRuntime, serve};
use bytes::Bytes;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use seawall_config::{Settings, SettingsInput, load};
use seawall_core::runtime::{Runtime as _, Timer as _};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::Tier;
use seawall_provider::connect::ClientTlsOptions;
use seawall_provider::http1::HttpRequest;
use seawall_provider::{Client, ClientOptions, ClientRuntime, Http2Policy, ResponseHeaders};
use seawall_testkit::TestDirectory;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

/// A temporary directory with certificates, removed at the end of the test.
struct Folder(TestDirectory);

impl Folder {
    fn new() -> Self {
        Self(TestDirectory::new().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_string_lossy().into_owned()
    }

    /// Writes a new certificate, its key, and a copy of it for the client to trust.
    fn renew(&self, copy: &str) {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(self.path("certificate"), cert.pem()).unwrap();
        std::fs::write(self.path(copy), cert.pem()).unwrap();
        std::fs::write(self.path("key"), signing_key.serialize_pem()).unwrap();
    }

    fn settings(&self, is_encrypted: bool) -> Settings {
        let tls =
            format!("certificate = {:?}\nkey = \"file:{}\"", self.path("certificate"), self.path("key"));
        let tls = if is_encrypted { format!("[server.tls]\n{tls}") } else { String::new() };
        let text = format!(
            "profile = \"mangaassist\"\n[server]\nlisten = \"127.0.0.1:0\"\ncores = 1\ndrain_timeout = \"1s\"\n{tls}\n\
             [models.m]\ninput = \"$3/M\"\noutput = \"$15/M\"\n\
             [targets.sonnet]\nprovider = \"anthropic\"\nbase_url = \"http://127.0.0.1:9\"\nregion = \"none\"\nmodel = \"m\"\n\
             [targets.haiku]\nprovider = \"anthropic\"\nbase_url = \"http://127.0.0.1:9\"\nregion = \"none\"\nmodel = \"m\"\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n[store]\nkind = \"memory\""
        );
        let input = SettingsInput::from_file("test.toml", &text, UtcTime::from_civil(2026, 11, 16));
        load(&input).unwrap_or_else(|problems| panic!("{}", problems.render(false))).settings
    }

    fn start(&self) -> Gateway {
        let keys = vec![(Tier::Prime, "sk-test-0123456789".to_owned())];
        let options = ServeOptions {
            settings: Arc::new(self.settings(true)),
            simulated: None,
            keys,
            supervisor: Supervisor::default(),
            diagnostics: None,
        };
        Gateway(Some(serve(options).unwrap()))
    }
}

/// A gateway that is stopped at the end, even if a test fails.
struct Gateway(Option<RunningGateway>);

impl Gateway {
    fn listening(&self) -> &RunningGateway {
        self.0.as_ref().unwrap()
    }

    fn port(&self) -> u16 {
        self.listening().address().port()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(listening) = self.0.take() {
            listening.shut_down();
        }
    }
}

/// The status of `/livez` for a client that trusts only this certificate, and whether HTTP/2 was used.
fn live(port: u16, trusted: &str, http2: Http2Policy) -> Option<(u16, bool)> {
    let runtime = TokioRuntime::new();
    let world = ClientRuntime::new(runtime.timer(), Arc::new(move || runtime.now().utc));
    let trust = ClientTlsOptions { system_roots: false, extra_roots: vec![trusted.into()] };
    let tls = Some(trust.check(Arc::clone(&world.wall_clock)).unwrap());
    let options = ClientOptions { tls, http2, ..ClientOptions::new(format!("https://localhost:{port}")) };
    let client = Client::new(&options, &world).unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(async {
        let headers: [(&str, &str); 0] = [];
        let (method, path, body) = ("GET", "/livez", Bytes::new());
        let request = HttpRequest { method, path, headers: &headers, body, resend_on_stale: false };
        let response = client.send(request).await.ok()?;
        let is_http2 = matches!(response.headers, ResponseHeaders::Http2(_));
        let status = response.status;
        assert_eq!(response.body.collect().await.unwrap(), "ok\n");
        Some((status, is_http2))
    })
}

#[test]
fn both_protocols_are_offered_and_nothing_goes_unencrypted() {
    let directory = Folder::new();
    directory.renew("first");
    let gateway = directory.start();
    let trusted = directory.path("first");
    assert_eq!(live(gateway.port(), &trusted, Http2Policy::Negotiated), Some((200, true)));
    assert_eq!(live(gateway.port(), &trusted, Http2Policy::Never), Some((200, false)));
    let mut plain = std::net::TcpStream::connect(gateway.listening().address()).unwrap();
    plain.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said);
    assert!(!said.starts_with(b"HTTP/1.1 200"), "{said:?}");
}

#[test]
fn a_renewed_certificate_is_used_when_settings_are_read_again() {
    let directory = Folder::new();
    directory.renew("first");
    let gateway = directory.start();
    let seen = |copy: &str| live(gateway.port(), &directory.path(copy), Http2Policy::Negotiated).is_some();
    directory.renew("second");
    assert!(seen("first") && !seen("second"), "not before somebody says so");
    gateway.listening().apply_settings(&directory.settings(true)).unwrap();
    assert!(!seen("first") && seen("second"));
    // An invalid key changes nothing.
    std::fs::write(directory.path("key"), "no key").unwrap();
    let error = gateway.listening().apply_settings(&directory.settings(true)).unwrap_err();
    let expected = format!("server.tls.key: file:{}: no PEM private key found", directory.path("key"));
    assert_eq!(error.to_string(), expected);
    assert!(error.is_bad_input() && seen("second"));
    // Without a certificate TLS is off again.
    gateway.listening().apply_settings(&directory.settings(false)).unwrap();
    assert!(!seen("second"));
    let mut plain = std::net::TcpStream::connect(gateway.listening().address()).unwrap();
    plain.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut said = Vec::new();
    plain.read_to_end(&mut said).unwrap();
    assert!(said.starts_with(b"HTTP/1.1 200"));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let directory = Folder::new();
    let refused = |directory: &Folder| {
        let keys = vec![(Tier::Prime, "sk-test-0123456789".to_owned())];
        let options = ServeOptions {
            settings: Arc::new(directory.settings(true)),
            simulated: None,
            keys,
            supervisor: Supervisor::default(),
            diagnostics: None,
        };
        serve(options).map(RunningGateway::shut_down).unwrap_err().to_string()
    };
    assert!(
        refused(&directory)
            .starts_with(&format!("server.tls.certificate: {}: No such", directory.path("certificate")))
    );
    directory.renew("first");
    let certificate = std::fs::read(directory.path("certificate")).unwrap();
    std::fs::write(directory.path("certificate"), "nothing").unwrap();
    assert!(refused(&directory).ends_with("no PEM certificate found"));
    std::fs::remove_file(directory.path("key")).unwrap();
    assert!(refused(&directory).ends_with("file not found"));
    directory.renew("second");
    std::fs::write(directory.path("certificate"), certificate).unwrap();
    let said = refused(&directory);
    assert!(said.starts_with("server.tls: ") && said.contains("eys"), "{said}");
}

#[test]
fn a_stalled_handshake_blocks_no_other_connection() {
    let directory = Folder::new();
    directory.renew("first");
    let gateway = directory.start();
    let silent: Vec<_> =
        (0..20).map(|_| std::net::TcpStream::connect(gateway.listening().address()).unwrap()).collect();
    assert_eq!(live(gateway.port(), &directory.path("first"), Http2Policy::Never), Some((200, false)));
    assert_eq!(super::HANDSHAKE_TIMEOUT, Duration::from_secs(10));
    drop(silent);
    // The same with a shorter timeout: the connection is closed when it has passed, and not before.
    let encryption = ServerTls::load(directory.settings(true).server.tls.as_ref(), None).unwrap();
    let door = ReloadableTls::default();
    door.set(encryption.as_ref());
    let (runtime, patience) = (TokioRuntime::new(), Duration::from_millis(50));
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let silent = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let before = runtime.monotonic();
        assert!(door.handshake().unwrap().accept_within(patience, stream, runtime).await.is_none());
        assert!(runtime.monotonic() - before >= patience);
        assert_eq!((&silent).read(&mut [0]).unwrap(), 0, "it was closed");
    });
}

#[test]
fn what_stays_the_same_is_not_made_anew() {
    let directory = Folder::new();
    directory.renew("first");
    let settings = directory.settings(true).server.tls;
    let first = ServerTls::load(settings.as_ref(), None).unwrap().unwrap();
    let same = ServerTls::load(settings.as_ref(), Some(&first)).unwrap().unwrap();
    assert!(Arc::ptr_eq(&first.config, &same.config));
    directory.renew("second");
    let other = ServerTls::load(settings.as_ref(), Some(&first)).unwrap().unwrap();
    assert!(!Arc::ptr_eq(&first.config, &other.config));
    assert!(ServerTls::load(None, Some(&first)).unwrap().is_none());
}
