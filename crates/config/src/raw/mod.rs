//! Settings as they were read: every key of every section, with its place, before anything was checked together.

mod limits;
mod models;
mod operation;
mod resilience;
mod server;
mod service;
mod spending;

pub(crate) use limits::{Concurrency, Everybody, Limits, TierLimits};
pub(crate) use models::{Model, Route, Target};
pub(crate) use operation::{Assistant, Modes, RampSection, Redis, Rollout, Store, Switches, Telemetry};
pub(crate) use resilience::{Breaker, Deadlines, Pressure, Queue, Retry, RetryBudget};
pub(crate) use server::{Admin, ApiKey, Callers, Issuer, Server, Tls};
pub(crate) use service::{Cache, Classifier, Degradation, EveningPeak, Framing, OffPeak, Router};
pub(crate) use spending::{Budget, Cost, Event, Tokens};

use crate::field::{Named, Section as _};
use crate::section::section;
use crate::shape::{SectionShape, Shape};
use std::sync::OnceLock;

section! {
    /// Everything that can be set.
    pub(crate) struct Raw {
        /// Where Seawall listens and what it takes from a connection.
        server: Server,
        /// Where operators reach Seawall.
        admin: Admin,
        /// Who may ask.
        callers: Callers,
        /// How often who may ask.
        limits: Limits,
        /// Models by their exact id, and what a million of their tokens cost.
        models: Named<Model>,
        /// Places where models are served.
        targets: Named<Target>,
        /// Names that callers use for a model, and what stands behind them.
        routes: Named<Route>,
        /// How often and when to try again.
        retry: Retry,
        /// When calls to something are stopped because it fails.
        breakers: Named<Breaker>,
        /// How hard a target struggles, and so how gently to try again.
        pressure: Pressure,
        /// Time limits. Each must be shorter than the one around it.
        deadlines: Deadlines,
        /// Who waits for a place at a model, and how long.
        queue: Queue,
        /// How much may be spent, by whom, and on which day.
        budget: Budget,
        /// How many tokens a request of the chat may have.
        tokens: Tokens,
        /// When and how far to step down under load.
        degradation: Degradation,
        /// When the classifier of intents is not relied on.
        classifier: Classifier,
        /// The night, when nobody gets more than a fast model.
        off_peak: OffPeak,
        /// What a request is worth.
        router: Router,
        /// Which answers are kept, and how long.
        cache: Cache,
        /// How a streamed answer of the chat is sent.
        framing: Framing,
        /// What the shop's assistant is told and what it knows.
        assistant: Assistant,
        /// Where state is kept.
        store: Store,
        /// What an operator can switch off.
        switches: Switches,
        /// Whether a protection acts, is only tried, or rests.
        modes: Modes,
        /// Bringing protections in by degrees.
        rollout: Rollout,
        /// What is told of requests, and to whom.
        telemetry: Telemetry,
    }
}

/// What everything looks like.
#[must_use]
pub fn shape() -> &'static SectionShape {
    static SHAPE: OnceLock<SectionShape> = OnceLock::new();
    SHAPE.get_or_init(Raw::section_shape)
}

/// The sections that have a key of this name.
pub(crate) fn sections_with(key: &str) -> Vec<String> {
    fn walk(shape: &SectionShape, path: &str, key: &str, found: &mut Vec<String>) {
        if !path.is_empty() && shape.key(key).is_some() {
            found.push(path.to_owned());
        }
        for inner in &shape.keys {
            let joined =
                if path.is_empty() { inner.name.to_owned() } else { format!("{path}.{}", inner.name) };
            match &inner.shape {
                Shape::Section(section) => walk(section, &joined, key, found),
                Shape::Named(section) => walk(section, &format!("{joined}.NAME"), key, found),
                Shape::Leaf(_) | Shape::List(_) => {}
            }
        }
    }
    let mut found = Vec::new();
    walk(shape(), "", key, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::{SectionShape, Shape, sections_with, shape};
    use crate::shape::Leaf;
    use crate::tree::{Value, parse_value};

    /// Gets the path of a leaf, the leaf, whether it is a list, and its default.
    type Each<'a> = dyn FnMut(&str, &Leaf, bool, Option<&'static str>) + 'a;

    fn leaves(shape: &SectionShape, path: &str, each: &mut Each<'_>) {
        for key in &shape.keys {
            let path = format!("{path}.{}", key.name);
            match &key.shape {
                Shape::Leaf(leaf) => each(&path, leaf, false, key.default),
                Shape::List(leaf) => each(&path, leaf, true, key.default),
                Shape::Section(section) | Shape::Named(section) => leaves(section, &path, each),
            }
        }
    }

    #[test]
    fn every_example_can_be_read_and_is_written_in_one_way() {
        leaves(shape(), "", &mut |path, leaf, _, _| {
            assert!(!leaf.form.examples.is_empty(), "{path}");
            for example in &leaf.form.examples {
                let shown = |text: &str| (leaf.canonical)(&parse_value(text, 0, 0)?.value);
                let once = shown(example).unwrap_or_else(|| panic!("{path}: {example}"));
                assert_eq!(shown(&once).as_ref(), Some(&once), "{path}: {example}");
            }
        });
    }

    #[test]
    fn every_default_is_already_written_in_that_way() {
        leaves(shape(), "", &mut |path, leaf, is_list, default| {
            let Some(default) = default else { return };
            let node = parse_value(default, 0, 0).unwrap();
            let shown = match &node.value {
                Value::List(items) if is_list => {
                    let items = items.iter().map(|item| (leaf.canonical)(&item.value).unwrap());
                    format!("[{}]", items.collect::<Vec<_>>().join(", "))
                }
                value => (leaf.canonical)(value).unwrap(),
            };
            assert_eq!(shown, default, "{path}");
        });
    }

    #[test]
    fn every_section_and_key_says_what_it_means() {
        fn walk(shape: &SectionShape) {
            assert!(shape.doc.ends_with('.'), "{}", shape.doc);
            for key in &shape.keys {
                assert!(key.doc.ends_with('.') && !key.doc.contains("  "), "{}: {}", key.name, key.doc);
                if let Shape::Section(section) | Shape::Named(section) = &key.shape {
                    walk(section);
                }
            }
        }
        walk(shape());
    }

    #[test]
    fn a_key_is_found_in_the_section_that_has_it() {
        assert_eq!(sections_with("caller_day"), ["budget"]);
        assert_eq!(sections_with("hash"), ["callers.keys.NAME"]);
        assert!(sections_with("window").len() > 3 && sections_with("nothing").is_empty());
    }
}
