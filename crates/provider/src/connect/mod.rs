//! Connectors: base URLs, DNS resolution, and opening connections.
//!
//! **When it acts.** A name is resolved when the first connection is needed, and again in the background of a call once
//! the result is thirty seconds old. A new connection tries the addresses in turn. The scheme determines whether TLS is
//! used.
//!
//! **What it does not do.** It never connects to the metadata service of a cloud, whatever name led there. It neither
//! limits nor pools connections.

mod connector;
mod dns;
mod metadata;
mod tls;
mod url;

pub use connector::{Connector, ServerStream};
pub use dns::{Resolve, ResolveFuture, SystemResolver};
pub use metadata::is_metadata_address;
pub use tls::{ClientTlsOptions, ClientTlsSettings, WallClock};
pub use url::BaseUrl;

pub(crate) use connector::AlpnOffer;
pub(crate) use dns::{DnsCache, ResolvedAddress};
pub(crate) use metadata::AddressPolicy;
