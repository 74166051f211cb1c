//! Token limits of a request.

use crate::setting::{SettingError, at_least_one};

/// Settings before validation; see [`TokenLimitsOptions::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLimitsOptions {
    /// Maximum input tokens of one request.
    pub request_input: u64,
    /// Maximum output tokens of one request.
    pub request_output: u64,
    /// The model's context window in tokens, input and output together.
    pub window: u64,
    /// Tokens of the window reserved for what a vendor adds.
    pub overhead: u64,
    /// Tokens of the window kept as a safety margin for estimation errors.
    pub safety: u64,
}

impl Default for TokenLimitsOptions {
    fn default() -> Self {
        Self { request_input: 4_000, request_output: 1_024, window: 200_000, overhead: 300, safety: 500 }
    }
}

/// Validated [`TokenLimitsOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLimits {
    request_input: u64,
    request_output: u64,
    /// The window without overhead and safety margin.
    room: u64,
}

impl TokenLimitsOptions {
    /// Fails on limits under which no request could pass.
    pub fn check(self) -> Result<TokenLimits, SettingError> {
        at_least_one("request_input", self.request_input)?;
        at_least_one("request_output", self.request_output)?;
        let taken = self.overhead.saturating_add(self.safety);
        let room = self.window.saturating_sub(taken);
        if room <= self.request_output {
            let problem = format!(
                "{} leaves no room for input beside {} of overhead, {} of safety and {} of output",
                self.window, self.overhead, self.safety, self.request_output
            );
            return Err(SettingError::new("window", problem));
        }
        Ok(TokenLimits { request_input: self.request_input, request_output: self.request_output, room })
    }
}

impl Default for TokenLimits {
    /// The validated defaults.
    fn default() -> Self {
        let TokenLimitsOptions { request_input, request_output, window, overhead, safety } =
            Default::default();
        Self { request_input, request_output, room: window - overhead - safety }
    }
}

impl TokenLimits {
    /// Output tokens allowed when `asked` were requested; the maximum if none were.
    #[must_use]
    pub fn output(&self, asked: Option<u64>) -> u64 {
        asked.map_or(self.request_output, |asked| asked.min(self.request_output))
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
        self.request_input.min(self.window_input(output))
    }
}
