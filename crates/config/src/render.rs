//! Formats problems as compilers do: the source line, with the mistake underlined.
//!
//! Widths are those of a terminal: wide characters take two cells, tabs are shown as four spaces, and a very long line
//! is cut to the part around the mistake.

use crate::cover::{COVER, marked_secrets, presentable};
use crate::problem::{Place, Problem, Problems, Severity};
use crate::source::{Origin, Source, SourceKind, floor};
use std::fmt::Write as _;

/// Maximum number of cells shown of a line.
const WIDEST: usize = 100;
/// Cells kept before the mistake in a line that is cut.
const KEPT_BEFORE: usize = 40;

struct Paint {
    colours: bool,
}

impl Paint {
    fn with(&self, code: &str, text: &str) -> String {
        if self.colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// All problems, and the number of each severity.
pub(crate) fn all(problems: &Problems, colours: bool) -> String {
    let paint = Paint { colours };
    let mut out = String::new();
    for problem in &problems.list {
        one(&mut out, problem, problems, &paint);
        out.push('\n');
    }
    if problems.left_off > 0 {
        let _ = writeln!(out, "and {} more of the same sort\n", problems.left_off);
    }
    let count = |severity| problems.list.iter().filter(|problem| problem.severity == severity).count();
    let plural = |count: usize, word: &str| match count {
        0 => None,
        1 => Some(format!("1 {word}")),
        count => Some(format!("{count} {word}s")),
    };
    let sums = [plural(count(Severity::Error), "error"), plural(count(Severity::Warning), "warning")];
    let sums: Vec<String> = sums.into_iter().flatten().collect();
    if !sums.is_empty() {
        let _ = writeln!(out, "{}", paint.with("1", &sums.join(", ")));
    }
    out
}

fn one(out: &mut String, problem: &Problem, problems: &Problems, paint: &Paint) {
    let colour = if problem.severity == Severity::Error { "1;31" } else { "1;33" };
    let head = format!("{}[{}]", problem.severity, problem.code);
    let _ = writeln!(out, "{}: {}", paint.with(colour, &head), paint.with("1", &problem.message));
    let lines = problem.places.iter().filter_map(|place| {
        let source = problems.sources.of(place.origin)?;
        Some((place, source, source.position(place.origin.start).line))
    });
    let width = lines.clone().map(|(_, _, line)| line.to_string().len()).max().unwrap_or(1);
    let gutter = " ".repeat(width);
    for (index, (place, source, _)) in lines.enumerate() {
        let arrow = if index == 0 { "-->" } else { ":::" };
        let _ = writeln!(out, "{gutter}{} {}", paint.with("1;34", arrow), whereabouts(source, place.origin));
        excerpt(out, place, source, problems, (width, if index == 0 { colour } else { "1;34" }), paint);
    }
    if let Some(help) = &problem.help {
        let mut lines = help.lines();
        let _ = writeln!(out, "{gutter} {} help: {}", paint.with("1;34", "="), lines.next().unwrap_or(""));
        for line in lines {
            let _ = writeln!(out, "{gutter}         {line}");
        }
    }
}

fn whereabouts(source: &Source, origin: Origin) -> String {
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
    place: &Place,
    source: &Source,
    problems: &Problems,
    (width, colour): (usize, &str),
    paint: &Paint,
) {
    let origin = place.origin;
    let position = source.position(origin.start);
    let line = source.line_at(position.line_start);
    let line_end = position.line_start + line.len();
    let mut covered: Vec<(usize, usize)> = problems
        .covered
        .iter()
        .filter(|cover| cover.source == origin.source)
        .map(|cover| (cover.start.max(position.line_start), cover.end.min(line_end)))
        .filter(|(start, end)| start < end)
        .collect();
    // The user may have noted a redacted value in a comment behind it.
    let last = covered.iter().map(|(_, end)| end - position.line_start).max();
    let note = last.and_then(|last| Some(last + line.get(last..)?.find('#')?));
    covered.extend(note.map(|at| (position.line_start + at, line_end)));
    let marked = marked_secrets(line).into_iter();
    covered.extend(marked.map(|range| (position.line_start + range.start, position.line_start + range.end)));
    let cells = Cells::of(line, position.line_start, &joined(covered));
    let from = cells.column(floor(&source.text, origin.start));
    // A range that continues on the next line is underlined to the end of this one.
    let to = cells.column(floor(&source.text, origin.end).min(line_end)).max(from + 1);
    let (text, shift) = cells.window(from, to);
    let bar = paint.with("1;34", "|");
    let gutter = " ".repeat(width);
    let number = paint.with("1;34", &format!("{:width$}", position.line));
    let _ = writeln!(out, "{gutter} {bar}");
    let _ = writeln!(out, "{number} {bar} {}", text.trim_end());
    let before = " ".repeat(from - shift.hidden + shift.added);
    let length = (to - from).min(WIDEST);
    let mark = paint.with(colour, &format!("{} {}", "^".repeat(length), place.label));
    let _ = writeln!(out, "{gutter} {bar} {before}{}", mark.trim_end());
}

/// Sorts the ranges and merges those that touch.
fn joined(mut stretches: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    stretches.sort_unstable();
    let mut out: Vec<(usize, usize)> = Vec::new();
    for (start, end) in stretches {
        match out.last_mut() {
            Some((_, last)) if start <= *last => *last = end.max(*last),
            _ => out.push((start, end)),
        }
    }
    out
}

/// A line as a terminal shows it.
struct Cells {
    /// The source byte of each shown character, its text, and its width.
    shown: Vec<(usize, String, usize)>,
    end: usize,
}

/// The number of cells cut off at the beginning of a line, and the text in their place.
struct Shift {
    hidden: usize,
    added: usize,
}

impl Cells {
    fn of(line: &str, start: usize, covered: &[(usize, usize)]) -> Self {
        let mut shown = Vec::new();
        for (at, character) in line.char_indices() {
            let at = start + at;
            if let Some((first, _)) = covered.iter().find(|(first, last)| (*first..*last).contains(&at)) {
                if at == *first {
                    shown.push((at, COVER.to_owned(), 1));
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
    fn window(&self, from: usize, to: usize) -> (String, Shift) {
        let all: usize = self.shown.iter().map(|(_, _, width)| width).sum();
        if all <= WIDEST {
            let text = self.shown.iter().map(|(_, text, _)| text.as_str()).collect();
            return (text, Shift { hidden: 0, added: 0 });
        }
        let first = if to <= WIDEST { 0 } else { from.saturating_sub(KEPT_BEFORE) };
        let (mut column, mut hidden, mut used, mut text) = (0, 0, 0, String::new());
        for (_, shown, width) in &self.shown {
            if column < first {
                hidden += width;
            } else if used + width <= WIDEST {
                used += width;
                text.push_str(shown);
            }
            column += width;
        }
        let added = if hidden > 0 { 3 } else { 0 };
        let (before, after) =
            (if hidden > 0 { "..." } else { "" }, if hidden + used < all { "..." } else { "" });
        (format!("{before}{text}{after}"), Shift { hidden, added })
    }
}

fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A name without control characters.
pub(crate) fn printable(text: &str) -> String {
    let shown = text.chars().map(|character| if is_unprintable(character) { '\u{fffd}' } else { character });
    presentable(shown.collect())
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
    use super::{Cells, joined, printable, width};

    #[test]
    fn wide_characters_take_two_cells_and_marks_none() {
        assert_eq!(['a', '漫', 'ｶ', 'Ａ', '😀', '\u{3099}'].map(width), [1, 2, 1, 2, 2, 0]);
        let cells = Cells::of("漫a\tb", 10, &[]);
        assert_eq!([10, 13, 14, 15, 99].map(|at| cells.column(at)), [0, 2, 3, 7, 8]);
    }

    #[test]
    fn what_is_covered_is_shown_as_one_mark() {
        let cells = Cells::of("key = \"secret\" # x", 0, &[(6, 14)]);
        assert_eq!(cells.window(6, 7).0, "key = \u{2026} # x");
    }

    #[test]
    fn stretches_that_meet_are_one() {
        assert_eq!(joined(vec![(8, 9), (0, 5), (1, 2), (5, 6)]), [(0, 6), (8, 9)]);
    }

    #[test]
    fn names_cannot_steer_a_terminal() {
        assert_eq!(printable("a\u{1b}[2J\u{202e}b"), "a\u{fffd}[2J\u{fffd}b");
    }
}
