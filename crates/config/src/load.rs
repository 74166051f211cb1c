//! Loads settings: parses the texts, merges the layers and checks the result.

use crate::check;
use crate::field::{SectionReader, SettingSection as _, report_unknown};
use crate::kind::quoted;
use crate::problem::{Problem, ProblemCode, Problems, Severity};
use crate::profile::{DEFAULT_PROFILE, EMPTY_PROFILE, profile_names, profile_text};
use crate::raw::{RootSection, shape};
use crate::render::printable;
use crate::settings::Settings;
use crate::show::{SettingChange, find_unimplemented};
use crate::source::{SettingOrigin, SettingSource, SettingSources, SourceKind};
use crate::suggest;
use crate::tree::{MAX_TEXT_BYTES, TomlTable, TomlValue, merge, parse};
use crate::unimplemented::warn_unimplemented;
use crate::variable::{assign, from_arguments, from_variables, is_setting_variable};
use seawall_core::time::UtcTime;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

/// The inputs of settings. Each one overrides those above it.
#[derive(Clone, Debug, Default)]
pub struct SettingsInput {
    /// The user's file, if there is one. Its `profile` names the base layer.
    pub file: Option<SettingSource>,
    /// Environment variables; only those that begin with `SEAWALL__` are used.
    pub environment: Vec<(String, String)>,
    /// Dotted keys and values from the command line.
    pub arguments: Vec<(String, String)>,
    /// The current date, to find retired models.
    pub today: UtcTime,
    /// The price file that `prices.file` names, or why it could not be read. See [`ParsedSettings::read_price_file`].
    pub price_file: Option<Result<PriceFileText, String>>,
}

impl SettingsInput {
    /// The input of one file with this text, and today's date.
    #[must_use]
    pub fn from_file(name: &str, text: &str, today: UtcTime) -> Self {
        Self { file: Some(SettingSource::file(name, text)), today, ..Self::default() }
    }
}

/// A price file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceFileText {
    /// Its content.
    pub text: Arc<str>,
    /// When it was last changed, if the file system says so: its rows have no date of their own.
    pub modified: Option<UtcTime>,
}

impl PriceFileText {
    /// Reads a price file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = read_text(path, MAX_PRICE_FILE_BYTES)?;
        let modified = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        let modified = modified
            .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
            .and_then(|since| u64::try_from(since.as_nanos()).ok());
        Ok(Self { text, modified: modified.map(UtcTime::from_nanos) })
    }
}

/// Valid settings, and their sources.
#[derive(Clone, Debug)]
pub struct LoadedSettings {
    /// The checked settings.
    pub settings: Settings,
    /// Problems that are worth a look. None of them is an error.
    pub warnings: Problems,
    /// The input that the settings were loaded from.
    pub input: LoadedInput,
}

/// The input that settings were loaded from, kept to show and compare them. Origins within it are computed on demand,
/// which is seldom needed: with ten thousand keys they would be ten times as large as the texts.
#[derive(Clone, Debug)]
pub struct LoadedInput {
    input: SettingsInput,
    /// Settings that were changed and have no effect yet. Kept here because they are read often.
    pub(crate) unimplemented: Vec<SettingChange>,
}

impl LoadedInput {
    fn new(input: &SettingsInput, unimplemented: Vec<SettingChange>) -> Self {
        // Unrelated environment variables are dropped.
        let environment =
            input.environment.iter().filter(|(name, _)| is_setting_variable(name)).cloned().collect();
        // The price file is as large as all settings together, and no setting is shown from it.
        let (file, arguments) = (input.file.clone(), input.arguments.clone());
        let input = SettingsInput { file, environment, arguments, today: input.today, price_file: None };
        Self { input, unimplemented }
    }

    /// The text of the user's file, if there is one.
    #[must_use]
    pub fn text(&self) -> Option<&Arc<str>> {
        self.input.file.as_ref().map(|file| &file.text)
    }

    pub(crate) fn layers(&self) -> Layers {
        // All problems were reported when the settings were loaded.
        Layers::merge(&self.input, &mut Problems::default())
    }
}

impl AsRef<LoadedInput> for LoadedInput {
    fn as_ref(&self) -> &LoadedInput {
        self
    }
}

impl AsRef<LoadedInput> for LoadedSettings {
    fn as_ref(&self) -> &LoadedInput {
        &self.input
    }
}

/// The merged layers, each value with its origin.
pub(crate) struct Layers {
    /// All layers merged.
    pub(crate) tree: TomlTable,
    pub(crate) sources: SettingSources,
    /// The base profile alone.
    pub(crate) profile: TomlTable,
    /// The index of the user's file among the sources.
    file: usize,
    /// The byte at which the file stops being valid TOML.
    broken_at: Option<usize>,
}

impl Layers {
    fn merge(input: &SettingsInput, problems: &mut Problems) -> Self {
        let mut sources = SettingSources::default();
        let file = input.file.clone().unwrap_or_else(|| SettingSource::file("(no file)", ""));
        let source = sources.add(file);
        let mut file_table = parse(sources.text(source), source, problems);
        let broken = problems
            .list
            .iter()
            .filter(|problem| matches!(problem.code, ProblemCode::Syntax | ProblemCode::TooLarge));
        let broken_at =
            broken.flat_map(|problem| &problem.locations).map(|location| location.origin.start).min();
        let variables = from_variables(&input.environment, &mut sources, problems);
        let arguments = from_arguments(&input.arguments, &mut sources, problems);
        let file_profile = take_profile(&mut file_table, problems);
        let last_profile = |assignments: &[_]| {
            let mut profiles = assignments.iter().filter_map(crate::variable::Assignment::profile);
            profiles.next_back().map(|(name, origin)| (name.to_owned(), origin))
        };
        let selected = last_profile(&arguments).or_else(|| last_profile(&variables)).or(file_profile);
        let (name, origin) =
            selected.unwrap_or_else(|| (DEFAULT_PROFILE.to_owned(), SettingOrigin::beginning(source)));
        let mut tree = profile(&name, origin, &mut sources, problems);
        // Settings that start from nothing are compared with the default profile.
        let base = if name == EMPTY_PROFILE {
            profile(DEFAULT_PROFILE, origin, &mut SettingSources::default(), &mut Problems::default())
        } else {
            tree.clone()
        };
        merge(&mut tree, file_table);
        for assignment in
            variables.iter().chain(&arguments).filter(|assignment| assignment.profile().is_none())
        {
            assign(assignment, shape(), &mut tree, problems);
        }
        Self { tree, sources, profile: base, file: source, broken_at }
    }
}

/// Settings that were parsed but not yet checked as a whole. They are far larger than the checked
/// settings and share no memory with them, so that their memory can be allocated and freed separately.
#[derive(Debug)]
pub struct ParsedSettings {
    input: SettingsInput,
    raw: RootSection,
    /// The problems so far.
    problems: Problems,
    sources: SettingSources,
    placeholders: Vec<SettingOrigin>,
    unimplemented: Vec<SettingChange>,
    file: usize,
    broken_at: Option<usize>,
}

/// Parses, merges and checks settings. All problems are reported at once.
pub fn load(input: &SettingsInput) -> Result<LoadedSettings, Problems> {
    parse_settings(input).check()
}

/// Parses and merges settings.
#[must_use]
pub fn parse_settings(input: &SettingsInput) -> ParsedSettings {
    let mut problems = Problems::default();
    let Layers { tree, sources, profile, file, broken_at } = Layers::merge(input, &mut problems);
    let shape = shape();
    let unparsed: Vec<SettingOrigin> =
        problems.list.iter().flat_map(|problem| &problem.locations).map(|location| location.origin).collect();
    let mut reader = SectionReader::new(&mut problems);
    reader.placeholders = unparsed;
    report_unknown(&tree, "", shape, &mut reader);
    let raw = RootSection::read_keys(&tree, "", SettingOrigin::beginning(file), &mut reader);
    let placeholders = reader.placeholders;
    let unimplemented = find_unimplemented(&profile, &tree);
    warn_unimplemented(&unimplemented, &tree, &mut problems);
    ParsedSettings {
        input: input.clone(),
        raw,
        problems,
        sources,
        placeholders,
        unimplemented,
        file,
        broken_at,
    }
}

impl ParsedSettings {
    /// Reads the price file, if the settings name one. What is wrong with it is reported by [`Self::check`].
    #[must_use]
    pub fn read_price_file(mut self) -> Self {
        if let Some(name) = &self.raw.prices.file {
            self.input.price_file = Some(PriceFileText::read(Path::new(&name.value)));
        }
        self
    }

    /// Checks the settings as a whole.
    pub fn check(&self) -> Result<LoadedSettings, Problems> {
        let mut problems = self.problems.clone();
        let settings = match self.broken_at {
            None => check::all(&self.raw, self.placeholders.clone(), &self.input, &mut problems),
            Some(broken_at) => {
                // In a line with a syntax error, and after it, other problems are unreliable.
                let text = self.sources.text(self.file);
                let line_start = text.get(..broken_at).and_then(|text| text.rfind('\n')).unwrap_or(0);
                problems.list.retain(|problem| {
                    let is_reliable = |origin: SettingOrigin| {
                        origin.source != self.file || (origin.start < origin.end && origin.end <= line_start)
                    };
                    matches!(problem.code, ProblemCode::Syntax | ProblemCode::TooLarge)
                        || problem.locations.first().is_some_and(|first| is_reliable(first.origin))
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
                let input = LoadedInput::new(&self.input, self.unimplemented.clone());
                Ok(LoadedSettings { settings, warnings: problems, input })
            }
            _ => {
                debug_assert!(problems.has_errors(), "settings are rejected only with an error");
                Err(problems)
            }
        }
    }
}

/// Removes the name of the profile from a file and returns it.
fn take_profile(table: &mut TomlTable, problems: &mut Problems) -> Option<(String, SettingOrigin)> {
    let entry = table.remove("profile")?;
    match entry.node.value {
        TomlValue::Text(name) => Some((name, entry.node.origin)),
        other => {
            let message = format!("profile: expected the name of a profile, found {}", other.type_name());
            problems.add(
                Problem::error(ProblemCode::WrongType, message, entry.node.origin).help(profiles_help()),
            );
            None
        }
    }
}

fn profiles_help() -> String {
    format!("write one of {}", profile_names().map(quoted).collect::<Vec<_>>().join(", "))
}

/// A profile merged with the base that it names.
fn profile(
    name: &str,
    origin: SettingOrigin,
    sources: &mut SettingSources,
    problems: &mut Problems,
) -> TomlTable {
    let Some(text) = profile_text(name) else {
        let message = format!("unknown profile {}", quoted(&printable(name)));
        let help = match suggest::nearest(name, profile_names()) {
            Some(near) => format!("did you mean {}?", quoted(near)),
            None => profiles_help(),
        };
        problems.add(Problem::error(ProblemCode::UnknownProfile, message, origin).help(help));
        // Without a base every key would be reported as missing, which hides the real mistake.
        return profile(DEFAULT_PROFILE, origin, sources, problems);
    };
    let source =
        sources.add(SettingSource { name: name.to_owned(), text: text.into(), kind: SourceKind::Profile });
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

/// The community's price file has about two megabytes.
const MAX_PRICE_FILE_BYTES: u64 = 32 << 20;

/// The text of a file of at most this size.
fn read_text(path: &Path, max_bytes: u64) -> Result<Arc<str>, String> {
    let mut bytes = Vec::new();
    // A device file has no end.
    let read = std::fs::File::open(path).and_then(|file| file.take(max_bytes + 1).read_to_end(&mut bytes));
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > max_bytes {
        return Err(format!("it is larger than {max_bytes} bytes"));
    }
    String::from_utf8(bytes).map(Arc::from).map_err(|_| "it is not valid UTF-8".to_owned())
}

/// Reads a file, or reports why it cannot be read.
pub fn read_file(path: &Path) -> Result<SettingSource, Problems> {
    let name = path.display().to_string();
    let unreadable = |message: String| {
        let mut problems = Problems::default();
        let source = problems.sources.add(SettingSource::file(name.clone(), ""));
        problems.add(Problem::error(ProblemCode::UnreadableFile, message, SettingOrigin::beginning(source)));
        Err(problems)
    };
    // One byte more than the maximum is enough to refuse the file, and a device file has no end.
    let read = std::fs::File::open(path).and_then(|file| {
        let mut bytes = Vec::new();
        file.take(MAX_TEXT_BYTES as u64 + 1).read_to_end(&mut bytes).map(|_| bytes)
    });
    let bytes = match read {
        Ok(bytes) if bytes.len() > MAX_TEXT_BYTES => {
            return unreadable(format!("{} is larger than {MAX_TEXT_BYTES} bytes", printable(&name)));
        }
        Ok(bytes) => bytes,
        Err(error) => return unreadable(format!("cannot read {}: {error}", printable(&name))),
    };
    match String::from_utf8(bytes) {
        Ok(text) => Ok(SettingSource::file(name, text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let line = error.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
            unreadable(format!("{} is not valid UTF-8: see line {line}", printable(&name)))
        }
    }
}

impl LoadedSettings {
    /// Whether there is any warning.
    #[must_use]
    pub fn has_warnings(&self) -> bool {
        self.warnings.list.iter().any(|problem| problem.severity == Severity::Warning)
    }
}
