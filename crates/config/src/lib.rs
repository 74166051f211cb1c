//! Seawall's settings: one TOML file configures the gateway.
//!
//! Texts go in, validated values come out. A profile, the user's file, environment variables and arguments are merged
//! in layers. The result is parsed, checked as a whole and returned as [`Settings`], or rejected with a list of all
//! problems: each with its file, line and column, what is wrong, and what to write instead.
//!
//! **When it acts.** At startup and at a reload, before anything changes. **What it does not do.** It opens no socket,
//! reads no clock and no environment, and never holds a secret: settings contain references to secrets.
//!
//! ```
//! use seawall_config::{SettingsInput, load, show};
//! use seawall_core::time::UtcTime;
//!
//! let today = UtcTime::from_civil(2026, 11, 16);
//! let loaded = load(&SettingsInput::from_file("seawall.toml", "[budget]\nday = \"$100/day\"", today)).unwrap();
//! assert!(show(&loaded, true).contains("day = \"$100/day\" # seawall.toml:2"));
//!
//! let problems = load(&SettingsInput::from_file("seawall.toml", "[budget]\nday = 100", today)).unwrap_err();
//! assert!(problems.to_string().contains("help: did you mean \"$100/day\"?"));
//! ```

mod catalogue;
mod check;
mod field;
mod import;
mod kind;
mod load;
mod preset;
mod problem;
mod profile;
mod raw;
mod redact;
mod reference;
mod render;
mod schema;
mod section;
mod settings;
mod shape;
mod show;
mod source;
mod starter;
mod suggest;
mod terms;
mod tree;
mod unimplemented;
mod variable;

pub use catalogue::{Catalogue, CatalogueEntry, MAX_CATALOGUE_AGE_DAYS, PriceFileError};
pub use import::{ImportError, ImportedSettings, import_litellm};
pub use kind::{
    AddressRange, CoreCount, DiagnosticFormat, DiagnosticLevel, FaceName, JsonType, JwksSource, JwtAlgorithm,
    LogDestination, Provider, RatePeriod, RateValue, RetryCosts, RuntimeLayout, SecretReference, StoreKind,
    ValueFormat, format_duration, is_metadata_host, parse_day, parse_duration,
};
pub use load::{
    LoadedInput, LoadedSettings, ParsedSettings, PriceFileText, SettingsInput, load, parse_settings,
    read_file,
};
pub use preset::{KeyHeader, KeyNeed, PRESETS, PresetTest, ProviderPreset, find_preset, provider_reference};
pub use problem::{Problem, ProblemCode, ProblemLocation, Problems, Severity};
pub use profile::{DEFAULT_PROFILE, EMPTY_PROFILE, profile_names, profile_text};
pub use raw::shape;
pub use reference::reference;
pub use schema::schema;
pub use settings::{
    AdminSettings, AssistantSettings, BudgetSettings, CacheSettings, CallerSettings, ClassifierSettings,
    DeadlineSettings, DegradationSettings, HoursSettings, IssuerKeys, IssuerSettings, KeySettings,
    LimitSettings, ModelFacts, ModelSettings, PriceSource, RecordSettings, RedisSettings, RetrySettings,
    RolloutSettings, RouteSettings, ServerSettings, ServerTlsSettings, Settings, StoreSettings,
    TargetSettings, TelemetrySettings, TokenSettings,
};
pub use shape::{Activation, KeyShape, ScalarShape, SectionShape, ValueShape};
pub use show::{EffectiveSetting, SettingChange, diff, effective_settings, show, unimplemented_settings};
pub use source::{Located, Position, SettingOrigin, SettingSource, SettingSources, SourceKind};
pub use starter::{Discovery, FoundAwsCredentials, FoundProvider, StarterOptions, discover, starter_file};
pub use terms::{
    KeyTerms, TermError, check_team, limit_group, parse_budgets, parse_limits, parse_models, parse_tags,
};
pub use unimplemented::is_implemented;
