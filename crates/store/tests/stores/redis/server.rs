//! Real servers that are started for a test and stopped at its end, also when it fails.

use super::world::World;
use seawall_store::redis::{RedisConnection, RedisOptions};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A Redis server process.
pub(crate) struct Server {
    pub(crate) port: u16,
    data_dir: PathBuf,
    cluster: bool,
    sentinel: bool,
    child: Option<Child>,
}

static FOLDERS: AtomicU32 = AtomicU32::new(0);

impl Server {
    pub(crate) async fn start() -> Self {
        let mut server = Self::prepared(false);
        server.run().await;
        server
    }

    /// A server with TLS only, and the CA certificate that signed its certificate.
    pub(crate) async fn start_with_tls() -> (Self, String) {
        let mut server = Self::prepared(false);
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (certificate, key) = (server.data_dir.join("certificate.pem"), server.data_dir.join("key.pem"));
        std::fs::write(&certificate, cert.pem()).unwrap();
        std::fs::write(&key, signing_key.serialize_pem()).unwrap();
        let mut command = Command::new("redis-server");
        command.args([
            "--port",
            "0",
            "--tls-port",
            &server.port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
        ]);
        command.arg("--tls-cert-file").arg(&certificate).arg("--tls-key-file").arg(&key);
        command.arg("--tls-ca-cert-file").arg(&certificate).args(["--tls-auth-clients", "no"]);
        command.args(["--appendonly", "no", "--loglevel", "warning", "--dir"]).arg(&server.data_dir);
        server.child = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let world = World::new();
        for _ in 0..200 {
            if TcpStream::connect(("127.0.0.1", server.port)).is_ok() {
                return (server, cert.pem());
            }
            world.sleep(Duration::from_millis(20)).await;
        }
        panic!("redis-server with TLS does not listen on port {}", server.port);
    }

    fn prepared(cluster: bool) -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let data_dir = std::env::temp_dir().join(format!("seawall-redis-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&data_dir).unwrap();
        Self { port: free_port(cluster), data_dir, cluster, sentinel: false, child: None }
    }

    /// A sentinel that does not watch a master yet.
    pub(crate) async fn sentinel() -> Self {
        let mut server = Self::prepared(false);
        server.sentinel = true;
        let file = server.data_dir.join("sentinel.conf");
        let settings = format!("port {}\nbind 127.0.0.1\ndir {}\n", server.port, server.data_dir.display());
        std::fs::write(&file, settings).unwrap();
        let mut command = Command::new("redis-server");
        command.arg(file).arg("--sentinel").stdout(Stdio::null()).stderr(Stdio::null());
        server.child = Some(command.spawn().expect("redis-server is installed"));
        server.answers().await;
        server
    }

    /// Starts the server, empty, on the same port as before.
    pub(crate) async fn run(&mut self) {
        let mut command = Command::new("redis-server");
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--appendonly", "no", "--loglevel", "warning", "--dir"]).arg(&self.data_dir);
        if self.cluster {
            command.args(["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]);
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("redis-server is installed"));
        self.answers().await;
    }

    async fn answers(&self) {
        let world = World::new();
        for _ in 0..200 {
            if self.command("PING") == "+PONG\r\n" {
                return;
            }
            world.sleep(Duration::from_millis(20)).await;
        }
        panic!("redis-server on port {} does not answer", self.port);
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn freeze(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// The raw response to a command; empty if the server does not respond.
    pub(crate) fn command(&self, words: &str) -> String {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return String::new() };
        // A sentinel does not know QUIT; it closes the connection at the end of the input.
        let end = if self.sentinel { "" } else { "QUIT\r\n" };
        stream.write_all(format!("{words}\r\n{end}").as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let without_end = answer.strip_suffix("+OK\r\n").filter(|_| !self.sentinel);
        without_end.unwrap_or(&answer).to_owned()
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
        format!("redis://127.0.0.1:{}", self.port)
    }
}

/// Long timeouts, because a machine with two cores that also builds cannot keep 25 ms.
pub(crate) fn patient() -> RedisOptions {
    RedisOptions { operation_timeout: Duration::from_secs(5), ..RedisOptions::default() }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.data_dir);
    }
}

fn free_port(cluster: bool) -> u16 {
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        // The servers of a cluster also listen on a bus port, ten thousand higher.
        if !cluster || (port < 55_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok()) {
            return port;
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
            servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
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
