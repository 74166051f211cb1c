//! Sources of settings, and the positions of values in them.
//!
//! Every value stores its source and its byte range, so that a problem can be shown in place. **What it does not do.**
//! It does not read anything itself: texts are passed in.

use std::ops::Range;
use std::sync::Arc;

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// A profile that comes with Seawall.
    Profile,
    /// A file.
    File,
    /// An environment variable.
    Variable,
    /// An argument on the command line.
    Argument,
}

/// A text with settings, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingSource {
    /// The path of a file, the name of a profile, of a variable, or of an argument.
    pub name: String,
    /// The content. For a variable or an argument: the name, an equals sign, the value.
    pub text: Arc<str>,
    /// The kind of source.
    pub kind: SourceKind,
}

impl SettingSource {
    /// A file with this name and text.
    #[must_use]
    pub fn file(name: impl Into<String>, text: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), text: text.into(), kind: SourceKind::File }
    }

    /// The position of a byte for display: `seawall.toml:12`, `profile demo`, `SEAWALL__ADMIN__LISTEN`.
    #[must_use]
    pub fn location(&self, at: usize) -> String {
        match self.kind {
            SourceKind::File => format!("{}:{}", self.name, self.position(at).line),
            SourceKind::Profile => format!("profile {}", self.name),
            SourceKind::Variable => self.name.clone(),
            SourceKind::Argument => format!("--set {}", self.name),
        }
    }

    /// The line and column of a byte, both counted from 1. Columns count characters.
    #[must_use]
    pub fn position(&self, at: usize) -> Position {
        let before = self.text.get(..floor(&self.text, at)).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
        Position { line, column, line_start }
    }

    /// The line that starts at this byte, without its line end.
    #[must_use]
    pub(crate) fn line_at(&self, line_start: usize) -> &str {
        let rest = self.text.get(line_start..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default();
        line.strip_suffix('\r').unwrap_or(line)
    }
}

/// The nearest character boundary at or before `at`.
pub(crate) fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// A line and a column, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
    /// The byte at which the line begins.
    pub(crate) line_start: usize,
}

/// The byte range of a source that a value was parsed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingOrigin {
    pub(crate) source: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl SettingOrigin {
    pub(crate) fn new(source: usize, bytes: Range<usize>) -> Self {
        Self { source, start: bytes.start, end: bytes.end }
    }

    /// The very beginning of a source.
    pub(crate) const fn beginning(source: usize) -> Self {
        Self { source, start: 0, end: 0 }
    }
}

/// All sources, each overriding those before it.
#[derive(Clone, Debug, Default)]
pub struct SettingSources(Arc<Vec<SettingSource>>);

impl SettingSources {
    pub(crate) fn add(&mut self, source: SettingSource) -> usize {
        let sources = Arc::make_mut(&mut self.0);
        sources.push(source);
        sources.len() - 1
    }

    pub(crate) fn of(&self, origin: SettingOrigin) -> Option<&SettingSource> {
        self.0.get(origin.source)
    }

    pub(crate) fn text(&self, source: usize) -> &str {
        self.0.get(source).map_or("", |source| &*source.text)
    }

    /// A copy in newly allocated memory; only texts of files, which were passed in, are shared.
    pub(crate) fn copied(&self) -> Self {
        let copied = |source: &SettingSource| match source.kind {
            SourceKind::File => source.clone(),
            _ => SettingSource { text: Arc::from(&*source.text), ..source.clone() },
        };
        Self(Arc::new(self.0.iter().map(copied).collect()))
    }

    /// The position of an origin for display.
    #[must_use]
    pub fn location(&self, origin: SettingOrigin) -> String {
        self.of(origin).map_or_else(|| "default".to_owned(), |source| source.location(origin.start))
    }
}

/// A value and its origin.
#[derive(Clone, Debug)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Its origin.
    pub origin: SettingOrigin,
}

#[cfg(test)]
mod tests {
    use super::{SettingSource, floor};

    #[test]
    fn lines_and_columns_count_from_one_and_columns_count_characters() {
        let source = SettingSource::file("a.toml", "x = 1\r\n漫画 = 2\n\nend");
        let at = |text: &str| source.position(source.text.find(text).unwrap());
        assert_eq!((at("x").line, at("x").column), (1, 1));
        assert_eq!((at("2").line, at("2").column), (2, 6));
        assert_eq!((at("end").line, at("end").column), (4, 1));
        assert_eq!(source.line_at(0), "x = 1");
        assert_eq!(source.position(usize::MAX).column, 4);
        assert_eq!(source.location(7), "a.toml:2");
    }

    #[test]
    fn a_position_inside_a_character_is_moved_to_its_start() {
        assert_eq!([0, 1, 2, 3, 9].map(|at| floor("漫", at)), [0, 0, 0, 3, 3]);
    }
}
