//! Checks of callers and their credentials.

use super::Checker;
use crate::kind::{Algorithm, KeySetValue, quoted};
use crate::problem::{Code, Problem};
use crate::raw::{self, Raw};
use crate::settings::{CallerSettings, IssuerKeys, IssuerSettings, KeySettings};
use crate::suggest;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum leeway. A clock that is off by more than this is wrong, and a larger leeway would only extend expired
/// tokens.
const MOST_LEEWAY: Duration = Duration::from_secs(300);

/// What `sha256sum` prints if a variable was not set: the hashes of an empty text and of a line end.
const HASHES_OF_NOTHING: [[u8; 32]; 2] = [
    [
        0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27,
        0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
    ],
    [
        0x01, 0xba, 0x47, 0x19, 0xc8, 0x0b, 0x6f, 0xe9, 0x11, 0xb0, 0x91, 0xa7, 0xc0, 0x51, 0x24, 0xb6, 0x4e,
        0xee, 0xce, 0x96, 0x4e, 0x09, 0xc0, 0x58, 0xef, 0x8f, 0x98, 0x05, 0xda, 0xca, 0x54, 0x6b,
    ],
];

pub(super) fn callers(raw: &Raw, checker: &mut Checker<'_>) -> Option<CallerSettings> {
    let callers = &raw.callers;
    checker.positive(callers, "directory_time", &callers.directory_time);
    if !callers.guests.value && callers.keys.is_empty() && callers.issuers.is_empty() {
        let message = "callers: there are no keys, no issuers and no guests, so that nobody may ask";
        let help = "write a key under [callers.keys.NAME], or guests = true";
        checker.add(Problem::error(Code::NobodyMayAsk, message, callers.guests.origin).help(help));
    }
    for key in callers.keys.values().filter(|key| HASHES_OF_NOTHING.contains(&key.hash.value)) {
        let message =
            format!("{}.hash: this is the hash of nothing, so that everybody would have the key", key.path);
        let help = "the key was empty when it was hashed: printf %s \"$KEY\" | sha256sum, with a KEY";
        checker.add(Problem::error(Code::Impossible, message, key.hash.origin).help(help));
    }
    let mut seen: BTreeMap<[u8; 32], &raw::ApiKey> = BTreeMap::new();
    for key in callers.keys.values() {
        if let Some(first) = seen.insert(key.hash.value, key) {
            let message = format!("{} has the same key as {}", key.path, first.path);
            let problem = Problem::error(Code::SameKeyTwice, message, key.hash.origin);
            let problem = problem.also(first.hash.origin, "first given here");
            checker.add(problem.help("one key has one tier: make another key, or take one of them out"));
        }
        for route in key.routes.iter().flat_map(|routes| &routes.value) {
            if !raw.routes.contains_key(&route.value) {
                let message = format!("{}.routes: there is no route {}", key.path, quoted(&route.value));
                let help = existing("route", &route.value, raw.routes.keys());
                checker.add(Problem::error(Code::UnknownRoute, message, route.origin).help(help));
            }
        }
    }
    let keys = callers.keys.iter().map(|(name, key)| {
        let routes =
            key.routes.as_ref().map(|routes| routes.value.iter().map(|route| route.value.clone()).collect());
        (name.clone(), KeySettings { hash: key.hash.value, tier: key.tier.value, routes })
    });
    let keys = keys.collect();
    let issuers: BTreeMap<_, _> =
        callers.issuers.iter().map(|(name, one)| (name.clone(), issuer(one, checker))).collect();
    let issuers = issuers.into_iter().map(|(name, issuer)| Some((name, issuer?))).collect::<Option<_>>()?;
    Some(CallerSettings {
        guests: callers.guests.value,
        master_secret: callers.master_secret.as_ref().map(|secret| secret.value.clone()),
        guest_secret: callers.guest_secret.as_ref().map(|secret| secret.value.clone()),
        tier_cache: callers.tier_cache.value,
        directory_time: callers.directory_time.value,
        keys,
        issuers,
    })
}

/// Help for an unknown name: the nearest existing one, or a list of all.
pub(super) fn existing<'a>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a String> + Clone,
) -> String {
    if let Some(near) = suggest::nearest(name, known.clone().map(String::as_str)) {
        return format!("did you mean {}?", quoted(near));
    }
    let list: Vec<String> = known.map(|name| quoted(name)).collect();
    if list.is_empty() {
        format!("there is no {what} at all")
    } else {
        format!("there are {}", list.join(", "))
    }
}

fn issuer(issuer: &raw::Issuer, checker: &mut Checker<'_>) -> Option<IssuerSettings> {
    let path = &issuer.path;
    if issuer.audience.value.is_empty() {
        let message = format!("{path} has no audience, so that it would accept what was meant for others");
        let help = "write audience = [\"NAME\"] with the name that the issuer gives to this service";
        checker.add(Problem::error(Code::NoAudience, message, issuer.audience.origin).help(help));
    }
    if issuer.algorithms.value.is_empty() {
        let message = format!("{path}.algorithms: the list is empty, so that no token could be checked");
        let problem = Problem::error(Code::NoIssuerKeys, message, issuer.algorithms.origin);
        checker.add(problem.help("write algorithms = [\"RS256\"] or whatever the issuer signs with"));
    }
    if issuer.leeway.value > MOST_LEEWAY {
        checker.impossible(issuer, "leeway", &issuer.leeway, "must be at most 5m");
    }
    let shared = issuer.algorithms.value.iter().find(|algorithm| algorithm.value == Algorithm::Hs256);
    let public = issuer.algorithms.value.iter().find(|algorithm| algorithm.value != Algorithm::Hs256);
    if let (Some(shared), Some(public)) = (shared, public) {
        let message =
            format!("{path}.algorithms: HS256 needs a shared secret and {} a public key", public.value);
        let problem = Problem::error(Code::MixedAlgorithms, message, shared.origin).also(public.origin, "");
        checker.add(problem.help("a public key could pass for the secret: write an issuer for each"));
        return None;
    }
    let keys = match (shared, public, &issuer.secret, &issuer.keys) {
        (Some(_), _, Some(secret), _) => IssuerKeys::Shared(secret.value.clone()),
        (Some(shared), _, None, _) => {
            let message = format!("{path}: HS256 needs a secret, and there is none");
            let problem = Problem::error(Code::NoIssuerKeys, message, shared.origin);
            checker.add(problem.help("write secret = \"env:NAME\""));
            return None;
        }
        (None, _, _, Some(keys)) => IssuerKeys::Public(keys.value.clone()),
        (None, public, _, None) => {
            let name = public.map_or("a signature", |public| public.value.name());
            let message = format!("{path}: {name} needs public keys, and nothing says where they are");
            let help = "write keys = \"https://HOST/jwks.json\" or keys = \"file:PATH\"";
            checker.add(Problem::error(Code::NoIssuerKeys, message, issuer.origin).help(help));
            return None;
        }
    };
    if let (IssuerKeys::Public(KeySetValue::Url(url)), Some(written)) = (&keys, &issuer.keys)
        && !url.starts_with("https://")
        && !crate::check::models::is_local(url)
    {
        let message = format!("{path}.keys: public keys that come unencrypted could be anybody's");
        checker.add(Problem::error(Code::UnencryptedUrl, message, written.origin).help("write an https URL"));
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
