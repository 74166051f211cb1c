//! The parts that one version of the settings needs. The next version reuses those whose settings are unchanged, and
//! what they have learned.

use super::build::BuildInputs;
use super::error::ServeError;
use crate::admin::AdminCredential;
use crate::chat::ChatState;
use crate::secret::fetch_text;
use crate::target::Targets;
use crate::tls::ServerTls;
use seawall_config::Settings;
use seawall_core::credit::{RetryBudget, RetryBudgetOptions};
use seawall_core::retry::{HedgeOptions, HedgePolicy};
use seawall_pipeline::Tier;
use seawall_store::MemoryAnswers;
use std::sync::Arc;
use std::time::Duration;

/// The parts derived from one version of the settings, without the stores.
pub(super) struct DerivedState {
    /// Drain delay: how long requests are still served after a shutdown signal.
    pub(super) drain_delay: Duration,
    /// Drain timeout: how long in-flight requests may take to finish at shutdown.
    pub(super) drain_timeout: Duration,
    pub(super) targets: Targets,
    pub(super) tls: Option<ServerTls>,
    /// The credential that the admin API requires.
    pub(super) credential: Option<AdminCredential>,
    pub(super) retry_budget: (RetryBudgetOptions, Arc<RetryBudget>),
    pub(super) hedge: (HedgeOptions, Arc<HedgePolicy>),
    pub(super) chat: ChatState,
}

impl DerivedState {
    /// Derives the parts from these settings, and reuses as much as possible of the previous ones.
    pub(super) fn build(
        settings: &Settings,
        inputs: &BuildInputs,
        previous: Option<&Self>,
    ) -> Result<Self, ServeError> {
        // Collect all problems, so that they can be fixed in one go.
        let mut problems = Vec::new();
        if !can_authenticate_callers(settings, &inputs.keys) {
            problems.push(ServeError::NoCredentials);
        }
        let no_targets = Targets::default();
        let previous_targets = previous.map_or(&no_targets, |previous| &previous.targets);
        let (targets, target_errors) = previous_targets.rebuild(settings, &inputs.environment);
        problems.extend(target_errors.into_iter().map(|(name, error)| ServeError::Target(name, error)));
        let previous_tls = previous.and_then(|previous| previous.tls.as_ref());
        let tls = ServerTls::load(settings.server.tls.as_ref(), previous_tls);
        let tls = tls.map_err(|error| problems.push(error.into())).unwrap_or_default();
        let credential = admin_credential(settings, &inputs.keys);
        let credential = credential.map_err(|problem| problems.push(problem)).unwrap_or_default();
        ServeError::combine(problems)?;
        let budget_options = &settings.retry.budget;
        let retry_budget = match previous {
            Some(previous) if previous.retry_budget.0 == *budget_options => previous.retry_budget.clone(),
            _ => (budget_options.clone(), Arc::new(RetryBudget::new(budget_options.clone())?)),
        };
        let hedge_options = settings.retry.hedge;
        let hedge = match previous {
            Some(previous) if previous.hedge.0 == hedge_options => previous.hedge.clone(),
            _ => (hedge_options, Arc::new(HedgePolicy::new(hedge_options)?)),
        };
        let chat = match previous {
            Some(previous) => previous.chat.rebuild(settings)?,
            None => {
                let (ages, storage) = (settings.cache.ages, settings.cache.storage);
                let answer_cache = MemoryAnswers::with_rule(ages, storage, crate::chat::CACHE_CAPACITY);
                ChatState::new(settings, Arc::new(answer_cache))?
            }
        };
        let (drain_delay, drain_timeout) = (settings.server.drain_delay, settings.server.drain_timeout);
        Ok(Self { drain_delay, drain_timeout, targets, tls, credential, retry_budget, hedge, chat })
    }
}

/// Whether callers can authenticate at all, or need not. A data directory may hold keys now or later.
fn can_authenticate_callers(settings: &Settings, keys: &[(Tier, String)]) -> bool {
    let callers = &settings.callers;
    callers.guests
        || !callers.keys.is_empty()
        || !callers.issuers.is_empty()
        || !keys.is_empty()
        || settings.store.directory().is_some()
}

/// The credential of the admin API. It must differ from every caller's key, because callers know their keys.
fn admin_credential(
    settings: &Settings,
    keys: &[(Tier, String)],
) -> Result<Option<AdminCredential>, ServeError> {
    let Some(reference) = &settings.admin.credential else {
        // The settings check rejects this too; this covers settings that were built in another way.
        let is_loopback = settings.admin.listen.ip().to_canonical().is_loopback();
        let problem = "listen is not a loopback address: set admin.credential";
        return if is_loopback { Ok(None) } else { Err(ServeError::InsecureAdmin(problem)) };
    };
    let credential = AdminCredential::new(&fetch_text(reference)?);
    let run_keys = keys.iter().map(|(_, key)| crate::identity::hash_api_key(key));
    let mut hashes = settings.callers.keys.values().map(|key| key.hash).chain(run_keys);
    if hashes.any(|hash| credential.matches_hash(&hash)) {
        return Err(ServeError::InsecureAdmin(
            "the credential is also a caller's key: use a separate secret",
        ));
    }
    Ok(Some(credential))
}
