//! Seawall's settings: one TOML file configures the gateway.
//!
//! Texts go in, validated values come out. A profile, the user's file, environment variables and arguments are merged
//! in layers. The result is parsed, checked as a whole and returned as [`Settings`], or refused with a list of all
//! problems: each with its file, line and column, what is wrong, and what to write instead.
//!
//! **When it acts.** At startup and at a reload, before anything changes. **What it does not do.** It opens no socket,
//! reads no clock and no environment, and never holds a secret: settings contain references to secrets.
//!
//! ```
//! use seawall_config::{Input, load, show};
//! use seawall_core::time::UtcTime;
//!
//! let today = UtcTime::from_civil(2026, 11, 16);
//! let loaded = load(&Input::of_file("seawall.toml", "[budget]\nday = \"$100/day\"", today)).unwrap();
//! assert!(show(&loaded, true).contains("day = \"$100/day\" # seawall.toml:2"));
//!
//! let problems = load(&Input::of_file("seawall.toml", "[budget]\nday = 100", today)).unwrap_err();
//! assert!(problems.to_string().contains("help: write \"$100/day\", if that is what you mean"));
//! ```

mod check;
mod cover;
mod field;
mod kind;
mod load;
mod not_yet;
mod problem;
mod profile;
mod raw;
mod reference;
mod render;
mod schema;
mod section;
mod settings;
mod shape;
mod show;
mod source;
mod suggest;
mod tree;
mod variable;

pub use kind::{
    AddressRange, Algorithm, CoresValue, FaceName, Form, JsonType, KeySetValue, LogPlaceValue, Per, Provider,
    RateValue, RetryCosts, Runtime, SecretReference, StoreKind, is_metadata_host, shown_span,
};
pub use load::{Draft, Input, Loaded, Written, draft, load, read_file};
pub use not_yet::is_followed;
pub use problem::{Code, Place, Problem, Problems, Severity};
pub use profile::{DEFAULT_PROFILE, EMPTY_PROFILE, profile_names, profile_text};
pub use raw::shape;
pub use reference::reference;
pub use schema::schema;
pub use settings::{
    AdminSettings, AssistantSettings, BudgetSettings, CacheSettings, CallerSettings, ClassifierSettings,
    DeadlineSettings, DegradationSettings, IssuerKeys, IssuerSettings, KeySettings, LimitSettings,
    ModelSettings, RedisSettings, RetrySettings, RolloutSettings, RouteSettings, ServerSettings, Settings,
    StoreSettings, TargetSettings, TelemetrySettings, TlsSettings, TokenSettings,
};
pub use shape::{KeyShape, Leaf, Needs, SectionShape, Shape};
pub use show::{Change, ListedKey, diff, listed, show, unfollowed};
pub use source::{Located, Origin, Position, Source, SourceKind, Sources};
