//! Messages for the caller when there is no answer.
//!
//! `core`'s [strategy](seawall_core::strategy) chooses the kind of fallback and the rungs; these are the texts that an
//! apology has for each kind.
//!
//! ```
//! use seawall_assistant::fallback::message;
//! use seawall_core::strategy::FallbackKind;
//! use seawall_core::vocabulary::Language;
//!
//! let late = message(FallbackKind::ModelTimeout, Language::English, false);
//! assert!(late.starts_with("This is taking longer"));
//! ```

#[cfg(test)]
mod tests;

use seawall_core::strategy::FallbackKind;
use seawall_core::vocabulary::Language;

/// Whether the answer should include popular titles.
#[must_use]
pub const fn shows_popular(kind: FallbackKind) -> bool {
    matches!(kind, FallbackKind::Generic)
}

/// The message for the caller. It promises an answer only if the request is really `queued`, and only for a fallback
/// that is caused by throttling.
#[must_use]
pub const fn message(kind: FallbackKind, language: Language, queued: bool) -> &'static str {
    match (kind, language) {
        (FallbackKind::CircuitOpen, Language::Japanese) => {
            "ただいまアシスタントを一時的にご利用いただけません。数分後にもう一度お試しください。"
        }
        (FallbackKind::CircuitOpen, Language::English) => {
            "The assistant is briefly unavailable. Please try again in a few minutes."
        }
        (FallbackKind::ModelTimeout, Language::Japanese) => {
            "回答の準備に時間がかかっています。もう一度、できれば短めの文章でお試しください。"
        }
        (FallbackKind::ModelTimeout, Language::English) => {
            "This is taking longer than it should. Please try again, perhaps with a shorter question."
        }
        (FallbackKind::GuardrailBlock, Language::Japanese) => {
            "申し訳ございませんが、その内容にはお答えできません。漫画についてのご質問でしたら、お手伝いできます。"
        }
        (FallbackKind::GuardrailBlock, Language::English) => {
            "That is something I can't help with. I am happy to answer questions about manga."
        }
        (FallbackKind::Throttled, Language::Japanese) if queued => {
            "ただいまご利用が大変多くなっています。ご質問は順番待ちに入りました。回答をお届けするまで少々お待ちください。"
        }
        (FallbackKind::Throttled, Language::English) if queued => {
            "A lot of people are asking right now. Your question is in the queue, and the answer will follow shortly."
        }
        (FallbackKind::Throttled, Language::Japanese) => {
            "ただいまご利用が大変多くなっています。しばらくしてからもう一度お試しください。"
        }
        (FallbackKind::Throttled, Language::English) => {
            "A lot of people are asking right now. Please try again in a moment."
        }
        (FallbackKind::Generic, Language::Japanese) => {
            "申し訳ございません。うまく処理できませんでした。少し時間をおいて、もう一度お試しください。"
        }
        (FallbackKind::Generic, Language::English) => {
            "Sorry, that did not work. Please try again in a moment."
        }
    }
}
