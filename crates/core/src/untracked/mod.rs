//! How many tokens of input a call may be billed for.
//!
//! No tokenizer makes more tokens than bytes, so the bytes of a request bound its text. They do not bound what a request only
//! names: a document by its URL, a file by its id, an earlier answer that is continued, or a tool that the vendor runs and
//! whose results it reads as input again. Why reserve a bound for these, and not wait for the bill? A hundred calls at once
//! would each be admitted against money that all of them spend.
//!
//! Each feature is reserved at the tightest bound that its vendor publishes. One pass over the input never bills more than the
//! model's window. What a feature reserves is a setting ([`UntrackedRule`]).

use crate::media::{ImageSize, ImageTokens};
use crate::vocabulary::words;
use std::fmt;

/// Tokens that a vendor may add to what the caller wrote.
const OVERHEAD: u64 = 300;
/// Tokens that a vendor adds for a tool whose description is its own; computer use has the longest.
const VENDOR_TOOL: u64 = 5_000;
/// Vendors read no more pages of one document.
pub const MAX_PAGES: u64 = 600;
/// The most tokens of text that a page usually has, beside its picture.
const PAGE_TEXT: u64 = 3_000;
/// How often a server tool is taken to be used where the request does not limit it.
pub const USUAL_TOOL_USES: u64 = 5;

words! {
    /// A way to have input billed that is not in the request.
    pub enum InputFeature as "feature" {
        /// A picture by its URL, file id or place in a bucket.
        Image = "image",
        /// A document or file by its URL, id or place in a bucket.
        Document = "document",
        /// An earlier answer or conversation that the vendor keeps.
        PreviousResponse = "previous_response",
        /// Context that the vendor keeps by name.
        CachedContext = "cached_context",
        /// A tool that the vendor runs: web search, code execution, connectors.
        ServerTool = "server_tool",
    }
}

/// What is reserved for a feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UntrackedRule {
    /// A request with it is refused.
    Refuse,
    /// Its tightest bound.
    #[default]
    Reserve,
    /// This many tokens for each.
    ReserveTokens(u64),
    /// Nothing: what it costs is only found in the bill.
    Allow,
}

/// What is reserved for each feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UntrackedRules([UntrackedRule; InputFeature::ALL.len()]);

impl UntrackedRules {
    /// These rules, in the order of [`InputFeature::ALL`].
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

/// What a request has in it, or asks for, that its bytes do not bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UntrackedInput {
    /// Pictures whose bytes are in the request; no size where it could not be read.
    pub images: Vec<Option<ImageSize>>,
    /// Bytes of the request that these pictures and documents take. They are not read as text.
    pub media_bytes: u64,
    /// Pictures that are only named.
    pub named_images: u64,
    /// Pages of documents whose bytes are in the request.
    pub pages: u64,
    /// Documents and files that are only named.
    pub named_documents: u64,
    /// Whether an earlier answer is continued.
    pub continues: bool,
    /// Whether context that the vendor keeps is named.
    pub cached_context: bool,
    /// How often tools of the vendor may be used, if any may.
    pub tool_uses: Option<u64>,
    /// Tools that the caller runs and the vendor describes.
    pub vendor_tools: u64,
}

/// What is known of a model's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputModel {
    /// Tokens that it can hold.
    pub window: Option<u64>,
    /// How it counts pictures.
    pub images: ImageTokens,
    /// What is reserved for input that the request only names.
    pub rules: UntrackedRules,
}

impl InputModel {
    /// Of the model of this id, with a window if that is known.
    #[must_use]
    pub fn of(model: &str, window: Option<u64>) -> Self {
        Self { window, images: ImageTokens::of_model(model), rules: UntrackedRules::default() }
    }
}

/// The most input that a call may be billed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputBound {
    /// Tokens, over all passes.
    pub tokens: u64,
    /// Uses of tools that the vendor runs, which may have a fee.
    pub tool_uses: u64,
    /// The feature that takes the most of it, with its part, where bytes alone are not all of it.
    pub largest: Option<(InputFeature, u64)>,
}

/// Why the input of a request has no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputProblem {
    /// The settings refuse the feature.
    Refused(InputFeature),
    /// Its bound is the model's window, which is not known.
    NoWindow(InputFeature),
}

impl fmt::Display for InputProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(feature) => write!(
                formatter,
                "input by reference ({feature}) is not accepted here (limits.untracked_input.{feature} = \"refuse\"); \
                 send the content itself"
            ),
            Self::NoWindow(feature) => write!(
                formatter,
                "the cost of input by reference ({feature}) cannot be bounded: the window of this model is not known; \
                 an operator can set models.NAME.window or limits.untracked_input.{feature}"
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
/// let document = UntrackedInput { named_documents: 1, ..UntrackedInput::default() };
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
    let mut parts = Parts { rules: &model.rules, window: model.window, largest: None, total: 0 };
    let per_page = PAGE_TEXT.saturating_add(model.images.max());
    parts.add(InputFeature::Image, input.named_images, |_| Some(model.images.max()))?;
    parts.add(InputFeature::Document, input.named_documents, |window| {
        Some(window?.min(MAX_PAGES.saturating_mul(per_page)))
    })?;
    parts.add(InputFeature::PreviousResponse, input.continues.into(), |window| window)?;
    parts.add(InputFeature::CachedContext, input.cached_context.into(), |window| window)?;
    let one_pass =
        sum([text, images, input.pages.saturating_mul(per_page), described, parts.total]).min(window);
    let uses = input.tool_uses.unwrap_or(0);
    // Each use may bill all input again, with what the tool has found.
    let is_any = input.tool_uses.is_some().into();
    let mut again = Parts { total: 0, ..parts };
    again.add(InputFeature::ServerTool, is_any, |window| {
        Some(window?.saturating_mul(uses.saturating_add(1)))
    })?;
    let tokens = match (input.tool_uses, model.rules.of(InputFeature::ServerTool)) {
        (Some(_), UntrackedRule::Reserve) => again.total,
        _ => one_pass.saturating_add(again.total),
    };
    Ok(InputBound { tokens, tool_uses: uses, largest: again.largest })
}

fn sum(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

struct Parts<'a> {
    rules: &'a UntrackedRules,
    window: Option<u64>,
    largest: Option<(InputFeature, u64)>,
    total: u64,
}

impl Parts<'_> {
    /// Adds a feature that is there so many times, by its rule.
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
            UntrackedRule::Reserve => bound(self.window).ok_or(InputProblem::NoWindow(feature))?,
        };
        let part = each.saturating_mul(times);
        self.total = self.total.saturating_add(part);
        if self.largest.is_none_or(|(_, most)| part > most) {
            self.largest = Some((feature, part));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
