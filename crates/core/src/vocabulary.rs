//! The words that more than one machine uses.
//!
//! Each has one meaning, and one spelling in settings, logs and metrics: its [`name`](Tier::name). A word that is not
//! on its list is an error that says what the list is, never a default.

/// Writes an enum whose values have names: the list of all, the name of each, and the way back.
macro_rules! words {
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

            /// The value of this name.
            pub fn parse(text: &str) -> Result<Self, $crate::setting::SettingError> {
                match text {
                    $( $name => Ok(Self::$variant), )+
                    _ => {
                        let known = [$($name),+].join(", ");
                        let problem = format!("{text:?} is none of {known}");
                        Err($crate::setting::SettingError::new($what, problem))
                    }
                }
            }

            /// The place in [`ALL`](Self::ALL), to index a table with.
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
pub(crate) use words;

words! {
    /// The field in which a server that speaks as OpenAI does takes the limit of output. Servers that know only one of
    /// the two ignore or refuse the other.
    pub enum OutputLimitField as "output_limit_field" {
        /// What OpenAI and Azure take, and what their reasoning models demand.
        MaxCompletionTokens = "max_completion_tokens",
        /// What most other servers take.
        MaxTokens = "max_tokens",
    }
}

impl OutputLimitField {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::MaxCompletionTokens => Self::MaxTokens,
            Self::MaxTokens => Self::MaxCompletionTokens,
        }
    }
}

words! {
    /// What a caller is entitled to.
    ///
    /// ```
    /// use seawall_core::vocabulary::Tier;
    ///
    /// assert_eq!(Tier::parse("prime"), Ok(Tier::Prime));
    /// let error = Tier::parse("gold").unwrap_err();
    /// assert_eq!(error.to_string(), "tier: \"gold\" is none of prime, standard, guest");
    /// ```
    pub enum Tier as "tier" {
        /// The most.
        Prime = "prime",
        /// The usual.
        Standard = "standard",
        /// The least.
        Guest = "guest",
    }
}

words! {
    /// How strong a model is.
    pub enum Grade as "grade" {
        /// Answers quickly and cheaply.
        Fast = "fast",
        /// Answers best.
        Strong = "strong",
    }
}

words! {
    /// The highest grade a request may use. The lower, the more it restricts: of several the least one holds.
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

words! {
    /// What a message is about.
    pub enum Intent as "intent" {
        /// A question that the shop answers for everybody alike.
        Faq = "faq",
        /// Looking for something to read.
        ProductDiscovery = "product_discovery",
        /// A question about one product.
        ProductQuestion = "product_question",
        /// Asking for advice on what to read.
        Recommendation = "recommendation",
        /// A question about an offer.
        Promotion = "promotion",
        /// Something about the caller's own order.
        Order = "order",
        /// Small talk.
        Chitchat = "chitchat",
        /// Nobody could tell.
        Unknown = "unknown",
    }
}

words! {
    /// One way to answer, in the order in which they are tried.
    pub enum Rung as "rung" {
        /// A prepared answer.
        Template = "template",
        /// An answer from the cache, not older than it may be.
        FreshCache = "fresh_cache",
        /// A strong model.
        StrongModel = "strong_model",
        /// A fast model.
        FastModel = "fast_model",
        /// An answer from the cache that is older than it should be.
        StaleCache = "stale_cache",
        /// The nearest answer to a frequent question.
        Faq = "faq",
        /// An honest apology.
        Apology = "apology",
    }
}

words! {
    /// What a protection does with its verdict.
    pub enum Mode as "mode" {
        /// It acts on it.
        Enforce = "enforce",
        /// It records what it would have done.
        Observe = "observe",
        /// It measures and has no verdict.
        Off = "off",
    }
}

words! {
    /// How far the shop has stepped down, from nothing to everything.
    pub enum Level as "level" {
        /// All is well.
        Normal = "normal",
        /// Rerank nothing.
        Pressure = "pressure",
        /// Fast models, one chunk of retrieval.
        HighLoad = "high_load",
        /// No model for guests.
        Overload = "overload",
        /// No model for anybody.
        Emergency = "emergency",
    }
}

words! {
    /// How the day's money stands.
    pub enum CostState as "cost_state" {
        /// There is enough.
        Normal = "normal",
        /// It runs out sooner than the day.
        Warning = "warning",
        /// It is gone.
        Spent = "spent",
    }
}

words! {
    /// Whose turn comes first. The first of them goes before all others.
    pub enum Priority as "priority" {
        /// What keeps the shop itself alive.
        Critical = "critical",
        /// Prime callers, and those with something in the cart.
        High = "high",
        /// Callers we know.
        Normal = "normal",
        /// Guests.
        Low = "low",
        /// Work that nobody waits for.
        Bulk = "bulk",
    }
}

#[cfg(test)]
mod tests {
    use super::{Ceiling, CostState, Grade, Intent, Level, Mode, OutputLimitField, Priority, Rung, Tier};

    #[test]
    fn every_name_leads_back_to_its_value_and_its_place() {
        macro_rules! check {
            ($($type:ident),+) => {$(
                for (place, value) in $type::ALL.into_iter().enumerate() {
                    assert_eq!($type::parse(value.name()), Ok(value));
                    assert_eq!((value.index(), value.to_string().as_str()), (place, value.name()));
                }
                assert!($type::parse("").is_err() && $type::parse("Prime").is_err());
            )+};
        }
        check!(OutputLimitField, Tier, Grade, Ceiling, Intent, Rung, Mode, Level, CostState, Priority);
    }

    #[test]
    fn a_ceiling_allows_what_is_not_above_it() {
        let allowed = |ceiling: Ceiling| Grade::ALL.map(|grade| ceiling.allows(grade));
        assert_eq!(Ceiling::ALL.map(allowed), [[false, false], [true, false], [true, true]]);
    }
}
