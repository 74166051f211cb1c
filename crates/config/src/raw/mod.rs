//! The parsed sections: every key with its origin, before the settings are checked as a whole.

mod limits;
mod models;
mod operation;
mod resilience;
mod server;
mod service;
mod spending;

pub(crate) use limits::{ConcurrencySection, GlobalLimitsSection, LimitsSection, TierLimitsSection};
pub(crate) use models::{ModelSection, RouteSection, TargetSection};
pub(crate) use operation::{
    AssistantSection, ModesSection, RampSection, RecordsSection, RedisSection, RolloutSection, StoreSection,
    SwitchesSection, TelemetrySection,
};
pub(crate) use resilience::{
    BreakerSection, DeadlinesSection, PressureSection, QueueSection, RetryBudgetSection, RetrySection,
};
pub(crate) use server::{
    AdminSection, ApiKeySection, CallersSection, IssuerSection, ServerSection, TlsSection,
};
pub(crate) use service::{
    CacheSection, ClassifierSection, DegradationSection, EveningPeakSection, FramingSection, OffPeakSection,
    RouterSection,
};
pub(crate) use spending::{
    BudgetEventSection, BudgetSection, BudgetTiersSection, CostSection, PricesSection, TokensSection,
};

use crate::field::{NamedSections, SettingSection as _};
use crate::section::section;
use crate::shape::{SectionShape, ValueShape};
use std::sync::OnceLock;

section! {
    /// All settings.
    pub(crate) struct RootSection {
        /// The callers' listener and its connection limits.
        server: ServerSection,
        /// The admin listener.
        admin: AdminSection,
        /// Callers and their credentials.
        callers: CallersSection,
        /// Rate limits and concurrency shares.
        limits: LimitsSection,
        /// Models by their exact id, with their prices.
        models: NamedSections<ModelSection>,
        /// Prices of models that have no section of their own under `models`.
        prices: PricesSection,
        /// Targets: one model at one provider, account and region each.
        targets: NamedSections<TargetSection>,
        /// Routes: aliases that callers use as model names, with their candidate targets.
        routes: NamedSections<RouteSection>,
        /// Retries, the retry budget and hedging.
        retry: RetrySection,
        /// Circuit breakers.
        breakers: NamedSections<BreakerSection>,
        /// Pressure detection of targets, which determines how aggressively calls are retried.
        pressure: PressureSection,
        /// Deadlines and timeouts. Each must be shorter than the one that encloses it.
        deadlines: DeadlinesSection,
        /// The queue for concurrency slots of a target.
        queue: QueueSection,
        /// Budgets.
        budget: BudgetSection,
        /// Token limits of chat requests.
        tokens: TokensSection,
        /// The degradation ladder: thresholds of its levels.
        degradation: DegradationSection,
        /// Health of the intent classifier.
        classifier: ClassifierSection,
        /// Off-peak hours, in which the ceiling is `fast`.
        off_peak: OffPeakSection,
        /// Prioritisation of requests.
        router: RouterSection,
        /// The answer cache.
        cache: CacheSection,
        /// Framing of streamed chat answers.
        framing: FramingSection,
        /// The assistant of the chat face.
        assistant: AssistantSection,
        /// The store of state.
        store: StoreSection,
        /// Switches that turn a protection off at once.
        switches: SwitchesSection,
        /// Modes of protections: `enforce`, `observe` or `off`.
        modes: ModesSection,
        /// Gradual rollout of protections.
        rollout: RolloutSection,
        /// Logs, traces and metrics.
        telemetry: TelemetrySection,
    }
}

/// The shape of all settings.
#[must_use]
pub fn shape() -> &'static SectionShape {
    static SHAPE: OnceLock<SectionShape> = OnceLock::new();
    SHAPE.get_or_init(RootSection::section_shape)
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
                ValueShape::Section(section) => walk(section, &joined, key, found),
                ValueShape::Named(section) => walk(section, &format!("{joined}.NAME"), key, found),
                ValueShape::Scalar(_) | ValueShape::List(_) => {}
            }
        }
    }
    let mut found = Vec::new();
    walk(shape(), "", key, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::{SectionShape, ValueShape, sections_with, shape};
    use crate::shape::ScalarShape;
    use crate::tree::{TomlValue, parse_value};

    /// Called with the path of a scalar, its shape, whether it is a list, and its default.
    type Each<'a> = dyn FnMut(&str, &ScalarShape, bool, Option<&'static str>) + 'a;

    fn scalars(shape: &SectionShape, path: &str, each: &mut Each<'_>) {
        for key in &shape.keys {
            let path = format!("{path}.{}", key.name);
            match &key.shape {
                ValueShape::Scalar(scalar) => each(&path, scalar, false, key.default),
                ValueShape::List(scalar) => each(&path, scalar, true, key.default),
                ValueShape::Section(section) | ValueShape::Named(section) => scalars(section, &path, each),
            }
        }
    }

    #[test]
    fn every_example_parses_and_has_one_canonical_form() {
        scalars(shape(), "", &mut |path, scalar, _, _| {
            assert!(!scalar.format.examples.is_empty(), "{path}");
            for example in &scalar.format.examples {
                let shown = |text: &str| (scalar.canonical)(&parse_value(text, 0, 0)?.value);
                let once = shown(example).unwrap_or_else(|| panic!("{path}: {example}"));
                assert_eq!(shown(&once).as_ref(), Some(&once), "{path}: {example}");
            }
        });
    }

    #[test]
    fn every_default_is_in_canonical_form() {
        scalars(shape(), "", &mut |path, scalar, is_list, default| {
            let Some(default) = default else { return };
            let node = parse_value(default, 0, 0).unwrap();
            let shown = match &node.value {
                TomlValue::List(items) if is_list => {
                    let items = items.iter().map(|item| (scalar.canonical)(&item.value).unwrap());
                    format!("[{}]", items.collect::<Vec<_>>().join(", "))
                }
                value => (scalar.canonical)(value).unwrap(),
            };
            assert_eq!(shown, default, "{path}");
        });
    }

    #[test]
    fn every_section_and_key_has_a_description() {
        fn walk(shape: &SectionShape) {
            assert!(shape.doc.ends_with('.'), "{}", shape.doc);
            for key in &shape.keys {
                assert!(key.doc.ends_with('.') && !key.doc.contains("  "), "{}: {}", key.name, key.doc);
                if let ValueShape::Section(section) | ValueShape::Named(section) = &key.shape {
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
