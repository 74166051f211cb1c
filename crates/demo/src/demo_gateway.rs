//! The interface of the gateway under demonstration.
//!
//! The demonstration uses this trait rather than a concrete type, so that a test can substitute a server that breaks
//! every promise.

use crate::DemoError;
use serde::Serialize;
use std::net::SocketAddr;

/// The state of the ledger for the day, in nano-dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LedgerBalance {
    /// The posted cost of calls.
    pub posted: u64,
    /// The reservations of calls in flight.
    pub held: u64,
}

/// Calls whose usage the model has reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReportedCalls {
    /// Their number.
    pub calls: u64,
    /// Their price, in nano-dollars.
    pub nano_dollars: u64,
}

/// A server that accepts model requests, keeps a ledger, and can be restarted.
pub(crate) trait DemoGateway {
    /// The address for requests.
    fn address(&self) -> SocketAddr;

    /// Shuts down gracefully.
    async fn stop(&mut self) -> Result<(), DemoError>;

    /// Listens again on the same address.
    async fn restart(&mut self) -> Result<(), DemoError>;

    /// The state of the ledger.
    async fn ledger_balance(&self) -> Result<LedgerBalance, DemoError>;

    /// The amount posted for calls whose usage arrived. Called after the final stop.
    fn reported_calls(&self) -> Result<ReportedCalls, DemoError>;
}
