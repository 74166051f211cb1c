//! The operator's switches, and the audit trail of their changes.
//!
//! Every change, and every attempt that was refused, is a record that contains the hash of the previous one. No record
//! can be removed or altered without breaking the chain.

use crate::StoreFuture;
use seawall_core::budget::Correction;
use seawall_core::evaluator::{Protection, Protections, Switch};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Ceiling, Mode};

/// The state of all switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchState {
    /// The switch and the mode of each protection.
    pub protections: Protections,
    /// The highest grade of model that an operator allows, if restricted.
    pub ceiling: Option<Ceiling>,
    /// The number of changes that led to this state.
    pub version: u64,
}

/// One change of the switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchChange {
    /// Turns a switch on or off.
    Throw(Switch, bool),
    /// Sets the mode of a protection.
    SetMode(Protection, Mode),
    /// Sets the ceiling for models, or removes it.
    SetCeiling(Option<Ceiling>),
    /// Replaces what was posted for a call. The node ledger carries this out; the trail only records the order.
    CorrectPosting(Correction),
}

/// The order of an operator to make a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeOrder {
    /// The change to make.
    pub change: SwitchChange,
    /// The operator who ordered it.
    pub operator: Box<str>,
    /// The name of the operator's role.
    pub role: Box<str>,
    /// The reason that the operator gave.
    pub reason: Box<str>,
    /// When it was ordered.
    pub at: UtcTime,
    /// Whether the order was refused; then only the attempt is recorded.
    pub refused: bool,
}

/// One record of the audit trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// The position in the trail, counted from 0.
    pub number: u64,
    /// The order that is recorded.
    pub order: ChangeOrder,
    /// The hash of the previous record; zeros for the first.
    pub previous_hash: [u8; 32],
    /// The hash of this record.
    pub hash: [u8; 32],
}

/// The outcome of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the order may have been rejected as outdated"]
pub enum ChangeDecision {
    /// The order was carried out, or, if it was refused, recorded.
    Recorded(SwitchState),
    /// The state has changed since the operator read it (compare-and-set failed). Nothing was changed.
    Outdated(SwitchState),
}

/// A store of the operator's switches and their audit trail.
pub trait Switches: Send + Sync {
    /// Returns the state of all switches.
    fn read(&self) -> StoreFuture<'_, SwitchState>;

    /// Carries an order out if the state still has version `seen`. A refused order is recorded whatever version was
    /// seen; it changes neither the state nor the version.
    fn apply<'a>(&'a self, order: &'a ChangeOrder, expected_version: u64) -> StoreFuture<'a, ChangeDecision>;

    /// Returns the audit trail from this number on, at most `max` records.
    fn trail(&self, from: u64, max: usize) -> StoreFuture<'_, Vec<AuditRecord>>;
}
