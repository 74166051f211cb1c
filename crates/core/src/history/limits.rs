//! Token limits of a request.

use crate::setting::{SettingError, at_least_one};

/// Settings before validation; see [`TokenLimitsOptions::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLimitsOptions {
    /// Maximum input tokens of one request.
    pub max_input: u64,
    /// Maximum output tokens of one request.
    pub max_output: u64,
    /// The model's context window in tokens, input and output together.
    pub context_window: u64,
    /// Tokens of the window reserved for what a vendor adds.
    pub overhead: u64,
    /// Tokens of the window kept as a safety margin for estimation errors.
    pub safety_margin: u64,
}

impl Default for TokenLimitsOptions {
    fn default() -> Self {
        Self {
            max_input: 4_000,
            max_output: 1_024,
            context_window: 200_000,
            overhead: 300,
            safety_margin: 500,
        }
    }
}

/// Validated [`TokenLimitsOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLimits {
    max_input: u64,
    max_output: u64,
    /// The window without overhead and safety margin.
    room: u64,
}

impl TokenLimitsOptions {
    /// Fails on limits under which no request could pass.
    pub fn check(self) -> Result<TokenLimits, SettingError> {
        at_least_one("max_input", self.max_input)?;
        at_least_one("max_output", self.max_output)?;
        let reserved = self.overhead.saturating_add(self.safety_margin);
        let room = self.context_window.saturating_sub(reserved);
        if room <= self.max_output {
            let problem = format!(
                "{} leaves no room for input beside {} of overhead, {} of safety margin and {} of output",
                self.context_window, self.overhead, self.safety_margin, self.max_output
            );
            return Err(SettingError::new("context_window", problem));
        }
        Ok(TokenLimits { max_input: self.max_input, max_output: self.max_output, room })
    }
}

impl Default for TokenLimits {
    /// The validated defaults.
    fn default() -> Self {
        let TokenLimitsOptions { max_input, max_output, context_window, overhead, safety_margin } =
            Default::default();
        Self { max_input, max_output, room: context_window - overhead - safety_margin }
    }
}

impl TokenLimits {
    /// No limits: for requests that are bounded by the model's context window, which its vendor enforces.
    pub const UNLIMITED: Self = Self { max_input: u64::MAX, max_output: u64::MAX / 2, room: u64::MAX };

    /// Output tokens allowed when `requested` were requested; the maximum if none were.
    #[must_use]
    pub fn output(&self, requested: Option<u64>) -> u64 {
        requested.map_or(self.max_output, |requested| requested.min(self.max_output))
    }

    /// Input tokens that fit into the window besides this much output. Counting the overhead as input as well errs on
    /// the safe side.
    #[must_use]
    pub fn window_input(&self, output: u64) -> u64 {
        self.room.saturating_sub(output)
    }

    /// Input tokens allowed besides this much output: the smaller of the request limit and what the window holds.
    #[must_use]
    pub fn input(&self, output: u64) -> u64 {
        self.max_input.min(self.window_input(output))
    }
}
