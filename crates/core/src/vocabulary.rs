//! The enums that several machines share.
//!
//! Each value has one meaning, and one spelling in settings, logs and metrics: its [`name`](Tier::name). An unknown
//! name is an error that lists the known ones, never a default.

/// Defines an enum whose values have names, with the list of all values, the name of each, and a parser.
///
/// ```
/// seawall_core::vocabulary::named_enum! {
///     /// The size of a cup.
///     pub enum CupSize as "cup_size" {
///         /// 200 ml.
///         Small = "small",
///         /// 400 ml.
///         Large = "large",
///     }
/// }
///
/// assert_eq!(CupSize::parse("large"), Ok(CupSize::Large));
/// assert_eq!(CupSize::ALL.map(CupSize::name), ["small", "large"]);
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! named_enum {
    (
        $(#[$about:meta])*
        pub enum $type:ident as $what:literal {
            $( $(#[$doc:meta])* $variant:ident = $name:literal, )+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $( $(#[$doc])* $variant, )+
        }

        impl $type {
            /// Every value, in order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in settings, logs and metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => $name, )+
                }
            }

            /// The value with this name; the error lists all known names.
            pub fn parse(text: &str) -> Result<Self, $crate::setting::SettingError> {
                match text {
                    $( $name => Ok(Self::$variant), )+
                    _ => {
                        let names = [$($name),+].join(", ");
                        let problem = format!("{text:?} is not one of {names}");
                        Err($crate::setting::SettingError::new($what, problem))
                    }
                }
            }

            /// The index in [`ALL`](Self::ALL), for lookup tables.
            #[must_use]
            pub const fn index(self) -> usize {
                self as usize
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.name())
            }
        }
    };
}
#[doc(inline)]
pub use named_enum;

named_enum! {
    /// The request field in which an OpenAI-compatible server takes the output limit. Servers that support only one of
    /// the two ignore or reject the other.
    pub enum OutputLimitField as "output_limit_field" {
        /// The field of OpenAI and Azure, required by their reasoning models.
        MaxCompletionTokens = "max_completion_tokens",
        /// The field of most other servers.
        MaxTokens = "max_tokens",
    }
}

impl OutputLimitField {
    /// The other field.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::MaxCompletionTokens => Self::MaxTokens,
            Self::MaxTokens => Self::MaxCompletionTokens,
        }
    }
}

named_enum! {
    /// The APIs that an OpenAI-compatible server has.
    pub enum OpenAiApi as "api" {
        /// Chat completions and Responses. A request in either is sent as it came; all others are sent as chat
        /// completions.
        Both = "both",
        /// Only chat completions.
        ChatCompletions = "chat_completions",
        /// Only Responses.
        Responses = "responses",
    }
}

named_enum! {
    /// A language of our own messages.
    pub enum Language as "language" {
        /// Japanese.
        Japanese = "ja",
        /// English.
        English = "en",
    }
}

impl Language {
    /// The language for a locale such as `ja-JP`. An empty locale means Japanese, our first language; any other language
    /// gets English.
    ///
    /// ```
    /// use seawall_core::vocabulary::Language;
    /// assert_eq!(Language::of_locale("ja_JP.UTF-8"), Language::Japanese);
    /// assert_eq!(Language::of_locale("fr"), Language::English);
    /// assert_eq!(Language::of_locale(""), Language::Japanese);
    /// ```
    #[must_use]
    pub fn of_locale(locale: &str) -> Self {
        let language = locale.split(['-', '_', '.']).next().unwrap_or_default().trim();
        if language.is_empty() || language.eq_ignore_ascii_case("ja") {
            Self::Japanese
        } else {
            Self::English
        }
    }
}

named_enum! {
    /// What a caller is entitled to.
    ///
    /// ```
    /// use seawall_core::vocabulary::Tier;
    ///
    /// assert_eq!(Tier::parse("prime"), Ok(Tier::Prime));
    /// let error = Tier::parse("gold").unwrap_err();
    /// assert_eq!(error.to_string(), "tier: \"gold\" is not one of prime, standard, guest");
    /// ```
    pub enum Tier as "tier" {
        /// The highest entitlement.
        Prime = "prime",
        /// The usual entitlement.
        Standard = "standard",
        /// The lowest entitlement.
        Guest = "guest",
    }
}

named_enum! {
    /// How strong a model is.
    pub enum Grade as "grade" {
        /// A fast, inexpensive model.
        Fast = "fast",
        /// The best model.
        Strong = "strong",
    }
}

named_enum! {
    /// The highest grade a request may use. A lower ceiling restricts more; of several, the lowest applies.
    ///
    /// ```
    /// use seawall_core::vocabulary::{Ceiling, Grade};
    ///
    /// assert_eq!(Ceiling::Strong.min(Ceiling::Fast), Ceiling::Fast);
    /// assert!(Ceiling::Fast.allows(Grade::Fast) && !Ceiling::Fast.allows(Grade::Strong));
    /// ```
    pub enum Ceiling as "ceiling" {
        /// No model at all.
        None = "none",
        /// Fast models only.
        Fast = "fast",
        /// Any model.
        Strong = "strong",
    }
}

impl Ceiling {
    /// Whether a model of this grade may be used.
    #[must_use]
    pub const fn allows(self, grade: Grade) -> bool {
        match grade {
            Grade::Fast => !matches!(self, Self::None),
            Grade::Strong => matches!(self, Self::Strong),
        }
    }
}

named_enum! {
    /// How much an answer depends on retrieved documents.
    pub enum RetrievalNeed as "retrieval_need" {
        /// It does not use any.
        None = "none",
        /// It is better with them, or it is not known whether it is.
        Optional = "optional",
        /// It is wrong or empty without them.
        Required = "required",
    }
}

named_enum! {
    /// One way to answer, in the order in which they are tried.
    pub enum Rung as "rung" {
        /// A prepared answer.
        Template = "template",
        /// A cached answer within its freshness lifetime.
        FreshCache = "fresh_cache",
        /// A strong model.
        StrongModel = "strong_model",
        /// A fast model.
        FastModel = "fast_model",
        /// A cached answer past its freshness lifetime.
        StaleCache = "stale_cache",
        /// The closest answer to a frequent question.
        Faq = "faq",
        /// An honest apology.
        Apology = "apology",
    }
}

named_enum! {
    /// Whether a protection acts on its decisions.
    pub enum Mode as "mode" {
        /// The protection acts on its decisions.
        Enforce = "enforce",
        /// The protection only records what it would have done.
        Observe = "observe",
        /// The protection measures but decides nothing.
        Off = "off",
    }
}

named_enum! {
    /// The degradation level, from no restriction to all.
    pub enum Level as "level" {
        /// No degradation.
        Normal = "normal",
        /// No reranking.
        Elevated = "elevated",
        /// Fast models only, and one chunk of retrieval.
        HighLoad = "high_load",
        /// No model for guests.
        Overload = "overload",
        /// No model for any caller.
        Emergency = "emergency",
    }
}

named_enum! {
    /// The state of the daily budget.
    pub enum CostState as "cost_state" {
        /// The budget is sufficient.
        Normal = "normal",
        /// The budget is nearly spent, or is expected to be spent before the day ends.
        Warning = "warning",
        /// The daily budget is spent.
        Spent = "spent",
    }
}

named_enum! {
    /// The priority of a request; the first value is the highest.
    pub enum Priority as "priority" {
        /// Requests that keep the service itself alive.
        Critical = "critical",
        /// Callers who are served before others, such as prime callers.
        High = "high",
        /// Known callers.
        Normal = "normal",
        /// Guests.
        Low = "low",
        /// Background work.
        Bulk = "bulk",
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Ceiling, CostState, Grade, Language, Level, Mode, OutputLimitField, Priority, RetrievalNeed, Rung,
        Tier,
    };

    #[test]
    fn every_name_parses_to_its_value_and_index() {
        macro_rules! check {
            ($($type:ident),+) => {$(
                for (index, value) in $type::ALL.into_iter().enumerate() {
                    assert_eq!($type::parse(value.name()), Ok(value));
                    assert_eq!((value.index(), value.to_string().as_str()), (index, value.name()));
                }
                assert!($type::parse("").is_err() && $type::parse("Prime").is_err());
            )+};
        }
        check!(
            OutputLimitField,
            Language,
            Tier,
            Grade,
            Ceiling,
            RetrievalNeed,
            Rung,
            Mode,
            Level,
            CostState,
            Priority
        );
    }

    #[test]
    fn a_ceiling_allows_what_is_not_above_it() {
        let allowed = |ceiling: Ceiling| Grade::ALL.map(|grade| ceiling.allows(grade));
        assert_eq!(Ceiling::ALL.map(allowed), [[false, false], [true, false], [true, true]]);
    }

    #[test]
    fn a_locale_names_the_language_that_we_write_in() {
        for (locale, language) in [
            ("ja", Language::Japanese),
            ("JA-jp", Language::Japanese),
            ("ja_JP", Language::Japanese),
            ("", Language::Japanese),
            ("en-GB", Language::English),
            ("jam", Language::English),
            ("zh", Language::English),
        ] {
            assert_eq!(Language::of_locale(locale), language, "{locale}");
        }
    }
}
