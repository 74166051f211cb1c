//! Formats problems as compilers do: the source line, with the mistake underlined.
//!
//! Widths are those of a terminal: wide characters take two cells, tabs are shown as four spaces, and a very long line
//! is cut to the part around the mistake.

use crate::problem::{Problem, ProblemLocation, Problems, Severity};
use crate::redact::{REDACTED, find_secrets, sanitized};
use crate::source::{SettingOrigin, SettingSource, SourceKind, floor};
use std::fmt::Write as _;

/// Maximum number of cells shown of a line.
const MAX_LINE_CELLS: usize = 100;
/// Cells kept before the mistake in a line that is cut.
const CELLS_BEFORE: usize = 40;

struct Style {
    colours: bool,
}

impl Style {
    fn apply(&self, code: &str, text: &str) -> String {
        if self.colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// All problems, and the number of each severity.
pub(crate) fn render_all(problems: &Problems, colours: bool) -> String {
    let style = Style { colours };
    let mut out = String::new();
    for problem in &problems.list {
        render_problem(&mut out, problem, problems, &style);
        out.push('\n');
    }
    if problems.omitted > 0 {
        let _ = writeln!(out, "{} more errors were omitted\n", problems.omitted);
    }
    let count = |severity| problems.list.iter().filter(|problem| problem.severity == severity).count();
    let plural = |count: usize, word: &str| match count {
        0 => None,
        1 => Some(format!("1 {word}")),
        count => Some(format!("{count} {word}s")),
    };
    let counts = [plural(count(Severity::Error), "error"), plural(count(Severity::Warning), "warning")];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    if !counts.is_empty() {
        let _ = writeln!(out, "{}", style.apply("1", &counts.join(", ")));
    }
    out
}

fn render_problem(out: &mut String, problem: &Problem, problems: &Problems, style: &Style) {
    let colour = if problem.severity == Severity::Error { "1;31" } else { "1;33" };
    let head = format!("{}[{}]", problem.severity, problem.code);
    let _ = writeln!(out, "{}: {}", style.apply(colour, &head), style.apply("1", &problem.message));
    let lines = problem.locations.iter().filter_map(|location| {
        let source = problems.sources.of(location.origin)?;
        Some((location, source, source.position(location.origin.start).line))
    });
    let width = lines.clone().map(|(_, _, line)| line.to_string().len()).max().unwrap_or(1);
    let gutter = " ".repeat(width);
    for (index, (location, source, _)) in lines.enumerate() {
        let arrow = if index == 0 { "-->" } else { ":::" };
        let _ = writeln!(
            out,
            "{gutter}{} {}",
            style.apply("1;34", arrow),
            describe_location(source, location.origin)
        );
        excerpt(out, location, source, problems, (width, if index == 0 { colour } else { "1;34" }), style);
    }
    if let Some(help) = &problem.help {
        let mut lines = help.lines();
        let _ = writeln!(out, "{gutter} {} help: {}", style.apply("1;34", "="), lines.next().unwrap_or(""));
        for line in lines {
            let _ = writeln!(out, "{gutter}         {line}");
        }
    }
}

fn describe_location(source: &SettingSource, origin: SettingOrigin) -> String {
    let position = source.position(origin.start);
    match source.kind {
        SourceKind::File => format!("{}:{}:{}", printable(&source.name), position.line, position.column),
        SourceKind::Profile => format!("profile {}:{}:{}", source.name, position.line, position.column),
        SourceKind::Variable => format!("environment variable {}", printable(&source.name)),
        SourceKind::Argument => format!("argument --set {}", printable(&source.name)),
    }
}

/// The source line with the underline below it.
fn excerpt(
    out: &mut String,
    location: &ProblemLocation,
    source: &SettingSource,
    problems: &Problems,
    (width, colour): (usize, &str),
    style: &Style,
) {
    let origin = location.origin;
    let position = source.position(origin.start);
    let line = source.line_at(position.line_start);
    let line_end = position.line_start + line.len();
    let mut redacted: Vec<(usize, usize)> = problems
        .redacted
        .iter()
        .filter(|range| range.source == origin.source)
        .map(|range| (range.start.max(position.line_start), range.end.min(line_end)))
        .filter(|(start, end)| start < end)
        .collect();
    // The user may have noted a redacted value in a comment behind it.
    let last = redacted.iter().map(|(_, end)| end - position.line_start).max();
    let note = last.and_then(|last| Some(last + line.get(last..)?.find('#')?));
    redacted.extend(note.map(|at| (position.line_start + at, line_end)));
    let marked = find_secrets(line).into_iter();
    redacted.extend(marked.map(|range| (position.line_start + range.start, position.line_start + range.end)));
    let cells = LineCells::of(line, position.line_start, &merge_ranges(redacted));
    let from = cells.column(floor(&source.text, origin.start));
    // A range that continues on the next line is underlined to the end of this one.
    let to = cells.column(floor(&source.text, origin.end).min(line_end)).max(from + 1);
    let (text, shift) = cells.window(from, to);
    let bar = style.apply("1;34", "|");
    let gutter = " ".repeat(width);
    let number = style.apply("1;34", &format!("{:width$}", position.line));
    let _ = writeln!(out, "{gutter} {bar}");
    let _ = writeln!(out, "{number} {bar} {}", text.trim_end());
    let before = " ".repeat(from - shift.hidden + shift.added);
    let length = (to - from).min(MAX_LINE_CELLS);
    let mark = style.apply(colour, &format!("{} {}", "^".repeat(length), location.label));
    let _ = writeln!(out, "{gutter} {bar} {before}{}", mark.trim_end());
}

/// Sorts the ranges and merges those that touch.
fn merge_ranges(mut ranges: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    ranges.sort_unstable();
    let mut out: Vec<(usize, usize)> = Vec::new();
    for (start, end) in ranges {
        match out.last_mut() {
            Some((_, last)) if start <= *last => *last = end.max(*last),
            _ => out.push((start, end)),
        }
    }
    out
}

/// A line as a terminal shows it.
struct LineCells {
    /// The source byte of each shown character, its text, and its width.
    shown: Vec<(usize, String, usize)>,
    end: usize,
}

/// The number of cells cut off at the beginning of a line, and the text in their place.
struct Cutoff {
    hidden: usize,
    added: usize,
}

impl LineCells {
    fn of(line: &str, start: usize, redacted: &[(usize, usize)]) -> Self {
        let mut shown = Vec::new();
        for (at, character) in line.char_indices() {
            let at = start + at;
            if let Some((first, _)) = redacted.iter().find(|(first, last)| (*first..*last).contains(&at)) {
                if at == *first {
                    shown.push((at, REDACTED.to_owned(), 1));
                }
                continue;
            }
            let (text, width) = match character {
                '\t' => ("    ".to_owned(), 4),
                // Control characters from a file must not reach the terminal.
                control if is_unprintable(control) => ("\u{fffd}".to_owned(), 1),
                character => (character.to_string(), width(character)),
            };
            shown.push((at, text, width));
        }
        Self { shown, end: start + line.len() }
    }

    /// The cell in which this byte is shown.
    fn column(&self, at: usize) -> usize {
        let before = self.shown.iter().filter(|(byte, ..)| *byte < at.min(self.end));
        before.map(|(_, _, width)| width).sum()
    }

    /// The part of the line around these cells.
    fn window(&self, from: usize, to: usize) -> (String, Cutoff) {
        let all: usize = self.shown.iter().map(|(_, _, width)| width).sum();
        if all <= MAX_LINE_CELLS {
            let text = self.shown.iter().map(|(_, text, _)| text.as_str()).collect();
            return (text, Cutoff { hidden: 0, added: 0 });
        }
        let first = if to <= MAX_LINE_CELLS { 0 } else { from.saturating_sub(CELLS_BEFORE) };
        let (mut column, mut hidden, mut used, mut text) = (0, 0, 0, String::new());
        for (_, shown, width) in &self.shown {
            if column < first {
                hidden += width;
            } else if used + width <= MAX_LINE_CELLS {
                used += width;
                text.push_str(shown);
            }
            column += width;
        }
        let added = if hidden > 0 { 3 } else { 0 };
        let (before, after) =
            (if hidden > 0 { "..." } else { "" }, if hidden + used < all { "..." } else { "" });
        (format!("{before}{text}{after}"), Cutoff { hidden, added })
    }
}

fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A name without control characters.
pub(crate) fn printable(text: &str) -> String {
    let shown = text.chars().map(|character| if is_unprintable(character) { '\u{fffd}' } else { character });
    sanitized(shown.collect())
}

/// The width of a character in terminal cells: two for East Asian wide characters and emoji, zero for combining
/// characters.
fn width(character: char) -> usize {
    match u32::from(character) {
        0x300..=0x36f | 0x200b..=0x200d | 0x3099..=0x309a | 0xfe00..=0xfe0f | 0xfeff => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0x33ff
        | 0x3400..=0x4dbf
        | 0x4e00..=0x9fff
        | 0xa000..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::{LineCells, merge_ranges, printable, width};

    #[test]
    fn wide_characters_take_two_cells_and_marks_none() {
        assert_eq!(['a', '漫', 'ｶ', 'Ａ', '😀', '\u{3099}'].map(width), [1, 2, 1, 2, 2, 0]);
        let cells = LineCells::of("漫a\tb", 10, &[]);
        assert_eq!([10, 13, 14, 15, 99].map(|at| cells.column(at)), [0, 2, 3, 7, 8]);
    }

    #[test]
    fn redacted_text_is_shown_as_one_character() {
        let cells = LineCells::of("key = \"secret\" # x", 0, &[(6, 14)]);
        assert_eq!(cells.window(6, 7).0, "key = \u{2026} # x");
    }

    #[test]
    fn adjacent_ranges_are_merged() {
        assert_eq!(merge_ranges(vec![(8, 9), (0, 5), (1, 2), (5, 6)]), [(0, 6), (8, 9)]);
    }

    #[test]
    fn names_cannot_inject_terminal_escapes() {
        assert_eq!(printable("a\u{1b}[2J\u{202e}b"), "a\u{fffd}[2J\u{fffd}b");
    }
}
