//! The profiles that come with Seawall.

/// The profile that is used if none is named.
pub const DEFAULT_PROFILE: &str = "gateway";

/// The empty profile: every required key must be written.
pub const EMPTY_PROFILE: &str = "none";

const PROFILES: [(&str, &str); 4] = [
    ("gateway", include_str!("../profiles/gateway.toml")),
    ("mangaassist", include_str!("../profiles/mangaassist.toml")),
    ("demo", include_str!("../profiles/demo.toml")),
    (EMPTY_PROFILE, ""),
];

/// The names of all profiles.
pub fn profile_names() -> impl Iterator<Item = &'static str> + Clone {
    PROFILES.iter().map(|(name, _)| *name)
}

/// The text of a profile.
#[must_use]
pub fn profile_text(name: &str) -> Option<&'static str> {
    PROFILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
