//! The features of requests that change what a model does, and which dialect can express them.
//!
//! Every feature has one row in [the table](super::FEATURES). When a request is translated, each feature that it uses is
//! written for the target, or declared to be ignorable with a reason, or the target cannot be called with this request:
//! [`ChatRequest::refuse_unsupported`] returns the error that names the feature. Nothing is dropped silently; fields that
//! belong to no feature are refused by the [field rules](super::ObjectRule) of the caller's dialect.

use super::feature_table::FEATURES;
use super::{ChatRequest, Document, Image, OutputFormat, RequestPart, ToolChoice};
use crate::RequestError;

/// A feature that a request can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChatFeature {
    /// The answer must satisfy a JSON Schema.
    StructuredOutput,
    /// The answer must be JSON of any form.
    JsonMode,
    /// How much the model thinks.
    Reasoning,
    /// A summary of the thoughts is shown.
    ReasoningSummary,
    /// The model must call a tool, or a certain one.
    ForcedTool,
    /// The model must not call the tools that it is offered.
    NoTool,
    /// The model may call only some of the tools.
    AllowedTools,
    /// At most one tool call per turn.
    SingleToolCall,
    /// The vendor enforces the schemas of tools.
    StrictTools,
    /// Tools whose input is free text.
    CustomTools,
    /// Images in the request.
    Images,
    /// Images by URL.
    ImageUrls,
    /// Documents in the request.
    Documents,
    /// Documents by URL.
    DocumentUrls,
    /// Stop sequences.
    StopSequences,
    /// Temperature and nucleus sampling.
    Sampling,
    /// A temperature above 1.
    HighTemperature,
    /// Sampling from the most likely tokens.
    TopK,
    /// A seed.
    Seed,
    /// Penalties for repeated tokens.
    Penalties,
    /// Likelihoods of single tokens.
    LogitBias,
    /// The length of the answer.
    Verbosity,
    /// Several answers to one request.
    Choices,
    /// Log probabilities of tokens.
    LogProbabilities,
    /// Marks up to which the vendor caches the prompt.
    CachePoints,
    /// Names of users and requests for the vendor's reports.
    Identifiers,
    /// The service tier or speed.
    ServiceTier,
    /// The resolution at which images are read.
    ImageDetail,
    /// Encrypted or signed thoughts of earlier turns.
    ReasoningState,
    /// The vendor shortens long conversations.
    ContextEditing,
    /// An offer to search the web in OpenAI Responses.
    WebSearchOffer,
    /// Calls and results of the vendor's own tools in earlier turns.
    VendorToolHistory,
    /// Hints that affect only how fast or in what pieces an answer arrives.
    Delivery,
}

/// A column of the table: a dialect, or two that have the same bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureColumn {
    /// Anthropic Messages, and InvokeModel with Anthropic's bodies.
    Anthropic,
    /// OpenAI chat completions.
    OpenAi,
    /// OpenAI Responses.
    Responses,
    /// Bedrock Converse.
    Converse,
    /// Gemini.
    Gemini,
}

impl FeatureColumn {
    /// All columns, in the order of the cells of a row.
    pub const ALL: [Self; 5] = [Self::Anthropic, Self::OpenAi, Self::Responses, Self::Converse, Self::Gemini];

    pub(super) const fn index(self) -> usize {
        match self {
            Self::Anthropic => 0,
            Self::OpenAi => 1,
            Self::Responses => 2,
            Self::Converse => 3,
            Self::Gemini => 4,
        }
    }
}

/// What one dialect can do with a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureCell {
    /// The dialect has the feature in this field, and translations to and from it keep it.
    Field(&'static str),
    /// The dialect has no such field, but the request can be written so that it has the same effect.
    Emulated(&'static str),
    /// The dialect has the feature in this field, but it is not translated.
    OwnOnly(&'static str),
    /// The dialect does not have the feature.
    Absent,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct FeatureRow {
    /// The feature.
    pub feature: ChatFeature,
    /// The name in error messages and in the documentation.
    pub name: &'static str,
    /// Why a target that does not have the feature can be called without it; `None` if it cannot.
    pub ignorable: Option<&'static str>,
    /// One cell per [column](FeatureColumn::ALL).
    pub cells: [FeatureCell; 5],
}

/// What happens to a feature on the way to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureSupport {
    /// It is written for the target.
    Carried,
    /// The target is called without it, for this reason.
    Ignored(&'static str),
    /// The target cannot be called.
    Unsupported,
}

impl ChatFeature {
    /// The row of the table.
    #[must_use]
    pub fn row(self) -> &'static FeatureRow {
        // A test checks that every feature has a row.
        FEATURES.iter().find(|row| row.feature == self).unwrap_or(&FEATURES[0])
    }

    /// What happens to the feature on the way to a target of this dialect.
    #[must_use]
    pub fn support(self, target: FeatureColumn) -> FeatureSupport {
        let row = self.row();
        match (row.cells[target.index()], row.ignorable) {
            (FeatureCell::Field(_) | FeatureCell::Emulated(_), _) => FeatureSupport::Carried,
            (_, Some(reason)) => FeatureSupport::Ignored(reason),
            (FeatureCell::OwnOnly(_) | FeatureCell::Absent, None) => FeatureSupport::Unsupported,
        }
    }

    /// The field of the feature in a caller's dialect, if it has one.
    #[must_use]
    pub fn field_in(self, caller: FeatureColumn) -> Option<&'static str> {
        match self.row().cells[caller.index()] {
            FeatureCell::Field(field) | FeatureCell::OwnOnly(field) => Some(field),
            FeatureCell::Emulated(_) | FeatureCell::Absent => None,
        }
    }

    /// The error for a target that does not have the feature.
    pub(crate) fn unsupported(self) -> RequestError {
        let row = self.row();
        let fields = row.cells.iter().find_map(|cell| match cell {
            FeatureCell::Field(field) | FeatureCell::OwnOnly(field) => Some(*field),
            FeatureCell::Emulated(_) | FeatureCell::Absent => None,
        });
        let field = fields.unwrap_or(row.name).to_owned();
        RequestError::Untranslatable { field, problem: row.name, feature: Some(self) }
    }
}

impl ChatRequest {
    /// Whether the request uses a feature. Features that are not part of the neutral form are never used here.
    #[must_use]
    pub fn uses(&self, feature: ChatFeature) -> bool {
        let settings = &self.settings;
        let has = |wanted: &dyn Fn(&RequestPart) -> bool| {
            self.turns.iter().flat_map(|turn| &turn.parts).any(|part| match part {
                RequestPart::ToolResult { parts, .. } => parts.iter().any(wanted),
                part => wanted(part),
            })
        };
        match feature {
            ChatFeature::StructuredOutput => matches!(settings.output_format, OutputFormat::Schema(_)),
            ChatFeature::JsonMode => settings.output_format == OutputFormat::Json,
            ChatFeature::Reasoning => settings.reasoning.is_set(),
            ChatFeature::ReasoningSummary => settings.reasoning.shows_summary,
            ChatFeature::ForcedTool => {
                self.has_tools() && matches!(self.tool_choice, ToolChoice::Any | ToolChoice::Named(_))
            }
            ChatFeature::NoTool => self.has_tools() && self.tool_choice == ToolChoice::None,
            ChatFeature::AllowedTools => !settings.allowed_tools.is_empty(),
            ChatFeature::SingleToolCall => settings.single_tool_call && self.has_tools(),
            ChatFeature::StrictTools => self.tools.iter().any(|tool| tool.strict),
            ChatFeature::CustomTools => !settings.custom_tools.is_empty(),
            ChatFeature::Images => has(&|part| matches!(part, RequestPart::Image(_))),
            ChatFeature::ImageUrls => has(&|part| matches!(part, RequestPart::Image(Image::Url(_)))),
            ChatFeature::Documents => has(&|part| matches!(part, RequestPart::Document(_))),
            ChatFeature::DocumentUrls => {
                has(&|part| matches!(part, RequestPart::Document(Document { content: Image::Url(_), .. })))
            }
            ChatFeature::StopSequences => !self.stop.is_empty(),
            ChatFeature::Sampling => self.temperature.is_some() || self.top_p.is_some(),
            ChatFeature::HighTemperature => {
                self.temperature.is_some_and(|degree| degree.is_finite() && degree > 1.0)
            }
            ChatFeature::TopK => settings.top_k.is_some(),
            ChatFeature::Seed => settings.seed.is_some(),
            ChatFeature::Penalties => {
                settings.presence_penalty.is_some() || settings.frequency_penalty.is_some()
            }
            ChatFeature::LogitBias => settings.logit_bias.is_some(),
            ChatFeature::Verbosity => settings.verbosity.is_some(),
            ChatFeature::Choices => settings.choices.is_some(),
            ChatFeature::LogProbabilities => settings.log_probabilities.is_some(),
            ChatFeature::CachePoints => !settings.cache_points.is_empty(),
            // These are not part of the neutral form: the field rules of the dialects name their fields.
            ChatFeature::Identifiers
            | ChatFeature::ServiceTier
            | ChatFeature::ImageDetail
            | ChatFeature::ReasoningState
            | ChatFeature::ContextEditing
            | ChatFeature::WebSearchOffer
            | ChatFeature::VendorToolHistory
            | ChatFeature::Delivery => false,
        }
    }

    /// Returns an error for the first feature that the request uses and a target of this dialect does not have.
    pub(crate) fn refuse_unsupported(&self, target: FeatureColumn) -> Result<(), RequestError> {
        let is_unsupported = |feature: &ChatFeature| {
            feature.support(target) == FeatureSupport::Unsupported && self.uses(*feature)
        };
        match FEATURES.iter().map(|row| row.feature).find(is_unsupported) {
            Some(feature) => Err(feature.unsupported()),
            None => Ok(()),
        }
    }

    fn has_tools(&self) -> bool {
        !self.tools.is_empty()
    }
}
