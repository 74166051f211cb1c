//! Finds the route of a model name, by exact name or by a wildcard at the end of a route's name.
//!
//! A route such as `claude-*` serves every name that begins with the rest. Its targets either have a model of their own, or
//! send the name that the caller used ([`ANY_MODEL`]). For the latter, the terms of the named model (price, context window)
//! are looked up when a caller first uses it. A name before a slash is the operator's and not the vendor's: a request to
//! `anthropic/*` is sent with the part behind `anthropic/`.

use crate::route::Route;
use crate::target::{GuardedTarget, PriceStatus};
use seawall_core::money::PriceTable;
use seawall_core::untracked::InputModel;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The model of a target that sends the name that the caller used.
pub const ANY_MODEL: &str = "*";

/// Names that are remembered per route. Callers choose the names, so their number must be bounded; others are looked up for
/// each request.
const MAX_REMEMBERED: usize = 256;

/// What a target must know of a model.
#[derive(Clone, Debug)]
pub struct ModelTerms {
    /// The price of its tokens.
    pub price: PriceTable,
    /// Whether that price is known.
    pub price_status: PriceStatus,
    /// How its input is bounded.
    pub input: InputModel,
    /// The model's maximum output tokens per answer, if known.
    pub max_output: Option<u64>,
}

/// Looks up the terms of a model at a target, by the names of both.
pub type ModelLookup = Arc<dyn Fn(&str, &str) -> ModelTerms + Send + Sync>;

/// The routes of the settings.
pub(crate) struct RouteTable {
    exact: BTreeMap<Box<str>, Arc<Route>>,
    /// Longer prefixes first.
    wildcards: Vec<WildcardRoute>,
    lookup: ModelLookup,
    has_affinity: bool,
}

struct WildcardRoute {
    prefix: Box<str>,
    route: Arc<Route>,
    /// The route for each name that was used.
    by_model: Mutex<BTreeMap<Box<str>, Arc<Route>>>,
}

impl RouteTable {
    pub(crate) fn new(routes: Vec<Route>, lookup: ModelLookup) -> Self {
        let has_affinity = routes.iter().any(Route::has_affinity);
        let (mut exact, mut wildcards) = (BTreeMap::new(), Vec::new());
        for route in routes {
            match route.alias.strip_suffix('*') {
                Some(prefix) => {
                    let prefix = prefix.into();
                    wildcards.push(WildcardRoute {
                        prefix,
                        route: Arc::new(route),
                        by_model: Mutex::default(),
                    });
                }
                None => drop(exact.insert(route.alias.as_ref().into(), Arc::new(route))),
            }
        }
        wildcards.sort_by_key(|wildcard| std::cmp::Reverse(wildcard.prefix.len()));
        Self { exact, wildcards, lookup, has_affinity }
    }

    /// The route that serves a model name.
    pub(crate) fn find(&self, model: &str) -> Option<Arc<Route>> {
        if let Some(route) = self.exact.get(model) {
            return Some(Arc::clone(route));
        }
        // The prefix alone names no model.
        let is_match = |prefix: &str| model.len() > prefix.len() && model.starts_with(prefix);
        let wildcard = self.wildcards.iter().find(|wildcard| is_match(&wildcard.prefix))?;
        Some(wildcard.for_model(model, &self.lookup))
    }

    /// Whether a route sends requests of the same session to the same target.
    pub(crate) fn has_affinity(&self) -> bool {
        self.has_affinity
    }

    /// All routes of the settings.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.exact.values().chain(self.wildcards.iter().map(|wildcard| &wildcard.route))
    }
}

impl WildcardRoute {
    fn for_model(&self, model: &str, lookup: &ModelLookup) -> Arc<Route> {
        if self.route.targets.iter().all(|target| &*target.model != ANY_MODEL) {
            return Arc::clone(&self.route);
        }
        let mut by_model = self.by_model.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(route) = by_model.get(model) {
            return Arc::clone(route);
        }
        let sent = if self.prefix.ends_with('/') { &model[self.prefix.len()..] } else { model };
        let named = |target: &Arc<GuardedTarget>| {
            if &*target.model == ANY_MODEL {
                Arc::new(target.for_model(sent, &lookup(&target.name, sent)))
            } else {
                Arc::clone(target)
            }
        };
        let route = Arc::new(self.route.with_targets(self.route.targets.iter().map(named).collect()));
        if by_model.len() < MAX_REMEMBERED {
            by_model.insert(model.into(), Arc::clone(&route));
        }
        route
    }
}
