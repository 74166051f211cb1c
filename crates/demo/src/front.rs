//! What stands in Seawall's place.
//!
//! The demonstration plays against this and not against a type, so that a test can put somebody there who breaks every
//! promise.

use crate::DemoError;
use serde::Serialize;
use std::net::SocketAddr;

/// What the books say of the day, in nano-dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Books {
    /// What calls have cost.
    pub posted: u64,
    /// What calls under way may still cost.
    pub held: u64,
}

/// Calls whose usage the model has told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Told {
    /// How many.
    pub calls: u64,
    /// Their price, in nano-dollars.
    pub nano_dollars: u64,
}

/// Somebody who takes requests for models, keeps books, and can be started anew.
pub(crate) trait Front {
    /// Where requests go.
    fn address(&self) -> SocketAddr;

    /// Lets what is under way finish, and ends.
    async fn stop(&mut self) -> Result<(), DemoError>;

    /// Listens again where it did.
    async fn start_again(&mut self) -> Result<(), DemoError>;

    /// What its books say.
    async fn books(&self) -> Result<Books, DemoError>;

    /// What was posted for calls whose usage arrived. Asked when it has been stopped for good.
    fn told(&self) -> Result<Told, DemoError>;
}
