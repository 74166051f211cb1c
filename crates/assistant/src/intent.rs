//! What a message is about, and what that implies.

use seawall_core::cache_policy::Question;
use seawall_core::vocabulary::{RetrievalNeed, named_enum};

named_enum! {
    /// What a message is about.
    pub enum Intent as "intent" {
        /// A frequent question with the same answer for all callers.
        Faq = "faq",
        /// Looking for something to read.
        ProductDiscovery = "product_discovery",
        /// A question about one product.
        ProductQuestion = "product_question",
        /// Asking for advice on what to read.
        Recommendation = "recommendation",
        /// A question about an offer.
        Promotion = "promotion",
        /// A question about the caller's own order.
        Order = "order",
        /// Small talk.
        Chitchat = "chitchat",
        /// The intent could not be determined.
        Unknown = "unknown",
    }
}

impl Intent {
    /// How much an answer depends on retrieved documents.
    #[must_use]
    pub const fn retrieval_need(self) -> RetrievalNeed {
        match self {
            Self::Promotion | Self::Order | Self::Chitchat => RetrievalNeed::None,
            Self::ProductDiscovery | Self::Unknown => RetrievalNeed::Optional,
            Self::Faq | Self::ProductQuestion | Self::Recommendation => RetrievalNeed::Required,
        }
    }

    /// Whether all callers get the same answer, so that it may be cached for all. Recommendations are not: what they
    /// were based on cannot be seen from their text.
    #[must_use]
    pub const fn is_context_free(self) -> bool {
        match self {
            Self::Faq | Self::ProductDiscovery | Self::ProductQuestion | Self::Promotion => true,
            Self::Recommendation | Self::Order | Self::Chitchat | Self::Unknown => false,
        }
    }

    /// A question of this intent, as the answer cache sees it.
    ///
    /// ```
    /// use seawall_assistant::intent::Intent;
    /// use seawall_core::cache_policy::ScopeDecision;
    ///
    /// assert_eq!(Intent::Faq.question("送料は?", "", false).scope(), ScopeDecision::Public);
    /// assert_ne!(Intent::Order.question("送料は?", "", false).scope(), ScopeDecision::Public);
    /// ```
    #[must_use]
    pub const fn question<'a>(self, text: &'a str, history: &'a str, uses_account: bool) -> Question<'a> {
        Question { intent: self.name(), is_context_free: self.is_context_free(), text, history, uses_account }
    }
}

#[cfg(test)]
mod tests {
    use super::Intent;
    use seawall_core::cache_policy::{CacheKey, KeyParts, PrivateReason, ScopeDecision};
    use seawall_core::ladder::LevelPermits;
    use seawall_core::vocabulary::Level;

    #[test]
    fn every_name_parses_to_its_value_and_index() {
        for (index, value) in Intent::ALL.into_iter().enumerate() {
            assert_eq!(Intent::parse(value.name()), Ok(value));
            assert_eq!((value.index(), value.to_string().as_str()), (index, value.name()));
        }
        assert!(Intent::parse("").is_err() && Intent::parse("Faq").is_err());
    }

    #[test]
    fn the_higher_the_level_the_more_is_answered_without_retrieval() {
        for (intent, bypassed) in [
            (Intent::Faq, [false, false, false, false, true]),
            (Intent::ProductDiscovery, [false, false, true, true, true]),
            (Intent::ProductQuestion, [false, false, false, false, true]),
            (Intent::Recommendation, [false, false, false, false, true]),
            (Intent::Promotion, [true; 5]),
            (Intent::Order, [true; 5]),
            (Intent::Chitchat, [true; 5]),
            (Intent::Unknown, [false, false, true, true, true]),
        ] {
            let covers = |level| LevelPermits::of(level).bypass.covers(intent.retrieval_need());
            assert_eq!(Level::ALL.map(covers), bypassed, "{intent}");
        }
    }

    #[test]
    fn only_caller_independent_intents_are_public() {
        for intent in Intent::ALL {
            let expected = match intent {
                Intent::Faq | Intent::ProductDiscovery | Intent::ProductQuestion | Intent::Promotion => {
                    ScopeDecision::Public
                }
                _ => ScopeDecision::Private(PrivateReason::Intent),
            };
            assert_eq!(intent.question("送料は?", "", false).scope(), expected, "{intent}");
            let history = intent.question("送料は?", "x", false).scope();
            assert!(matches!(history, ScopeDecision::Private(_)));
            let account = intent.question("送料は?", "", true).scope();
            assert!(matches!(account, ScopeDecision::Private(_)));
        }
    }

    #[test]
    fn no_caller_sees_the_answer_to_anothers_order() {
        let parts = KeyParts { route: "chat", locale: "ja-JP", prompt_version: "7", catalogue_version: "c1" };
        let key = |intent: Intent, caller| {
            CacheKey::of(&intent.question("where is my order", "", false), caller, &parts).unwrap()
        };
        assert_ne!(key(Intent::Order, "ann"), key(Intent::Order, "bob"));
        // Even if misclassified as FAQ, the answer stays private.
        let answer = "Order 250-1234567-1234567 arrives tomorrow.";
        let stored = |caller| {
            let question = Intent::Faq.question("where is my order", "", false);
            CacheKey::for_answer(&question, answer, caller, &parts).unwrap()
        };
        assert!(!stored("ann").is_public() && key(Intent::Faq, "ann").is_public());
        assert_ne!(stored("ann"), stored("bob"));
    }

    #[test]
    fn the_intent_is_part_of_the_key() {
        let parts = KeyParts { route: "chat", locale: "ja", prompt_version: "7", catalogue_version: "c1" };
        let key = |intent: Intent| CacheKey::of(&intent.question("hi", "", false), "ann", &parts).unwrap();
        let keys: std::collections::BTreeSet<_> = Intent::ALL.map(key).into();
        assert_eq!(keys.len(), Intent::ALL.len());
    }
}
