//! Prepared texts in Japanese and English.

use crate::fallback::message;
use seawall_core::random::Draw;
use seawall_core::strategy::FallbackKind;
use seawall_core::vocabulary::Language;
use seawall_wire::ApiErrorKind;

/// A prepared text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatText {
    /// The message or the answer was blocked; offers what the assistant can help with.
    Redirect,
    /// A limit is reached: of the caller, of all guests of an address, of a route or of all callers. The text blames no
    /// one, because the caller may have sent a single message.
    LimitReached,
    /// The daily budget is spent. The day is UTC, so that the text does not say "today".
    BudgetExhausted,
    /// The budget for models is held by calls in progress.
    BudgetHeld,
    /// The remaining budget does not cover an answer of this length.
    BudgetTooSmall,
    /// The message is too long.
    TooLong,
    /// The answer was interrupted.
    Interrupted,
    /// The request is malformed.
    NotUnderstood,
    /// An earlier request has the same idempotency key: it is in progress, answered, or its outcome is unknown.
    AlreadyReceived,
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
    pub const ALL: [Self; 13] = [
        Self::Redirect,
        Self::LimitReached,
        Self::BudgetExhausted,
        Self::BudgetHeld,
        Self::BudgetTooSmall,
        Self::TooLong,
        Self::Interrupted,
        Self::NotUnderstood,
        Self::AlreadyReceived,
        Self::SignIn,
        Self::NotAllowed,
        Self::NotFound,
        Self::Unavailable,
    ];

    /// The text for a kind of API error.
    #[must_use]
    pub const fn of_error(error_kind: ApiErrorKind) -> Self {
        match error_kind {
            ApiErrorKind::Malformed => Self::NotUnderstood,
            ApiErrorKind::Conflict | ApiErrorKind::OutcomeUnknown => Self::AlreadyReceived,
            ApiErrorKind::Unauthenticated => Self::SignIn,
            ApiErrorKind::Forbidden => Self::NotAllowed,
            ApiErrorKind::NotFound | ApiErrorKind::UnknownPath => Self::NotFound,
            ApiErrorKind::TooLarge | ApiErrorKind::ContextLength | ApiErrorKind::ExceedsDailyBudget => {
                Self::TooLong
            }
            ApiErrorKind::Throttled => Self::LimitReached,
            ApiErrorKind::BudgetExhausted => Self::BudgetExhausted,
            ApiErrorKind::BudgetHeld => Self::BudgetHeld,
            ApiErrorKind::ExceedsRemainingBudget => Self::BudgetTooSmall,
            ApiErrorKind::SwitchedOff
            | ApiErrorKind::Overloaded
            | ApiErrorKind::TimedOut
            | ApiErrorKind::Internal => Self::Unavailable,
        }
    }

    /// The text in this language.
    #[must_use]
    pub const fn in_language(self, language: Language) -> &'static str {
        let (japanese, english) = match self {
            Self::Redirect => return message(FallbackKind::GuardrailBlock, language, false),
            Self::LimitReached => (
                "ただいまメッセージをお受けできません。少し時間をおいて、もう一度お送りください。",
                "We cannot take this message right now. Please wait a moment and send it again.",
            ),
            Self::BudgetExhausted => (
                "アシスタントのご利用上限に達しています。しばらく時間をおいて、もう一度お試しください。",
                "The assistant has reached its usage limit. Please try again later.",
            ),
            Self::BudgetHeld => (
                "ただいまアシスタントが混み合っています。少し時間をおいて、もう一度お送りください。",
                "The assistant is busy right now. Please send your message again in a little while.",
            ),
            Self::BudgetTooSmall => (
                "メッセージが長いため、ただいまお受けできません。短くしてお送りください。",
                "We cannot take a message of this length right now. Please send a shorter one.",
            ),
            Self::TooLong => (
                "メッセージが長すぎます。内容を短くするか、いくつかに分けてお送りください。",
                "This message is too long. Please shorten it, or send it in several parts.",
            ),
            Self::Interrupted => (
                "回答が途中で中断されました。ここまでの内容は完全ではありません。",
                "The answer was interrupted. What you see so far is incomplete.",
            ),
            Self::NotUnderstood => ("リクエストの形式が正しくありません。", "This request is not valid."),
            Self::AlreadyReceived => (
                "このメッセージはすでに受け付けています。回答が表示されない場合は、新しいメッセージとしてお送りください。",
                "We have already received this message. If you see no answer, please send it as a new message.",
            ),
            Self::SignIn => (
                "ご本人確認ができませんでした。もう一度サインインしてください。",
                "We could not verify your identity. Please sign in again.",
            ),
            Self::NotAllowed => {
                ("この操作を行う権限がありません。", "You do not have permission to do this.")
            }
            Self::NotFound => ("ページまたは機能が見つかりません。", "This page or function does not exist."),
            Self::Unavailable => (
                "ただいまアシスタントをご利用いただけません。時間をおいて、もう一度お試しください。",
                "The assistant is currently unavailable. Please try again later.",
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
        "I am sorry, I cannot answer this right now. Please ask again in a while.",
    ),
    (
        "申し訳ございません。システムの不具合により、ただいま回答をご用意できません。しばらくしてから、もう一度お尋ねください。",
        "Sorry, a problem on our side keeps me from answering. Please ask again later.",
    ),
    (
        "恐れ入りますが、現在お答えできる状態にありません。お急ぎの場合は、カスタマーサポートまでお問い合わせください。",
        "My apologies, I cannot answer at the moment. If it is urgent, please contact customer support.",
    ),
];

/// The apologies in this language.
pub fn apologies(language: Language) -> impl ExactSizeIterator<Item = &'static str> {
    APOLOGIES.into_iter().map(move |(japanese, english)| match language {
        Language::Japanese => japanese,
        Language::English => english,
    })
}

/// One of the three apologies, chosen uniformly.
#[must_use]
pub fn apology(language: Language, draw: Draw) -> &'static str {
    let index = usize::try_from(draw.below(APOLOGIES.len() as u64)).unwrap_or_default();
    let (japanese, english) = APOLOGIES.get(index).copied().unwrap_or(APOLOGIES[0]);
    match language {
        Language::Japanese => japanese,
        Language::English => english,
    }
}
