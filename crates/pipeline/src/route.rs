//! Routes: the names that callers use as model, with their targets.

use crate::balance::{BalanceOptions, RouteBalance};
use crate::dialect::Face;
use crate::guardrail::Guardrails;
use crate::target::GuardedTarget;
use seawall_core::setting::SettingError;
use std::sync::Arc;
use std::time::Duration;

/// A route, as the settings define it.
pub struct RouteOptions {
    /// The name that callers use as model.
    pub alias: String,
    /// The faces that serve the route.
    pub faces: Faces,
    /// The faces that are open to guests.
    pub guest_faces: Faces,
    /// Timeout for a stream's first content.
    pub start_timeout: Duration,
    /// The route's token limit per period, if it has one.
    pub token_limit: Option<u64>,
    /// Texts of which one is the answer when no model gives one; if empty, callers get an error.
    pub fallback_texts: Arc<[Box<str>]>,
    /// Guardrails for its requests at every face; may be empty.
    pub guardrails: Guardrails,
    /// The targets, in the order in which they are tried.
    pub targets: Vec<Arc<GuardedTarget>>,
    /// Which of them are balanced with each other, and how; `None` to keep their order.
    pub balance: Option<BalanceOptions>,
}

/// A set of faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faces(u32);

impl Faces {
    /// All faces.
    pub const ALL: Self = Self(u32::MAX);

    /// The set of these faces.
    #[must_use]
    pub fn of(faces: impl IntoIterator<Item = Face>) -> Self {
        Self(faces.into_iter().fold(0, |set, face| set | 1 << face.index()))
    }

    /// Whether the set contains this face.
    #[must_use]
    pub fn has(self, face: Face) -> bool {
        self.0 & 1 << face.index() != 0
    }
}

/// A name that callers use as model, with its targets in the order in which they are tried.
pub struct Route {
    pub(crate) alias: Arc<str>,
    pub(crate) faces: Faces,
    pub(crate) guest_faces: Faces,
    pub(crate) start_timeout: Duration,
    pub(crate) token_limit: Option<u64>,
    pub(crate) fallback_texts: Arc<[Box<str>]>,
    pub(crate) guardrails: Guardrails,
    pub(crate) targets: Box<[Arc<GuardedTarget>]>,
    pub(crate) balance: Option<Arc<RouteBalance>>,
}

impl Route {
    /// Validates that the route has targets.
    pub fn new(options: RouteOptions) -> Result<Self, SettingError> {
        let RouteOptions {
            alias,
            faces,
            guest_faces,
            start_timeout,
            token_limit,
            fallback_texts,
            guardrails,
            targets,
            balance,
        } = options;
        if targets.is_empty() {
            return Err(SettingError::new("targets", format!("route {alias} has no targets")));
        }
        let balance = balance.map(|balance| RouteBalance::new(balance, &targets)).transpose()?;
        let (alias, targets, balance) = (alias.into(), targets.into(), balance.map(Arc::new));
        Ok(Self {
            alias,
            faces,
            guest_faces,
            start_timeout,
            token_limit,
            fallback_texts,
            guardrails,
            targets,
            balance,
        })
    }

    /// The same route with other targets in the place of its own.
    pub(crate) fn with_targets(&self, targets: Box<[Arc<GuardedTarget>]>) -> Self {
        Self {
            alias: Arc::clone(&self.alias),
            faces: self.faces,
            guest_faces: self.guest_faces,
            start_timeout: self.start_timeout,
            token_limit: self.token_limit,
            fallback_texts: Arc::clone(&self.fallback_texts),
            guardrails: self.guardrails.clone(),
            targets,
            balance: self.balance.clone(),
        }
    }

    /// Whether requests of the same session go to the same target.
    pub(crate) fn has_affinity(&self) -> bool {
        self.balance.as_ref().is_some_and(|balance| balance.has_affinity())
    }

    /// Whether callers name the models of this route themselves.
    pub(crate) fn passes_names_on(&self) -> bool {
        self.alias.ends_with('*')
    }

    /// Whether the route is served at this face, for guests or for callers with a credential.
    pub(crate) fn is_open_at(&self, face: Face, is_guest: bool) -> bool {
        self.faces.has(face) && (!is_guest || self.guest_faces.has(face))
    }
}
