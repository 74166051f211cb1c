//! What `serve` prints when the gateway is ready: addresses, the source of its settings, what is off, and commands to paste.
//!
//! Only what works with these settings is printed, because the first thing a new user does is to paste it.

use crate::serve::{describe_budget, describe_recovery};
use seawall_config::{FaceName, RouteSettings, Settings, StoreKind};
use seawall_core::evaluator::{Protection, Switch};
use seawall_core::vocabulary::Mode;
use seawall_gateway::{RunningGateway, StorageReport};
use std::io::{self, Write as _};
use std::net::SocketAddr;

/// The output of a gateway that is ready.
pub(crate) struct ReadyReport<'a> {
    pub(crate) gateway: &'a RunningGateway,
    pub(crate) simulated: Option<SocketAddr>,
    pub(crate) demo_key: Option<String>,
    pub(crate) settings: &'a Settings,
    /// The source of the settings.
    pub(crate) origin: &'a str,
}

impl ReadyReport<'_> {
    /// Where state is stored, and what recovery found there.
    fn store(&self) -> String {
        let StorageReport::DataDir { kind, path, report } = self.gateway.storage() else {
            return "memory".to_owned();
        };
        let mut text = format!("{}, data directory {}", kind.name(), path.display());
        let charged = (report.charged.len(), report.charged_cost());
        for found in describe_recovery(charged, report.truncated.as_ref()) {
            text += "; ";
            text += &found;
        }
        if report.is_accessible_to_others {
            text += &format!("; readable by other users: run chmod 700 {}", path.display());
        }
        text
    }

    /// Protections that are off, so that operators do not rely on them.
    fn disabled(&self) -> Vec<String> {
        let settings = self.settings;
        let mut disabled = Vec::new();
        let mut note = |is_off: bool, what: &str| {
            if is_off {
                disabled.push(what.to_owned());
            }
        };
        note(settings.server.tls.is_none(), "TLS");
        note(settings.store.kind != StoreKind::Redis, "shared limits (Redis)");
        note(settings.budget.per_node, "shared budget");
        note(settings.admin.credential.is_none(), "admin credential");
        note(!settings.callers.guests, "guests");
        note(!settings.retry.hedge.enabled, "hedging");
        for protection in Protection::ALL {
            let mode = settings.protections.mode(protection);
            note(mode != Mode::Enforce, &format!("{} ({mode})", protection.name()));
        }
        note(!settings.protections.is_on(Switch::ModelInvocation), "model invocation");
        disabled
    }

    /// A warning if any host on the network is served without a credential.
    fn guest_warning(&self) -> Option<String> {
        let address = self.gateway.address();
        let is_exposed = self.settings.callers.guests && !address.ip().to_canonical().is_loopback();
        is_exposed.then(|| {
            format!(
                "enabled: any client that can reach {address} is served without a credential (callers.guests)"
            )
        })
    }

    /// A model name for an example at this face.
    fn route_of(&self, face: FaceName) -> Option<&str> {
        // The name of a wildcard is not the name of a model.
        let serves =
            |(name, route): &(&String, &RouteSettings)| !name.ends_with('*') && route.faces.contains(&face);
        self.settings.routes.iter().find(serves).map(|(name, _)| name.as_str())
    }

    /// Whether `/chat` is served, and whether guests may use it.
    fn chat(&self) -> (bool, bool) {
        let mut routes = self.settings.routes.values();
        let route = routes.find(|route| route.faces.contains(&FaceName::Chat));
        let is_for_guests = |route: &RouteSettings| route.guest_faces.contains(&FaceName::Chat);
        (route.is_some(), self.settings.callers.guests && route.is_some_and(is_for_guests))
    }

    /// The APIs that at least one route serves.
    fn faces(&self) -> String {
        let named = [
            (FaceName::Anthropic, "Anthropic"),
            (FaceName::OpenAi, "OpenAI"),
            (FaceName::Bedrock, "Bedrock"),
            (FaceName::Gemini, "Gemini"),
            (FaceName::Chat, "/chat"),
        ];
        let is_served =
            |face: FaceName| self.settings.routes.values().any(|route| route.faces.contains(&face));
        let served: Vec<&str> =
            named.into_iter().filter(|(face, _)| is_served(*face)).map(|(_, name)| name).collect();
        served.join(", ")
    }

    /// Commands to paste into a shell: the chat, without a key if guests may use it, and two vendors' libraries.
    fn examples(&self, url: &str, key: &str) -> Vec<String> {
        let arguments = r#"messages=[{"role":"user","content":"おすすめの漫画は？"}]"#;
        let mut examples = Vec::new();
        let (has_chat, is_for_guests) = self.chat();
        if has_chat {
            let credential = if is_for_guests { String::new() } else { format!(" -H 'x-api-key: {key}'") };
            examples.push(format!("curl {url}/chat{credential} -d '{{\"message\":\"おすすめの漫画は？\"}}'"));
        }
        if let Some(model) = self.route_of(FaceName::Anthropic) {
            examples.push(format!(
                "python3 -c 'import anthropic; print(anthropic.Anthropic(base_url=\"{url}\", api_key=\"{key}\")\
                 .messages.create(model=\"{model}\", max_tokens=200, {arguments}).content[0].text)'"
            ));
        }
        if let Some(model) = self.route_of(FaceName::OpenAi) {
            examples.push(format!(
                "python3 -c 'import openai; print(openai.OpenAI(base_url=\"{url}/v1\", api_key=\"{key}\")\
                 .chat.completions.create(model=\"{model}\", {arguments}).choices[0].message.content)'"
            ));
        }
        examples
    }

    pub(crate) fn print(&self, json: bool) -> io::Result<()> {
        let scheme = if self.settings.server.tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", self.gateway.address());
        let admin = format!("http://{}", self.gateway.admin_address());
        let model = self.simulated.map(|address| format!("http://{address}"));
        let routes: Vec<&str> = self.settings.routes.keys().map(String::as_str).collect();
        let mut out = io::stdout().lock();
        if json {
            let line = serde_json::json!({
                "ready": true, "url": url, "admin": admin, "models": routes, "simulated_model": model, "key": self.demo_key,
                "store": self.store(), "budget": describe_budget(self.settings), "settings": self.origin, "disabled": self.disabled(), "guests": self.guest_warning(),
            });
            writeln!(out, "{line}")?;
        } else {
            let faces = self.faces();
            writeln!(out, "seawall ready:   {url} ({faces}; models: {})", routes.join(", "))?;
            writeln!(out, "health:          {url}/livez, {url}/readyz; {url}/openapi.json")?;
            writeln!(out, "admin:           {admin}/admin/status, {admin}/metrics")?;
            if let Some(model) = model {
                writeln!(out, "simulated model: {model}, bill: {model}/admin/bill")?;
            }
            writeln!(out, "settings:        {}", self.origin)?;
            writeln!(out, "store:           {}", self.store())?;
            writeln!(out, "budget:          {}", describe_budget(self.settings))?;
            writeln!(out, "disabled:        {}", self.disabled().join(", "))?;
            if let Some(warning) = self.guest_warning() {
                writeln!(out, "guests:          {warning}")?;
            }
            if let Some(key) = &self.demo_key {
                writeln!(out, "key:             {key} (valid for this run)")?;
                let examples = self.examples(&url, key);
                if !examples.is_empty() {
                    writeln!(out, "examples:")?;
                }
                for example in examples {
                    writeln!(out, "  {example}")?;
                }
            }
        }
        out.flush()
    }
}
