//! Settings that are parsed and checked, but that the gateway does not act on yet.
//!
//! An operator who sets one is warned by `config check`, at startup and at a reload, and the reference page marks it. Otherwise the
//! operator would rely on a protection that is not there. A line is removed here when the gateway begins to act on its
//! key. **What it does not do.** It refuses nothing: where running without a setting would be dangerous, the gateway
//! refuses to start.

use crate::problem::{Problem, ProblemCode, Problems};
use crate::show::{SettingChange, origins};
use crate::tree::TomlTable;

/// The keys, as in the reference. A key of a section stands for everything in it.
const UNIMPLEMENTED: &[&str] = &[
    "limits.edge",
    "retry.background",
    "deadlines.edge",
    "deadlines.worker",
    "deadlines.min_for_fast",
    "deadlines.session",
    "deadlines.prompt",
    "deadlines.save",
    "deadlines.after_model",
    "deadlines.min_model_time",
    "budget.session_input",
    "budget.session_output",
    "budget.single_source_alarm",
    "budget.cost",
    "budget.lease",
    "degradation",
    "classifier",
    "framing",
    "assistant.catalogue",
    "assistant.faq",
    "assistant.templates",
    "assistant.intents",
    "assistant.max_retrieved_items",
    "assistant.max_retrieved_characters",
    "assistant.retrieval_timeout",
    "store.session.ttl",
    "switches.cost_circuit_breaker_enabled",
    "switches.degradation_controller_enabled",
    "modes.cost_circuit_breaker",
    "modes.degradation_controller",
    "rollout.limits",
    "rollout.budget",
    "telemetry.otlp_endpoint",
    "telemetry.sampling_rate",
    "telemetry.min_traces_per_second",
];

/// Whether the gateway acts on a key, given as in the reference: `routes.NAME.fallback`.
#[must_use]
pub fn is_implemented(key: &str) -> bool {
    let is_prefix =
        |start: &str| key.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    !UNIMPLEMENTED.iter().any(|start| is_prefix(start))
}

/// Reports these keys where they are written.
pub(crate) fn warn_unimplemented(changes: &[SettingChange], tree: &TomlTable, problems: &mut Problems) {
    if changes.is_empty() {
        return;
    }
    let origins = origins(tree);
    for change in changes {
        // A key that was removed has no place.
        let Some(origin) = origins.get(&change.key) else { continue };
        let message = format!("{}: this version does not act on this key", change.key);
        let problem = Problem::warning(ProblemCode::NotImplemented, message, *origin);
        problems.add(problem.help("remove it, so that nobody relies on it"));
    }
}

#[cfg(test)]
mod tests {
    use super::{UNIMPLEMENTED, is_implemented};
    use crate::raw::shape;
    use crate::shape::{SectionShape, ValueShape};

    fn keys(shape: &SectionShape, path: &str, found: &mut Vec<String>) {
        for key in &shape.keys {
            let path = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
            match &key.shape {
                ValueShape::Section(section) => keys(section, &path, found),
                ValueShape::Named(section) => keys(section, &format!("{path}.NAME"), found),
                ValueShape::Scalar(_) | ValueShape::List(_) => {}
            }
            found.push(path);
        }
    }

    #[test]
    fn every_unimplemented_key_exists_and_is_listed_once() {
        let mut all = Vec::new();
        keys(shape(), "", &mut all);
        for (index, key) in UNIMPLEMENTED.iter().enumerate() {
            assert!(all.iter().any(|known| known == key), "{key}");
            let others = UNIMPLEMENTED.iter().enumerate().filter(|(other, _)| *other != index);
            for (_, other) in others {
                assert!(!key.starts_with(&format!("{other}.")) && key != other, "{key} is in {other}");
            }
        }
    }

    #[test]
    fn a_key_is_unimplemented_where_it_or_its_section_is_listed() {
        assert!(
            ["server.listen", "budget.day", "deadlines.attempt", "limits.retry_after.jitter"]
                .into_iter()
                .all(is_implemented)
        );
        assert!(
            !["framing.max_duration", "classifier.timeout", "retry.background"]
                .into_iter()
                .any(is_implemented)
        );
        assert!(is_implemented("retry.backgroundx") && is_implemented("storey"));
    }
}
