//! The dialects that the gateway speaks.

use super::{Dialect, UrlParameters};
use crate::{ApiErrorKind, anthropic, bedrock, gemini, openai, responses};
use std::fmt;
use std::ops::Deref;

/// One of the dialects that the gateway speaks.
#[derive(Clone, Copy)]
pub struct DialectId(&'static dyn Dialect);

impl DialectId {
    /// Anthropic Messages.
    pub const ANTHROPIC_MESSAGES: Self = Self(&anthropic::MessagesDialect);
    /// OpenAI chat completions.
    pub const OPENAI_CHAT: Self = Self(&openai::ChatCompletionsDialect);
    /// OpenAI Responses.
    pub const RESPONSES: Self = Self(&responses::ResponsesDialect);
    /// Amazon Bedrock's InvokeModel with Anthropic's body; bodies of other vendors pass through without being parsed.
    pub const BEDROCK_INVOKE: Self = Self(&bedrock::InvokeDialect);
    /// Amazon Bedrock's Converse.
    pub const BEDROCK_CONVERSE: Self = Self(&bedrock::ConverseDialect);
    /// The Gemini API.
    pub const GEMINI: Self = Self(&gemini::GeminiDialect);

    /// Every dialect, in a fixed order.
    pub const ALL: [Self; 6] = [
        Self::ANTHROPIC_MESSAGES,
        Self::OPENAI_CHAT,
        Self::BEDROCK_INVOKE,
        Self::BEDROCK_CONVERSE,
        Self::RESPONSES,
        Self::GEMINI,
    ];
}

/// The dialect of a path, with the parameters that the path names; `None` if it is no dialect's.
#[must_use]
pub fn route(path: &str) -> Option<(DialectId, Result<UrlParameters, ApiErrorKind>)> {
    DialectId::ALL.into_iter().find_map(|dialect| Some((dialect, dialect.route(path)?)))
}

impl Deref for DialectId {
    type Target = dyn Dialect;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl PartialEq for DialectId {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for DialectId {}

impl fmt::Debug for DialectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{DialectId, UrlParameters, route};
    use crate::dialect::ModelOperation;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_each_path_belongs_to_one_dialect() {
        let names: BTreeSet<_> = DialectId::ALL.iter().map(|dialect| dialect.name()).collect();
        assert_eq!(names.len(), DialectId::ALL.len());
        for (path, name) in [
            ("/v1/messages", Some("anthropic")),
            ("/v1/chat/completions", Some("openai")),
            ("/v1/responses", Some("openai_responses")),
            ("/v1/responses/compact", Some("openai_responses")),
            ("/v1/embeddings", Some("openai")),
            ("/model/a/invoke", Some("bedrock_invoke")),
            ("/model/a/converse-stream", Some("bedrock_converse")),
            ("/v1beta/models/a:generateContent", Some("gemini")),
            ("/v1/models/a:streamGenerateContent", Some("gemini")),
            ("/v1/models/a", None),
            ("/v1/messages/", None),
            ("/", None),
        ] {
            let owners: Vec<_> = DialectId::ALL
                .iter()
                .filter(|dialect| dialect.route(path).is_some())
                .map(|one| one.name())
                .collect();
            assert_eq!(owners, Vec::from_iter(name), "{path}");
            assert_eq!(route(path).map(|(dialect, _)| dialect.name()), name);
        }
        for operation in [ModelOperation::Compact, ModelOperation::Embed] {
            let paths: Vec<_> =
                DialectId::ALL.iter().filter_map(|dialect| dialect.operation_path(operation)).collect();
            let [path] = paths[..] else { panic!("{operation:?}: {paths:?}") };
            assert!(matches!(route(path), Some((_, Ok(url))) if url.operation == operation), "{path}");
        }
        for dialect in DialectId::ALL {
            for stream in [false, true] {
                let path = dialect.path("a/b:0", stream);
                let Some((routed, Ok(url))) = route(&path) else { panic!("{path}") };
                assert_eq!(routed, dialect);
                let in_url = UrlParameters::new("a/b:0".to_owned(), stream);
                assert!(url == UrlParameters::default() || url == in_url, "{path}: {url:?}");
            }
        }
    }
}
