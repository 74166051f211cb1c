//! The way to a server: its address as settings name it, where its name leads, and the line that is opened to it.
//!
//! **When it acts.** A name is looked up when the first connection is wanted, and again in the background of a call once
//! the answer is thirty seconds old. A new connection tries the addresses in turn. Encryption follows from the scheme.
//!
//! **What it will not do.** It never connects to an address at which clouds keep the credentials of a machine, whatever
//! name led there. It limits no connections and keeps none: pools do.

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
