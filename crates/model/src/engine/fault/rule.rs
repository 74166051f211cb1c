//! Fault rules: when a fault applies, and to which requests.

use super::super::duration_text;
use super::Fault;
use seawall_core::setting::SettingError;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::time::Duration;

/// When a fault applies, and to which requests.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultRule {
    /// The name in the call log; by default the kind of the fault.
    pub name: Option<String>,
    /// The seed of its random draws; by default derived from the model's seed and the rule's index.
    pub seed: Option<u64>,
    /// The start of the rule, measured from when the schedule took effect.
    pub from: Duration,
    /// The end of the rule, exclusive.
    pub to: Duration,
    /// Bursts: the period at which the rule becomes active, and how long each burst lasts.
    pub bursts: Option<(Duration, Duration)>,
    /// The model to which the rule applies; by default all models.
    pub model: Option<String>,
    /// The rule applies only to requests that contain this text; by default to all requests.
    pub contains: Option<String>,
    /// The share of requests to which the rule applies.
    pub frequency: Frequency,
    /// The fault to inject.
    pub fault: Fault,
}

impl FaultRule {
    /// A rule that applies the fault to every request, always.
    #[must_use]
    pub const fn always(fault: Fault) -> Self {
        Self {
            name: None,
            seed: None,
            from: Duration::ZERO,
            to: Duration::MAX,
            bursts: None,
            model: None,
            contains: None,
            frequency: Frequency::Every(1),
            fault,
        }
    }
}

/// The share of requests to which a fault applies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Frequency {
    /// Every n-th request, starting with number 0: 1 is every request, 2 the first, third and so on.
    Every(u32),
    /// A random share, in percent.
    Percent(f64),
    /// A random share that changes linearly from the first percentage to the second while the rule is active.
    Ramp(f64, f64),
}

/// Parses a list of rules: a JSON array, or TOML with a `[[fault]]` table for each rule.
///
/// ```
/// use seawall_model::engine::read_faults;
///
/// let json = br#"[
///     {"fault": {"kind": "status", "status": 429, "retry_after": "2s"}, "every": 3},
///     {"fault": {"kind": "cut", "after": 5}, "from": "10s", "to": "40s", "model": "sonnet", "percent": 20}
/// ]"#;
/// let toml = br#"
///     [[fault]]
///     name = "brown-out"
///     kind = "status"
///     status = 503
///     percent = 5
///     percent_to = 80
///     from = "1m"
///     to = "3m"
/// "#;
/// assert_eq!(read_faults(json)?.len(), 2);
/// assert_eq!(read_faults(toml)?[0].name.as_deref(), Some("brown-out"));
/// # Ok::<(), seawall_core::setting::SettingError>(())
/// ```
pub fn read_faults(text: &[u8]) -> Result<Vec<FaultRule>, SettingError> {
    let refused = |problem: String| SettingError::new("faults", problem);
    // A TOML table array begins with two brackets, a JSON array with one.
    let start = text.trim_ascii_start();
    if matches!(start.first(), Some(b'[' | b'{')) && !start.starts_with(b"[[") {
        let rules: Vec<Map<String, Value>> =
            serde_json::from_slice(text).map_err(|error| refused(error.to_string()))?;
        return rules.into_iter().map(from_json).collect();
    }
    let text = str::from_utf8(text).map_err(|error| refused(error.to_string()))?;
    let file: RuleFile = toml::from_str(text).map_err(|error| refused(error.message().to_owned()))?;
    file.fault.into_iter().map(from_toml).collect()
}

/// In JSON the fault is a nested object.
fn from_json(mut rule: Map<String, Value>) -> Result<FaultRule, SettingError> {
    let refused = |error: serde_json::Error| SettingError::new("faults", error.to_string());
    let fault = rule.remove("fault").unwrap_or_default();
    let names: Vec<String> = fault.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let fault: Fault = serde_json::from_value(fault).map_err(refused)?;
    reject_extra_fields(&fault, &names)?;
    serde_json::from_value::<RuleFields>(Value::Object(rule)).map_err(refused)?.with(fault)
}

/// In TOML the fields of the fault and of the rule are in the same table.
fn from_toml(table: toml::Table) -> Result<FaultRule, SettingError> {
    let refused = |error: toml::de::Error| SettingError::new("faults", error.message().to_owned());
    let (when, what): (toml::Table, toml::Table) =
        table.into_iter().partition(|(name, _)| RULE_FIELDS.contains(&name.as_str()));
    let names: Vec<String> = what.keys().cloned().collect();
    let fault: Fault = what.try_into().map_err(refused)?;
    reject_extra_fields(&fault, &names)?;
    when.try_into::<RuleFields>().map_err(refused)?.with(fault)
}

/// Refuses fields on a fault that has none; serde would ignore them.
fn reject_extra_fields(fault: &Fault, names: &[String]) -> Result<(), SettingError> {
    let more = names.iter().find(|name| *name != "kind");
    match (fault, more) {
        (Fault::Reset | Fault::Html, Some(name)) => {
            Err(SettingError::new("faults", format!("unknown field `{name}`")))
        }
        _ => Ok(()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    #[serde(default)]
    fault: Vec<toml::Table>,
}

const RULE_FIELDS: [&str; 11] = [
    "name",
    "seed",
    "from",
    "to",
    "repeat",
    "lasts",
    "model",
    "contains",
    "every_nth",
    "percent",
    "percent_to",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFields {
    name: Option<String>,
    seed: Option<u64>,
    #[serde(default, deserialize_with = "duration_text::optional")]
    from: Option<Duration>,
    #[serde(default, deserialize_with = "duration_text::optional")]
    to: Option<Duration>,
    #[serde(default, deserialize_with = "duration_text::optional")]
    repeat: Option<Duration>,
    #[serde(default, deserialize_with = "duration_text::optional")]
    lasts: Option<Duration>,
    model: Option<String>,
    contains: Option<String>,
    #[serde(alias = "every")]
    every_nth: Option<u32>,
    percent: Option<f64>,
    percent_to: Option<f64>,
}

impl RuleFields {
    fn with(self, fault: Fault) -> Result<FaultRule, SettingError> {
        let refuse = |problem: &str| Err(SettingError::new("faults", problem));
        let frequency = match (self.every_nth, self.percent, self.percent_to) {
            (every, None, None) => Frequency::Every(every.unwrap_or(1)),
            (None, Some(percent), None) => Frequency::Percent(percent),
            (None, Some(from), Some(to)) => Frequency::Ramp(from, to),
            (None, None, Some(_)) => return refuse("percent_to requires percent"),
            (Some(_), ..) => return refuse("every_nth and percent are mutually exclusive"),
        };
        let bursts = match (self.repeat, self.lasts) {
            (None, None) => None,
            (Some(repeat), Some(lasts)) => Some((repeat, lasts)),
            _ => return refuse("repeat and lasts must be set together"),
        };
        Ok(FaultRule {
            name: self.name,
            seed: self.seed,
            from: self.from.unwrap_or(Duration::ZERO),
            to: self.to.unwrap_or(Duration::MAX),
            bursts,
            model: self.model,
            contains: self.contains,
            frequency,
            fault,
        })
    }
}
