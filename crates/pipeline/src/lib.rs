//! The request pipeline of the gateway.
//!
//! `receive → identify → admit → plan → guardrail → answer → relay → settle`. From `receive` to `plan` each stage
//! consumes the type that the previous one returns, so the compiler enforces the order: no request reaches a model
//! without admission. Settlement is the drop of a request's completion and of each attempt, so every attempt is reported
//! and every answer is settled, however it ends. [`Pipeline`] holds the state that requests share; [`Pipeline::serve`]
//! runs all stages in one place.
//!
//! Time, randomness and timers come through a [`Runtime`] handle, and models through
//! [`Target`](seawall_provider::Target)s, so the same pipeline runs on sockets and on a virtual clock.

mod admit;
mod answer;
mod attempt;
mod balance;
mod baselines;
pub mod callers;
mod count;
pub mod dialect;
pub mod event;
pub mod guardrail;
mod health;
mod identify;
mod limit_description;
mod output;
mod output_history;
mod output_limit;
mod pacing;
mod pipeline;
mod plan;
mod prepared_reply;
mod question;
mod quota_store;
mod receive;
mod record;
mod relay;
mod reply;
mod route;
mod route_table;
mod rules;
mod settle;
mod shortage;
mod slot;
mod status;
mod target;
mod target_keys;

pub use balance::BalanceOptions;
pub use callers::{Caller, CallerIdentity, CallerResolver, CredentialKind, IdentifyError, TierOrigin};
pub use health::{CredentialStatus, TargetHealthStatus};
pub use limit_description::{LimitDescription, LimitScope};
pub use pacing::PacingStatus;
pub use pipeline::{Pipeline, PipelineOptions, UnansweredRequest};
pub use question::{
    AdmittedQuestion, AskFailure, CollectDecision, CollectError, CollectedEnd, CompleteReply, ModelAnswer,
    OpenRequest, PlannedQuestion,
};
pub use quota_store::{QuotaStore, SettlementQueue};
pub use receive::{ApiOperation, InboundRequest, ModelQuestion, format_request_id, hex};
pub use record::{
    AttemptCause, AttemptError, AttemptOutcomeKind, AttemptRecord, AttemptSummary, CheckedLimitSummary,
    CompactDuration, FirstAttempts, MAX_LISTED_ATTEMPTS, PlanRecord, PlannedRungs, RequestInterruption,
    RequestOutcome, RequestRecord, RequestStage, SkipKind, SkippedTarget, StageTimes,
};
pub use relay::ReplyStream;
pub use reply::{
    BodyScope, BudgetScope, CALLER_DIRECTORY_UNAVAILABLE, ConcurrencyScope, DEFAULT_RETRY_AFTER,
    IdempotencyConflict, JOURNAL_UNAVAILABLE, Rejection, Reply, ReplyContent, ReplyMetadata,
};
pub use route::{Faces, Route, RouteOptions};
pub use route_table::{ANY_MODEL, ModelLookup, ModelTerms};
pub use rules::{CheckedRules, LimitRules, ReceiveLimits, RuleOptions, RulesSnapshot, WindowBudgetRules};
pub use seawall_core::runtime::{Runtime, Timer};
pub use seawall_core::vocabulary::Tier;
pub use status::{DaySpend, LimitStatus, TargetStatus};
pub use target::{GuardedTarget, PriceStatus, TargetOptions};
