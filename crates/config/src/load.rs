//! From texts to settings.

use crate::check;
use crate::field::{Reader, Section as _, report_unknown};
use crate::kind::quoted;
use crate::problem::{Code, Problem, Problems, Severity};
use crate::profile::{DEFAULT_PROFILE, EMPTY_PROFILE, profile_names, profile_text};
use crate::raw::{Raw, shape};
use crate::render::printable;
use crate::settings::Settings;
use crate::source::{Origin, Source, SourceKind, Sources};
use crate::suggest;
use crate::tree::{LONGEST_TEXT, Table, Value, merge, parse};
use crate::variable::{assign, from_arguments, from_variables};
use seawall_core::time::UtcTime;
use std::io::Read as _;
use std::path::Path;

/// All that settings are made from. Each overrules those above it.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// The user's file, if there is one. Its `profile` says what it starts from.
    pub file: Option<Source>,
    /// Environment variables; those that begin with `SEAWALL__` are ours.
    pub environment: Vec<(String, String)>,
    /// Dotted keys and values from the command line.
    pub arguments: Vec<(String, String)>,
    /// The day on which models are looked at: some retire.
    pub today: UtcTime,
}

impl Input {
    /// The settings of a file with this text, today.
    #[must_use]
    pub fn of_file(name: &str, text: &str, today: UtcTime) -> Self {
        Self { file: Some(Source::file(name, text)), today, ..Self::default() }
    }
}

/// Settings that can be used, and all that is known of where they come from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings, checked.
    pub settings: Settings,
    /// What somebody should look at. None of it is an error.
    pub warnings: Problems,
    pub(crate) tree: Table,
    pub(crate) sources: Sources,
    /// What the profile says that they start from.
    pub(crate) profile: Table,
}

/// Reads, merges and checks settings. Everything that is wrong is reported at once.
pub fn load(input: &Input) -> Result<Loaded, Problems> {
    let mut problems = Problems::default();
    let mut sources = Sources::default();
    let file = input.file.clone().unwrap_or_else(|| Source::file("(no file)", ""));
    let source = sources.add(file);
    let mut over = parse(sources.text(source), source, &mut problems);
    let broken = problems.list.iter().filter(|problem| matches!(problem.code, Code::Syntax | Code::TooLarge));
    let broken_at = broken.flat_map(|problem| &problem.places).map(|place| place.origin.start).min();
    let variables = from_variables(&input.environment, &mut sources, &mut problems);
    let arguments = from_arguments(&input.arguments, &mut sources, &mut problems);
    let in_file = take_profile(&mut over, &mut problems);
    let named = |assignments: &[_]| {
        let mut found = assignments.iter().filter_map(crate::variable::Assignment::profile);
        found.next_back().map(|(name, origin)| (name.to_owned(), origin))
    };
    let chosen = named(&arguments).or_else(|| named(&variables)).or(in_file);
    let (name, origin) = chosen.unwrap_or_else(|| (DEFAULT_PROFILE.to_owned(), Origin::beginning(source)));
    let shape = shape();
    let mut tree = profile(&name, origin, &mut sources, &mut problems);
    // Who starts from nothing is compared with what is usual.
    let base = if name == EMPTY_PROFILE {
        profile(DEFAULT_PROFILE, origin, &mut Sources::default(), &mut Problems::default())
    } else {
        tree.clone()
    };
    merge(&mut tree, over);
    for one in variables.iter().chain(&arguments).filter(|one| one.profile().is_none()) {
        assign(one, shape, &mut tree, &mut problems);
    }
    let unread: Vec<Origin> =
        problems.list.iter().flat_map(|problem| &problem.places).map(|place| place.origin).collect();
    let mut reader = Reader::new(&mut problems);
    reader.stand_ins = unread;
    report_unknown(&tree, "", shape, &mut reader);
    let raw = Raw::read_keys(&tree, "", Origin::beginning(source), &mut reader);
    let stand_ins = reader.stand_ins;
    let settings = match broken_at {
        None => check::all(&raw, stand_ins, input.today, &mut problems),
        Some(broken_at) => {
            // In a line that is no TOML, and after it, nothing is what it seems.
            let line_start =
                sources.text(source).get(..broken_at).and_then(|text| text.rfind('\n')).unwrap_or(0);
            problems.list.retain(|problem| {
                let sound = |origin: Origin| {
                    origin.source != source || (origin.start < origin.end && origin.end <= line_start)
                };
                matches!(problem.code, Code::Syntax | Code::TooLarge)
                    || problem.places.first().is_some_and(|first| sound(first.origin))
            });
            None
        }
    };
    if problems.has_errors() {
        // Half of the warnings would be about what an error has caused; the rest can wait.
        problems.list.retain(|problem| problem.severity == Severity::Error);
    }
    problems.sources = sources.clone();
    problems.sort();
    match settings {
        Some(settings) if !problems.has_errors() => {
            Ok(Loaded { settings, warnings: problems, tree, sources, profile: base })
        }
        _ => {
            debug_assert!(problems.has_errors(), "settings are refused for a reason");
            Err(problems)
        }
    }
}

/// Takes the name of the profile out of a file.
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

/// A profile on top of the one that it names as its base.
fn profile(name: &str, origin: Origin, sources: &mut Sources, problems: &mut Problems) -> Table {
    let Some(text) = profile_text(name) else {
        let message = format!("there is no profile {}", quoted(&printable(name)));
        let help = match suggest::nearest(name, profile_names()) {
            Some(near) => format!("did you mean {}?", quoted(near)),
            None => known_profiles(),
        };
        problems.add(Problem::error(Code::UnknownProfile, message, origin).help(help));
        // Without a base every key would be missing, and that is not the mistake.
        return profile(DEFAULT_PROFILE, origin, sources, problems);
    };
    let source =
        sources.add(Source { name: name.to_owned(), text: text.to_owned(), kind: SourceKind::Profile });
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

/// The text of a file, or why it cannot be read.
pub fn read_file(path: &Path) -> Result<Source, Problems> {
    let name = path.display().to_string();
    let refused = |message: String| {
        let mut problems = Problems::default();
        let source = problems.sources.add(Source::file(name.clone(), ""));
        problems.add(Problem::error(Code::UnreadableFile, message, Origin::beginning(source)));
        Err(problems)
    };
    // One byte more than settings may have is enough to refuse them, and a device has no end.
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
    /// Whether anything is worth a look.
    #[must_use]
    pub fn has_warnings(&self) -> bool {
        self.warnings.list.iter().any(|problem| problem.severity == Severity::Warning)
    }
}
