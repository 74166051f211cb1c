//! Connectors: base URLs, DNS resolution, and opening connections.
//!
//! **When it acts.** A name is resolved when the first connection is needed, and again in the background of a call once
//! the result is thirty seconds old. A new connection tries the addresses in turn. The scheme determines whether TLS is
//! used.
//!
//! **What it does not do.** It never connects to the metadata service of a cloud, whatever name led there. It neither
//! limits nor pools connections.

mod line;
mod metadata;
mod names;
mod tls;
mod url;

pub use line::{Line, LineConnect};
pub use metadata::is_metadata;
pub use names::{Resolve, Resolving, SystemNames};
pub use tls::{DateClock, TlsOptions, TlsSettings};
pub use url::BaseUrl;

pub(crate) use line::Offer;
pub(crate) use metadata::Reach;
pub(crate) use names::{Names, Place};
