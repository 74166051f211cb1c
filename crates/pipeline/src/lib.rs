//! The request pipeline of the gateway.
//!
//! `receive → identify → admit → plan → answer → relay → settle`: each stage consumes the type that the previous one
//! returns, so the compiler enforces the order. No request reaches a model without admission, every attempt is
//! reported, and every answer is settled. [`Path`] holds the state that requests share; [`Path::serve`] runs all stages
//! in one place.
//!
//! Time, randomness and timers come through a [`Runtime`] handle, and models through
//! [`Target`](seawall_provider::Target)s, so the same pipeline runs on sockets and on a virtual clock.

mod admit;
mod answer;
mod attempt;
pub mod callers;
pub mod chat;
mod chat_rules;
mod count;
mod credential;
mod flight;
pub mod guardrail;
#[cfg(test)]
mod hand;
mod identify;
mod limit_name;
mod limits;
mod output;
mod output_history;
mod output_limit;
mod pacing;
mod path;
mod place;
mod plan;
mod prepared;
mod receive;
mod relay;
mod reply;
mod rules;
mod settle;
mod shelf;
mod shortage;
pub mod speech;
mod status;
mod target;
mod usual;

pub use callers::{Caller, Callers, NotKnown, ProofKind, Proven, TierOrigin};
pub use chat_rules::ChatRules;
pub use credential::CredentialStatus;
pub use flight::FlightBoard;
pub use limit_name::{LimitName, LimitScope};
pub use limits::{Decided, Deciding, Limits, SharedLimits, SharedTaking};
pub use pacing::PacingStatus;
pub use path::{Path, PathOptions};
pub use receive::{Arriving, InboundRequest, hex, request_name};
pub use relay::ReplyStream;
pub use reply::{BodyScope, ConcurrencyScope, Conflict, Notes, Rejection, Reply, ReplyContent, SOON};
pub use rules::{ArrivalLimits, LimitRules, RuleOptions};
pub use seawall_core::handle::{Runtime, Timer};
pub use seawall_core::vocabulary::Tier;
pub use settle::{AttemptEnding, AttemptRecord, Observer, Record, Verdict};
pub use shelf::{Looking, Shelf};
pub use status::{DaySpend, LimitStatus, TargetStatus};
pub use target::{Faces, GuardedTarget, Route, RouteOptions, TargetOptions};
