//! Everything in a start or a reload that can fail. Nothing that is in use changes here.

use super::derive::DerivedState;
use super::error::ServeError;
use super::rules::{KeyLimitSets, limit_rules, rule_options};
use super::running::{CurrentState, RunningState};
use super::stores::GatewayStores;
use super::telemetry::GatewayTelemetry;
use crate::identity::{Authenticator, caller_options};
use crate::shared_limits;
use crate::supervisor::Supervisor;
use crate::target::TargetEnvironment;
use seawall_assistant::ChatRules;
use seawall_config::Settings;
use seawall_pipeline::{CallerResolver, CheckedRules, Tier};
use std::sync::Arc;

/// What every version of the settings is built with.
pub(super) struct BuildInputs {
    pub(super) environment: TargetEnvironment,
    /// API keys that are valid for this run only.
    pub(super) keys: Vec<(Tier, String)>,
}

/// What a build starts from.
pub(super) enum BuildBase<'a> {
    /// Nothing. The stores are opened, and their threads started; this supervisor stops them.
    Nothing(&'a Supervisor),
    /// A gateway that runs, with what is derived from the settings in force. Its stores are used, and what it has learned
    /// or connected is reused.
    /// With rate limits, they are those of the keys in the directory and of one that is about to be added.
    Running(&'a RunningState, &'a CurrentState, Option<&'a KeyLimitSets>),
    /// Nothing, and nothing may be opened or started: the result is thrown away.
    Check,
}

/// Everything that the next version of the settings needs, ready to be put in force.
pub(super) struct NextState<'a> {
    pub(super) settings: &'a Settings,
    pub(super) stores: GatewayStores,
    pub(super) telemetry: GatewayTelemetry,
    pub(super) authenticator: Arc<Authenticator>,
    pub(super) rules: CheckedRules,
    /// The assistant's rules, if a route serves the chat.
    pub(super) chat_rules: Option<Arc<ChatRules>>,
    pub(super) current: CurrentState,
}

/// Builds the next state, or reports why these settings cannot be served.
pub(super) fn build<'a>(
    settings: &'a Settings,
    inputs: &BuildInputs,
    base: &BuildBase<'_>,
) -> Result<NextState<'a>, ServeError> {
    let runtime = inputs.environment.runtime;
    let previous = base.current();
    let mut steps = BuildSteps { goes_on: matches!(base, BuildBase::Check), problems: Vec::new() };
    let derived = DerivedState::build(settings, inputs, previous.map(|previous| &previous.derived));
    let derived = steps.take(derived.and_then(|derived| base.accept(derived)))?;
    let authenticator = steps.take(match base {
        BuildBase::Nothing(supervisor) => Authenticator::new(settings, runtime, supervisor),
        BuildBase::Running(state, ..) => state.authenticator().rebuild(settings),
        BuildBase::Check => Authenticator::preflight(settings, runtime),
    })?;
    let authenticator = authenticator.map(Arc::new);
    let telemetry = match (base, &authenticator) {
        (BuildBase::Nothing(supervisor), Some(authenticator)) => {
            steps.take(GatewayTelemetry::start(settings, authenticator, runtime, supervisor))?
        }
        (BuildBase::Check, Some(authenticator)) => Some(GatewayTelemetry::silent(authenticator, runtime)),
        (BuildBase::Running(state, ..), _) => Some(state.telemetry.clone()),
        (_, None) => None,
    };
    // The stores are opened only for settings that can be served.
    let stores = match (base, &telemetry) {
        (BuildBase::Nothing(supervisor), Some(telemetry)) => {
            // Limits of keys in the directory are not known before it is open, and are added below.
            let limits = limit_rules(settings, &KeyLimitSets::default());
            let opened = GatewayStores::open(settings, &limits, runtime, &telemetry.events, supervisor);
            let opened = steps.take(opened)?;
            steps.take(telemetry.start_records(settings, supervisor))?;
            opened
        }
        (BuildBase::Running(state, ..), _) => Some(state.stores.clone()),
        (BuildBase::Check, _) => {
            let limits = limit_rules(settings, &KeyLimitSets::default());
            steps.take(GatewayStores::in_memory(settings, &limits))?
        }
        (BuildBase::Nothing(_), None) => None,
    };
    let resolved = match (&derived, &stores) {
        (Some(derived), Some(stores)) => {
            let directory = stores.caller_directory.clone().filter(|_| settings.store.directory().is_some());
            let options = caller_options(settings, &inputs.keys, directory);
            let callers = Arc::new(match previous {
                Some(previous) => previous.callers.rebuild(options),
                None => CallerResolver::new(options),
            });
            let key_limits = match (base, &stores.durable) {
                (BuildBase::Running(_, _, Some(key_limits)), _) => Ok((*key_limits).clone()),
                (_, Some(directory)) => KeyLimitSets::read(directory.as_ref()),
                (_, None) => Ok(KeyLimitSets::default()),
            };
            let key_limits = key_limits.map_err(ServeError::KeyLimits)?;
            let limits = limit_rules(settings, &key_limits);
            let rules = rule_options(settings, limits, derived, &callers);
            let rules = rules.and_then(|rules| Ok(rules.check(&stores.quotas)?));
            let chat_rules = steps.take(derived.chat.rules(settings))?;
            let rules = steps.take(rules)?;
            rules.zip(chat_rules).map(|(rules, chat_rules)| (callers, key_limits, rules, chat_rules))
        }
        _ => None,
    };
    if let BuildBase::Check = base {
        steps.take(shared_limits::check(&settings.store, runtime))?;
    }
    ServeError::combine(steps.problems)?;
    match (derived, stores, telemetry, resolved, authenticator) {
        (
            Some(derived),
            Some(stores),
            Some(telemetry),
            Some((callers, key_limits, rules, chat_rules)),
            Some(authenticator),
        ) => Ok(NextState {
            settings,
            stores,
            telemetry,
            authenticator,
            rules,
            chat_rules,
            current: CurrentState { derived, callers, key_limits, settings: Arc::new(settings.clone()) },
        }),
        // A part that is missing has left a problem.
        _ => Err(ServeError::Multiple(Vec::new())),
    }
}

impl<'a> BuildBase<'a> {
    fn current(&self) -> Option<&'a CurrentState> {
        match self {
            Self::Running(_, current, _) => Some(current),
            Self::Nothing(_) | Self::Check => None,
        }
    }

    /// Refuses what a running gateway cannot change to.
    fn accept(&self, derived: DerivedState) -> Result<DerivedState, ServeError> {
        match self {
            // The admin address does not change until the next start, whatever the new settings say.
            Self::Running(state, ..)
                if derived.credential.is_none() && !state.guard.may_omit_credential() =>
            {
                Err(ServeError::InsecureAdmin("listen is not a loopback address: set admin.credential"))
            }
            _ => Ok(derived),
        }
    }
}

/// The problems found so far. A check goes on after a step that failed, so that all problems can be fixed in one go.
struct BuildSteps {
    goes_on: bool,
    problems: Vec<ServeError>,
}

impl BuildSteps {
    /// The result of a step. `None` if the step failed and the build goes on.
    fn take<T>(&mut self, result: Result<T, impl Into<ServeError>>) -> Result<Option<T>, ServeError> {
        match result.map_err(Into::into) {
            Ok(built) => Ok(Some(built)),
            Err(error) if !self.goes_on => Err(error),
            Err(ServeError::Multiple(several)) => {
                self.problems.extend(several);
                Ok(None)
            }
            Err(error) => {
                self.problems.push(error);
                Ok(None)
            }
        }
    }
}
