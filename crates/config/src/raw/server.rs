//! Listeners and callers.

use crate::field::{ListField, NamedSections};
use crate::kind::{
    AddressRangeKind, BooleanKind, BytesKind, CoresKind, CountKind, DateKind, DurationKind, JwksKind,
    JwtAlgorithm, KeyHashKind, ListenAddressKind, PathKind, PercentKind, PeriodAmountKind, RateKind,
    RuntimeLayout, SecretKind, TextKind, UrlKind,
};
use crate::section::section;
use seawall_core::vocabulary::Tier;

section! {
    /// The callers' listener and its connection limits.
    pub(crate) struct ServerSection {
        /// Listen address for callers. Port 0 selects a free port.
        listen: ListenAddressKind [restart],
        /// Thread layout: one runtime per core, or one runtime shared by all cores.
        runtime: RuntimeLayout [restart],
        /// Number of cores to use.
        cores: CoresKind [restart],
        /// Maximum size of a request body.
        max_body_size: BytesKind,
        /// Maximum size of a guest's request body.
        max_guest_body_size: BytesKind,
        /// Maximum memory for all request bodies together. Default: a quarter of the memory available to the process.
        body_memory: Option<BytesKind>,
        /// Share of `body_memory` that the requests of one caller may use. It also limits the size of a single body.
        body_memory_per_caller: PercentKind,
        /// Share of `body_memory` that requests from one address may use. Trusted proxies are exempt.
        body_memory_per_address: PercentKind,
        /// Maximum nesting depth of a JSON body.
        max_depth: CountKind,
        /// Maximum number of top-level fields of a JSON body.
        max_fields: CountKind,
        /// Maximum number of messages, of tools, and of content parts per message.
        max_items: CountKind,
        /// Timeout for receiving the head of a request, including the idle time before it.
        header_timeout: DurationKind,
        /// Timeout for receiving the body of a request.
        body_timeout: DurationKind,
        /// Maximum number of client connections. The effective limit is lower if the process may open fewer files: some
        /// file descriptors are reserved for targets, the store and the admin listener.
        max_connections: CountKind,
        /// Maximum number of connections from one address; never more than half of `max_connections`. Trusted proxies are
        /// exempt.
        max_connections_per_address: CountKind,
        /// Idle timeout of an HTTP/2 connection without requests in flight. For HTTP/1.1 see `header_timeout`.
        idle_timeout: DurationKind,
        /// How long a response may be blocked because the client does not read, before the connection is closed.
        send_timeout: DurationKind,
        /// How long a streamed answer of an API face may be silent before the gateway sends a keep-alive (checked once a
        /// second). Proxies and clients close connections without bytes, often after 60 s. The first keep-alive of a request
        /// commits status 200: a failure after it is an error event. Gemini and Bedrock streams have none, because their
        /// clients would not accept it. `none` or `0s` for no keep-alives.
        keep_alive_interval: Option<DurationKind>,
        /// How long requests are still served after a shutdown signal, while `/readyz` already reports 503. A load balancer
        /// needs longer than its interval between two health checks, or it sends requests to a closed listener; without one,
        /// as on a laptop, the delay only makes the stop slower. A second signal skips it.
        drain_delay: DurationKind = "\"0s\"",
        /// How long requests in flight may take to finish after a shutdown signal and the `drain_delay`.
        drain_timeout: DurationKind,
        /// Proxies whose `x-forwarded-for` header is trusted, as CIDR ranges.
        trusted_proxies: ListField<AddressRangeKind>,
        /// TLS certificate; with it the listener serves HTTPS.
        tls: Option<TlsSection>,
    }
}

section! {
    /// TLS certificate of the callers' listener.
    pub(crate) struct TlsSection {
        /// File with the certificate chain, in PEM. Send SIGHUP after it was renewed.
        certificate: Option<PathKind>,
        /// Reference to the private key, in PEM.
        key: Option<SecretKind>,
    }
}

section! {
    /// The admin listener.
    pub(crate) struct AdminSection {
        /// Listen address of the admin API. An address other than loopback requires a credential.
        listen: ListenAddressKind [restart],
        /// Bearer token that requests to the admin API must present.
        credential: Option<SecretKind>,
    }
}

section! {
    /// Callers and their credentials.
    pub(crate) struct CallersSection {
        /// Whether requests without a credential are served as guests, on the faces that a route opens to guests
        /// (`routes.NAME.guest_faces`).
        guests: BooleanKind = "false",
        /// Secret from which the signing secrets of issued keys are derived, and also `guest_secret` and `telemetry.salt` if
        /// they are not set. All nodes of a fleet need the same value. Default: a random secret that is stored in the data
        /// directory.
        master_secret: Option<SecretKind>,
        /// Secret that signs guest cookies. Default: derived from `master_secret`.
        guest_secret: Option<SecretKind>,
        /// How long the tier of a caller is cached after a lookup in the caller directory.
        tier_cache_ttl: DurationKind,
        /// Timeout of a lookup in the caller directory. A caller whose tier is not known by then is served as a guest.
        lookup_timeout: DurationKind,
        /// API keys.
        keys: NamedSections<ApiKeySection>,
        /// Teams that keys belong to, with a budget of their own. A team without a budget needs no section.
        teams: NamedSections<TeamSection>,
        /// Issuers of JSON Web Tokens.
        issuers: NamedSections<IssuerSection>,
    }
}

section! {
    /// An API key. Only its hash is stored.
    pub(crate) struct ApiKeySection {
        /// SHA-256 of the key.
        hash: KeyHashKind,
        /// Tier of callers that present the key.
        tier: Tier,
        /// Routes that the key may use. Default: all routes.
        routes: Option<ListField<TextKind>>,
        /// Patterns of the models and routes that the key may use; `*` stands for any text. Default: all.
        models: ListField<TextKind> = "[]",
        /// Team that the key belongs to. Its spending is reported, and limited if the team has budgets.
        team: Option<TextKind>,
        /// Tags by which the spending of the key is reported, as `name=value`.
        tags: ListField<TextKind> = "[]",
        /// Day from whose beginning (UTC) the key is rejected. Default: never.
        expires: Option<DateKind>,
        /// Budgets of the key, one per period at most. A budget counts what was spent since it was set.
        budgets: ListField<PeriodAmountKind> = "[]",
        /// Rate limits of the key, in addition to those of its tier; one per period at most.
        limits: ListField<RateKind> = "[]",
    }
}

section! {
    /// A team: all keys that name it.
    pub(crate) struct TeamSection {
        /// Budgets of all keys of the team together, one per period at most.
        budgets: ListField<PeriodAmountKind>,
    }
}

section! {
    /// A trusted issuer of JSON Web Tokens.
    pub(crate) struct IssuerSection {
        /// Required value of the `iss` claim.
        issuer: UrlKind,
        /// Accepted values of the `aud` claim; a token must contain one of them.
        audience: ListField<TextKind> = "[]",
        /// Accepted signature algorithms.
        algorithms: ListField<JwtAlgorithm>,
        /// URL or file of the issuer's public keys (JWK set).
        jwks: Option<JwksKind>,
        /// Shared secret, for HS256.
        secret: Option<SecretKind>,
        /// Tolerated clock skew when `exp` and `nbf` are checked.
        leeway: DurationKind = "\"0s\"",
        /// Tier of callers that are not in the caller directory.
        tier: Tier = "\"standard\"",
    }
}
