//! Moves a request through its stages.
//!
//! `receive → identify → admit → plan → answer → relay → settle`: each stage eats the type of the one before, so
//! that the compiler keeps the order. Nothing reaches a model unadmitted, no attempt goes unreported, and no answer
//! goes unsettled. [`Path`] holds what requests share; [`Path::serve`] is the whole way on one page.
//!
//! Time, chance and waiting come through a [`Runtime`] handle, and models through [`Target`](seawall_provider::Target)s, so that the same path
//! runs on sockets and on a virtual clock.

mod admit;
mod answer;
mod attempt;
pub mod callers;
mod identify;
mod path;
mod plan;
mod receive;
mod relay;
mod reply;
mod rules;
mod settle;
pub mod speech;
mod target;

pub use identify::{Caller, Directory, KeyError};
pub use path::{Path, PathOptions};
pub use receive::InboundRequest;
pub use relay::ReplyStream;
pub use reply::{Rejection, Reply};
pub use rules::{ArrivalLimits, RuleOptions};
pub use seawall_core::handle::{Runtime, Timer};
pub use seawall_core::vocabulary::Tier;
pub use settle::{Observer, Record, Verdict};
pub use target::{GuardedTarget, Route, TargetOptions};
