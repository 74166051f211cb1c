//! Settings that are parsed and checked, but that the gateway does not act on yet.
//!
//! An operator who sets one is warned at startup and at a reload, and the reference page marks it. Otherwise the
//! operator would rely on a protection that is not there. A line is removed here when the gateway begins to act on its
//! key. **What it does not do.** It refuses nothing: where running without a setting would be dangerous, the gateway
//! refuses to start.

/// The keys, as in the reference. A key of a section stands for everything in it.
const NOT_YET: &[&str] = &[
    "limits.edge",
    "retry.background",
    "deadlines.edge",
    "deadlines.worker",
    "deadlines.least_for_fast",
    "deadlines.session",
    "deadlines.prompt",
    "deadlines.save",
    "deadlines.after_model",
    "deadlines.model_minimum",
    "budget.session_input",
    "budget.session_output",
    "budget.single_source",
    "budget.cost",
    "budget.lease",
    "degradation",
    "classifier",
    "framing",
    "assistant.catalogue",
    "assistant.faq",
    "assistant.templates",
    "assistant.intents",
    "assistant.retrieved_items",
    "assistant.retrieved_characters",
    "assistant.retrieval_time",
    "store.session.keep_for",
    "switches.cost_circuit_breaker_enabled",
    "switches.degradation_controller_enabled",
    "modes.cost_circuit_breaker",
    "modes.degradation_controller",
    "rollout.limits",
    "rollout.budget",
    "telemetry.otlp",
    "telemetry.sampling",
    "telemetry.sampled_per_second",
];

/// Whether the gateway acts on a key, given as in the reference: `routes.NAME.fallback`.
#[must_use]
pub fn is_followed(key: &str) -> bool {
    let leads_there =
        |start: &str| key.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    !NOT_YET.iter().any(|start| leads_there(start))
}

#[cfg(test)]
mod tests {
    use super::{NOT_YET, is_followed};
    use crate::raw::shape;
    use crate::shape::{SectionShape, Shape};

    fn keys(shape: &SectionShape, path: &str, found: &mut Vec<String>) {
        for key in &shape.keys {
            let path = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
            match &key.shape {
                Shape::Section(section) => keys(section, &path, found),
                Shape::Named(section) => keys(section, &format!("{path}.NAME"), found),
                Shape::Leaf(_) | Shape::List(_) => {}
            }
            found.push(path);
        }
    }

    #[test]
    fn every_key_that_is_not_followed_exists_and_is_listed_once() {
        let mut all = Vec::new();
        keys(shape(), "", &mut all);
        for (index, key) in NOT_YET.iter().enumerate() {
            assert!(all.iter().any(|known| known == key), "{key}");
            let others = NOT_YET.iter().enumerate().filter(|(other, _)| *other != index);
            for (_, other) in others {
                assert!(!key.starts_with(&format!("{other}.")) && key != other, "{key} is in {other}");
            }
        }
    }

    #[test]
    fn a_key_is_not_followed_where_it_or_its_section_is_listed() {
        assert!(
            ["server.listen", "budget.day", "deadlines.attempt", "limits.hint.spread"]
                .into_iter()
                .all(is_followed)
        );
        assert!(!["framing.total", "classifier.time", "retry.background"].into_iter().any(is_followed));
        assert!(is_followed("retry.backgroundx") && is_followed("storey"));
    }
}
