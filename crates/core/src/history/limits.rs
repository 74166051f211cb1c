//! How many tokens a request may have.

use crate::setting::{SettingError, at_least_one};

/// Settings as somebody wrote them; [`TokenLimitsOptions::check`] makes them usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLimitsOptions {
    /// Tokens that go in with one request.
    pub request_input: u64,
    /// Tokens that come out of one.
    pub request_output: u64,
    /// Tokens that the model can hold, in and out together.
    pub window: u64,
    /// Tokens of the window for what a vendor adds.
    pub overhead: u64,
    /// Tokens of the window that are never used, because estimates err.
    pub safety: u64,
}

impl Default for TokenLimitsOptions {
    fn default() -> Self {
        Self { request_input: 4_000, request_output: 1_024, window: 200_000, overhead: 300, safety: 500 }
    }
}

/// Checked limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLimits {
    request_input: u64,
    request_output: u64,
    /// The window without overhead and safety.
    room: u64,
}

impl TokenLimitsOptions {
    /// Refuses limits under which no request could pass.
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
    /// The default settings, checked.
    fn default() -> Self {
        let TokenLimitsOptions { request_input, request_output, window, overhead, safety } =
            Default::default();
        Self { request_input, request_output, room: window - overhead - safety }
    }
}

impl TokenLimits {
    /// Tokens that may come out when `asked` were asked for; nothing asked means the most.
    #[must_use]
    pub fn output(&self, asked: Option<u64>) -> u64 {
        asked.map_or(self.request_output, |asked| asked.min(self.request_output))
    }

    /// Tokens of text that the window has room for beside this much output. What counts overhead as part of the input
    /// as well is on the safe side.
    #[must_use]
    pub fn window_input(&self, output: u64) -> u64 {
        self.room.saturating_sub(output)
    }

    /// Tokens that may go in beside this much output: what one request may have, and no more than the window holds.
    #[must_use]
    pub fn input(&self, output: u64) -> u64 {
        self.request_input.min(self.window_input(output))
    }
}
