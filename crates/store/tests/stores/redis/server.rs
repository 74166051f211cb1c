//! Real servers that are started for a test and stopped at its end, also when it fails.

use super::world::World;
use seawall_store::redis::{RedisConnection, RedisOptions};
use seawall_testkit::{RedisServer, Signal, free_address, redis_server_command};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A Redis server process.
pub(crate) struct Server {
    server: RedisServer,
    cluster: bool,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let mut server = Self::prepared(false);
        server.run().await;
        server
    }

    /// A server with TLS only, and the CA certificate that signed its certificate.
    pub(crate) async fn start_with_tls() -> (Self, String) {
        let mut prepared = Self::prepared(false);
        let server = &mut prepared.server;
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let directory = server.directory().to_owned();
        let (certificate, key) = (directory.join("certificate.pem"), directory.join("key.pem"));
        std::fs::write(&certificate, cert.pem()).unwrap();
        std::fs::write(&key, signing_key.serialize_pem()).unwrap();
        let mut command = redis_server_command(0, &directory);
        command.args(["--tls-port", &server.port().to_string()]);
        command.arg("--tls-cert-file").arg(&certificate).arg("--tls-key-file").arg(&key);
        command.arg("--tls-ca-cert-file").arg(&certificate).args(["--tls-auth-clients", "no"]);
        server.run_command(&mut command).unwrap();
        (prepared, cert.pem())
    }

    fn prepared(cluster: bool) -> Self {
        Self { server: RedisServer::prepare(address(cluster)).unwrap(), cluster }
    }

    /// A sentinel that does not watch a master yet.
    pub(crate) async fn sentinel() -> Self {
        let mut prepared = Self::prepared(false);
        let server = &mut prepared.server;
        let (port, directory) = (server.port(), server.directory().to_owned());
        let file = directory.join("sentinel.conf");
        let settings = format!("port {port}\nbind 127.0.0.1\ndir {}\n", directory.display());
        std::fs::write(&file, settings).unwrap();
        let mut command = Command::new("redis-server");
        command.arg(file).arg("--sentinel").stdout(Stdio::null()).stderr(Stdio::null());
        server.run_command(&mut command).unwrap();
        server.wait_until_ready().unwrap();
        prepared
    }

    /// Starts the server, empty, on the same port as before.
    pub(crate) async fn run(&mut self) {
        let more = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
        let more = if self.cluster { &more[..] } else { &[] };
        let add = |command: &mut Command| {
            command.args(more);
        };
        self.server.run(add).unwrap();
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.port()
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.server.kill();
    }

    pub(crate) fn freeze(&self) {
        self.server.signal(Signal::STOP).unwrap();
    }

    pub(crate) fn thaw(&self) {
        self.server.signal(Signal::CONT).unwrap();
    }

    /// The raw response to a command; empty if the server does not respond.
    pub(crate) fn command(&self, words: &str) -> String {
        self.server.command(words)
    }

    pub(crate) fn link(&self, world: &World) -> RedisConnection<World> {
        let options = RedisOptions { servers: vec![self.url()], ..patient() };
        RedisConnection::new(&options, world.clone()).unwrap()
    }

    /// A link with the production timeout.
    pub(crate) fn hasty_link(&self, world: &World) -> RedisConnection<World> {
        let options = RedisOptions { servers: vec![self.url()], ..RedisOptions::default() };
        RedisConnection::new(&options, world.clone()).unwrap()
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }
}

/// Long timeouts, because a machine with two cores that also builds cannot keep 25 ms.
pub(crate) fn patient() -> RedisOptions {
    RedisOptions { operation_timeout: Duration::from_secs(5), ..RedisOptions::default() }
}

fn address(cluster: bool) -> SocketAddr {
    loop {
        let address = free_address().unwrap();
        // The servers of a cluster also listen on a bus port, ten thousand higher.
        let port = address.port();
        if !cluster || (port < 55_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok()) {
            return address;
        }
    }
}

/// Three masters that share all slots.
pub(crate) struct Cluster(pub(crate) Vec<Server>);

impl Cluster {
    pub(crate) async fn start() -> Self {
        let mut servers: Vec<Server> = (0..3).map(|_| Server::prepared(true)).collect();
        for server in &mut servers {
            server.run().await;
        }
        let addresses: Vec<String> =
            servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create"]).args(&addresses).args(["--cluster-yes"]);
        assert!(create.output().unwrap().status.success());
        let world = World::new();
        for _ in 0..250 {
            let is_up = |server: &Server| server.command("CLUSTER INFO").contains("cluster_state:ok");
            if servers.iter().all(is_up) {
                return Self(servers);
            }
            world.sleep(Duration::from_millis(20)).await;
        }
        panic!("the cluster does not come up");
    }

    pub(crate) fn link(&self, world: &World) -> RedisConnection<World> {
        let servers = self.0.iter().map(Server::url).collect();
        RedisConnection::new(&RedisOptions { servers, cluster: true, ..patient() }, world.clone()).unwrap()
    }
}
