//! Listeners, and who may ask.

use crate::field::{List, Named};
use crate::kind::{
    Address, Algorithm, Bytes, Cores, Count, FilePath, Flag, Hash, KeySet, Percent, Range, Runtime, Secret,
    Span, Text, Url,
};
use crate::section::section;
use seawall_core::vocabulary::Tier;

section! {
    /// Where Seawall listens and what it takes from a connection.
    pub(crate) struct Server {
        /// The address and port that callers use. Port 0 takes a free one.
        listen: Address [restart],
        /// Whether each core has a runtime of its own or all share one.
        runtime: Runtime [restart],
        /// How many cores to use.
        cores: Cores [restart],
        /// The largest body of a request.
        body_limit: Bytes,
        /// The largest body of a guest's request.
        guest_body_limit: Bytes,
        /// How many bytes of request bodies may be in memory at once. Without it a quarter of the memory that the process
        /// may have.
        body_memory: Option<Bytes>,
        /// The share of `body_memory` that the requests of one caller may take. It also bounds a single body.
        body_memory_per_caller: Percent,
        /// The share of `body_memory` that requests from one address may take. Trusted proxies have no such limit.
        body_memory_per_address: Percent,
        /// How deep objects and lists in a body may nest.
        nesting: Count,
        /// How many fields a body may have at its top.
        fields: Count,
        /// How many turns, tools or parts of one turn a body may have.
        members: Count,
        /// How long a connection may take to send the head of a request, the wait before it included.
        header_time: Span,
        /// How long the body of a request may take to arrive.
        body_time: Span,
        /// How many callers may be connected at once. Fewer where the system has fewer files: some are kept for targets,
        /// the store and operators.
        max_connections: Count,
        /// How many connections one address may have, at most half of all. Trusted proxies have no such limit.
        max_connections_per_address: Count,
        /// How long an HTTP/2 connection may be open without a request under way. For HTTP/1.1 see `header_time`.
        idle_timeout: Span,
        /// How long an answer may wait for its caller to read on before it is given up.
        send_timeout: Span,
        /// How long requests under way may take to finish once it is told to stop.
        drain_time: Span,
        /// Proxies in front of us whose word on where a request came from is believed, as ranges of addresses.
        trusted_proxies: List<Range>,
        /// A certificate, to be reached by HTTPS.
        tls: Option<Tls>,
    }
}

section! {
    /// The certificate of a listener.
    pub(crate) struct Tls {
        /// The file with the chain of certificates, in PEM.
        certificate: Option<FilePath>,
        /// Where the private key is found, in PEM.
        key: Option<Secret>,
    }
}

section! {
    /// Where operators reach Seawall.
    pub(crate) struct Admin {
        /// The address and port for operators. One that others can reach needs a credential.
        listen: Address [restart],
        /// What operators must show.
        credential: Option<Secret>,
    }
}

section! {
    /// Who may ask.
    pub(crate) struct Callers {
        /// Whether callers without a credential are served, as guests, at the faces that a route opens to them
        /// (`routes.NAME.guest_faces`).
        guests: Flag = "false",
        /// What the secrets of keys that we issue for signing are derived from, and what else is not set. All nodes of a
        /// fleet need the same. Without it one is made and kept in the folder of the state.
        master_secret: Option<Secret>,
        /// What the cookies of guests are signed with. Without it that is derived from the master secret.
        guest_secret: Option<Secret>,
        /// How long a caller's tier is believed before it is looked up again.
        tier_cache: Span,
        /// How long looking up a tier may take; a caller whose tier is not known by then is a guest.
        directory_time: Span,
        /// API keys.
        keys: Named<ApiKey>,
        /// Who issues JSON Web Tokens.
        issuers: Named<Issuer>,
    }
}

section! {
    /// An API key, known by its hash alone.
    pub(crate) struct ApiKey {
        /// The SHA-256 of the key.
        hash: Hash,
        /// What its holder is entitled to.
        tier: Tier,
        /// The routes it may use; all of them where nothing is said.
        routes: Option<List<Text>>,
    }
}

section! {
    /// Somebody whose JSON Web Tokens are accepted.
    pub(crate) struct Issuer {
        /// What `iss` must be.
        issuer: Url,
        /// What `aud` must hold one of.
        audience: List<Text> = "[]",
        /// How tokens may be signed.
        algorithms: List<Algorithm>,
        /// Where the public keys are found, as a JWK set.
        keys: Option<KeySet>,
        /// The shared secret, for HS256.
        secret: Option<Secret>,
        /// How far clocks may differ.
        leeway: Span = "\"0s\"",
        /// What its callers are entitled to where the directory says nothing.
        tier: Tier = "\"standard\"",
    }
}
