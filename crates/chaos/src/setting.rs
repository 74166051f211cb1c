//! The settings of a node.

use crate::schedule::MODELS;
use crate::traffic::ChaosCaller;
use seawall_core::vocabulary::Tier;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Drain timeout of a node.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The values that differ between nodes.
pub(crate) struct NodeSettings<'a> {
    pub(crate) listen: SocketAddr,
    pub(crate) directory: &'a Path,
    /// The shared store; without one the node keeps its limits locally.
    pub(crate) store: Option<SocketAddr>,
    pub(crate) models: [SocketAddr; MODELS],
    pub(crate) cents: u64,
    /// The set of limits.
    pub(crate) variant: u64,
}

/// The limit of a tier per minute in this set: the rate and the burst.
pub(crate) const fn minute(tier: Tier, variant: u64) -> (u32, u32) {
    let standard_limit = match tier {
        Tier::Prime => 140,
        Tier::Standard => 90,
        Tier::Guest => 30,
    };
    match variant {
        0 => (standard_limit, 10),
        1 => (standard_limit * 2 / 3, 5),
        _ => (standard_limit * 3 / 2, 20),
    }
}

impl NodeSettings<'_> {
    /// The settings file.
    pub(crate) fn text(&self) -> String {
        let path = |name: &str| Value::from(self.directory.join(name).to_string_lossy()).to_string();
        let dollars = |cents: u64| format!("${}.{:02}/day", cents / 100, cents % 100);
        let [strong, fast] = self.models;
        let tiers: String = Tier::ALL.iter().map(|tier| limits(*tier, self.variant)).collect();
        let keys: String = ChaosCaller::all().map(key_entry).collect();
        format!(
            r#"
            profile = "mangaassist"
            server = {{ listen = "{listen}", cores = 2, drain_delay = "0s", drain_timeout = "{drain}s" }}
            admin.listen = "127.0.0.1:0"
            telemetry.access_log = {log}
            store = {store}
            models.sonnet = {{ input = "$3/M", output = "$15/M", context_window = 200000 }}
            models.haiku = {{ input = "$0.25/M", output = "$1.25/M", context_window = 200000 }}
            targets.sonnet = {{ provider = "anthropic", base_url = "http://{strong}", model = "sonnet", region = "none", api_key = "env:PATH" }}
            targets.haiku = {{ provider = "anthropic", base_url = "http://{fast}", model = "haiku", region = "none", api_key = "env:PATH" }}
            routes.manga.start_timeout = "4s"
            breakers.sonnet = {{ open_for = "1s", half_open_stages = [2, 8] }}
            breakers.haiku = {{ open_for = "1s", half_open_stages = [2, 8] }}

            [deadlines]
            api = "15s"
            edge = "12s"
            request = "11s"
            worker = "10s"
            attempt = "5s"
            connect = "2s"
            stream = "20s"
            stream_idle = "4s"

            [budget]
            day = "{day}"
            caller_day = "{caller}"
            per_node = true
            shares = {{ prime = "55%", standard = "30%", guest = "15%" }}

            {tiers}
            [callers.keys]
            {keys}
            "#,
            listen = self.listen,
            drain = DRAIN_TIMEOUT.as_secs(),
            log = path("access.log"),
            store = self.store.map_or_else(
                || format!("{{ kind = \"embedded\", data_dir = {} }}", path("state")),
                |store| {
                    let state = path("state");
                    format!("{{ kind = \"redis\", data_dir = {state}, redis.url = \"redis://{store}\" }}")
                },
            ),
            day = dollars(self.cents),
            caller = dollars(self.cents.div_ceil(2)),
        )
    }
}

fn limits(tier: Tier, variant: u64) -> String {
    let (minute, burst) = minute(tier, variant);
    let name = tier.name();
    format!(
        "[limits.tiers.{name}]\nminute = \"{minute}/min\"\nburst = {burst}\nhour = \"20000/h\"\nday = \"90000/day\"\n"
    )
}

fn key_entry(caller: ChaosCaller) -> String {
    let hash: String = Sha256::digest(caller.key()).iter().map(|byte| format!("{byte:02x}")).collect();
    let tier = caller.tier.name();
    format!("{tier}-{} = {{ hash = \"sha256:{hash}\", tier = \"{tier}\" }}\n", caller.number)
}

#[cfg(test)]
mod tests {
    use super::{NodeSettings, minute};
    use crate::schedule::VARIANTS;
    use crate::traffic::ChaosCaller;
    use seawall_config::{SettingsInput, load};
    use seawall_core::time::UtcTime;
    use seawall_core::vocabulary::Tier;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn the_settings_of_every_variant_are_valid_and_list_all_callers() {
        for (variant, cents) in (0..VARIANTS).flat_map(|variant| [(variant, 12), (variant, 1_510)]) {
            let address = "127.0.0.1:7700".parse().unwrap();
            let text = NodeSettings {
                listen: address,
                directory: Path::new("/tmp/a 'directory'"),
                store: (variant > 0).then_some(address),
                models: [address; 2],
                cents,
                variant,
            }
            .text();
            let loaded = load(&SettingsInput::from_file("chaos", &text, UtcTime::from_civil(2026, 11, 16)));
            let settings = loaded.map_err(|problems| problems.to_string()).unwrap().settings;
            assert_eq!(settings.callers.keys.len(), ChaosCaller::all().count());
            assert_eq!(settings.store.data_dir, "/tmp/a 'directory'/state");
            assert!(text.contains(if cents == 12 { "$0.12/day" } else { "$15.10/day" }), "{text}");
        }
    }

    #[test]
    fn every_variant_has_other_limits() {
        for tier in Tier::ALL {
            let limits: BTreeSet<(u32, u32)> = (0..VARIANTS).map(|variant| minute(tier, variant)).collect();
            assert_eq!(limits.len() as u64, VARIANTS, "{tier:?}");
        }
    }
}
