//! The progress display: a scoreboard on a terminal, otherwise a line per outage, or nothing for programs.

use crate::report::customer_table;
use crate::schedule::{Outage, OutageSchedule};
use crate::score::{OutcomeCounts, Scoreboard, Side};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::Write as _;
use std::time::Duration;

/// The kind of display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressMode {
    /// A terminal: a scoreboard that is updated in place.
    Terminal,
    /// A file or a pipe: a line per outage.
    Lines,
    /// No display.
    Off,
}

/// The state of the display.
pub(crate) struct DemoProgress {
    schedule: OutageSchedule,
    bar: Option<ProgressBar>,
    writes_lines: bool,
    /// Outages that have been printed.
    printed_outages: usize,
}

impl DemoProgress {
    pub(crate) fn new(mode: ProgressMode, schedule: OutageSchedule) -> Self {
        let bar = (mode == ProgressMode::Terminal).then(|| {
            let length = u64::try_from(schedule.duration.as_millis()).unwrap_or(u64::MAX);
            let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stdout());
            // The template is ours; if it were invalid, the default would do.
            if let Ok(style) = ProgressStyle::with_template("{bar:58.cyan/blue}\n{msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { schedule, bar, writes_lines: mode == ProgressMode::Lines, printed_outages: 0 }
    }

    /// Prints a single line.
    pub(crate) fn print_line(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(line.to_owned()),
            None if self.writes_lines => write_line(line),
            None => {}
        }
    }

    /// Updates the display.
    pub(crate) fn update(&mut self, at: Duration, score: &Scoreboard) {
        if let Some(bar) = &self.bar {
            bar.set_position(u64::try_from(at.as_millis()).unwrap_or(u64::MAX));
            bar.set_message(scoreboard_text(self.schedule, at, score));
        }
        while let Some(outage) =
            Outage::ALL.get(self.printed_outages).filter(|one| self.schedule.period_of(**one).end <= at)
        {
            self.printed_outages += 1;
            if self.writes_lines {
                write_line(&outage_summary(*outage, self.schedule, score));
            }
        }
    }

    /// Clears the scoreboard before the final report.
    pub(crate) fn clear(&self) {
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

fn scoreboard_text(schedule: OutageSchedule, at: Duration, score: &Scoreboard) -> String {
    let now = match schedule.outage_at(at) {
        Some(outage) => outage.title(),
        None if at >= schedule.duration => "waiting for the last answers",
        None => "calm",
    };
    let (at, duration) = (at.as_secs_f64(), schedule.duration.as_secs());
    let columns = customer_table(&score.customers(Side::Seawall), &score.customers(Side::Plain));
    format!("{at:.1} s of {duration} s, now: {now}\n\n{columns}")
}

fn outage_summary(outage: Outage, schedule: OutageSchedule, score: &Scoreboard) -> String {
    let side = |side: Side| {
        let counts: OutcomeCounts = score.customers_during(side, outage);
        format!("{} of {} answered, {} in flight", counts.answered, counts.sent, counts.in_flight())
    };
    let end = schedule.period_of(outage).end.as_secs_f64();
    let (seawall, plain) = (side(Side::Seawall), side(Side::Plain));
    format!("{end:5.1} s  {} is over. Seawall: {seawall}. Plain proxy: {plain}.", outage.title())
}

#[cfg(test)]
mod tests {
    use super::{DemoProgress, ProgressMode, outage_summary, scoreboard_text};
    use crate::schedule::{Outage, OutageSchedule};
    use crate::score::{Scoreboard, Side};
    use crate::traffic::DemoClient;
    use std::time::Duration;

    const TIMETABLE: OutageSchedule = OutageSchedule { duration: Duration::from_secs(100) };

    #[test]
    fn the_scoreboard_shows_time_outage_and_counts() {
        let mut score = Scoreboard::default();
        score.record_sent(Side::Plain, DemoClient::Customer(1), None, Duration::ZERO);
        for (seconds, now) in [
            (1, "calm"),
            (10, "throttling wave"),
            (70, "restart without Redis"),
            (101, "waiting for the last"),
        ] {
            let board = scoreboard_text(TIMETABLE, Duration::from_secs(seconds), &score);
            assert!(board.starts_with(&format!("{seconds}.0 s of 100 s, now: {now}")), "{board}");
            assert!(
                board.contains("sent                                       0             1\n"),
                "{board}"
            );
        }
    }

    #[test]
    fn an_outage_that_is_over_is_printed_once() {
        let mut score = Scoreboard::default();
        score.record_sent(Side::Seawall, DemoClient::Customer(1), Some(Outage::Flood), Duration::ZERO);
        let line = outage_summary(Outage::Flood, TIMETABLE, &score);
        let expected = " 94.0 s  request flood is over. Seawall: 0 of 1 answered, 1 in flight. Plain proxy: 0 of 0 answered, 0 in flight.";
        assert_eq!(line, expected);
        let mut progress = DemoProgress::new(ProgressMode::Off, TIMETABLE);
        for (at, printed_outages) in [(21, 0), (22, 1), (23, 1), (94, 5), (200, 5)] {
            progress.update(Duration::from_secs(at), &score);
            assert_eq!(progress.printed_outages, printed_outages, "after {at} s");
        }
    }
}
