//! What operators have switched, and who did when and why.
//!
//! Every change, and every attempt that was refused, is a record that carries the hash of the one before it: none can be
//! taken out or changed without breaking the chain.

use crate::StoreError;
use seawall_core::evaluator::{Protection, Protections, Switch};
use seawall_core::money::Money;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Ceiling, Mode, Tier};
use std::future::Future;

/// How everything is switched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchState {
    /// Switches and modes.
    pub protections: Protections,
    /// An operator's word on which models may be used at most.
    pub ceiling: Option<Ceiling>,
    /// How many changes led here.
    pub version: u64,
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchChange {
    /// A switch is thrown.
    Throw(Switch, bool),
    /// A protection does something else.
    SetMode(Protection, Mode),
    /// Models are held down, or set free.
    SetCeiling(Option<Ceiling>),
    /// What was posted for a call is replaced. It is carried out by the books; here is only who ordered it.
    CorrectPosting {
        /// The day that it was posted to, counted from 1970.
        day: u64,
        /// Whose call it was.
        caller: u64,
        /// The tier that paid for it.
        tier: Tier,
        /// What was posted.
        charged: Money,
        /// What it really cost.
        cost: Money,
    },
}

/// Who wants a change, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeOrder {
    /// What is to change.
    pub change: SwitchChange,
    /// Who says so.
    pub who: Box<str>,
    /// As what: the name of a role.
    pub role: Box<str>,
    /// Why.
    pub why: Box<str>,
    /// When.
    pub at: UtcTime,
    /// Whether it is only written down that somebody tried.
    pub refused: bool,
}

/// One line of the trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// Counted from 0.
    pub number: u64,
    /// What was ordered.
    pub order: ChangeOrder,
    /// The hash of the record before it; zeros for the first.
    pub before: [u8; 32],
    /// The hash of this record.
    pub hash: [u8; 32],
}

/// What became of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an order may have come too late"]
pub enum ChangeDecision {
    /// It was carried out, or written down if it was refused.
    Recorded(SwitchState),
    /// Somebody was quicker: how everything is switched is not how whoever ordered thought. Nothing has changed.
    Outdated(SwitchState),
}

/// What operators have switched.
pub trait Switches: Send + Sync {
    /// How everything is switched.
    fn read(&self) -> impl Future<Output = Result<SwitchState, StoreError>> + Send;

    /// Carries an order out if everything still is as in version `seen`. One that was refused is written down whatever
    /// was seen; it changes nothing else, and no version.
    fn order(
        &self,
        order: &ChangeOrder,
        seen: u64,
    ) -> impl Future<Output = Result<ChangeDecision, StoreError>> + Send;

    /// The trail from this number on, `most` at a time.
    fn trail(
        &self,
        from: u64,
        most: usize,
    ) -> impl Future<Output = Result<Vec<AuditRecord>, StoreError>> + Send;
}
