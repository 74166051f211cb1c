//! Loads settings: parses the texts, merges the layers and checks the result.

use crate::check;
use crate::field::{Reader, Section as _, report_unknown};
use crate::kind::quoted;
use crate::problem::{Code, Problem, Problems, Severity};
use crate::profile::{DEFAULT_PROFILE, EMPTY_PROFILE, profile_names, profile_text};
use crate::raw::{Raw, shape};
use crate::render::printable;
use crate::settings::Settings;
use crate::show::{Change, not_followed};
use crate::source::{Origin, Source, SourceKind, Sources};
use crate::suggest;
use crate::tree::{LONGEST_TEXT, Table, Value, merge, parse};
use crate::variable::{assign, from_arguments, from_variables, is_ours};
use seawall_core::time::UtcTime;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

/// The inputs of settings. Each one overrides those above it.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// The user's file, if there is one. Its `profile` names the base layer.
    pub file: Option<Source>,
    /// Environment variables; only those that begin with `SEAWALL__` are used.
    pub environment: Vec<(String, String)>,
    /// Dotted keys and values from the command line.
    pub arguments: Vec<(String, String)>,
    /// The current date, to find retired models.
    pub today: UtcTime,
}

impl Input {
    /// The input of one file with this text, and today's date.
    #[must_use]
    pub fn of_file(name: &str, text: &str, today: UtcTime) -> Self {
        Self { file: Some(Source::file(name, text)), today, ..Self::default() }
    }
}

/// Valid settings, and their sources.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The checked settings.
    pub settings: Settings,
    /// Problems that are worth a look. None of them is an error.
    pub warnings: Problems,
    /// The texts that the settings were read from.
    pub written: Written,
}

/// The texts of settings alone. Origins within them are computed on demand, which is seldom needed: with ten thousand
/// keys they would be ten times as large as the texts.
#[derive(Clone, Debug)]
pub struct Written {
    input: Input,
    /// Settings that were changed and have no effect yet. Kept here because they are read often.
    pub(crate) unfollowed: Vec<Change>,
}

impl Written {
    fn of(input: &Input, unfollowed: Vec<Change>) -> Self {
        // Unrelated environment variables are dropped.
        let ours = input.environment.iter().filter(|(name, _)| is_ours(name)).cloned().collect();
        Self { input: Input { environment: ours, ..input.clone() }, unfollowed }
    }

    /// The text of the user's file, if there is one.
    #[must_use]
    pub fn text(&self) -> Option<&Arc<str>> {
        self.input.file.as_ref().map(|file| &file.text)
    }

    pub(crate) fn layers(&self) -> Layers {
        // All problems were reported when the settings were loaded.
        Layers::of(&self.input, &mut Problems::default())
    }
}

impl AsRef<Written> for Written {
    fn as_ref(&self) -> &Written {
        self
    }
}

impl AsRef<Written> for Loaded {
    fn as_ref(&self) -> &Written {
        &self.written
    }
}

/// The merged layers, each value with its origin.
pub(crate) struct Layers {
    /// All layers merged.
    pub(crate) tree: Table,
    pub(crate) sources: Sources,
    /// The base profile alone.
    pub(crate) profile: Table,
    /// The index of the user's file among the sources.
    file: usize,
    /// The byte at which the file stops being valid TOML.
    broken_at: Option<usize>,
}

impl Layers {
    fn of(input: &Input, problems: &mut Problems) -> Self {
        let mut sources = Sources::default();
        let file = input.file.clone().unwrap_or_else(|| Source::file("(no file)", ""));
        let source = sources.add(file);
        let mut over = parse(sources.text(source), source, problems);
        let broken =
            problems.list.iter().filter(|problem| matches!(problem.code, Code::Syntax | Code::TooLarge));
        let broken_at = broken.flat_map(|problem| &problem.places).map(|place| place.origin.start).min();
        let variables = from_variables(&input.environment, &mut sources, problems);
        let arguments = from_arguments(&input.arguments, &mut sources, problems);
        let in_file = take_profile(&mut over, problems);
        let named = |assignments: &[_]| {
            let mut found = assignments.iter().filter_map(crate::variable::Assignment::profile);
            found.next_back().map(|(name, origin)| (name.to_owned(), origin))
        };
        let chosen = named(&arguments).or_else(|| named(&variables)).or(in_file);
        let (name, origin) =
            chosen.unwrap_or_else(|| (DEFAULT_PROFILE.to_owned(), Origin::beginning(source)));
        let mut tree = profile(&name, origin, &mut sources, problems);
        // Settings that start from nothing are compared with the default profile.
        let base = if name == EMPTY_PROFILE {
            profile(DEFAULT_PROFILE, origin, &mut Sources::default(), &mut Problems::default())
        } else {
            tree.clone()
        };
        merge(&mut tree, over);
        for one in variables.iter().chain(&arguments).filter(|one| one.profile().is_none()) {
            assign(one, shape(), &mut tree, problems);
        }
        Self { tree, sources, profile: base, file: source, broken_at }
    }
}

/// Settings that were parsed but not yet checked as a whole. A draft is far larger than the result, and the result
/// shares no memory with it: so its memory can be allocated and freed separately.
#[derive(Debug)]
pub struct Draft {
    input: Input,
    raw: Raw,
    /// The problems so far.
    problems: Problems,
    sources: Sources,
    stand_ins: Vec<Origin>,
    unfollowed: Vec<Change>,
    file: usize,
    broken_at: Option<usize>,
}

/// Parses, merges and checks settings. All problems are reported at once.
pub fn load(input: &Input) -> Result<Loaded, Problems> {
    draft(input).check()
}

/// Parses and merges settings.
#[must_use]
pub fn draft(input: &Input) -> Draft {
    let mut problems = Problems::default();
    let Layers { tree, sources, profile, file, broken_at } = Layers::of(input, &mut problems);
    let shape = shape();
    let unread: Vec<Origin> =
        problems.list.iter().flat_map(|problem| &problem.places).map(|place| place.origin).collect();
    let mut reader = Reader::new(&mut problems);
    reader.stand_ins = unread;
    report_unknown(&tree, "", shape, &mut reader);
    let raw = Raw::read_keys(&tree, "", Origin::beginning(file), &mut reader);
    let stand_ins = reader.stand_ins;
    let unfollowed = not_followed(&profile, &tree);
    Draft { input: input.clone(), raw, problems, sources, stand_ins, unfollowed, file, broken_at }
}

impl Draft {
    /// Checks the settings as a whole.
    pub fn check(&self) -> Result<Loaded, Problems> {
        let mut problems = self.problems.clone();
        let settings = match self.broken_at {
            None => check::all(&self.raw, self.stand_ins.clone(), self.input.today, &mut problems),
            Some(broken_at) => {
                // In a line with a syntax error, and after it, other problems are unreliable.
                let text = self.sources.text(self.file);
                let line_start = text.get(..broken_at).and_then(|text| text.rfind('\n')).unwrap_or(0);
                problems.list.retain(|problem| {
                    let sound = |origin: Origin| {
                        origin.source != self.file || (origin.start < origin.end && origin.end <= line_start)
                    };
                    matches!(problem.code, Code::Syntax | Code::TooLarge)
                        || problem.places.first().is_some_and(|first| sound(first.origin))
                });
                None
            }
        };
        if problems.has_errors() {
            // Half of the warnings would be consequences of an error; the rest can wait.
            problems.list.retain(|problem| problem.severity == Severity::Error);
        }
        problems.sources = self.sources.copied();
        problems.sort();
        match settings {
            Some(settings) if !problems.has_errors() => {
                let written = Written::of(&self.input, self.unfollowed.clone());
                Ok(Loaded { settings, warnings: problems, written })
            }
            _ => {
                debug_assert!(problems.has_errors(), "settings are refused for a reason");
                Err(problems)
            }
        }
    }
}

/// Removes the name of the profile from a file and returns it.
fn take_profile(table: &mut Table, problems: &mut Problems) -> Option<(String, Origin)> {
    let entry = table.remove("profile")?;
    match entry.node.value {
        Value::Text(name) => Some((name, entry.node.origin)),
        other => {
            let message = format!("profile: expected the name of a profile, found {}", other.noun());
            problems.add(Problem::error(Code::WrongType, message, entry.node.origin).help(known_profiles()));
            None
        }
    }
}

fn known_profiles() -> String {
    format!("write one of {}", profile_names().map(quoted).collect::<Vec<_>>().join(", "))
}

/// A profile merged with the base that it names.
fn profile(name: &str, origin: Origin, sources: &mut Sources, problems: &mut Problems) -> Table {
    let Some(text) = profile_text(name) else {
        let message = format!("there is no profile {}", quoted(&printable(name)));
        let help = match suggest::nearest(name, profile_names()) {
            Some(near) => format!("did you mean {}?", quoted(near)),
            None => known_profiles(),
        };
        problems.add(Problem::error(Code::UnknownProfile, message, origin).help(help));
        // Without a base every key would be reported as missing, which hides the real mistake.
        return profile(DEFAULT_PROFILE, origin, sources, problems);
    };
    let source = sources.add(Source { name: name.to_owned(), text: text.into(), kind: SourceKind::Profile });
    let mut table = parse(text, source, problems);
    match take_profile(&mut table, problems) {
        Some((base, origin)) if base != name => {
            let mut tree = profile(&base, origin, sources, problems);
            merge(&mut tree, table);
            tree
        }
        _ => table,
    }
}

/// Reads a file, or reports why it cannot be read.
pub fn read_file(path: &Path) -> Result<Source, Problems> {
    let name = path.display().to_string();
    let refused = |message: String| {
        let mut problems = Problems::default();
        let source = problems.sources.add(Source::file(name.clone(), ""));
        problems.add(Problem::error(Code::UnreadableFile, message, Origin::beginning(source)));
        Err(problems)
    };
    // One byte more than the maximum is enough to refuse the file, and a device file has no end.
    let read = std::fs::File::open(path).and_then(|file| {
        let mut bytes = Vec::new();
        file.take(LONGEST_TEXT as u64 + 1).read_to_end(&mut bytes).map(|_| bytes)
    });
    let bytes = match read {
        Ok(bytes) if bytes.len() > LONGEST_TEXT => {
            return refused(format!("{} has more than {LONGEST_TEXT} bytes", printable(&name)));
        }
        Ok(bytes) => bytes,
        Err(error) => return refused(format!("cannot read {}: {error}", printable(&name))),
    };
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source::file(name, text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let line = error.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
            refused(format!("{} is not UTF-8 text: see line {line}", printable(&name)))
        }
    }
}

impl Loaded {
    /// Whether there is any warning.
    #[must_use]
    pub fn has_warnings(&self) -> bool {
        self.warnings.list.iter().any(|problem| problem.severity == Severity::Warning)
    }
}
