//! What the assistant says, where state is kept, switches, and what is measured.

use crate::field::List;
use crate::kind::{
    Count, Date, FilePath, Flag, Locale, LogPlace, Number, Percent, Secret, Small, Span, StoreKind, Text, Url,
};
use crate::section::section;
use seawall_core::vocabulary::Mode;

section! {
    /// What the shop's assistant is told and what it knows.
    pub(crate) struct Assistant {
        /// The language of who says nothing of theirs.
        locale: Locale,
        /// The instructions, by language.
        prompts: Prompts,
        /// Another version forgets every kept answer.
        prompt_version: Text,
        /// The file with the products.
        catalogue: Option<FilePath>,
        /// Another version forgets every kept answer.
        catalogue_version: Text,
        /// The file with frequent questions and their answers.
        faq: Option<FilePath>,
        /// The file with prepared answers.
        templates: Option<FilePath>,
        /// The file that says what questions of each kind look like.
        intents: Option<FilePath>,
        /// Texts that no request of the chat's route may hold, and no answer of the chat; they are looked for however they are
        /// spelled. Other routes have `routes.NAME.deny`.
        deny: List<Text>,
        /// How freely the model words its answers.
        temperature: Number,
        /// How many found items go into a prompt.
        retrieved_items: Small,
        /// How many characters of each.
        retrieved_characters: Small,
        /// How long looking things up may take.
        retrieval_time: Span,
    }
}

section! {
    /// The instructions of the assistant, by language.
    pub(crate) struct Prompts {
        /// In Japanese.
        ja: Text,
        /// In English.
        en: Text,
    }
}

section! {
    /// Where state is kept.
    pub(crate) struct Store {
        /// What keeps it.
        kind: StoreKind [restart],
        /// The folder of an embedded store.
        folder: FilePath [restart],
        /// The Redis of a fleet.
        redis: Option<Redis>,
        /// What is kept of conversations.
        session: Session,
    }
}

section! {
    /// The Redis of a fleet.
    pub(crate) struct Redis {
        /// Where it is reached, such as `redis://cache:6379`, or `rediss://cache:6379` for TLS.
        url: Option<Url> [restart],
        /// The file with the authorities that may vouch for it by TLS, in PEM; without it those of the machine.
        ca_file: Option<FilePath> [restart],
        /// Its password.
        password: Option<Secret> [restart],
        /// How long one operation may take.
        operation_time: Span = "\"25ms\"",
        /// Whether it is a cluster.
        cluster: Flag [restart] = "false",
        /// What every key begins with.
        prefix: Text [restart] = "\"seawall\"",
        /// The least number of nodes that share its limits. A node that has never reached Redis decides by its part of every
        /// limit; without this setting it knows only the fleet size that it last saw, kept in `store.folder`, or itself.
        fleet_size: Option<Small> [restart],
    }
}

section! {
    /// What is kept of conversations.
    pub(crate) struct Session {
        /// Turns that are kept.
        turns: Small,
        /// How long a conversation is kept after its last turn.
        keep_for: Span,
    }
}

section! {
    /// What an operator can switch off. All are on unless somebody has a reason.
    pub(crate) struct Switches as "switch" or UnknownSwitch {
        /// Limits by caller and by route.
        rate_limit_enabled: Flag,
        /// What a warning or a spent day mean for models.
        cost_circuit_breaker_enabled: Flag,
        /// What the level means for models.
        degradation_controller_enabled: Flag,
        /// The smaller service for guests.
        guest_lite_pipeline_enabled: Flag,
        /// The ceiling of the night.
        off_peak_tier_ceiling_enabled: Flag,
        /// Models as a whole. Off, none is called, whoever asks.
        model_invocation_enabled: Flag,
    }
}

section! {
    /// Whether a protection acts, is only tried, or rests.
    pub(crate) struct Modes as "protection" or UnknownProtection {
        /// Limits by caller and by route.
        rate_limit: Mode,
        /// What a warning or a spent day mean for models.
        cost_circuit_breaker: Mode,
        /// What the level means for models.
        degradation_controller: Mode,
        /// The smaller service for guests.
        guest_lite_pipeline: Mode,
        /// The ceiling of the night.
        off_peak_tier_ceiling: Mode,
    }
}

section! {
    /// Bringing protections in by degrees.
    pub(crate) struct Rollout {
        /// A factor on every limit that changes over time.
        limits: Option<RampSection>,
        /// A factor on the day's money that changes over time.
        budget: Option<RampSection>,
        /// The share of guests who get the smaller service; all of them where nothing is said.
        guest_lite: Option<Percent>,
    }
}

section! {
    /// A factor that changes evenly over time.
    pub(crate) struct RampSection {
        /// The factor at first.
        from: Number,
        /// The factor in the end.
        to: Number,
        /// The day on which it begins to change.
        starts: Date,
        /// How long it changes.
        lasts: Span,
    }
}

section! {
    /// What is told of requests, and to whom.
    pub(crate) struct Telemetry {
        /// Where a line for each request goes.
        access_log: LogPlace [restart],
        /// Where traces are sent, by OTLP.
        otlp: Option<Url> [restart],
        /// The share of ordinary requests whose traces are kept; those of failures always are.
        sampling: Percent,
        /// Traces a second that are kept whatever the share says.
        sampled_per_second: Count,
        /// What callers' pseudonyms in logs are made with. Without it that is derived from the master secret, which is kept in the state directory and new at each start where state is kept in memory.
        salt: Option<Secret>,
        /// Whether the admin listener serves `/metrics`.
        metrics: Flag,
        /// Whether the callers' listener serves `/metrics`, too. The page needs no credential there and shows spend by tier.
        public_metrics: Flag = "false",
    }
}
