//! Checks of callers and their credentials.

use super::Checker;
use super::spending::period_caps;
use crate::kind::{JwksSource, JwtAlgorithm, StoreKind, quoted};
use crate::problem::{Problem, ProblemCode};
use crate::raw::{self, RootSection};
use crate::settings::{CallerSettings, IssuerKeys, IssuerSettings, KeySettings};
use crate::source::Located;
use crate::suggest;
use crate::terms::{KeyTerms, TermError, check_team, parse_limits, parse_models, parse_tags};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum leeway. A clock that is off by more than this is wrong, and a larger leeway would only extend expired
/// tokens.
const MAX_LEEWAY: Duration = Duration::from_secs(300);

/// What `sha256sum` prints if a variable was not set: the hashes of an empty text and of a line end.
const EMPTY_KEY_HASHES: [[u8; 32]; 2] = [
    [
        0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27,
        0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
    ],
    [
        0x01, 0xba, 0x47, 0x19, 0xc8, 0x0b, 0x6f, 0xe9, 0x11, 0xb0, 0x91, 0xa7, 0xc0, 0x51, 0x24, 0xb6, 0x4e,
        0xee, 0xce, 0x96, 0x4e, 0x09, 0xc0, 0x58, 0xef, 0x8f, 0x98, 0x05, 0xda, 0xca, 0x54, 0x6b,
    ],
];

pub(super) fn callers(raw: &RootSection, checker: &mut Checker<'_>) -> Option<CallerSettings> {
    let callers = &raw.callers;
    checker.check_positive(callers, "lookup_timeout", &callers.lookup_timeout);
    // Keys that `seawall key` creates are in the data directory, which only a store in memory does not have.
    let has_stored_keys = raw.store.kind.value != StoreKind::Memory;
    if !callers.guests.value && callers.keys.is_empty() && callers.issuers.is_empty() && !has_stored_keys {
        let message =
            "callers: no keys, no issuers and no guests are configured, so every request would be rejected";
        let help = "add a key under [callers.keys.NAME], or set guests = true";
        checker.add(Problem::error(ProblemCode::NoCallers, message, callers.guests.origin).help(help));
    }
    for key in callers.keys.values().filter(|key| EMPTY_KEY_HASHES.contains(&key.hash.value)) {
        let message = format!("{}.hash: this is the hash of an empty key", key.path);
        let help = "the key was empty when it was hashed: set KEY and run printf %s \"$KEY\" | sha256sum";
        checker.add(Problem::error(ProblemCode::InvalidValue, message, key.hash.origin).help(help));
    }
    let mut seen: BTreeMap<[u8; 32], &raw::ApiKeySection> = BTreeMap::new();
    for key in callers.keys.values() {
        if let Some(first) = seen.insert(key.hash.value, key) {
            let message = format!("{} has the same key as {}", key.path, first.path);
            let problem = Problem::error(ProblemCode::DuplicateApiKey, message, key.hash.origin);
            let problem = problem.also_at(first.hash.origin, "first used here");
            checker.add(
                problem.help("a key can have only one tier: create another key, or remove one of the two"),
            );
        }
        for route in key.routes.iter().flat_map(|routes| &routes.value) {
            if !raw.routes.contains_key(&route.value) {
                let message = format!("{}.routes: unknown route {}", key.path, quoted(&route.value));
                let help = suggest_name("route", &route.value, raw.routes.keys());
                checker.add(Problem::error(ProblemCode::UnknownRoute, message, route.origin).help(help));
            }
        }
    }
    let keys = callers.keys.iter().map(|(name, key)| {
        let routes =
            key.routes.as_ref().map(|routes| routes.value.iter().map(|route| route.value.clone()).collect());
        let terms = terms(key, checker);
        (name.clone(), KeySettings { hash: key.hash.value, tier: key.tier.value, routes, terms })
    });
    let keys = keys.collect();
    let teams = callers.teams.iter().map(|(name, team)| {
        if let Err(error) = check_team(name) {
            checker.add(Problem::error(
                ProblemCode::InvalidValue,
                format!("{}: {error}", team.path),
                team.origin,
            ));
        }
        (name.clone(), period_caps(team, "budgets", &team.budgets, checker))
    });
    let teams = teams.collect();
    let issuers: BTreeMap<_, _> =
        callers.issuers.iter().map(|(name, one)| (name.clone(), issuer(one, checker))).collect();
    let issuers = issuers.into_iter().map(|(name, issuer)| Some((name, issuer?))).collect::<Option<_>>()?;
    Some(CallerSettings {
        guests: callers.guests.value,
        master_secret: callers.master_secret.as_ref().map(|secret| secret.value.clone()),
        guest_secret: callers.guest_secret.as_ref().map(|secret| secret.value.clone()),
        tier_cache_ttl: callers.tier_cache_ttl.value,
        lookup_timeout: callers.lookup_timeout.value,
        keys,
        teams,
        issuers,
    })
}

/// The terms of a key. Problems are reported, and the terms they concern left out.
fn terms(key: &raw::ApiKeySection, checker: &mut Checker<'_>) -> KeyTerms {
    let mut problem = |name: &str, origin, error: TermError| {
        let message = format!("{}.{name}: {error}", key.path);
        checker.add(Problem::error(ProblemCode::InvalidValue, message, origin));
    };
    let texts = |list: &Located<Vec<Located<String>>>| -> Vec<String> {
        list.value.iter().map(|text| text.value.clone()).collect()
    };
    let tags = parse_tags(texts(&key.tags).iter().map(String::as_str));
    let tags = tags.map_err(|error| problem("tags", key.tags.origin, error)).unwrap_or_default();
    let models = parse_models(texts(&key.models).iter().map(String::as_str));
    let models = models.map_err(|error| problem("models", key.models.origin, error)).unwrap_or_default();
    let limits: Vec<String> = key.limits.value.iter().map(|limit| limit.value.to_string()).collect();
    let limits = parse_limits(limits.iter().map(String::as_str));
    let limits = limits.map_err(|error| problem("limits", key.limits.origin, error)).unwrap_or_default();
    if let Some(team) = &key.team
        && let Err(error) = check_team(&team.value)
    {
        problem("team", team.origin, error);
    }
    KeyTerms {
        team: key.team.as_ref().map(|team| team.value.clone()),
        tags,
        expires: key.expires.as_ref().map(|expires| expires.value),
        budgets: period_caps(key, "budgets", &key.budgets, checker),
        limits,
        models,
    }
}

/// Help for an unknown name: the nearest existing one, or a list of all.
pub(super) fn suggest_name<'a>(
    what: &str,
    name: &str,
    known_names: impl Iterator<Item = &'a String> + Clone,
) -> String {
    if let Some(nearest) = suggest::nearest(name, known_names.clone().map(String::as_str)) {
        return format!("did you mean {}?", quoted(nearest));
    }
    let list: Vec<String> = known_names.map(|name| quoted(name)).collect();
    if list.is_empty() {
        format!("no {what} is configured")
    } else {
        format!("configured {what}s: {}", list.join(", "))
    }
}

fn issuer(issuer: &raw::IssuerSection, checker: &mut Checker<'_>) -> Option<IssuerSettings> {
    let path = &issuer.path;
    if issuer.audience.value.is_empty() {
        let message =
            format!("{path}: audience is empty, so tokens issued for other services would be accepted");
        let help = "write audience = [\"NAME\"] with the identifier that the issuer uses for this service";
        checker.add(Problem::error(ProblemCode::NoAudience, message, issuer.audience.origin).help(help));
    }
    if issuer.algorithms.value.is_empty() {
        let message = format!("{path}.algorithms: the list is empty, so no token could be verified");
        let problem = Problem::error(ProblemCode::NoIssuerKeys, message, issuer.algorithms.origin);
        checker.add(problem.help("write algorithms = [\"RS256\"], or the algorithms that the issuer uses"));
    }
    if issuer.leeway.value > MAX_LEEWAY {
        checker.report_invalid(issuer, "leeway", &issuer.leeway, "must be at most 5m");
    }
    let shared = issuer.algorithms.value.iter().find(|algorithm| algorithm.value == JwtAlgorithm::Hs256);
    let public = issuer.algorithms.value.iter().find(|algorithm| algorithm.value != JwtAlgorithm::Hs256);
    if let (Some(shared), Some(public)) = (shared, public) {
        let message =
            format!("{path}.algorithms: HS256 uses a shared secret and {} a public key", public.value);
        let problem =
            Problem::error(ProblemCode::MixedAlgorithms, message, shared.origin).also_at(public.origin, "");
        checker.add(
            problem.help(
                "a public key could be used as the shared secret: configure a separate issuer for each",
            ),
        );
        return None;
    }
    let keys = match (shared, public, &issuer.secret, &issuer.jwks) {
        (Some(_), _, Some(secret), _) => IssuerKeys::Shared(secret.value.clone()),
        (Some(shared), _, None, _) => {
            let message = format!("{path}: HS256 requires a secret");
            let problem = Problem::error(ProblemCode::NoIssuerKeys, message, shared.origin);
            checker.add(problem.help("write secret = \"env:NAME\""));
            return None;
        }
        (None, _, _, Some(keys)) => IssuerKeys::Public(keys.value.clone()),
        (None, public, _, None) => {
            let name = public.map_or("signature verification", |public| public.value.name());
            let message = format!("{path}: {name} requires public keys, but jwks is not set");
            let help = "write jwks = \"https://HOST/jwks.json\" or jwks = \"file:PATH\"";
            checker.add(Problem::error(ProblemCode::NoIssuerKeys, message, issuer.origin).help(help));
            return None;
        }
    };
    if let (IssuerKeys::Public(JwksSource::Url(url)), Some(written)) = (&keys, &issuer.jwks)
        && !url.starts_with("https://")
        && !crate::check::targets::is_local(url)
    {
        let message = format!("{path}.jwks: public keys must not be fetched over an unencrypted connection");
        checker.add(
            Problem::error(ProblemCode::UnencryptedUrl, message, written.origin).help("use an https URL"),
        );
    }
    Some(IssuerSettings {
        issuer: issuer.issuer.value.clone(),
        audience: issuer.audience.value.iter().map(|one| one.value.clone()).collect(),
        algorithms: issuer.algorithms.value.iter().map(|one| one.value).collect(),
        keys,
        leeway: issuer.leeway.value,
        tier: issuer.tier.value,
    })
}
