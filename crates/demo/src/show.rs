//! The progress display: a scoreboard on a terminal, otherwise a line per outage, or nothing for programs.

use crate::report::columns;
use crate::score::{Counts, Score, Side};
use crate::timetable::{Outage, Timetable};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::Write as _;
use std::time::Duration;

/// The kind of display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// A terminal: a scoreboard that is updated in place.
    Terminal,
    /// A file or a pipe: a line per outage.
    Lines,
    /// No display.
    Nothing,
}

/// The state of the display.
pub(crate) struct Screen {
    timetable: Timetable,
    bar: Option<ProgressBar>,
    writes_lines: bool,
    /// Outages that have been printed.
    told: usize,
}

impl Screen {
    pub(crate) fn new(show: Show, timetable: Timetable) -> Self {
        let bar = (show == Show::Terminal).then(|| {
            let length = u64::try_from(timetable.whole.as_millis()).unwrap_or(u64::MAX);
            let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stdout());
            // The template is ours; if it were invalid, the default would do.
            if let Ok(style) = ProgressStyle::with_template("{bar:58.cyan/blue}\n{msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { timetable, bar, writes_lines: show == Show::Lines, told: 0 }
    }

    /// Prints a single line.
    pub(crate) fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(line.to_owned()),
            None if self.writes_lines => write_line(line),
            None => {}
        }
    }

    /// Updates the display.
    pub(crate) fn look(&mut self, at: Duration, score: &Score) {
        if let Some(bar) = &self.bar {
            bar.set_position(u64::try_from(at.as_millis()).unwrap_or(u64::MAX));
            bar.set_message(board(self.timetable, at, score));
        }
        while let Some(outage) =
            Outage::ALL.get(self.told).filter(|one| self.timetable.during(**one).end <= at)
        {
            self.told += 1;
            if self.writes_lines {
                write_line(&over(*outage, self.timetable, score));
            }
        }
    }

    /// Clears the scoreboard before the final report.
    pub(crate) fn close(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn write_line(line: &str) {
    let mut out = std::io::stdout().lock();
    // A closed output is ignored.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn board(timetable: Timetable, at: Duration, score: &Score) -> String {
    let now = match timetable.outage_at(at) {
        Some(outage) => outage.title(),
        None if at >= timetable.whole => "waiting for the last answers",
        None => "calm",
    };
    let (at, whole) = (at.as_secs_f64(), timetable.whole.as_secs());
    let columns = columns(&score.shoppers(Side::Seawall), &score.shoppers(Side::Plain));
    format!("{at:.1} s of {whole} s, now: {now}\n\n{columns}")
}

fn over(outage: Outage, timetable: Timetable, score: &Score) -> String {
    let side = |side: Side| {
        let counts: Counts = score.shoppers_in(side, outage);
        format!("{} of {} answered, {} under way", counts.answered, counts.asked, counts.under_way())
    };
    let end = timetable.during(outage).end.as_secs_f64();
    let (seawall, plain) = (side(Side::Seawall), side(Side::Plain));
    format!("{end:5.1} s  {} is over. Seawall: {seawall}. Plain proxy: {plain}.", outage.title())
}

#[cfg(test)]
mod tests {
    use super::{Screen, Show, board, over};
    use crate::score::{Score, Side};
    use crate::timetable::{Outage, Timetable};
    use crate::traffic::Who;
    use std::time::Duration;

    const TIMETABLE: Timetable = Timetable { whole: Duration::from_secs(100) };

    #[test]
    fn the_board_says_when_it_is_what_is_wrong_and_how_it_stands() {
        let mut score = Score::default();
        score.ask(Side::Plain, Who::Shopper(1), None, Duration::ZERO);
        for (seconds, now) in [
            (1, "calm"),
            (10, "throttling wave"),
            (70, "restart without Redis"),
            (101, "waiting for the last"),
        ] {
            let board = board(TIMETABLE, Duration::from_secs(seconds), &score);
            assert!(board.starts_with(&format!("{seconds}.0 s of 100 s, now: {now}")), "{board}");
            assert!(
                board.contains("asked                                      0             1\n"),
                "{board}"
            );
        }
    }

    #[test]
    fn an_outage_that_is_over_is_told_once() {
        let mut score = Score::default();
        score.ask(Side::Seawall, Who::Shopper(1), Some(Outage::Flood), Duration::ZERO);
        let line = over(Outage::Flood, TIMETABLE, &score);
        let wanted = " 94.0 s  a caller who floods is over. Seawall: 0 of 1 answered, 1 under way. Plain proxy: 0 of 0 answered, 0 under way.";
        assert_eq!(line, wanted);
        let mut screen = Screen::new(Show::Nothing, TIMETABLE);
        for (at, told) in [(21, 0), (22, 1), (23, 1), (94, 5), (200, 5)] {
            screen.look(Duration::from_secs(at), &score);
            assert_eq!(screen.told, told, "after {at} s");
        }
    }
}
