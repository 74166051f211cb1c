//! The terms of a key on the command line.

use clap::Args;
use seawall_gateway::identity::key_management::KeyTermsRequest;

#[derive(Args)]
pub(crate) struct KeyTermsArguments {
    /// Team that the key belongs to; `none` removes it.
    #[arg(long, value_name = "TEAM")]
    team: Option<String>,
    /// Tag by which its spending is reported; may be repeated. Replaces all tags; an empty value removes them.
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    tags: Vec<String>,
    /// How long from now the key is valid, such as 90d; `none` for ever.
    #[arg(long, value_name = "DURATION")]
    expires: Option<String>,
    /// Budget such as '$50/month', by hour, day, week, month or quarter; may be repeated. Replaces all budgets of the key; an
    /// empty value removes them.
    #[arg(long = "budget", value_name = "AMOUNT/PERIOD")]
    budgets: Vec<String>,
    /// Rate limit such as 60/min, by s, min, h, day or month; may be repeated. Replaces all limits of the key; an empty value
    /// removes them.
    #[arg(long = "limit", value_name = "COUNT/PERIOD")]
    limits: Vec<String>,
    /// Models and routes that it may use, such as 'claude-*,gpt-*'; `*` stands for any text. An empty value allows all.
    #[arg(long, value_name = "PATTERNS")]
    models: Option<String>,
}

impl KeyTermsArguments {
    pub(super) fn request(&self) -> KeyTermsRequest {
        let list = |values: &[String]| -> Option<Vec<String>> {
            let given = values.iter().filter(|value| !value.is_empty()).cloned().collect();
            (!values.is_empty()).then_some(given)
        };
        let models = self.models.as_ref().map(|models| {
            if models.is_empty() { Vec::new() } else { models.split(',').map(str::to_owned).collect() }
        });
        KeyTermsRequest {
            team: self.team.clone(),
            tags: list(&self.tags),
            expires: self.expires.clone(),
            budgets: list(&self.budgets),
            limits: list(&self.limits),
            models,
        }
    }
}
