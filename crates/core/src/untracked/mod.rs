//! Upper bound of the input tokens that a call may be billed for.
//!
//! No tokenizer makes more tokens than bytes, so that the bytes of a request bound its text. They do not bound input
//! by reference: a document by its URL, a file by its id, an earlier response that is continued, or a tool that the
//! vendor runs and whose results it reads as input again. Why reserve a bound for these instead of waiting for the
//! bill? A hundred concurrent calls would each be admitted against money that all of them spend.
//!
//! Each feature is reserved at the tightest bound that its vendor publishes. One pass over the input never bills more
//! than the model's context window. What is reserved for a feature is a setting ([`UntrackedRule`]).

use crate::media::{ImageSize, ImageTokens};
use crate::vocabulary::named_enum;
use std::fmt;

/// Tokens that a vendor may add to the caller's input.
const OVERHEAD: u64 = 300;
/// Tokens that a vendor adds for a tool that it defines itself; computer use has the longest definition.
const VENDOR_TOOL: u64 = 5_000;
/// Maximum number of pages that vendors read of one document.
pub const MAX_PAGES: u64 = 600;
/// Usual maximum of text tokens on a page, besides its image.
const PAGE_TEXT: u64 = 3_000;
/// Assumed number of uses of a server tool if the request does not limit it.
pub const USUAL_TOOL_USES: u64 = 5;

named_enum! {
    /// A kind of billed input that is not contained in the request.
    pub enum InputFeature as "feature" {
        /// An image by its URL, file id or bucket location.
        Image = "image",
        /// A document or file by its URL, id or bucket location.
        Document = "document",
        /// An earlier response or conversation stored by the vendor.
        PreviousResponse = "previous_response",
        /// Named context stored by the vendor.
        CachedContext = "cached_context",
        /// A tool that the vendor runs: web search, code execution, connectors.
        ServerTool = "server_tool",
    }
}

/// What is reserved for a feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UntrackedRule {
    /// Refuse requests that use it.
    Refuse,
    /// Reserve its tightest bound.
    #[default]
    Reserve,
    /// Reserve this many tokens for each use.
    ReserveTokens(u64),
    /// Reserve nothing: the cost is known only from the bill.
    Allow,
}

/// The rule of each feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UntrackedRules([UntrackedRule; InputFeature::ALL.len()]);

impl UntrackedRules {
    /// The rules in the order of [`InputFeature::ALL`].
    #[must_use]
    pub const fn new(rules: [UntrackedRule; InputFeature::ALL.len()]) -> Self {
        Self(rules)
    }

    /// The rule of a feature.
    #[must_use]
    pub const fn of(&self, feature: InputFeature) -> UntrackedRule {
        self.0[feature.index()]
    }
}

/// Contents and references of a request that its bytes do not bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UntrackedInput {
    /// Inline images; `None` if the size could not be read.
    pub images: Vec<Option<ImageSize>>,
    /// Bytes of the request taken by these images and documents. They are not billed as text.
    pub media_bytes: u64,
    /// Number of images by reference.
    pub referenced_images: u64,
    /// Pages of inline documents.
    pub pages: u64,
    /// Number of documents and files by reference.
    pub referenced_documents: u64,
    /// Whether an earlier response is continued.
    pub continues_response: bool,
    /// Whether context stored by the vendor is referenced.
    pub cached_context: bool,
    /// Maximum number of uses of vendor-run tools, if any are allowed.
    pub tool_uses: Option<u64>,
    /// Number of tools that the caller runs and the vendor defines.
    pub vendor_tools: u64,
}

/// What is known about a model's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputModel {
    /// Context window in tokens.
    pub window: Option<u64>,
    /// How it counts images.
    pub images: ImageTokens,
    /// What is reserved for input by reference.
    pub rules: UntrackedRules,
}

impl InputModel {
    /// The input properties of the model with this id, with its window if known.
    #[must_use]
    pub fn of(model: &str, window: Option<u64>) -> Self {
        Self { window, images: ImageTokens::of_model(model), rules: UntrackedRules::default() }
    }
}

/// Upper bound of the billed input of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputBound {
    /// Tokens over all passes.
    pub tokens: u64,
    /// Uses of vendor-run tools, which may have a fee.
    pub tool_uses: u64,
    /// The feature with the largest part, and that part, unless bytes alone make up the bound.
    pub largest: Option<(InputFeature, u64)>,
}

/// Why the input of a request has no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputProblem {
    /// The settings refuse the feature.
    Refused(InputFeature),
    /// Its bound is the model's context window, which is unknown.
    UnknownContextWindow(InputFeature),
}

impl fmt::Display for InputProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(feature) => write!(
                formatter,
                "input by reference ({feature}) is not accepted here (limits.untracked_input.{feature} = \"refuse\"); \
                 send the content itself"
            ),
            Self::UnknownContextWindow(feature) => write!(
                formatter,
                "the cost of input by reference ({feature}) cannot be bounded: the context window of this model is unknown; \
                 an operator can set models.NAME.context_window or limits.untracked_input.{feature}"
            ),
        }
    }
}

/// The bound of a request of this many bytes.
///
/// ```
/// use seawall_core::untracked::{InputModel, UntrackedInput, input_bound};
///
/// let model = InputModel::of("claude-opus-5", Some(200_000));
/// let document = UntrackedInput { referenced_documents: 1, ..UntrackedInput::default() };
/// assert_eq!(input_bound(209, None, &model)?.tokens, 509);
/// assert_eq!(input_bound(209, Some(&document), &model)?.tokens, 200_000);
/// # Ok::<(), seawall_core::untracked::InputProblem>(())
/// ```
pub fn input_bound(
    bytes: u64,
    untracked: Option<&UntrackedInput>,
    model: &InputModel,
) -> Result<InputBound, InputProblem> {
    let window = model.window.unwrap_or(u64::MAX);
    let Some(input) = untracked else {
        let tokens = bytes.saturating_add(OVERHEAD).min(window);
        return Ok(InputBound { tokens, tool_uses: 0, largest: None });
    };
    let text = bytes.saturating_sub(input.media_bytes).saturating_add(OVERHEAD);
    let images: u64 = sum(input.images.iter().map(|size| model.images.of(*size)));
    let described = input.vendor_tools.saturating_mul(VENDOR_TOOL);
    let mut parts = InputParts { rules: &model.rules, window: model.window, largest: None, total: 0 };
    let per_page = PAGE_TEXT.saturating_add(model.images.max());
    parts.add(InputFeature::Image, input.referenced_images, |_| Some(model.images.max()))?;
    parts.add(InputFeature::Document, input.referenced_documents, |window| {
        Some(window?.min(MAX_PAGES.saturating_mul(per_page)))
    })?;
    parts.add(InputFeature::PreviousResponse, input.continues_response.into(), |window| window)?;
    parts.add(InputFeature::CachedContext, input.cached_context.into(), |window| window)?;
    let one_pass =
        sum([text, images, input.pages.saturating_mul(per_page), described, parts.total]).min(window);
    let uses = input.tool_uses.unwrap_or(0);
    // Each use may bill all input again, with the tool's results.
    let is_any = input.tool_uses.is_some().into();
    let mut tool_parts = InputParts { total: 0, ..parts };
    tool_parts.add(InputFeature::ServerTool, is_any, |window| {
        Some(window?.saturating_mul(uses.saturating_add(1)))
    })?;
    let tokens = match (input.tool_uses, model.rules.of(InputFeature::ServerTool)) {
        (Some(_), UntrackedRule::Reserve) => tool_parts.total,
        _ => one_pass.saturating_add(tool_parts.total),
    };
    Ok(InputBound { tokens, tool_uses: uses, largest: tool_parts.largest })
}

fn sum(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

struct InputParts<'a> {
    rules: &'a UntrackedRules,
    window: Option<u64>,
    largest: Option<(InputFeature, u64)>,
    total: u64,
}

impl InputParts<'_> {
    /// Adds a feature that occurs `times` times, by its rule.
    fn add(
        &mut self,
        feature: InputFeature,
        times: u64,
        bound: impl Fn(Option<u64>) -> Option<u64>,
    ) -> Result<(), InputProblem> {
        if times == 0 {
            return Ok(());
        }
        let each = match self.rules.of(feature) {
            UntrackedRule::Refuse => return Err(InputProblem::Refused(feature)),
            UntrackedRule::Allow => 0,
            UntrackedRule::ReserveTokens(tokens) => tokens,
            UntrackedRule::Reserve => {
                bound(self.window).ok_or(InputProblem::UnknownContextWindow(feature))?
            }
        };
        let part = each.saturating_mul(times);
        self.total = self.total.saturating_add(part);
        if self.largest.is_none_or(|(_, largest)| part > largest) {
            self.largest = Some((feature, part));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
