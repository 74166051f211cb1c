//! TLS with certificates created for the test.

use crate::support::{LIMITS, around, ask, beside, listen, question, refusal, run, target_around};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use seawall_core::failure::{Failure, FailureKind, Retryability};
use seawall_core::time::UtcTime;
use seawall_model::engine::Pace;
use seawall_provider::connect::{ClientTlsOptions, ClientTlsSettings, WallClock};
use seawall_provider::{ClientOptions, Http2Policy, Target};
use seawall_testkit::TestDirectory;
use seawall_wire::dialect::DialectId;
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

const MESSAGES: DialectId = DialectId::ANTHROPIC_MESSAGES;

/// A test CA, and a certificate that it signed for a name.
struct Identity {
    authority: String,
    chain: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

fn identity(name: &str) -> Identity {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let chain = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    Identity { authority: authority.pem(), chain: chain.der().clone(), key }
}

impl Identity {
    fn acceptor(&self, protocols: &[&str]) -> TlsAcceptor {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.unwrap().with_no_client_auth();
        let mut config = builder.with_single_cert(vec![self.chain.clone()], self.key.clone_key()).unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    /// Trusts this CA only. The file is deleted before this returns.
    fn trusted(&self, date: WallClock) -> ClientTlsSettings {
        let directory = TestDirectory::new().unwrap();
        let file = directory.write("authority.pem", &self.authority).unwrap();
        ClientTlsOptions { system_roots: false, extra_roots: vec![file] }.check(date).unwrap()
    }
}

/// Terminates TLS and forwards to `model`. Counts connections.
async fn front(listener: &TcpListener, acceptor: &TlsAcceptor, model: SocketAddr, count: &Cell<usize>) {
    let mut lines = tokio::task::JoinSet::new();
    loop {
        let (near, _) = listener.accept().await.unwrap();
        count.set(count.get() + 1);
        let acceptor = acceptor.clone();
        lines.spawn(async move {
            // A client that does not trust the certificate closes the connection.
            let Ok(mut near) = acceptor.accept(near).await else { return };
            let mut far = TcpStream::connect(model).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
        });
    }
}

fn encrypted(
    dialect: DialectId,
    address: SocketAddr,
    tls: ClientTlsSettings,
    http2: Http2Policy,
) -> Box<dyn Target> {
    let url = format!("https://localhost:{}", address.port());
    let options = ClientOptions { limits: LIMITS, tls: Some(tls), http2, ..ClientOptions::new(url) };
    target_around(dialect, options, &around())
}

fn today() -> WallClock {
    // The test certificates are valid for a very long period.
    Arc::new(|| UtcTime::from_civil(2026, 7, 1))
}

#[test]
fn the_server_chooses_the_protocol() {
    let identity = identity("localhost");
    beside(Pace::Instant, vec![], async |model, _| {
        for (protocols, http2, lines) in [
            // Three concurrent calls share one connection over HTTP/2, and use one each over HTTP/1.1.
            (&["h2", "http/1.1"][..], Http2Policy::Negotiated, 1),
            (&["http/1.1"], Http2Policy::Negotiated, 3),
            (&[], Http2Policy::Negotiated, 3),
            (&["h2", "http/1.1"], Http2Policy::Never, 3),
            (&["h2"], Http2Policy::Always, 1),
        ] {
            let (listener, address) = listen().await;
            let acceptor = identity.acceptor(protocols);
            let count = Cell::new(0);
            let client = async {
                let target = encrypted(MESSAGES, address, identity.trusted(today()), http2);
                let call = || target.call(question(MESSAGES, true));
                let mut streams = Vec::new();
                for _ in 0..3 {
                    streams.push(call().await.unwrap_or_else(|failure| panic!("{failure:?}")));
                }
                for stream in streams {
                    assert!(crate::support::read(stream).await.1.is_ok());
                }
            };
            tokio::select! {
                () = client => {}
                () = front(&listener, &acceptor, model, &count) => unreachable!(),
            }
            assert_eq!(count.get(), lines, "{protocols:?} {http2:?}");
        }
    });
}

#[test]
fn every_dialect_is_spoken_encrypted() {
    let identity = identity("localhost");
    beside(Pace::Instant, vec![], async |model, _| {
        for http2 in [Http2Policy::Negotiated, Http2Policy::Never] {
            let (listener, address) = listen().await;
            let acceptor = identity.acceptor(&["h2", "http/1.1"]);
            let tls = identity.trusted(today());
            let count = Cell::new(0);
            let client = async {
                for dialect in DialectId::ALL {
                    let target = encrypted(dialect, address, tls.clone(), http2);
                    for stream in [false, true, false] {
                        let (bytes, end) = ask(target.as_ref(), stream).await.unwrap();
                        assert!(!bytes.is_empty() && end.is_ok(), "{dialect:?}");
                    }
                }
            };
            tokio::select! {
                () = client => {}
                () = front(&listener, &acceptor, model, &count) => unreachable!(),
            }
        }
    });
}

/// The failure of a call to a server with this certificate by a client with this trust.
async fn met(server: &Identity, trust: ClientTlsSettings, protocols: &[&str]) -> Failure {
    let (listener, address) = listen().await;
    let acceptor = server.acceptor(protocols);
    let target = encrypted(MESSAGES, address, trust, Http2Policy::Negotiated);
    let count = Cell::new(0);
    tokio::select! {
        failure = refusal(target.as_ref(), false) => failure,
        () = front(&listener, &acceptor, address, &count) => unreachable!(),
    }
}

#[test]
fn nothing_is_sent_to_a_server_with_an_invalid_certificate() {
    run(async {
        let (good, stranger, other_name) =
            (identity("localhost"), identity("localhost"), identity("elsewhere"));
        let early: WallClock = Arc::new(|| UtcTime::from_civil(1971, 1, 1));
        for (case, failure) in [
            ("unknown authority", met(&stranger, good.trusted(today()), &["http/1.1"]).await),
            ("other name", met(&other_name, other_name.trusted(today()), &["http/1.1"]).await),
            ("not yet valid", met(&good, good.trusted(early), &["http/1.1"]).await),
            ("no common protocol", met(&good, good.trusted(today()), &["gopher"]).await),
        ] {
            assert_eq!((failure.kind, failure.not_executed), (FailureKind::Unreachable, true), "{case}");
            assert_eq!(failure.retryability, Retryability::OtherTarget, "{case}");
        }
    });
}

#[test]
fn nothing_is_sent_to_a_server_without_tls() {
    run(async {
        let (listener, address) = listen().await;
        let target =
            encrypted(MESSAGES, address, identity("localhost").trusted(today()), Http2Policy::Negotiated);
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut hello = Vec::new();
            tokio::io::AsyncReadExt::read_buf(&mut stream, &mut hello).await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad\r\n\r\n").await.unwrap();
            (stream, hello)
        };
        let ((_held, hello), failure) = tokio::join!(server, refusal(target.as_ref(), false));
        assert!(!String::from_utf8_lossy(&hello).contains("hush"));
        assert_eq!(
            (failure.kind, failure.retryability),
            (FailureKind::Unreachable, Retryability::OtherTarget)
        );
    });
}

#[test]
fn a_handshake_that_breaks_off_or_never_ends_is_a_connection_that_failed() {
    run(async {
        let (listener, address) = listen().await;
        let trust = identity("localhost").trusted(today());
        let target = encrypted(MESSAGES, address, trust, Http2Policy::Negotiated);
        let close = async { drop(listener.accept().await.unwrap()) };
        let ((), failure) = tokio::join!(close, refusal(target.as_ref(), false));
        assert_eq!(
            (failure.kind, failure.retryability),
            (FailureKind::Unreachable, Retryability::SameTarget)
        );
        let (held, failure) = tokio::join!(listener.accept(), refusal(target.as_ref(), false));
        assert_eq!((failure.kind, failure.not_executed), (FailureKind::StartTimeout, true));
        drop(held);
    });
}
