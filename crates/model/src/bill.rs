//! What a model would charge.
//!
//! Only delivered output is counted: a stream that was cut, or whose caller disconnected, costs what had been sent by
//! then, and a refusal costs nothing. Amounts are whole nano-dollars, in which every price here is exact.

use crate::engine::Profile;
use seawall_wire::chat::Usage;
use serde::Serialize;
use std::collections::BTreeMap;

/// Usage and cost by model.
///
/// ```
/// use seawall_model::bill::Bill;
/// use seawall_model::engine::Profile;
/// use seawall_wire::chat::Usage;
///
/// let sonnet = Profile::named("sonnet").unwrap();
/// let mut bill = Bill::default();
/// bill.count_delivered(sonnet, Usage { input: 1_000_000, output: 1_000_000, ..Usage::default() });
/// assert_eq!(bill.nano_dollars(), 18_000_000_000); // $3 and $15
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bill {
    models: BTreeMap<&'static str, BillLine>,
}

/// Usage and cost of one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BillLine {
    /// Requests that named the model, whatever their outcome.
    pub requests: u64,
    /// Answers that were delivered completely.
    pub answers: u64,
    /// Input tokens of answers that were started.
    pub input_tokens: u64,
    /// Output tokens that were delivered.
    pub output_tokens: u64,
    /// The price of input and output.
    pub nano_dollars: u64,
}

impl Bill {
    /// Counts a request.
    pub fn count_request(&mut self, profile: &Profile) {
        self.line_of(profile).requests += 1;
    }

    /// Counts delivered tokens.
    pub fn count_delivered(&mut self, profile: &Profile, usage: Usage) {
        let line = self.line_of(profile);
        line.input_tokens = line.input_tokens.saturating_add(usage.input);
        line.output_tokens = line.output_tokens.saturating_add(usage.output);
        line.nano_dollars = line.nano_dollars.saturating_add(profile.price_of(usage));
    }

    /// Counts an answer that was delivered completely.
    pub fn count_complete(&mut self, profile: &Profile) {
        self.line_of(profile).answers += 1;
    }

    /// Usage and cost of one model; zero if it was never called.
    #[must_use]
    pub fn line(&self, model: &str) -> BillLine {
        self.models.get(model).copied().unwrap_or_default()
    }

    /// The total cost over all models.
    #[must_use]
    pub fn nano_dollars(&self) -> u64 {
        self.models.values().fold(0, |sum, line| sum.saturating_add(line.nano_dollars))
    }

    fn line_of(&mut self, profile: &Profile) -> &mut BillLine {
        self.models.entry(profile.name).or_default()
    }
}
