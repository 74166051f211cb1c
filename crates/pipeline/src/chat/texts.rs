//! Prepared texts in Japanese and English.

use seawall_core::chance::Draw;
use seawall_core::strategy::{FallbackKind, Language, message};
use seawall_wire::Refusal;

/// A prepared text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatText {
    /// The message or the answer was blocked; offers what the assistant can help with.
    Redirect,
    /// The caller sends too many messages.
    LimitReached,
    /// The budget for models is spent.
    BudgetSpent,
    /// The budget for models is held by calls in progress.
    BudgetHeld,
    /// The remaining budget does not cover an answer of this length.
    BudgetTooSmall,
    /// The message is too long.
    TooLong,
    /// The answer broke off.
    BrokeOff,
    /// The request is malformed.
    NotUnderstood,
    /// The caller is not authenticated.
    SignIn,
    /// The caller lacks permission.
    NotAllowed,
    /// The requested resource does not exist.
    NotFound,
    /// The assistant is unavailable.
    Unavailable,
}

impl ChatText {
    /// All texts, in a fixed order.
    pub const ALL: [Self; 12] = [
        Self::Redirect,
        Self::LimitReached,
        Self::BudgetSpent,
        Self::BudgetHeld,
        Self::BudgetTooSmall,
        Self::TooLong,
        Self::BrokeOff,
        Self::NotUnderstood,
        Self::SignIn,
        Self::NotAllowed,
        Self::NotFound,
        Self::Unavailable,
    ];

    /// The text for a kind of refusal.
    #[must_use]
    pub const fn of_refusal(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Malformed | Refusal::Conflict | Refusal::OutcomeUnknown => Self::NotUnderstood,
            Refusal::Unauthenticated => Self::SignIn,
            Refusal::Forbidden => Self::NotAllowed,
            Refusal::NotFound | Refusal::UnknownPath => Self::NotFound,
            Refusal::TooLarge | Refusal::ContextLength => Self::TooLong,
            Refusal::Throttled => Self::LimitReached,
            Refusal::OutOfBudget => Self::BudgetSpent,
            Refusal::BudgetHeld => Self::BudgetHeld,
            Refusal::ExceedsBudget => Self::BudgetTooSmall,
            Refusal::SwitchedOff | Refusal::Overloaded | Refusal::TimedOut | Refusal::Internal => {
                Self::Unavailable
            }
        }
    }

    /// The text in this language.
    #[must_use]
    pub const fn words(self, language: Language) -> &'static str {
        let (japanese, english) = match self {
            Self::Redirect => return message(FallbackKind::GuardrailBlock, language, false),
            Self::LimitReached => (
                "短い間に多くのメッセージをいただきました。少し間をあけてから、もう一度お送りください。",
                "That was a lot of messages in a short time. Please pause for a moment before the next one.",
            ),
            Self::BudgetSpent => (
                "本日ご利用いただけるアシスタントの回数に達しました。作品の検索やよくあるご質問は引き続きご利用いただけます。",
                "The assistant has reached what it can do for today. Search and frequent questions still work as usual.",
            ),
            Self::BudgetHeld => (
                "ただいま多くのご質問にお答えしています。少し時間をおいて、もう一度お送りください。",
                "Many questions are being answered at the moment. Please send yours again in a little while.",
            ),
            Self::BudgetTooSmall => (
                "本日お答えできる残りの量に対して、ご質問が長すぎます。内容を短くしてお送りください。",
                "This is more than the assistant can still answer today. Please send a shorter message.",
            ),
            Self::TooLong => (
                "メッセージが長すぎます。内容を短くするか、いくつかに分けてお送りください。",
                "This message is too long. Please shorten it, or send it in several parts.",
            ),
            Self::BrokeOff => (
                "回答が途中で切れてしまいました。ここまでの内容は完全ではありません。",
                "The answer broke off here. What you see so far is not complete.",
            ),
            Self::NotUnderstood => (
                "リクエストの形式が正しくありません。",
                "This request is not in a form that can be understood.",
            ),
            Self::SignIn => (
                "ご本人の確認ができませんでした。もう一度サインインしてください。",
                "We could not tell who you are. Please sign in again.",
            ),
            Self::NotAllowed => {
                ("この操作を行う権限がありません。", "You do not have permission to do this.")
            }
            Self::NotFound => ("お探しのものは見つかりませんでした。", "There is nothing of that name here."),
            Self::Unavailable => (
                "ただいまアシスタントをご利用いただけません。時間をおいてお試しください。",
                "The assistant is not available at the moment. Please try again another time.",
            ),
        };
        match language {
            Language::Japanese => japanese,
            Language::English => english,
        }
    }
}

/// Apologies in Japanese and English. They promise nothing, and the last one refers to customer support.
const APOLOGIES: [(&str, &str); 3] = [
    (
        "申し訳ございません。ただいまお答えすることができません。少し時間をおいて、もう一度お尋ねください。",
        "I am sorry, I cannot answer this right now. You are welcome to ask again in a while.",
    ),
    (
        "申し訳ございません。当店の都合により、いまは回答をご用意できません。作品の検索や閲覧は通常どおりご利用いただけます。",
        "Sorry, trouble on our side keeps me from answering. Searching and browsing the catalogue work as usual.",
    ),
    (
        "恐れ入りますが、現在お答えできる状態にありません。お急ぎの場合は、カスタマーサポートまでお問い合わせください。",
        "My apologies, I have no answer to give at the moment. If it is urgent, customer support can help.",
    ),
];

/// One of the three apologies, chosen uniformly.
#[must_use]
pub fn apology(language: Language, draw: Draw) -> &'static str {
    let which = usize::try_from(draw.below(APOLOGIES.len() as u64)).unwrap_or_default();
    let (japanese, english) = APOLOGIES.get(which).copied().unwrap_or(APOLOGIES[0]);
    match language {
        Language::Japanese => japanese,
        Language::English => english,
    }
}
