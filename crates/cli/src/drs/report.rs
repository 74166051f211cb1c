//! What a person sees while a command waits, and tables.

use seawall_drs::{GuardEvent, GuardEventKind, GuardObserver};
use std::fmt::Write as _;

/// Writes one line to standard error for whatever makes a command wait.
pub(super) struct ProgressObserver;

impl GuardObserver for ProgressObserver {
    fn observe(&self, event: &GuardEvent) {
        if let Some(line) = progress(event) {
            eprintln!("seawall: {line}");
        }
    }
}

fn progress(event: &GuardEvent) -> Option<String> {
    let operation = &event.labels.operation;
    match &event.kind {
        GuardEventKind::AttemptFailed { attempt, error, retry_after: Some(wait) } => Some(format!(
            "{operation}: {} (attempt {attempt}); retrying in {:.1} s",
            error.code,
            wait.as_secs_f64()
        )),
        GuardEventKind::TokenAwaited { timeout, .. } => Some(format!(
            "{operation}: waiting for a rate token, for at most {} s; this account and region may be called 10 times per second",
            timeout.as_secs()
        )),
        GuardEventKind::CapacityAwaited { current_jobs, max_jobs, next_poll } => Some(format!(
            "waiting for job capacity: {current_jobs} of {max_jobs} jobs are active; next look in {} s",
            next_poll.as_secs()
        )),
        GuardEventKind::CapacityUnknown { reason } => {
            Some(format!("warning: the jobs could not be counted ({reason}); starting all the same"))
        }
        GuardEventKind::JobLookedUp { job_id: Some(id) } => {
            Some(format!("the start was unclear; it is job {id}, and no second one is started"))
        }
        _ => None,
    }
}

/// Rows in columns, with a heading. Empty cells are shown as -.
pub(super) fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([heading[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let mut text = String::new();
    let heading: Vec<String> = heading.iter().map(|&name| name.to_owned()).collect();
    for row in std::iter::once(&heading).chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let cell = if cell.is_empty() { "-" } else { cell };
            // Writing to a string cannot fail.
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn columns_line_up_and_empty_cells_are_dashes() {
        let rows = [vec!["s-1".to_owned(), String::new()], vec!["s-1234".to_owned(), "web".to_owned()]];
        assert_eq!(table(&["id", "host"], &rows), "id      host\ns-1     -\ns-1234  web\n");
    }
}
